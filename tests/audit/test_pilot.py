import math

import pytest

from tod_bias.audit.pilot import power, table, to_json
from tod_bias.errors import TodBiasError
from tod_bias.results import AuditResult

SPREADS = {"mde": 0.056, "mde_se": 0.02, "mde_se_terms_only": 0.02}


def results(*, ci=(-0.04, 0.04), ci_terms_only=(-0.04, 0.04), terms=20.0, **changes):
    row = {
        "verdict": "inconclusive",
        "dialogues": 100,
        "rests_on": {"number": 30, "effective": terms},
        "disparity": {"value": 0.0, "ci": ci, "terms_only": {"ci": ci_terms_only}},
        **SPREADS | changes,
    }
    axes = {"gender": {"corpus_bleu": row}, "placebo": {"corpus_bleu": row | {"verdict": "placebo"}}}
    return AuditResult.model_validate({"axes": axes})


def test_half_the_disparity_takes_four_times_the_dialogues():
    (row,) = power(results(), 0.056)
    assert row[:5] == ("gender", "corpus_bleu", 100, 20.0, 0.056)
    assert row.needed == pytest.approx(100, rel=0.02)
    assert power(results(), 0.028)[0].needed == pytest.approx(400, rel=0.02)


def test_what_is_due_to_terms_does_not_fall_with_more_dialogues():
    assert power(results(mde_se_terms_only=0.01), 0.056)[0].needed == pytest.approx(100, rel=0.05)
    assert math.isinf(power(results(mde_se_terms_only=0.01), 0.04)[0].needed)


def test_without_a_spread_or_a_gap_no_number_is_given():
    assert power(results())[0].needed is None
    assert power(results(ci=None), 0.05)[0].needed is None
    assert power(results(mde_se=0.0, mde_se_terms_only=0.0), 0.05)[0].needed is None
    with pytest.raises(TodBiasError, match="must be above 0, got 0"):
        power(results(), 0)


WITHOUT = {
    "no resamples": ({"mde": None, "ci": None, "ci_terms_only": None}, None, "--bootstrap 0"),
    "no resamples of dialogues": ({"mde_se_terms_only": None, "ci_terms_only": None}, 0.05, "--bootstrap 0"),
    "nothing varies": (
        {"mde": None, "ci_terms_only": (0, 0), "mde_se": 0.0, "mde_se_terms_only": 0.0}, None, "nothing varies",
    ),
    "no interval": ({"mde": None}, None, "no interval"),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT)
def test_a_missing_number_has_a_reason(case):
    changes, wanted, why = WITHOUT[case]
    rows = power(results(**changes), wanted)
    assert why in str(table(rows, wanted).title)
    assert why in to_json(rows, wanted)["axes"][0]["why"]
