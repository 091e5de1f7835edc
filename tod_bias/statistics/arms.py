"""Arms: the sets of stages that a run replaces by twins, and which of them contributions need.

Up to seven stages, every set of them is an arm. With more there are three ways to do with fewer:

- A stage whose twin never puts out anything else changes nothing, whichever others are replaced. A run finds these
  stages: it begins with the arms ∅ and N, and whenever a stage and its twin part, it runs again with all sets of the
  stages that did; each set S stands beside S and all other stages, so that the twins of these are compared with them in
  every arm. Sets of at most seven stages that change anything are exact for all 2ⁿ arms.
- Stages in *groups* (Owen 1977, Values of games with a priori unions): a group is replaced as a whole, or in part while
  every other group is as a whole or not at all.
- Orders of stages drawn in antithetic pairs, an order and its reverse (Mitchell et al. 2022, Sampling permutations for
  Shapley value estimation, section 3): the arms are the beginnings of the orders.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, product
from typing import TypeVar

from tod_bias.errors import StageError

Item = TypeVar("Item")
Arm = frozenset[str]
"""The stages that are replaced by twins."""
ORIGINAL_ARM = "original"
"""Arm of the run on the original dialogues, in ``turns.parquet``."""
WHOLE = "whole_system"
"""The arm in which the system as a whole is replaced by its twin; it comes after those of sets of stages."""
MOST_PLAYERS = 7
"""Stages of a group, and groups, whose sets are all run; with more, orders are drawn."""
MOST_ARMS = 1024
"""Most sets of stages for exact contributions; with more, orders are drawn."""
MOST_STAGES = 40
"""Stages of a pipeline whose contributions are estimated."""
# a pair is an order and its reverse: what the one adds too much the other adds too little
PAIRS = (6, 12, 24)
"""Numbers of antithetic pairs of orders; a run takes the next one while the error of drawing orders matters."""


def all_arms(names: Sequence[str]) -> list[Arm]:
    """Return all 2ⁿ sets of stages, the smaller ones first."""
    return [frozenset(chosen) for chosen in subsets(names)]


def subsets(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """Return all subsets, the smaller ones first."""
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def arm_key(arm: Arm) -> str:
    """An arm in results: stage names, sorted, joined by a comma; ``""`` for no swap."""
    return ",".join(sorted(arm))


@dataclass(frozen=True)
class ArmDesign:
    """Arms of a run."""

    stages: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a group to its stages. If there are groups, a stage in none of them is its own group; otherwise all
    stages are one group."""
    changing: tuple[str, ...] | None = None
    """The stages whose twins put out anything else; None: none was looked for, each may."""
    pairs: int = 0
    """Antithetic pairs of orders that are drawn; 0: none, contributions are exact."""
    seed: int = 0
    """Seed of the orders."""

    @classmethod
    def first(cls, stages: Sequence[str], groups: Mapping[str, Sequence[str]], seed: int = 0) -> ArmDesign:
        """The arms that a run begins with.

        Raises:
            StageError: there are too many stages.
        """
        if len(stages) > MOST_STAGES:
            raise StageError(f"the pipeline has {len(stages)} stages; attribution takes {MOST_STAGES} at the most")
        given = {name: tuple(members) for name, members in groups.items()}
        return cls(tuple(stages), given, None if len(stages) <= MOST_PLAYERS else (), seed=seed)

    def after(self, parted: Iterable[str]) -> ArmDesign | None:
        """Return the next arms, given the stages whose twins had other outputs; None if the present arms suffice."""
        if self.changing is None or self.pairs:
            return None
        more = set(parted) - set(self.changing)
        if not more:
            return None
        changing = tuple(stage for stage in self.stages if stage in more or stage in self.changing)
        wider = replace(self, changing=changing)
        return wider if wider.is_small else self._drawn(PAIRS[0])

    @property
    def with_more_pairs(self) -> ArmDesign | None:
        """Return the design with more orders, which begin with the present ones; None at the maximum."""
        more = next((pairs for pairs in PAIRS if pairs > self.pairs), None)
        return replace(self, pairs=more) if self.pairs and more else None

    @cached_property
    def players(self) -> list[tuple[str, ...]]:
        """The groups with the stages of each that may change anything."""
        grouped = {stage for members in self.groups.values() for stage in members}
        every = [*self.groups.values(), *((stage,) for stage in self.stages if stage not in grouped)]
        if not self.groups:
            every = [self.stages]
        wanted = set(self.stages if self.changing is None else self.changing)
        members = [tuple(stage for stage in group if stage in wanted) for group in every]
        return [group for group in members if group]

    @property
    def is_small(self) -> bool:
        """True if contributions are exact: at most seven players per level, and not too many arms."""
        groups, sizes = len(self.players), list(map(len, self.players))
        if max([groups, *sizes]) > MOST_PLAYERS:
            return False
        return 2**groups + sum(2 ** (groups - 1) * (2**size - 2) for size in sizes) <= MOST_ARMS

    @property
    def most(self) -> int:
        """Largest number of arms of a run that begins with these."""
        if self.changing is None:
            return len(self.arms)
        return max(2 * MOST_ARMS, len(self._drawn(PAIRS[-1]).arms))  # each set stands beside one with all others

    def _drawn(self, pairs: int) -> ArmDesign:
        return replace(self, changing=None, pairs=pairs)

    @cached_property
    def orders(self) -> list[tuple[str, ...]]:
        """The orders that are drawn, each followed by its reverse; the stages of a group are neighbours."""
        drawn = random.Random(self.seed)
        orders = []
        for _ in range(self.pairs):
            groups = [drawn.sample(group, len(group)) for group in drawn.sample(self.players, len(self.players))]
            order = tuple(stage for group in groups for stage in group)
            orders += [order, order[::-1]]
        return orders

    @cached_property
    def arms(self) -> list[Arm]:
        """Arms from no stage replaced to all, the smaller ones first."""
        everything = frozenset(self.stages)
        if self.pairs:
            sets = {frozenset(order[:size]) for order in self.orders for size in range(len(order) + 1)}
            sets |= {frozenset([stage]) for stage in self.stages} | {everything - {stage} for stage in self.stages}
        else:
            sets = set(self._sets())
            if self.changing is not None:
                sets |= {arm | (everything - set(self.changing)) for arm in sets}
        place = {stage: number for number, stage in enumerate(self.stages)}
        return sorted(sets, key=lambda arm: (len(arm), sorted(place[stage] for stage in arm)))

    def _sets(self) -> Iterator[Arm]:
        """Return the sets of players in which at most one group is replaced in part."""
        for number, group in enumerate(self.players):
            others = [*self.players[:number], *self.players[number + 1 :]]
            for whole, part in product(subsets(others), subsets(group)):
                yield frozenset(part).union(*whole)
        yield frozenset()

    @cached_property
    def place(self) -> dict[Arm, int]:
        """Arm to its number."""
        return {arm: number for number, arm in enumerate(self.arms)}

    def number(self, arm: Iterable[str]) -> int | None:
        """Return the number of the arm with the outputs of a set of stages; None if no arm is known to have them."""
        wanted = frozenset(arm)
        known = self.place.get(wanted)
        if known is None and self.changing is not None:
            known = self.place.get(wanted & set(self.changing))
        return known

    def keys(self, *, whole: bool = False) -> list[str]:
        """Return the names of all arms in results, in order; ``whole``: that of the whole system too."""
        return [*map(arm_key, self.arms), *([WHOLE] if whole else [])]
