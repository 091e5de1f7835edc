"""A verdict below a disparity says what alone stands in its way."""

import pytest

from tod_bias.audit.claims import OTHER_TERMS, OTHER_TESTS, PLACEBO, TERMS, TESTS, WHOLE, AxisDraft, Claim, judge
from tod_bias.results import (
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AxisResult,
    Estimate,
    Group,
)

EQUAL = (0.0, 0.001, 50.0, 100)


def draft(terms=10.0, p=0.001, p_terms_only=0.001, bare=None, bare_terms_only=None, *, tested=True, bounds=None):
    """A disparity of an axis with its p-values: beyond the placebo, and bare of it."""
    claim = Claim(p, p_terms_only, bare or p, bare_terms_only or p_terms_only, terms, tested)
    result = AxisResult(disparity=Estimate(value=0.5, p=p))
    return AxisDraft(result, {WHOLE: claim}, [bounds or (0.5, 0.5, 10.0, 100)])


@pytest.mark.parametrize(
    ("found", "verdict", "factors"),
    [
        (draft(), DISPARITY, []),
        (draft(terms=2.0), THESE_TERMS, [TERMS]),
        (draft(terms=2.0, p=1.0), THESE_TERMS, [TERMS]),
        (draft(p=0.4), THESE_TERMS, [OTHER_TERMS]),
        (draft(p=1.0, p_terms_only=1.0, bare=0.001, bare_terms_only=0.001), INCONCLUSIVE, [PLACEBO]),
        (draft(p=1.0, bare=0.001), THESE_TERMS, [OTHER_TERMS, PLACEBO]),
        (draft(2.0, 1.0, 1.0, 1.0, 0.001), INCONCLUSIVE, [TERMS, PLACEBO]),
        (draft(p=0.03, p_terms_only=0.03), INCONCLUSIVE, [OTHER_TESTS]),
        (draft(p=0.4, p_terms_only=0.4), INCONCLUSIVE, []),
        (draft(tested=False), INCONCLUSIVE, [TESTS]),
        (draft().untested(unmeasured="no references"), INCONCLUSIVE, ["nothing measured"]),
    ],
)
def test_what_a_disparity_would_take(found, verdict, factors):
    result, *others = judge([found, *[draft(p=0.5, p_terms_only=0.5)] * 3], [], alpha=0.05)
    assert (result.verdict, result.limiting_factors) == (verdict, factors)
    assert all(other.limiting_factors == [] for other in others)


def test_nothing_limits_what_is_equivalent_or_the_placebo():
    equal, placebo = judge([draft(p=0.5, p_terms_only=0.5, bounds=EQUAL)], [draft()], alpha=0.05, margin=0.1)
    assert (equal.verdict, equal.limiting_factors) == (EQUIVALENT, [])
    assert (placebo.verdict, placebo.limiting_factors) == (PLACEBO_VERDICT, [])
    assert equal.equivalent_within < 0.1


def test_what_one_axis_lacks_does_not_depend_on_what_another_finds():
    """Holm: another axis' finding makes room, and what is said of this one is with that as it is."""
    for other, factors in ((0.001, []), (0.5, [OTHER_TESTS])):
        result, _ = judge([draft(p=0.04, p_terms_only=0.04), draft(p=other, p_terms_only=other)], [], alpha=0.05)
        assert result.limiting_factors == factors
        assert (result.verdict == DISPARITY) == (other < 0.05)


def test_a_group_is_claimed_behind_its_axis_and_the_draft_stays_as_it_was():
    groups = {name: Group(gap=Estimate(value=value)) for name, value in (("man", 0.0), ("woman", 0.5))}
    claims = {WHOLE: Claim(0.9, 0.9), ("groups", "man"): Claim(0.9, 0.9), ("groups", "woman"): Claim(0.001, 0.002)}
    before = AxisDraft(AxisResult(disparity=Estimate(value=0.1, p=0.8), groups=groups), claims, [EQUAL])
    result, _ = judge([before, draft(p=0.5, p_terms_only=0.5)], [], alpha=0.05)
    assert result.verdict == DISPARITY
    assert result.groups["woman"].gap.p == pytest.approx(0.002)  # twice: there are two axes
    assert result.groups["woman"].gap.terms_only_p == pytest.approx(0.004)
    assert (result.disparity.p, result.disparity.adjusted_p) == (0.8, 1.0)
    assert (result.omnibus.p, result.omnibus.adjusted_p) == (0.001, pytest.approx(0.002))
    assert before.result.groups["woman"].gap.p is None
    assert before.result.verdict == ""
