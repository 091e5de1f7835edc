import math

import pytest

from tod_bias.errors import TodBiasError
from tod_bias.report.record import RunError
from tod_bias.studies.pilot import power, table, to_json


def results(**disparity):
    record = {
        "verdict": "inconclusive",
        "disparity": {
            "value": 0.0, "ci": [-0.04, 0.04], "mde": 0.056,
            "clusters": {"dialogues": 100, "words": 30, "words_effective": 20.0},
            "standard_error": {"value": 0.02, "these_words": 0.02}, **disparity,
        },
    }  # fmt: skip
    return {"axes": {"gender": {"corpus_bleu": record}, "placebo": {"corpus_bleu": {**record, "verdict": "floor"}}}}


def test_half_the_disparity_takes_four_times_the_dialogues():
    (row,) = power(results(), 0.056)
    assert row[:5] == ("gender", "corpus_bleu", 100, 20.0, 0.056)
    assert row.needed == pytest.approx(100, rel=0.02)
    assert power(results(), 0.028)[0].needed == pytest.approx(400, rel=0.02)


def test_what_is_due_to_words_does_not_fall_with_more_dialogues():
    words = {"value": 0.02, "these_words": 0.01}
    assert power(results(standard_error=words), 0.056)[0].needed == pytest.approx(100, rel=0.05)
    assert math.isinf(power(results(standard_error=words), 0.04)[0].needed)


def test_without_a_spread_or_a_wish_nothing_is_told():
    assert power(results())[0].needed is None
    assert power(results(ci=None), 0.05)[0].needed is None
    assert power(results(standard_error={"value": 0.0, "these_words": 0.0}), 0.05)[0].needed is None
    with pytest.raises(TodBiasError, match="must be above 0, got 0"):
        power(results(), 0)


WITHOUT = {
    "no resamples": ({"mde": None, "ci": None}, None, "no resamples of dialogues (--bootstrap 0)"),
    "no dialogues": (
        {"standard_error": {"value": 0.02, "these_words": None}}, 0.05, "no resamples of dialogues (--bootstrap 0)",
    ),
    "nothing varies": (
        {"mde": None, "ci_these_words": [0, 0], "standard_error": {"value": 0.0, "these_words": 0.0}}, None,
        "no telling differs from another",
    ),
    "no interval": ({"mde": None, "ci_these_words": [0, 1]}, None, "no interval tells how far"),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT)
def test_what_is_not_told_has_a_reason(case):
    changes, wanted, why = WITHOUT[case]
    rows = power(results(**changes), wanted)
    assert why in str(table(rows, wanted).title)
    assert why in to_json(rows, wanted)["axes"][0]["why"]


def test_what_is_told_and_what_words_are_too_few_for_needs_no_reason():
    few = {"dialogues": 100, "words": 2, "words_effective": 1.0}  # which the star tells
    assert power(results())[0].why == power(results(mde=None, clusters=few))[0].why == ""


def test_no_number_of_dialogues_is_a_number_in_a_file():
    rows = power(results(standard_error={"value": 0.02, "these_words": 0.01}), 0.04)
    assert to_json(rows, 0.04)["axes"][0]["needed"] == "more words"


@pytest.mark.parametrize("record", [[], {"disparity": {}}, {"verdict": "inconclusive", "disparity": None}])
def test_damaged_results_are_said_to_be_damaged(record):
    with pytest.raises(RunError, match=r"axes\.gender\.corpus_bleu"):
        power({"axes": {"gender": {"corpus_bleu": record}}})
