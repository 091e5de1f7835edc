"""Intervals and p-values of several estimates at once: what is claimed holds for all of them together.

The smallest of the p-values of all rows is compared with how small it would be if no row differed from 0: maxT of
Westfall and Young (1993) on the scale of p-values, so that a row with few degrees of freedom does not make the others
wider. Every row gets the interval at the level at which its adjusted p-value is 1 less that of the interval: p is below
.05 where, and only where, the interval leaves out 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from tod_bias.statistics.distributions import chi2_quantile, t_quantile, t_tail
from tod_bias.statistics.exchanges import ExchangedRows, critical_of, share_of

DRAWS = 20_000
"""Draws of the rows of a block under the null hypothesis."""


class JointRows:
    """Rows whose estimates depend on each other, such as the gaps of one axis by one metric.

    Args:
        covariance: (rows, rows) of the estimates.
        freedom: (rows,) degrees of freedom.
        seed: of the draws.
    """

    def __init__(self, covariance: np.ndarray, freedom: np.ndarray, seed: int = 0) -> None:
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        tested = (error > 0) & np.isfinite(error) & (freedom >= 1)
        self.rows = int(tested.sum())
        """Number of tests."""
        correlation = covariance[np.ix_(tested, tested)] / np.outer(error[tested], error[tested])
        # rows that are copies of one another are one test, and its p-value needs no draws
        self._is_single = self.rows == 0 or bool((np.abs(correlation) > 1 - 1e-9).all())
        if not self._is_single:
            self._smallest = np.append(0.0, _smallest(correlation, freedom[tested], seed))
            self._shares = np.arange(DRAWS + 1) / DRAWS

    def share_below(self, p: float) -> float:
        """Return the probability that the smallest p-value is at most ``p`` if no row differs from 0."""
        if self._is_single:
            return p if self.rows else 0.0
        return float(np.interp(p, self._smallest, self._shares))


class BoundedRows:
    """Rows that are known only by their number (Bonferroni).

    Args:
        rows: their number.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def share_below(self, p: float) -> float:
        """Return an upper bound of how often the smallest p-value is ``p`` or less."""
        return min(1.0, self.rows * p)


class TestedRows(Protocol):
    """Rows that are claimed together with those of other blocks."""

    @property
    def rows(self) -> int:
        """Number of tests."""

    def share_below(self, p: float) -> float:
        """Return how often the smallest p-value of the rows is ``p`` or less if no row differs from 0."""


class Family:
    """Everything that is claimed together.

    Args:
        blocks: independent of each other, or bounded as if they were (Šidák 1967).
        alpha: the family-wise error rate.
        group_exchanges: the same rows under exchanges of groups, for :meth:`under_group_exchanges`.
        term_exchanges: the same rows under exchanges of terms, for :meth:`under_term_exchanges`.
    """

    def __init__(
        self,
        blocks: Sequence[TestedRows],
        alpha: float = 0.05,
        group_exchanges: Sequence[ExchangedRows] = (),
        term_exchanges: Sequence[ExchangedRows] = (),
    ) -> None:
        self._blocks = list(blocks)
        self._group_exchanges = list(group_exchanges)
        self._term_exchanges = list(term_exchanges)
        self.alpha = alpha
        self.level = self._solved(alpha)
        """The p-value of a single row that is significant in the family."""

    def adjusted(self, p: float) -> float:
        """The p-value of a single row, for the whole family; NaN stays."""
        if np.isnan(p):
            return p
        remaining = 1.0
        for block in self._blocks:
            remaining *= 1 - block.share_below(p)
        return min(1.0, max(p, 1 - remaining))

    def under_group_exchanges(self, z: float) -> float:
        """Return the p-value of a row with this z under exchanges of groups, for the whole family."""
        return share_of(self._group_exchanges, z)

    def under_term_exchanges(self, z: float) -> float:
        """Return the p-value of a row with this z under exchanges of terms, for the whole family; 1 without any."""
        return share_of(self._term_exchanges, z) if self._term_exchanges else 1.0

    @property
    def critical_group_exchange(self) -> float:
        """The z under exchanges of groups above which a row is significant in the family; 0 without any."""
        return critical_of(self._group_exchanges, self.alpha)

    @property
    def critical_term_exchange(self) -> float:
        """The z under exchanges of terms above which a row is significant in the family; infinity without any."""
        return critical_of(self._term_exchanges, self.alpha) if self._term_exchanges else math.inf

    def bounded(self, p: float) -> float:
        """Return the p-value of a single row for the whole family by Bonferroni's inequality; NaN stays."""
        return p if np.isnan(p) else min(1.0, p * max(1, sum(block.rows for block in self._blocks)))

    def _solved(self, alpha: float) -> float:
        low, high = 0.0, alpha
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.adjusted(middle) < alpha else (low, middle)
        return low

    def reach(self, freedom: float) -> float:
        """Standard errors from an estimate to either end of its interval."""
        return float(t_quantile(1 - max(self.level, 1e-300) / 2, freedom))


def p_value(value: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a single t test; NaN without a standard error."""
    if not (np.isfinite(error) and error > 0 and freedom >= 1):
        return float("nan")
    return float(2 * t_tail(abs(value) / error, freedom))


def _smallest(correlation: np.ndarray, freedom: np.ndarray, seed: int) -> np.ndarray:
    """The smallest p-values of draws of correlated t statistics, sorted."""
    values, vectors = np.linalg.eigh(correlation)
    # eigenvalues of dependent rows are 0, or by rounding slightly below, where they have no root
    keeps = values > 1e-10
    root = vectors[:, keeps] * np.sqrt(values[keeps])
    rng = np.random.default_rng(seed)
    drawn = np.abs(rng.standard_normal((DRAWS, root.shape[1])) @ root.T)
    place = rng.permutation(DRAWS)  # one quantile of χ² for all rows, which share what is unknown
    p = np.full(DRAWS, 1.0)
    for degrees in np.unique(freedom):
        largest = drawn[:, freedom == degrees].max(axis=1)
        p = np.minimum(p, 2 * t_tail(largest / _scales(float(degrees))[place], degrees))
    return np.sort(p)


@lru_cache(maxsize=64)
def _scales(degrees: float) -> np.ndarray:
    """√(χ²/ν) at evenly spread shares, in their order; several families of a run have rows of the same freedom."""
    return np.sqrt(chi2_quantile((np.arange(DRAWS) + 0.5) / DRAWS, degrees) / degrees)
