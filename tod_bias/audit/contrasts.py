"""Contrasts of scores of the same dialogues: all that is claimed is a signed sum of differences of two scores.

With q(S) the score of the rewritten dialogues when the components in S are swapped for their twins, and N all of them,
q(N) − q(∅) is the disparity; component c's Shapley share of it (Shapley 1953) is the mean over orders of
q(S ∪ {c}) − q(S); the interaction of two components is Grabisch and Roubens' (1999) index. Every one is a list of
differences between two arms of the same dialogues, which under equivariance may change places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np

from tod_bias.statistics.clusters import Clusters, Spread, spread
from tod_bias.statistics.resampling import BLOCK, resample
from tod_bias.systems.execution import all_arms

Score = Callable[[np.ndarray], np.ndarray]
"""Sums (…, statistics) to scores (…)."""


class Difference(NamedTuple):
    """``weight`` times the score of cell ``second`` less that of cell ``first``."""

    weight: float
    first: int
    second: int


Contrast = tuple[Difference, ...]


def disparity_of(stages: Sequence[str], at: int = 0) -> Contrast:
    """q(N) − q(∅), where the cells of the arms begin at ``at``."""
    return (Difference(1.0, at, at + 2 ** len(stages) - 1),)


def share_of(stage: str, stages: Sequence[str], at: int = 0) -> Contrast:
    """The Shapley share of one component: over all sets S without it, |S|! (n − |S| − 1)! / n! of q(S ∪ c) − q(S)."""
    place = {arm: number + at for number, arm in enumerate(all_arms(stages))}
    count = len(stages)
    return tuple(
        Difference(
            factorial(len(arm)) * factorial(count - len(arm) - 1) / factorial(count), number, place[arm | {stage}]
        )
        for arm, number in place.items()
        if stage not in arm
    )


def interaction_of(one: str, other: str, stages: Sequence[str], at: int = 0) -> Contrast:
    """The Shapley interaction index with its sign turned: what swapping each alone changes, less what both change.

    Positive: swapping either is enough for part of the disparity, which takes both components (AND). Negative: part of
    it goes only when both are swapped, as either component suffices for it (OR).
    """
    place = {arm: number + at for number, arm in enumerate(all_arms(stages))}
    count = len(stages)
    found: list[Difference] = []
    for arm, number in place.items():
        if one in arm or other in arm:
            continue
        weight = factorial(len(arm)) * factorial(count - len(arm) - 2) / factorial(count - 1)
        found.append(Difference(weight, number, place[arm | {one}]))
        found.append(Difference(-weight, place[arm | {other}], place[arm | {one, other}]))
    return tuple(found)


def less(first: Contrast, second: Contrast) -> Contrast:
    """The difference of two contrasts."""
    return (*first, *(Difference(-weight, one, two) for weight, one, two in second))


def pairs_of(stages: Sequence[str]) -> list[tuple[str, str]]:
    """All pairs of components."""
    return list(combinations(stages, 2))


@dataclass(frozen=True)
class Block:
    """Some cells of the same dialogues, and contrasts of them on one scale."""

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
        found = [
            sum(weight * (scores[..., two] - scores[..., one]) for weight, one, two in contrast)
            for contrast in self.contrasts
        ]
        return self.sign * np.stack(found, axis=-1) / scale[..., None]

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
        needed = sorted({(one, two) for number in chosen for _, one, two in self.contrasts[number]})
        place = {pair: number for number, pair in enumerate(needed)}
        first, second = ([pair[side] for pair in needed] for side in (0, 1))
        middle = (totals[first] + totals[second]) / 2  # (pairs, statistics)
        parts = np.empty((len(table), len(needed)))
        rows = max(1, BLOCK // max(1, len(needed) * table.shape[2]))
        for start in range(0, len(table), rows):
            half = (table[start : start + rows][:, second] - table[start : start + rows][:, first]) / 2
            parts[start : start + rows] = self.score(middle + half) - self.score(middle - half)
        found = [
            sum(weight * parts[:, place[one, two]] for weight, one, two in self.contrasts[number]) for number in chosen
        ]
        result = self.sign * np.stack(found, axis=1) / scale if found else np.empty((len(table), 0))
        return np.nan_to_num(result)
