"""Weights of arms in a stage's share of a gap: Shapley and Owen values, stages replaced or left alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb, factorial

import numpy as np

from tod_bias.statistics.arms import Arm, ArmDesign, subsets

PARTS = ("shapley", "replaced_alone", "left_alone")
"""The three parts of a stage."""


def disparity_weights(design: ArmDesign) -> np.ndarray:
    """(arms,) of q(N) − q(∅)."""
    weights = np.zeros(len(design.arms))
    weights[-1], weights[0] = 1.0, -1.0
    return weights


def _step(weights: np.ndarray, design: ArmDesign, before: Arm, stage: str, weight: float) -> None:
    """Add what replacing a stage changes where some are replaced before it."""
    first, second = design.number(before), design.number(before | {stage})
    assert first is not None
    assert second is not None  # the design has the arms of its own shares
    weights[second] += weight
    weights[first] -= weight


def shapley_weights(stage: str, design: ArmDesign) -> np.ndarray:
    """(arms,) of a stage's share: Shapley's, Owen's where stages are in groups, its estimate where orders are drawn.

    Exact, with g groups and k stages in the stage's own: over all sets H of h other groups and T of t other stages of
    its group, h! (g − h − 1)! / g! · t! (k − t − 1)! / k! of q(H ∪ T ∪ c) − q(H ∪ T).
    """
    if design.pairs:
        return np.asarray(order_weights(stage, design).mean(axis=0))
    weights = np.zeros(len(design.arms))
    number = next((number for number, group in enumerate(design.players) if stage in group), None)
    if number is None:
        return weights  # its twin changes nothing
    others = [*design.players[:number], *design.players[number + 1 :]]
    members = tuple(name for name in design.players[number] if name != stage)
    for whole, part in product(subsets(others), subsets(members)):
        weight = _share(len(whole), len(others)) * _share(len(part), len(members))
        _step(weights, design, frozenset(part).union(*whole), stage, weight)
    return weights


def _share(before: int, others: int) -> float:
    """Return the share of all orders of a player and the others in which exactly these others are first."""
    return factorial(before) * factorial(others - before) / factorial(others + 1)


def order_weights(stage: str, design: ArmDesign) -> np.ndarray:
    """(pairs, arms) of a stage's share in every antithetic pair of the orders that are drawn."""
    weights = np.zeros((design.pairs, len(design.arms)))
    for number, order in enumerate(design.orders):
        _step(weights[number // 2], design, frozenset(order[: order.index(stage)]), stage, 0.5)
    return weights


def stage_weights(stage: str, design: ArmDesign) -> dict[str, np.ndarray]:
    """The three parts of a stage, (arms,) each."""
    alone, left = np.zeros(len(design.arms)), np.zeros(len(design.arms))
    _step(alone, design, frozenset(), stage, 1.0)
    _step(left, design, frozenset(design.stages) - {stage}, stage, 1.0)
    return dict(zip(PARTS, (shapley_weights(stage, design), alone, left), strict=True))


def interaction_weights(first: str, second: str, design: ArmDesign) -> np.ndarray:
    """(arms,) of the Shapley interaction index with its sign turned: what replacing each alone changes, less what both
    change.

    Positive: replacing either is enough for part of the disparity, which takes both stages (AND). Negative: part of it
    goes only when both are replaced, as either stage suffices for it (OR).
    """
    (players,) = design.players
    others = [stage for stage in players if stage not in (first, second)]
    weights = np.zeros(len(design.arms))
    for before in map(frozenset, subsets(others)):
        weight = 1 / comb(len(others), len(before)) / (len(others) + 1)
        _step(weights, design, before, first, weight)
        _step(weights, design, before | {second}, first, -weight)
    return weights


def pairs_of(design: ArmDesign) -> list[tuple[str, str]]:
    """Return the pairs of stages whose interaction is known: both change something, and all their sets are arms."""
    if design.pairs or len(design.players) != 1:
        return []
    return list(combinations(design.players[0], 2))


def group_weights(members: Sequence[str], design: ArmDesign) -> np.ndarray:
    """(arms,) of the share of a group of stages, the sum of theirs."""
    return np.asarray(sum(shapley_weights(stage, design) for stage in members))
