"""Sign flips of units' contributions to several rows: tests of rare effects, and of all rows together.

Under the null hypothesis, what a unit (a dialogue) adds to a contrast of groups is as likely to be a harm as the
opposite, so its sign may be flipped. All rows of a unit are flipped together, so the flips keep how the rows depend on
each other. A row's statistic is z = |Σ x| / √(Σ x²), which no flip scales. The largest z over all rows then has a
known distribution under the null hypothesis (max-T of Westfall and Young 1993, section 2.3). A row in which few units
differ cannot reach a large z, and costs the other rows little.

If units err together by cluster, the sums of whole clusters are flipped (Canay, Romano and Shaikh 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np
from scipy import special

from tod_bias.statistics.resampling import blocks

FEWEST_FLIPPED = 6
"""Units that differ from which the smallest two-sided p-value of sign flips, 2 in 2⁶, is below .05."""
_SLACK = 1e-9
"""Difference below which two statistics of the same numbers, summed in another order, are taken to be equal."""


@dataclass(frozen=True)
class FlippedRows:
    """Rows under sign flips."""

    p: np.ndarray
    """(rows,) two-sided p-value of the z of each row. What a z tells is calibrated over all rows by
    :meth:`share_below`, so few flips limit no row's own p-value."""
    largest: np.ndarray
    """(flips,) the largest z over the rows, flip by flip."""
    rows: int = 0
    """Number of rows that could be significant at all (Tarone 1990): at least :data:`FEWEST_FLIPPED` units differ."""
    spread: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(rows,) standard deviation of the z of each row over samples of units (:func:`_spread`)."""

    @classmethod
    def of(cls, adds: np.ndarray, flips: int, seed: int) -> Self:
        """Flip the signs of the units' contributions.

        Args:
            adds: (units, rows); the sum over units is the estimate of a row.
            flips: number of draws.
            seed: rows of as many units have the same signs if their seed is the same, so that they can be joined.
        """
        differs = np.flatnonzero(np.abs(adds).max(axis=1, initial=0.0) > 0)
        size = np.sqrt((adds**2).sum(axis=0))
        table = adds[differs] / np.where(size > 0, size, 1.0)
        bits = _bits(len(adds), flips, seed)
        byte, shift = differs // 8, (7 - differs % 8).astype(np.uint8)
        observed = np.abs(table.sum(axis=0))
        largest = np.zeros(flips)
        start = 0
        for rows in blocks(flips, max(1, len(differs) + adds.shape[1])):
            signs = 1.0 - 2.0 * (bits[start : start + rows, byte] >> shift & 1)
            z = np.abs(signs @ table)
            largest[start : start + rows] = z.max(axis=1, initial=0.0)
            start += rows
        tested = int(((adds != 0).sum(axis=0) >= FEWEST_FLIPPED).sum())
        return cls(2 * special.ndtr(-observed), largest, tested, _spread(adds))

    @classmethod
    def joined(cls, several: Sequence[Self]) -> Self:
        """Return all rows of several sets, each with the same number of flips."""
        p = np.concatenate([some.p for some in several])
        spread = np.concatenate([some.spread for some in several])
        rows = sum(some.rows for some in several)
        return cls(p, np.maximum.reduce([some.largest for some in several]), rows, spread)

    def share_below(self, p: float) -> float:
        """Return how often any row's z is as large as that of a two-sided ``p`` if no row differs from 0."""
        # a p-value of 0 has an infinite z, which no draw could reach
        z = -special.ndtri(min(max(p, 1e-300), 1.0) / 2)
        return float((1 + (self.largest >= z - _SLACK).sum()) / (len(self.largest) + 1)) if z > 0 else 1.0


def _spread(adds: np.ndarray) -> np.ndarray:
    """Return (rows,) standard deviations of z = Σ x / √(Σ x²) by the delta method.

    With the means m of x and q of x² a unit adds x / √q − m (x² − q) / 2 q^{3/2}. An effect that all of few units share
    has the z of their number's root, which varies half as much as the mean of noise.

    Args:
        adds: (units, rows).
    """
    if not len(adds):
        return np.ones(adds.shape[1])
    mean, square = adds.mean(axis=0), (adds**2).mean(axis=0)
    scale = np.where(square > 0, square, 1.0)
    influence = adds / np.sqrt(scale) - mean * (adds**2 - square) / (2 * scale**1.5)
    return np.where(square > 0, influence.std(axis=0), 1.0)


@lru_cache(maxsize=4)
def _bits(units: int, flips: int, seed: int) -> np.ndarray:
    """Return (flips, units / 8) bytes with a bit for the sign of each unit; unpacked, a large run has gigabytes."""
    return np.random.default_rng(seed).integers(0, 256, (flips, -(-units // 8)), dtype=np.uint8)
