"""What replacing stages one by one says: the sign of interactions, and the three parts of a stage."""

import numpy as np
import pytest

from tod_bias.audit.shares import interaction_weights, stage_weights
from tod_bias.statistics.arms import ArmDesign, all_arms

STAGES = ("a", "b")
ARMS = ArmDesign(STAGES)
WORLDS = {
    "and": lambda replaced: float(not replaced),  # it takes both: replacing either is enough
    "or": lambda replaced: float(replaced != {"a", "b"}),  # either suffices: it goes only when both are replaced
    "sum": lambda replaced: 0.5 * (2 - len(replaced)),
    "a alone": lambda replaced: float("a" not in replaced),
    "against each other": lambda replaced: float("a" not in replaced) - float("b" not in replaced),
}


def scores(world):
    """By arm."""
    return np.array([1.0 - WORLDS[world](set(arm)) for arm in all_arms(STAGES)])


@pytest.mark.parametrize(("world", "sign"), [("and", 1), ("or", -1), ("sum", 0)])
def test_above_0_replacing_either_is_enough_and_below_0_both_must_be(world, sign):
    assert scores(world) @ interaction_weights("a", "b", ARMS) == pytest.approx(sign)


@pytest.mark.parametrize(
    ("world", "parts"),
    [
        ("and", {"shapley": 0.5, "replaced_alone": 1, "left_alone": 0}),
        ("or", {"shapley": 0.5, "replaced_alone": 0, "left_alone": 1}),
        ("a alone", {"shapley": 1, "replaced_alone": 1, "left_alone": 1}),
        ("against each other", {"shapley": 1, "replaced_alone": 1, "left_alone": 1}),
    ],
)
def test_the_three_parts_tell_and_from_or(world, parts):
    weights = stage_weights("a", ARMS)
    assert {name: scores(world) @ some for name, some in weights.items()} == pytest.approx(parts)
