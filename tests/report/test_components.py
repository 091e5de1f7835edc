"""Components that cancel are found, and no others."""

import pytest

from tod_bias.audit.notices import opposed
from tod_bias.results import AuditResult, AxisResult, Contribution, Estimate, Group


def estimate(value, half=0.02, p=0.001, scope=None):
    return Estimate(value=value, ci=(value - half, value + half), p=p, scope=scope)


def row(**shares):
    """An axis of two groups whose shares are mirrored."""
    groups = {
        name: Group(
            contributions={
                stage: Contribution(shapley=estimate(sign * value, p=p)) for stage, (value, p) in shares.items()
            }
        )
        for name, sign in (("man", -1), ("woman", 1))
    }
    result = AxisResult(verdict="inconclusive", disparity=Estimate(), groups=groups)
    return AuditResult(axes={"gender": {"corpus_bleu": result}}).rows[0]


@pytest.mark.parametrize(
    ("shares", "is_shown"),
    [
        ({"api": (0.3, 0.001), "response": (-0.3, 0.001)}, True),
        ({"api": (0.3, 0.001), "response": (-0.3, 0.02)}, False),  # .02 × 4 tests
        ({"api": (0.3, 0.001), "response": (0.3, 0.001)}, False),
        ({"api": (0.3, None), "response": (-0.3, None)}, False),
    ],
)
def test_components_that_cancel_are_a_finding_of_their_own(shares, is_shown):
    found = opposed(row(**shares))
    assert (found is not None) == is_shown
    if found is not None:
        assert {found.harmful, found.helpful} == {"api", "response"}
        assert found.harmful_share.value > 0 > found.helpful_share.value
        assert found.p == pytest.approx(0.004)
