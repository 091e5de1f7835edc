"""Which variants a dialogue has: groups, terms and clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tod_bias.statistics.group_model import GroupDesign
from tod_bias.statistics.term_families import FactorTerms


class TermsByFactor(NamedTuple):
    """The terms that express the levels of one factor of crossed axes."""

    source: tuple[frozenset[str], ...]
    """(dialogues,) those of each dialogue's own level."""
    target: tuple[frozenset[str], ...]
    """(variants,) those of the level that each is rewritten for."""


def terms_by_factor(
    of: Sequence[int], factors: Sequence[Sequence[tuple[Iterable[str], Iterable[str]]]], dialogues: int
) -> tuple[TermsByFactor, ...]:
    """The terms of each factor of crossed axes, where all variants know them.

    Args:
        of: (variants,) number of the dialogue.
        factors: of each variant, by factor, the terms of the dialogue's own level and of the one it is rewritten for.
        dialogues: their number.
    """
    by_factor = []
    for place in range(min(map(len, factors), default=0)):
        source: list[set[str]] = [set() for _ in range(dialogues)]
        for number, some in zip(of, factors, strict=True):
            source[number].update(map(str, some[place][0]))
        target = tuple(frozenset(map(str, some[place][1])) for some in factors)
        by_factor.append(TermsByFactor(tuple(map(frozenset, source)), target))
    return tuple(by_factor)


