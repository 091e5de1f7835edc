"""Which scores are compared: the cells and contrasts behind everything that is said of one axis and metric."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tod_bias.audit.axis_table import AxisTable
from tod_bias.audit.contrasts import (
    Block,
    Contrast,
    Difference,
    disparity_of,
    interaction_of,
    less,
    pairs_of,
    share_of,
)
from tod_bias.metrics.metric import Metric
from tod_bias.systems.execution import all_arms


class _Term(NamedTuple):
    """Tellings whose scores count with a weight."""

    weight: float
    told: np.ndarray
    """(dialogues, arms, statistics)."""
    placebo: np.ndarray | None
    """(dialogues, 2, statistics): the same, if every rewrite had been the placebo's."""


class Blocks:
    """Blocks of one axis and metric.

    The first contrast of each is the whole, then follow the shares of the components; where there is a placebo, the
    last is what is above it.

    Args:
        table: of the axis and metric.
        metric: scores it.
    """

    def __init__(self, table: AxisTable, metric: Metric) -> None:
        self._table = table
        self._told = table.tellings
        self._metric = metric
        self._arms = len(all_arms(table.stages))
        self._sign = -1.0 if metric.better == "lower" else 1.0
        self.has_placebo = len(self._told.placebo) > 0
        """Whether any dialogue has one."""

    @cached_property
    def is_ratio(self) -> bool:
        """Whether values are divided by the originals' score; where that is 0 they are differences."""
        original = self._metric.score(self._table.original.sum(axis=0))
        return self._metric.scale == "ratio" and float(original) > 0

    def _block(self, cells: Sequence[np.ndarray], contrasts: Sequence[Contrast]) -> Block:
        table = np.concatenate([self._table.original[:, None], *cells], axis=1)
        return Block(table, tuple(contrasts), self._metric.score, self._sign, self.is_ratio)

    def whole(self) -> Block:
        """Cells: original, rewritten in all arms; where there is a placebo, rewritten and placebo without swaps and
        with all swapped. Contrasts: disparity, shares, interactions, artefact, above placebo."""
        stages, table = self._table.stages, self._table
        rewritten = table.rewritten
        last = self._arms
        contrasts = [disparity_of(stages, 1), *(share_of(stage, stages, 1) for stage in stages)]
        contrasts += [interaction_of(*pair, stages, 1) for pair in pairs_of(stages)]
        contrasts.append((Difference(1.0, last, 0),))
        cells = [rewritten]
        if self.has_placebo:
            there = self._told.has_placebo[:, None, None]
            cells += [np.where(there, rewritten[:, [0, -1]], 0.0), table.of_placebo]
            contrasts.append(less((Difference(1.0, last + 1, last + 2),), (Difference(1.0, last + 3, last + 4),)))
        return self._block(cells, contrasts)

    def group(self, number: int) -> Block:
        """As told as one attribute, against the mean over all that the same dialogues are told as."""
        return self._compared([(1.0, [number]), (-1.0, [])], self._told.told_as[:, number])

    def gap(self, one: int, other: int) -> Block:
        """As told as one attribute, against told as another."""
        there = self._told.told_as[:, one] & self._told.told_as[:, other]
        return self._compared([(1.0, [one]), (-1.0, [other])], there)

    def level(self, numbers: Sequence[int], there: np.ndarray) -> Block:
        """As told as any of some attributes, on average, against the mean over all: a main effect."""
        return self._compared([(1.0, numbers), (-1.0, [])], there)

    def beyond(self, number: int, first: Sequence[int], second: Sequence[int], there: np.ndarray) -> Block:
        """One attribute's gap less the main effects of its two levels: an interaction."""
        return self._compared([(1.0, [number]), (-1.0, first), (-1.0, second), (1.0, [])], there)

    def reference(self, name: str) -> tuple[Block, np.ndarray]:
        """A telling that is nobody's, against the mean over all groups; and which dialogues are told so."""
        told, there = self._table.reference(name)
        mixture = self._term(-1.0, [])
        return self._combined([_Term(1.0, told, None), mixture._replace(placebo=None)], there), there

    def _compared(self, terms: Sequence[tuple[float, Sequence[int]]], there: np.ndarray) -> Block:
        return self._combined([self._term(weight, numbers) for weight, numbers in terms], there)

    def _term(self, weight: float, numbers: Sequence[int]) -> _Term:
        """A dialogue's mean over some attributes; all of them where none is named."""
        if not numbers:
            return _Term(weight, self._mixture, self._placebo_mixture)
        told = self._told.told_as[:, list(numbers)].sum(axis=1)
        count = np.maximum(told, 1)[:, None, None]
        table = sum(self._table.told_as(number) for number in numbers) / count
        placebo = sum(self._table.placebo_as(number) for number in numbers) / count if self.has_placebo else None
        return _Term(weight, table, placebo)

    def _combined(self, terms: Sequence[_Term], there: np.ndarray) -> Block:
        """Contrasts: the weighted sum of the terms' disparities, of the shares of each component, and above placebo."""
        stages, arms = self._table.stages, self._arms
        mask = there[:, None, None]
        starts = [1 + place * arms for place in range(len(terms))]
        cells = [np.where(mask, term.told, 0.0) for term in terms]
        contrasts = [_sum(terms, [disparity_of(stages, at) for at in starts])]
        contrasts += [_sum(terms, [share_of(stage, stages, at) for at in starts]) for stage in stages]
        if all(term.placebo is not None for term in terms):
            both = mask & self._told.has_placebo[:, None, None]
            ends = [part for term in terms for part in (term.told[:, [0, -1]], term.placebo) if part is not None]
            cells += [np.where(both, part, 0.0) for part in ends]
            at = 1 + len(terms) * arms
            pairs = [
                less((Difference(1.0, at + 4 * place, at + 4 * place + 1),),
                     (Difference(1.0, at + 4 * place + 2, at + 4 * place + 3),))
                for place in range(len(terms))
            ]  # fmt: skip
            contrasts.append(_sum(terms, pairs))
        return self._block(cells, contrasts)

    @cached_property
    def _mixture(self) -> np.ndarray:
        return self._table.mixture()

    @cached_property
    def _placebo_mixture(self) -> np.ndarray | None:
        return self._table.placebo_mixture() if self.has_placebo else None


def _sum(terms: Sequence[_Term], contrasts: Sequence[Contrast]) -> Contrast:
    return tuple(
        Difference(term.weight * weight, first, second)
        for term, contrast in zip(terms, contrasts, strict=True)
        for weight, first, second in contrast
    )
