"""A verdict below a disparity says what alone stands in its way."""

import pytest

from tod_bias.audit import claims
from tod_bias.audit.claims import AxisReport, Claim, judge


def report(words=10.0, sample=0.001, these=0.001, bare=None, bare_these=None, *, tested=True):
    """A disparity of an axis with its p-values: above the placebo, and bare of it."""
    record = {"disparity": {}}
    claim = Claim(record["disparity"], sample, these, bare or sample, bare_these or these, words, tested)
    return AxisReport(record, claim, bounds={"": (0.5, 0.5, 10.0, 100)})


@pytest.mark.parametrize(
    ("found", "verdict", "short_of"),
    [
        (report(), claims.DISPARITY, None),
        (report(words=2.0), claims.THESE_WORDS, ["words"]),
        (report(words=2.0, sample=1.0), claims.THESE_WORDS, ["words"]),
        (report(sample=0.4), claims.THESE_WORDS, ["other words"]),
        (report(sample=1.0, these=1.0, bare=0.001, bare_these=0.001), claims.INCONCLUSIVE, ["placebo"]),
        (report(sample=1.0, bare=0.001), claims.THESE_WORDS, ["other words", "placebo"]),
        (report(2.0, 1.0, 1.0, 1.0, 0.001), claims.INCONCLUSIVE, ["words", "placebo"]),
        (report(sample=0.03, these=0.03), claims.INCONCLUSIVE, ["other tests"]),
        (report(sample=0.4, these=0.4), claims.INCONCLUSIVE, []),
        (report(tested=False), claims.INCONCLUSIVE, ["tests"]),
    ],
)
def test_what_a_disparity_would_take(found, verdict, short_of):
    others = [report(sample=0.5, these=0.5) for _ in range(3)]
    judge([found, *others], [], alpha=0.05)
    assert found.record["verdict"] == verdict
    assert found.record.get("short_of") == short_of
    assert all(other.record["short_of"] == [] for other in others)


def test_what_is_equivalent_or_the_floor_is_short_of_nothing():
    equal, floor = report(sample=0.5, these=0.5), report()
    equal.bounds[""] = (0.0, 0.001, 50.0, 100)
    judge([equal], [floor], alpha=0.05, margin=0.1)
    assert equal.record["verdict"] == claims.EQUIVALENT
    assert floor.record["verdict"] == claims.FLOOR
    assert "short_of" not in equal.record | floor.record


def test_what_one_axis_lacks_does_not_depend_on_what_another_finds():
    """Holm: another axis' finding makes room, and what is said of this one is with that as it is."""
    for other, short_of in ((0.001, []), (0.5, ["other tests"])):
        found = report(sample=0.04, these=0.04)
        judge([found, report(sample=other, these=other)], [], alpha=0.05)
        assert found.record.get("short_of", []) == short_of
        assert (found.record["verdict"] == claims.DISPARITY) == (other < 0.05)
