from dataclasses import replace

import numpy as np
import pytest

from tod_bias import Turn
from tod_bias.metrics.counterfactual import ArgumentDisagreement, CallDisagreement, Disagreement
from tod_bias.metrics.metric import ScoredTurn

CALL = {"api_name": "Find", "seats": 2}
GOLD = Turn("hello", response="gold")


def pair(said, twins, calls=(), twins_calls=(), has_calls=True):
    turn = ScoredTurn("hello", calls, (), said, GOLD, has_calls=has_calls)
    return replace(turn, twin=replace(turn, response=twins, calls=twins_calls))


SAME = pair("a", "a")
WORDS = pair("a", "b")
CALLS = pair("a", "a", (CALL,), (CALL,))
FEWER = pair("a", "a", (), (CALL,))
VALUES = pair("a", "a", (CALL,), ({"api_name": "Find", "seats": "2"},))
TWICE = pair("a", "a", (CALL, CALL), (CALL,))
MALFORMED = pair("a", "a", None, (CALL,))
BOTH_MALFORMED = pair("a", "a", None, None)
ORDER = pair("a", "a", (CALL,), ({"seats": 2, "api_name": "Find"},))


@pytest.mark.parametrize(
    ("turns", "all_of_it", "calls", "arguments"),
    [
        ([SAME, WORDS], 1 / 2, 0, np.nan),
        ([SAME, WORDS, CALLS, FEWER], 2 / 4, 1 / 2, 2 / 4),
        ([VALUES, TWICE], 2 / 2, 2 / 2, (1 + 2) / (2 + 4)),
        ([MALFORMED, BOTH_MALFORMED], 1 / 2, 1 / 2, 3 / 4),
        ([VALUES, TWICE, MALFORMED, BOTH_MALFORMED, CALLS, ORDER], 3 / 6, 3 / 6, 6 / 14),
        ([pair("a", "b", has_calls=False)], 1, np.nan, np.nan),
        ([], np.nan, np.nan, np.nan),
    ],
)
def test_shares_by_hand(turns, all_of_it, calls, arguments):
    expectations = {Disagreement(): all_of_it, CallDisagreement(): calls, ArgumentDisagreement(): arguments}
    for metric, expected in expectations.items():
        rows = metric.statistics(turns)
        assert rows.shape == (len(turns), len(metric.columns))
        assert float(metric.score(rows.sum(axis=0))) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("metric", [Disagreement(), CallDisagreement(), ArgumentDisagreement()])
def test_a_twin_does_not_disagree_with_itself(metric):
    turns = [replace(turn, twin=None) for turn in (SAME, WORDS, CALLS, FEWER, MALFORMED)]
    assert metric.score(metric.statistics(turns).sum(axis=0)) == 0
