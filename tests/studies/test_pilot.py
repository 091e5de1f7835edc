import math

import pytest

from tod_bias.errors import TodBiasError
from tod_bias.studies.pilot import power, table


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


def test_a_run_without_intervals_says_why_nothing_is_told():
    assert "no interval" in str(table(power(results(mde=None, ci=None)), None).title)
    assert "no interval" not in str(table(power(results()), None).title)
    few = {"dialogues": 100, "words": 2, "words_effective": 1.0}  # which the star tells
    assert "no interval" not in str(table(power(results(mde=None, clusters=few)), None).title)
