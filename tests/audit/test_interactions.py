"""The sign of interactions is the one that the page explains."""

import numpy as np
import pytest

from tod_bias.audit.contrasts import Contrasts, interaction_of
from tod_bias.systems.execution import all_arms

STAGES = ("a", "b")


@pytest.mark.parametrize(
    ("harm", "sign"),
    [
        (lambda swapped: not swapped, 1),  # it takes both: swapping either is enough
        (lambda swapped: swapped != {"a", "b"}, -1),  # either suffices: it goes only when both are swapped
        (lambda swapped: 0.5 * (2 - len(swapped)), 0),
    ],
    ids=["and", "or", "sum"],
)
def test_above_0_swapping_either_is_enough_and_below_0_both_must_be(harm, sign):
    scores = np.array([1.0, *(1.0 - harm(set(arm)) for arm in all_arms(STAGES))])
    block = Contrasts(scores[None, :, None], (interaction_of("a", "b", STAGES, 1),), lambda s: s[..., 0], 1.0, False)
    assert block.estimates[0] == pytest.approx(sign)
