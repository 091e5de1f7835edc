"""Contrasts of scores of the same dialogues: all that is claimed is a signed sum of differences of two scores.

With q(S) the score of the rewritten dialogues when the components in S are swapped for their twins, and N all of them,
q(N) − q(∅) is the disparity; component c's Shapley share of it (Shapley 1953) is the mean over orders of
q(S ∪ {c}) − q(S); the interaction of two components is Grabisch and Roubens' (1999) index. Every one is a list of
differences between two arms of the same dialogues, which under equivariance may change places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np

from tod_bias.audit.sums import ArmSums
from tod_bias.metrics.metric import Metric
from tod_bias.statistics.clusters import Clusters, Spread, spread
from tod_bias.statistics.resampling import BLOCK, resample
from tod_bias.systems.execution import all_arms

Score = Callable[[np.ndarray], np.ndarray]
"""Sums (…, statistics) to scores (…)."""


class ScoreDifference(NamedTuple):
    """``weight`` times the score of cell ``second`` less that of cell ``first``."""

    weight: float
    first: int
    second: int


Contrast = tuple[ScoreDifference, ...]


def disparity_of(stages: Sequence[str], at: int = 0) -> Contrast:
    """q(N) − q(∅), where the cells of the arms begin at ``at``."""
    return (ScoreDifference(1.0, at, at + 2 ** len(stages) - 1),)


def share_of(stage: str, stages: Sequence[str], at: int = 0) -> Contrast:
    """The Shapley share of one component: over all sets S without it, |S|! (n − |S| − 1)! / n! of q(S ∪ c) − q(S)."""
    place = {arm: number + at for number, arm in enumerate(all_arms(stages))}
    count = len(stages)
    return tuple(
        ScoreDifference(
            factorial(len(arm)) * factorial(count - len(arm) - 1) / factorial(count), number, place[arm | {stage}]
        )
        for arm, number in place.items()
        if stage not in arm
    )


def interaction_of(first: str, second: str, stages: Sequence[str], at: int = 0) -> Contrast:
    """The Shapley interaction index with its sign turned: what swapping each alone changes, less what both change.

    Positive: swapping either is enough for part of the disparity, which takes both components (AND). Negative: part of
    it goes only when both are swapped, as either component suffices for it (OR).
    """
    place = {arm: number + at for number, arm in enumerate(all_arms(stages))}
    count = len(stages)
    differences: list[ScoreDifference] = []
    for arm, number in place.items():
        if first in arm or second in arm:
            continue
        weight = factorial(len(arm)) * factorial(count - len(arm) - 2) / factorial(count - 1)
        differences.append(ScoreDifference(weight, number, place[arm | {first}]))
        differences.append(ScoreDifference(-weight, place[arm | {second}], place[arm | {first, second}]))
    return tuple(differences)


def less(first: Contrast, second: Contrast) -> Contrast:
    """The difference of two contrasts."""
    return (*first, *(ScoreDifference(-weight, minuend, subtrahend) for weight, minuend, subtrahend in second))


def pairs_of(stages: Sequence[str]) -> list[tuple[str, str]]:
    """All pairs of components."""
    return list(combinations(stages, 2))


@dataclass(frozen=True)
class Contrasts:
    """Sums of the same dialogues in several cells, and contrasts of the cells' scores on one scale."""

    cells: np.ndarray
    """(dialogues, cells, statistics); the originals' come first. Zeros where a dialogue has no part in a cell."""
    contrasts: tuple[Contrast, ...]
    score: Score
    sign: float
    """1 where a higher score is better, -1 where a lower one is."""
    is_ratio: bool
    """Whether contrasts are divided by the originals' score."""

    def values(self, sums: np.ndarray) -> np.ndarray:
        """Contrasts of (…, cells, statistics) sums, (…, contrasts); NaN where a score is undefined."""
        scores = self.score(sums)  # (…, cells)
        scale = self._scale(scores[..., 0])
        values = [
            sum(weight * (scores[..., subtrahend] - scores[..., minuend]) for weight, minuend, subtrahend in contrast)
            for contrast in self.contrasts
        ]
        return self.sign * np.stack(values, axis=-1) / scale[..., None]

    def _scale(self, original: np.ndarray) -> np.ndarray:
        if not self.is_ratio:
            return np.ones_like(original)
        return np.where(original > 0, original, np.nan)

    @property
    def estimates(self) -> np.ndarray:
        """(contrasts,)."""
        return np.asarray(self.values(self.cells.sum(axis=0)))

    def scores(self) -> np.ndarray:
        """Scores of all cells, (cells,), on the metric's own scale."""
        return np.asarray(self.score(self.cells.sum(axis=0)))

    def resamples(self, count: int, seed: int) -> np.ndarray:
        """Bootstrap over dialogues, (count, contrasts); equal seeds draw the same dialogues."""
        shape = (-1, *self.cells.shape[1:])
        flat = self.cells.reshape(len(self.cells), -1)
        return resample(flat, lambda sums: self.values(sums.reshape(shape)), count, seed)

    def spread(self, clusters: Clusters) -> Spread:
        """Leaving out a cluster of dialogues at a time."""
        return spread(clusters.sums(self.cells), self.cells.sum(axis=0), self.values, clusters.effective)

    def parts(self, clusters: Clusters | None, chosen: Sequence[int]) -> np.ndarray:
        """What each cluster (None: each dialogue) adds to some of the contrasts, (clusters, chosen).

        For a difference of scores s(B) − s(A) with A, B sums over dialogues, and d a cluster's part of B − A, it is
        s((A + B + d) / 2) − s((A + B − d) / 2): when the cluster's A and B change places, it changes its sign and
        nothing else, which is what a flip test needs. All parts together are the difference to second order.
        """
        table = self.cells if clusters is None else clusters.sums(self.cells)
        totals = self.cells.sum(axis=0)
        scale = float(self._scale(self.score(totals[:1]))[0])
        needed = sorted(
            {(minuend, subtrahend) for number in chosen for _, minuend, subtrahend in self.contrasts[number]}
        )
        place = {pair: number for number, pair in enumerate(needed)}
        first, second = ([pair[side] for pair in needed] for side in (0, 1))
        middle = (totals[first] + totals[second]) / 2  # (pairs, statistics)
        parts = np.empty((len(table), len(needed)))
        rows = max(1, BLOCK // max(1, len(needed) * table.shape[2]))
        for start in range(0, len(table), rows):
            half = (table[start : start + rows][:, second] - table[start : start + rows][:, first]) / 2
            parts[start : start + rows] = self.score(middle + half) - self.score(middle - half)
        chosen_parts = [
            sum(weight * parts[:, place[minuend, subtrahend]] for weight, minuend, subtrahend in self.contrasts[number])
            for number in chosen
        ]
        result = self.sign * np.stack(chosen_parts, axis=1) / scale if chosen_parts else np.empty((len(table), 0))
        return np.nan_to_num(result)


class _Weighted(NamedTuple):
    """Variants whose scores count with a weight."""

    weight: float
    sums: np.ndarray
    """(dialogues, arms, statistics)."""
    placebo: np.ndarray | None
    """(dialogues, 2, statistics): the same, if every rewrite had been the placebo's."""


class AuditContrasts:
    """The contrasts of one axis and metric: which scores are compared.

    The first contrast is the whole, then follow the shares of the stages; where there is a placebo, the last is what
    is beyond it.

    Args:
        table: of the axis and metric.
        metric: scores it.
    """

    def __init__(self, table: ArmSums, metric: Metric) -> None:
        self._table = table
        self._variants = table.variants
        self._metric = metric
        self._arms = len(all_arms(table.stages))
        self._sign = -1.0 if metric.better == "lower" else 1.0
        self.has_placebo = len(self._variants.placebo) > 0
        """Whether any dialogue has one."""

    @cached_property
    def is_ratio(self) -> bool:
        """Whether values are divided by the originals' score; where that is 0 they are differences."""
        original = self._metric.score(self._table.original.sum(axis=0))
        return self._metric.scale == "ratio" and float(original) > 0

    def _of(self, cells: Sequence[np.ndarray], contrasts: Sequence[Contrast]) -> Contrasts:
        table = np.concatenate([self._table.original[:, None], *cells], axis=1)
        return Contrasts(table, tuple(contrasts), self._metric.score, self._sign, self.is_ratio)

    def whole(self) -> Contrasts:
        """Cells: original, rewritten in all arms; where there is a placebo, rewritten and placebo with no stage
        replaced and with all. Contrasts: disparity, shares, interactions, artefact, beyond the placebo."""
        stages, table = self._table.stages, self._table
        rewritten = table.rewritten
        last = self._arms
        contrasts = [disparity_of(stages, 1), *(share_of(stage, stages, 1) for stage in stages)]
        contrasts += [interaction_of(*pair, stages, 1) for pair in pairs_of(stages)]
        contrasts.append((ScoreDifference(1.0, last, 0),))
        cells = [rewritten]
        if self.has_placebo:
            members = self._variants.has_placebo[:, None, None]
            cells += [np.where(members, rewritten[:, [0, -1]], 0.0), table.mean_placebo]
            contrasts.append(
                less((ScoreDifference(1.0, last + 1, last + 2),), (ScoreDifference(1.0, last + 3, last + 4),))
            )
        return self._of(cells, contrasts)

    def group(self, number: int) -> Contrasts:
        """One group, against the mean over all groups on the same dialogues."""
        return self._compared([(1.0, [number]), (-1.0, [])], self._variants.has_group[:, number])

    def gap(self, first: int, second: int) -> Contrasts:
        """One group, against another."""
        members = self._variants.has_group[:, first] & self._variants.has_group[:, second]
        return self._compared([(1.0, [first]), (-1.0, [second])], members)

    def level(self, numbers: Sequence[int], members: np.ndarray) -> Contrasts:
        """Some groups, on average, against the mean over all: a main effect."""
        return self._compared([(1.0, numbers), (-1.0, [])], members)

    def beyond(self, number: int, first: Sequence[int], second: Sequence[int], members: np.ndarray) -> Contrasts:
        """One group's gap less the main effects of its two levels: an interaction."""
        return self._compared([(1.0, [number]), (-1.0, first), (-1.0, second), (1.0, [])], members)

    def reference(self, name: str) -> tuple[Contrasts, np.ndarray]:
        """A reference variant, against the mean over all groups; and which dialogues have it."""
        sums, members = self._table.for_reference(name)
        mixture = self._term(-1.0, [])
        return self._combined([_Weighted(1.0, sums, None), mixture._replace(placebo=None)], members), members

    def _compared(self, terms: Sequence[tuple[float, Sequence[int]]], members: np.ndarray) -> Contrasts:
        return self._combined([self._term(weight, numbers) for weight, numbers in terms], members)

    def _term(self, weight: float, numbers: Sequence[int]) -> _Weighted:
        """A dialogue's mean over some groups; all of them where none is named."""
        if not numbers:
            return _Weighted(weight, self._mixture, self._placebo_mixture)
        number = self._variants.has_group[:, list(numbers)].sum(axis=1)
        count = np.maximum(number, 1)[:, None, None]
        table = sum(self._table.for_group(number) for number in numbers) / count
        placebo = sum(self._table.placebo_for_group(number) for number in numbers) / count if self.has_placebo else None
        return _Weighted(weight, table, placebo)

    def _combined(self, terms: Sequence[_Weighted], members: np.ndarray) -> Contrasts:
        """Contrasts: the weighted sum of disparities, of the shares of each stage, and what is beyond the placebo."""
        stages, arms = self._table.stages, self._arms
        mask = members[:, None, None]
        starts = [1 + place * arms for place in range(len(terms))]
        cells = [np.where(mask, term.sums, 0.0) for term in terms]
        contrasts = [_sum(terms, [disparity_of(stages, at) for at in starts])]
        contrasts += [_sum(terms, [share_of(stage, stages, at) for at in starts]) for stage in stages]
        if all(term.placebo is not None for term in terms):
            both = mask & self._variants.has_placebo[:, None, None]
            ends = [part for term in terms for part in (term.sums[:, [0, -1]], term.placebo) if part is not None]
            cells += [np.where(both, part, 0.0) for part in ends]
            at = 1 + len(terms) * arms
            firsts = range(at, at + 4 * len(terms), 4)
            pairs = [less((ScoreDifference(1.0, n, n + 1),), (ScoreDifference(1.0, n + 2, n + 3),)) for n in firsts]
            contrasts.append(_sum(terms, pairs))
        return self._of(cells, contrasts)

    @cached_property
    def _mixture(self) -> np.ndarray:
        return self._table.over_groups()

    @cached_property
    def _placebo_mixture(self) -> np.ndarray | None:
        return self._table.placebo_over_groups() if self.has_placebo else None


def _sum(terms: Sequence[_Weighted], contrasts: Sequence[Contrast]) -> Contrast:
    return tuple(
        ScoreDifference(term.weight * weight, first, second)
        for term, contrast in zip(terms, contrasts, strict=True)
        for weight, first, second in contrast
    )
