"""Weights of arms: shares are means over orders of stages: over all, those that keep groups together, or some drawn."""

from itertools import permutations
from zlib import crc32

import numpy as np
import pytest

from tod_bias.audit.shares import disparity_weights, group_weights, shapley_weights
from tod_bias.errors import StageError
from tod_bias.statistics.arms import MOST_ARMS, PAIRS, ArmDesign, arm_key

MANY = tuple("abcdefghij")


def game(seed):
    """A random score of every set of stages."""
    return lambda arm: np.random.default_rng([seed, crc32(arm_key(frozenset(arm)).encode())]).normal()


def shares(design, score):
    """Stage to its share; they add up to the disparity."""
    scores = np.array([score(arm) for arm in design.arms])
    by_stage = {name: float(scores @ shapley_weights(name, design)) for name in design.stages}
    assert sum(by_stage.values()) == pytest.approx(float(scores @ disparity_weights(design)), abs=1e-9)
    return by_stage


def mean_over_orders(players, orders, score):
    """The definition: what replacing a player changes, on average over orders."""
    total = dict.fromkeys(players, 0.0)
    for order in orders:
        for place, name in enumerate(order):
            total[name] += score(frozenset(order[: place + 1])) - score(frozenset(order[:place]))
    return {name: some / len(orders) for name, some in total.items()}


def is_together(order, members):
    at = [order.index(name) for name in members]
    return max(at) - min(at) == len(at) - 1


@pytest.mark.parametrize("groups", [{}, {"x": "abc"}, {"x": "ad", "y": "be"}, {"x": "abcde"}, {"x": "a", "y": "b"}])
def test_shares_are_means_over_the_orders_in_which_groups_stand_together(groups):
    design = ArmDesign(tuple("abcde"), {name: tuple(members) for name, members in groups.items()})
    orders = [
        order for order in permutations("abcde") if all(is_together(order, members) for members in groups.values())
    ]
    assert shares(design, game(1)) == pytest.approx(mean_over_orders("abcde", orders, game(1)))


def test_a_group_has_its_share_of_the_game_between_groups():
    design = ArmDesign(tuple("abcde"), {"x": ("a", "b"), "y": ("c", "d")})
    blocks, score = {"x": "ab", "y": "cd", "e": "e"}, game(2)
    outer = mean_over_orders(blocks, [*permutations(blocks)], lambda arm: score("".join(blocks[name] for name in arm)))
    scores = np.array([score(arm) for arm in design.arms])
    assert float(scores @ group_weights(("a", "b"), design)) == pytest.approx(outer["x"])


@pytest.mark.parametrize("groups", [{}, {"x": MANY[:8], "y": MANY[8:]}])
def test_drawn_orders_come_in_pairs_keep_groups_together_and_are_added_to(groups):
    design = ArmDesign(MANY, groups, pairs=PAIRS[0], seed=4)
    assert all(first == second[::-1] for first, second in zip(design.orders[::2], design.orders[1::2], strict=True))
    assert all(is_together(order, members) for order in design.orders for members in groups.values())
    assert shares(design, game(3)) == pytest.approx(mean_over_orders(MANY, design.orders, game(3)))
    assert design.with_more_pairs.orders[: 2 * PAIRS[0]] == design.orders


def test_stages_that_change_nothing_have_no_share_and_no_arms_of_their_own():
    assert ArmDesign.first(MANY, {}).arms == [frozenset(), frozenset(MANY)]
    design = ArmDesign.first(MANY, {}).after({"c", "f"})
    assert len(design.arms) == 8  # each set of the two, beside the same with all others
    assert design.after({"c", "f"}) is None
    alone = shares(ArmDesign(("c", "f")), game(5))
    assert shares(design, lambda arm: game(5)(arm & {"c", "f"})) == pytest.approx(dict.fromkeys(MANY, 0.0) | alone)


def test_orders_are_drawn_where_a_level_has_more_than_seven_stages_that_change_anything():
    first = ArmDesign.first(MANY, {})
    halves = ArmDesign.first(MANY, {"x": MANY[:5], "y": MANY[5:]})
    assert [first.after(MANY[:7]).pairs, first.after(MANY[:8]).pairs, halves.after(MANY).pairs] == [0, PAIRS[0], 0]
    assert len(halves.after(MANY).arms) <= MOST_ARMS
    with pytest.raises(StageError, match="41 stages; attribution takes 40 at the most"):
        ArmDesign.first([str(number) for number in range(41)], {})