@dataclass(frozen=True)
class VariantIndex:
    """Variants of the dialogues along one axis; the same for every metric."""

    groups: tuple[str, ...]
    """Groups of the axis."""
    source: np.ndarray
    """(dialogues,) number of the group that a dialogue mentions; -1: of none of them."""
    of: np.ndarray
    """(variants,) number of the dialogue."""
    target: np.ndarray
    """(variants,) number of the group that it is rewritten for."""
    draw: np.ndarray
    """(variants,) number of the draw; 0 for all in the crossed design."""
    source_terms: tuple[frozenset[str], ...]
    """(dialogues,) the terms that express each dialogue's own group."""
    terms: tuple[frozenset[str], ...]
    """(variants,) the terms that express the group that each is rewritten for."""
    placebo: np.ndarray
    """(placebo variants,) number of the dialogue."""
    placebo_terms: tuple[str, ...]
    """(placebo variants,) the term of each change."""
    factors: tuple[str, ...] = ()
    """Factors of groups joined by ``×``; at most one for plain groups."""
    by_factor: tuple[TermsByFactor, ...] = ()
    """Terms of each factor, if groups of a factor share terms; empty if every group has separate terms."""
    references: tuple[tuple[int, str], ...] = ()
    """Reference variants: number of the dialogue, and what each is."""
    clusters: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    """Further clusters: a name, and a label for every dialogue; None of one that is in no cluster."""
    edits: tuple[float, float] = (0.0, 0.0)
    """Words changed per dialogue if there is a placebo: by the axis, and by the placebo."""

    @property
    def dialogues(self) -> int:
        """Number of dialogues."""
        return len(self.source)

    def for_dialogues(self, numbers: np.ndarray) -> VariantIndex:
        """Return the variants of some dialogues, in the order of their numbers."""
        place = np.full(self.dialogues, -1)
        place[numbers] = np.arange(len(numbers))
        variants, placebo = self.places(numbers)
        return replace(
            self,
            source=self.source[numbers],
            of=place[self.of[variants]],
            target=self.target[variants],
            draw=self.draw[variants],
            source_terms=tuple(self.source_terms[number] for number in numbers),
            terms=tuple(self.terms[number] for number in variants),
            placebo=place[self.placebo[placebo]],
            placebo_terms=tuple(self.placebo_terms[number] for number in placebo),
            by_factor=tuple(
                TermsByFactor(
                    tuple(some.source[number] for number in numbers), tuple(some.target[number] for number in variants)
                )
                for some in self.by_factor
            ),
            references=(),
            clusters=tuple((name, tuple(labels[number] for number in numbers)) for name, labels in self.clusters),
        )

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the variants and of the placebo variants of some dialogues, in the order of their numbers."""
        place = np.full(self.dialogues, -1)
        place[numbers] = np.arange(len(numbers))
        sorted_places = []
        for of in (self.of, self.placebo):
            chosen = np.flatnonzero(place[of] >= 0)
            # stable: the variants of one dialogue keep their order, in which their sums are stored
            sorted_places.append(chosen[np.argsort(place[of[chosen]], kind="stable")])
        return sorted_places[0], sorted_places[1]

    @cached_property
    def has_group(self) -> np.ndarray:
        """(dialogues, groups) bool: for which groups each has a variant; its own group's is the dialogue as it is."""
        has = np.zeros((self.dialogues, len(self.groups)), dtype=bool)
        has[self.of, self.target] = True
        mentions = self.source >= 0
        has[np.flatnonzero(mentions), self.source[mentions]] = True
        return has

    def terms_of(self, group: int) -> tuple[sparse.csr_array, tuple[str, ...]]:
        """Return the terms that express a group: (dialogues, terms) weights, and the terms.

        The weights of a dialogue with the group sum to 1: over its variants for it, and over the terms of each.
        """
        return self._weights_of(self.target == group, self.source == group, self.terms, self.source_terms)

    def _weights_of(
        self,
        is_target: np.ndarray,
        is_source: np.ndarray,
        terms: Sequence[frozenset[str]],
        source_terms: Sequence[frozenset[str]],
    ) -> tuple[sparse.csr_array, tuple[str, ...]]:
        sets = [(self.of[number], terms[number]) for number in np.flatnonzero(is_target).tolist()]
        sets += [(dialogue, source_terms[dialogue]) for dialogue in np.flatnonzero(is_source).tolist()]
        of = np.array([dialogue for dialogue, _ in sets], dtype=int)
        share = 1.0 / np.maximum(np.bincount(of, minlength=self.dialogues), 1)
        numbers: dict[str, int] = {}
        cells = [
            (dialogue, numbers.setdefault(term, len(numbers)), share[dialogue] / len(terms or ("",)))
            for dialogue, terms in sets
            for term in sorted(terms or ("",))
        ]
        row, column, weight = (np.array(some) for some in zip(*cells, strict=True)) if cells else ([], [], [])
        shape = (self.dialogues, max(1, len(numbers)))
        return sparse.csr_array(sparse.coo_array((weight, (row, column)), shape=shape)), tuple(numbers)

    @cached_property
    def levels(self) -> list[tuple[str, ...]]:
        """Level of every factor for each group; the group itself on an axis that is not crossed."""
        widths = [1 + factor.count("×") for factor in self.factors] or [1]
        levels = []
        for group in self.groups:
            parts = group.split("×") if len(self.factors) > 1 else [group]
            ends = np.cumsum([0, *widths])
            levels.append(tuple("×".join(parts[start:end]) for start, end in pairwise(ends)))
        return levels

    @cached_property
    def level_terms(self) -> list[tuple[np.ndarray, list[tuple[sparse.csr_array, tuple[str, ...]]]]]:
        """Terms of each factor with separate terms per level: (groups,) number of the level, and for each level the
        result of :meth:`terms_of`."""
        factors = []
        for place, terms in enumerate(self.by_factor):
            names = list(dict.fromkeys(levels[place] for levels in self.levels))
            level = np.array([names.index(levels[place]) for levels in self.levels], dtype=int)
            has_source = self.source >= 0
            factors.append(
                (
                    level,
                    [
                        self._weights_of(
                            level[self.target] == number,
                            has_source & (level[self.source] == number),
                            terms.target,
                            terms.source,
                        )
                        for number in range(len(names))
                    ],
                )
            )
        return factors

    @property
    def sets(self) -> list[sparse.csr_array]:
        """(dialogues, terms) weights of every set of terms: of each group, or of each level of each factor."""
        if not self.by_factor:
            return [self.terms_of(group)[0] for group in range(len(self.groups))]
        return [weights for _, levels in self.level_terms for weights, _ in levels]

    def names_of(self, group: int) -> list[tuple[str, ...]]:
        """The terms that express a group: its own, or on crossed axes those of its level of each factor."""
        if not self.by_factor:
            return [self.terms_of(group)[1]]
        return [levels[number[group]][1] for number, levels in self.level_terms]

    def weights_of_terms(self, columns: int) -> list[sparse.csr_array | None] | list[FactorTerms]:
        """Return the terms for a :class:`~tod_bias.statistics.group_model.GroupDesign` of the groups, and of further
        columns without terms."""
        further = columns - len(self.groups)
        if not self.by_factor:
            return [*self.sets, *[None] * further]
        return [
            FactorTerms(np.append(number, np.full(further, -1)), [weights for weights, _ in levels])
            for number, levels in self.level_terms
        ]

    @cached_property
    def designs(self) -> dict[bytes, GroupDesign]:
        """Cache of designs by the dialogues' groups."""
        return {}

    @cached_property
    def has_placebo(self) -> np.ndarray:
        """(dialogues,) bool."""
        has = np.zeros(self.dialogues, dtype=bool)
        has[self.placebo] = True
        return has
