"""What a verdict takes, and what a verdict below a disparity says stands in its way."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tod_bias.audit.affected import Affected, exact_half
from tod_bias.audit.claimed_rows import ClaimedRows, of_dialogues
from tod_bias.audit.claims import (
    APART,
    BEYOND,
    EFFECTS,
    GAPS,
    NOT_BEYOND_PLACEBO,
    OF_THESE_TERMS,
    OTHER_TERMS,
    OTHER_TESTS,
    PAIRS,
    REFERENCES,
    TERMS,
    TESTS,
    Claims,
    judge,
)
from tod_bias.audit.contrasts import largest_effect
from tod_bias.results import (
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AxisResult,
    Estimate,
    Gap,
    Group,
    Terms,
)
from tod_bias.statistics.group_model import RowEstimates
from tod_bias.statistics.simultaneous import p_value

NAMES = ("man", "woman")
FEW, ENOUGH = Terms(number=2, effective=2.0, largest_share=0.5), Terms(number=10, effective=10.0, largest_share=0.1)


def rows(t, *, enough=True, names=NAMES, error=0.1, freedom=20.0):
    """Rows of two groups whose gaps are ``t`` standard errors from 0, on either side."""
    values = np.array([-t * error, t * error])[: len(names)]
    errors = np.full(len(names), error)
    covariance = error**2 * np.array([[1.0, -1.0], [-1.0, 1.0]])[: len(names), : len(names)]
    estimates = RowEstimates(values, errors, np.full(len(names), freedom), covariance)
    over = np.full(len(names), enough)
    p = np.array([p_value(value, error, freedom) for value in values])
    return ClaimedRows(tuple(names), estimates, over, p, False, ((Affected(50, 100),),) * len(names))


def draft(t=5.0, *, t_terms_only=8.0, beyond=None, beyond_terms_only=None, facts=ENOUGH, enough=True, **options):
    """An axis of two groups."""
    nothing = rows(0.0, names=())
    result = AxisResult(
        disparity=Estimate(value=0.0),
        groups={name: Group() for name in NAMES},
        pairs={"man>woman": Gap()},
    )
    known = {
        GAPS: rows(t, enough=enough),
        PAIRS: rows(t, enough=enough, names=("man>woman",)),
        GAPS + OF_THESE_TERMS: rows(t_terms_only, enough=False),
        **dict.fromkeys((REFERENCES, EFFECTS, APART, APART + OF_THESE_TERMS), nothing),
    }
    if beyond is not None:
        known |= {BEYOND: rows(beyond), BEYOND + OF_THESE_TERMS: rows(beyond_terms_only or beyond, enough=False)}
    return Claims(result, known, dict.fromkeys(NAMES, facts), **options)


def with_apart(made, t):
    """The same with rows of groups apart from the others."""
    return replace(made, rows={**made.rows, APART: rows(t), APART + OF_THESE_TERMS: rows(t)})


@pytest.mark.parametrize(
    ("made", "verdict", "factors"),
    [
        (draft(), DISPARITY, []),
        (draft(beyond=5.0), DISPARITY, []),
        (draft(facts=FEW, enough=False), THESE_TERMS, [TERMS]),
        (draft(facts=Terms(number=10, effective=10.0, largest_share=0.9)), THESE_TERMS, [TERMS]),
        (draft(1.0), THESE_TERMS, [OTHER_TERMS]),
        (draft(1.0, t_terms_only=1.0), INCONCLUSIVE, []),
        (draft(beyond=0.5), INCONCLUSIVE, [NOT_BEYOND_PLACEBO]),
        (draft(1.0, beyond=0.5, beyond_terms_only=5.0), THESE_TERMS, [OTHER_TERMS]),
        (draft(1.0, beyond=5.0, beyond_terms_only=0.5), INCONCLUSIVE, []),
        (draft(beyond=-5.0), INCONCLUSIVE, [NOT_BEYOND_PLACEBO]),
        (draft(needs_placebo=True), INCONCLUSIVE, [NOT_BEYOND_PLACEBO]),
        (draft(2.3, t_terms_only=2.3), INCONCLUSIVE, [OTHER_TESTS]),
        (replace(draft(), is_tested=False), INCONCLUSIVE, [TESTS]),
        (draft().untested(unmeasured="no references"), INCONCLUSIVE, ["nothing measured"]),
    ],
)
def test_what_a_verdict_takes(made, verdict, factors):
    result, *others = judge([made, *[draft(0.5, t_terms_only=0.5)] * 3], [], alpha=0.05)
    assert (result.verdict, result.limiting_factors) == (verdict, factors)
    assert all(other.limiting_factors == [] for other in others)


def test_the_p_value_beside_a_verdict_decides_it():
    for made in (draft(), draft(2.3), draft(1.0), draft(1.0, t_terms_only=1.0), draft(beyond=0.5)):
        result, _ = judge([made, draft(0.5)], [], alpha=0.05)
        assert (result.omnibus.p < 0.05) == (result.verdict in (DISPARITY, THESE_TERMS))
        assert (result.omnibus.scope == "terms") == (result.verdict == THESE_TERMS)


@pytest.mark.parametrize(("made", "p"), [(draft(), "gap"), (draft(facts=FEW, enough=False), "terms_only")])
def test_a_difference_names_a_group_whose_claim_is_shown(made, p):
    result, _ = judge([with_apart(made, 0.5), draft(0.5)], [], alpha=0.05)
    ((name, effect),) = result.apart.items()
    gap = getattr(result.groups[name], p)
    assert result.smallest == [name]
    assert (effect.p, effect.value) == (gap.p, pytest.approx(2 * gap.value))  # from the other group, not from the mean
    assert effect.is_shown
    assert effect.excludes_zero


THREE = ("man", "woman", "other")


def of_three(values, freedoms):
    """Three groups with gaps in standard errors; the terms of some vary more than those of others."""
    errors = np.ones(3)
    p = np.array([p_value(value, 1.0, freedom) for value, freedom in zip(values, freedoms, strict=True)])
    estimates = RowEstimates(np.array(values), errors, np.array(freedoms), np.eye(3))
    made = ClaimedRows(THREE, estimates, np.full(3, True), p, False, ((Affected(50, 100),),) * 3)
    apart = rows(0.5, names=("woman",))
    pairs = {f"{first}>{second}": Gap() for first, second in combinations(THREE, 2)}
    result = AxisResult(disparity=Estimate(value=0.0), groups={name: Group() for name in THREE}, pairs=pairs)
    nothing = rows(0.0, names=())
    known = {
        **dict.fromkeys((REFERENCES, EFFECTS), nothing),
        PAIRS: replace(made, names=tuple(pairs)),
        GAPS: made,
        GAPS + OF_THESE_TERMS: made,
        APART: apart,
        APART + OF_THESE_TERMS: apart,
    }
    return Claims(result, known, dict.fromkeys(THREE, ENOUGH))


def test_a_group_outside_the_smallest_set_is_never_named():
    """Woman explains the difference; her gap is larger, and with few terms it is not shown."""
    result, _ = judge([of_three([4.0, -8.0, 4.0], [60.0, 1.0, 60.0]), draft(0.5)], [], alpha=0.05)
    assert result.verdict != DISPARITY
    assert "man" not in result.apart
    assert result.omnibus.p >= 0.05 or result.verdict == THESE_TERMS
    shown, _ = judge([of_three([4.0, -8.0, 4.0], [60.0, 20.0, 60.0]), draft(0.5)], [], alpha=0.05)
    assert (shown.verdict, [*shown.apart]) == (DISPARITY, ["woman"])


@pytest.mark.parametrize("t", [0.5, 2.0, 2.2, 2.4, 2.6, 5.0])
def test_every_p_value_belongs_to_its_interval(t):
    for result in judge([draft(t), draft(1.0), draft(0.3)], [], alpha=0.05):
        estimates = [group.gap for group in result.groups.values()] + list(result.pairs.values())
        assert all((estimate.p < 0.05) == estimate.excludes_zero for estimate in estimates)


def test_more_that_is_claimed_makes_every_interval_wider():
    widths = []
    for axes in (1, 5):
        result, *_ = judge([draft()] * axes, [], alpha=0.05)
        low, high = result.groups["woman"].gap.ci
        widths.append(high - low)
    assert widths[1] > widths[0]


def test_nothing_limits_what_is_equivalent_or_the_placebo():
    equal, placebo = judge([draft(0.1, t_terms_only=0.1)], [draft()], alpha=0.05, margin=0.2)
    assert (equal.verdict, equal.limiting_factors) == (EQUIVALENT, [])
    assert (placebo.verdict, placebo.limiting_factors) == (PLACEBO_VERDICT, [])
    assert placebo.groups["woman"].gap.p is None
    assert judge([draft(0.1, facts=FEW, enough=False)], [], alpha=0.05, margin=0.2)[0].equivalent_within is None


def test_a_pair_is_the_same_from_either_side():
    result, _ = judge([draft(), draft(1.0)], [], alpha=0.05)
    forward, backward = result.pairs["man>woman"], result.pairs["woman>man"]
    assert (forward.value, forward.ci, forward.p) == (
        -backward.value,
        tuple(-end for end in backward.ci[::-1]),
        backward.p,
    )


def test_exact_bounds_are_clopper_and_pearsons():
    none, one = Affected(0, 60), Affected(1, 60)
    assert exact_half([none], 0.05) == pytest.approx(1 - 0.05 ** (1 / 60))
    assert exact_half([one], 0.05) > exact_half([none], 0.05)  # one hit does not shrink the bound
    assert exact_half([none, Affected(0, 12)], 0.05) == pytest.approx(1 - 0.05 ** (1 / 12))
    large = none._replace(largest_seen=50.0, largest_possible=50.0)
    assert exact_half([large], 0.05) == pytest.approx(50 * exact_half([none], 0.05))


def test_a_change_that_is_the_same_everywhere_is_shown():
    rows = of_dialogues(["quality"], np.full((40, 1), 0.1), np.ones(40, dtype=bool))
    assert rows.p[0] < 0.001
    assert of_dialogues(["quality"], np.zeros((40, 1)), np.zeros(40, dtype=bool)).within(0.05) > 0


def test_the_largest_effect_is_the_largest_score_of_a_dialogue_and_at_least_one():
    class PerTurn:
        def score(self, sums):
            return sums[..., 0] / sums[..., 1]

    unscored_and_endless = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert largest_effect(PerTurn(), np.array([[40.0, 2.0], [3.0, 1.0]]), unscored_and_endless) == 20
    assert largest_effect(PerTurn(), np.array([[1.0, 4.0]])) == 1


def test_a_difference_in_these_clusters_alone_is_a_claim_about_them():
    """Over further clusters nothing is shown, within these a disparity is."""
    within = draft(5.0)
    (found,) = judge([replace(draft(1.0), in_these_clusters=within)], [], alpha=0.05)
    kinds = AxisResult(disparity=Estimate(), clusters={"domain": 12, "template": 1}, effective_clusters={"domain": 9.5})
    assert found.verdict == DISPARITY
    assert found.groups["man"].gap.p == pytest.approx(judge([within], [], alpha=0.05)[0].groups["man"].gap.p)
    assert kinds.few_clusters == {}
    assert kinds.model_copy(update={"only_these_clusters": ["domain"]}).few_clusters == {"domain": 9.5}


def test_a_difference_over_further_clusters_holds_in_these_too():
    (found,) = judge([replace(draft(5.0), in_these_clusters=draft(1.0, t_terms_only=1.0))], [], alpha=0.05)
    assert found.verdict == INCONCLUSIVE
    (both,) = judge([replace(draft(5.0), in_these_clusters=draft(6.0))], [], alpha=0.05)
    assert (both.verdict, both.few_clusters) == (DISPARITY, {})


def test_few_clusters_are_counted_by_their_effective_number():
    row = AxisResult(disparity=Estimate(), clusters={"domain": 8}, effective_clusters={"domain": 4.0})
    assert row.few_clusters == {"domain": 4.0}
    assert AxisResult(disparity=Estimate(), clusters={"domain": 3}).few_clusters == {"domain": 3}  # of an older run
    assert AxisResult(disparity=Estimate(), clusters={"domain": 1}).few_clusters == {}
