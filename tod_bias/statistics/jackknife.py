"""Intervals and tests over few clusters, such as cities or trainings, that each hold many units.

The results generalise to further clusters, and not only to further units of the present ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tod_bias.statistics.distributions import t_quantile, t_tail


@dataclass(frozen=True)
class Jackknife:
    """Pooled scores, each array (scores,)."""

    value: np.ndarray
    """Value of all clusters together."""
    low: np.ndarray
    """Lower bound of the t interval."""
    high: np.ndarray
    """Upper bound."""
    p_value: np.ndarray
    """Two-sided, of the distance from 0."""


def jackknife(
    sums: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray],
    level: float,
    *,
    is_scored: np.ndarray | None = None,
    lowest: np.ndarray | float = -np.inf,
    highest: np.ndarray | float = np.inf,
) -> Jackknife:
    """Leave out a cluster at a time (Efron and Stein 1981): t intervals with one degree of freedom less than clusters.

    Args:
        sums: (clusters, …) terms of the sum over clusters that ``score`` takes.
        score: from (…) sums to (scores,) values.
        level: of the intervals.
        is_scored: (clusters, scores) bool, which clusters contribute to which score; all by default.
        lowest: the interval is cut off at it.
        highest: the same above.

    Returns:
        Arrays (scores,); NaN bounds and p-values if fewer than two clusters contribute.
    """
    total = sums.sum(axis=0)
    value = np.asarray(score(total), dtype=float)
    is_scored = np.ones((len(sums), *value.shape), dtype=bool) if is_scored is None else is_scored
    clusters = is_scored.sum(axis=0)
    # a ratio has no value where the cluster that is left out holds all of its denominator
    with np.errstate(invalid="ignore", divide="ignore"):
        left_out = np.stack([np.asarray(score(total - cluster_sums), dtype=float) for cluster_sums in sums])
        mean = np.where(is_scored, left_out, 0.0).sum(axis=0) / clusters
        squares = np.where(is_scored, (left_out - mean) ** 2, 0.0).sum(axis=0)
        error = np.where(clusters > 1, np.sqrt((clusters - 1) / clusters * squares), np.nan)
        freedom = np.maximum(clusters - 1, 1)
        half = t_quantile((1 + level) / 2, freedom) * error
        distance = np.abs(value)
        p = np.where((distance == 0) & (error == 0), 1.0, 2 * t_tail(distance / error, freedom))
        return Jackknife(value, np.maximum(value - half, lowest), np.minimum(value + half, highest), p)
