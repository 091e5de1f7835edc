import math

import pytest

from tod_bias.audit.pilot import power, table, to_json
from tod_bias.errors import TodBiasError
from tod_bias.results import AuditResult

SPREADS = {"mde": 0.056, "mde_se": 0.02, "mde_se_terms_only": 0.02}


def results(*, terms=20.0, **changes):
    groups = {name: {"terms": {"effective": terms}} for name in ("man", "woman")}
    row = {
        "verdict": "inconclusive",
        "dialogues": 100,
        "disparity": {"value": 0.0},
        "groups": groups,
        **SPREADS | changes,
    }
    axes = {"gender": {"corpus_bleu": row}, "placebo": {"corpus_bleu": row | {"verdict": "placebo"}}}
    return AuditResult.model_validate({"axes": axes})


def test_half_the_gap_takes_four_times_the_dialogues():
    (row,) = power(results(), 0.056)
    assert row[:5] == ("gender", "corpus_bleu", 100, 20.0, 0.056)
    assert row.dialogues_needed == pytest.approx(100, abs=1)
    assert power(results(), 0.028)[0].dialogues_needed == pytest.approx(400, abs=1)


def test_what_is_due_to_terms_falls_with_more_terms_alone():
    row = power(results(mde_se_terms_only=0.01), 0.028)[0]
    assert math.isinf(row.dialogues_needed)
    assert row.in_proportion == pytest.approx((400, 80), abs=1)
    assert to_json([row], 0.028)["axes"][0]["dialogues_needed"] == "more terms"


def test_without_a_spread_or_a_gap_no_number_is_given():
    assert power(results())[0].dialogues_needed is None
    assert power(results(mde=None), 0.05)[0].dialogues_needed is None
    with pytest.raises(TodBiasError, match="must be above 0, got 0"):
        power(results(), 0)


@pytest.mark.parametrize(("changes", "why"), [({"terms": 2.0}, "3 effective terms"), ({}, "few dialogues differ")])
def test_a_missing_number_has_a_reason(changes, why):
    rows = power(results(mde=None, **changes), 0.05)
    assert why in str(table(rows, 0.05).title)
    assert why in to_json(rows, 0.05)["axes"][0]["why"]
