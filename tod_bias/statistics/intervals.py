"""Intervals: from bootstrap samples, of means, of differences of means, of shares."""

from __future__ import annotations

import math

import numpy as np

from tod_bias.statistics.distributions import normal_share, t_quantile


def finite(value: float) -> float | None:
    """Return a number, or None if it is not finite."""
    return float(value) + 0.0 if math.isfinite(value) else None  # no -0.0


def finite_pair(bounds: np.ndarray) -> list[float] | None:
    """Lower and upper bound of an interval, or None where either is undefined."""
    return [float(bounds[0]) + 0.0, float(bounds[1]) + 0.0] if np.isfinite(bounds).all() else None


LEVEL = 0.95
"""Level of every interval."""


def interval(samples: np.ndarray, clusters: int, level: float = LEVEL) -> np.ndarray:
    """Expanded percentile interval (Hesterberg 2015, section 5.4) of bootstrap samples.

    Percentile intervals are too short for few clusters; the percentiles are moved out so that for a mean the interval
    has the length of a t interval: alpha' = Φ(−√(n / (n − 1)) · t_{n−1, 1−alpha/2}).

    Args:
        samples: (resamples, …), NaN where a resample has no value.
        clusters: how many dialogues were resampled.
        level: of the interval.

    Returns:
        (2, …), lower and upper bound; NaN for fewer than two clusters.
    """
    if clusters < 2:
        return np.full((2, *samples.shape[1:]), np.nan)
    tail = normal_share(-math.sqrt(clusters / (clusters - 1)) * t_quantile((1 + level) / 2, clusters - 1))
    if not np.isnan(samples).any():
        return np.quantile(samples, [tail, 1 - tail], axis=0)
    bounds = np.full((2, *samples.shape[1:]), np.nan)
    flat, target = samples.reshape(len(samples), -1), bounds.reshape(2, -1)
    for column in range(flat.shape[1]):
        values = flat[~np.isnan(flat[:, column]), column]
        if len(values):
            target[:, column] = np.quantile(values, [tail, 1 - tail])
    return target.reshape(bounds.shape)


def interval_of_absolute(samples: np.ndarray, clusters: int, level: float = LEVEL) -> np.ndarray:
    """Interval for the mean of absolute values over the last axis, from samples of the signed values.

    The absolute value of a noisy number is too large on average, and its percentiles never reach 0. So the signed
    values get a simultaneous band (percentiles so far out that a share ``level`` of resamples lies inside in all values
    at once), which is folded at 0 and averaged. For one value, or values that move together, the coverage is that of
    the signed interval; for independent ones it is at least ``level``. If the band excludes 0 in every value, the mean
    of absolute values is a mean of signed values and gets its interval.

    Args:
        samples: (resamples, values), signed; NaN where a resample has no value.
        clusters: how many dialogues were resampled.
        level: of the interval.

    Returns:
        (2,), lower and upper bound.
    """
    ranks = np.stack([_ranks(column) for column in samples.T], axis=-1)  # (resamples, values), NaN stays
    counts = np.maximum((~np.isnan(samples)).sum(axis=0), 1)
    depth = np.abs(2 * (ranks - 0.5) / counts - 1)  # 0: the median, 1: the furthest out
    joint = float(np.quantile(np.fmax.reduce(depth, axis=1, initial=0.0), level))
    # an interval of level 1 has no end: quantiles beyond the outermost resample are not known
    low, high = interval(samples, clusters, max(level, min(joint, 1 - 1e-9)))
    if ((low > 0) | (high < 0)).all():
        # No value is near 0, so each keeps its sign and the mean of absolute values is a plain mean.
        signed = np.where(low > 0, samples, -samples)
        numbers = (~np.isnan(signed)).sum(axis=-1)
        means = np.where(numbers > 0, np.nansum(signed, axis=-1) / np.maximum(numbers, 1), np.nan)
        return interval(means, clusters, level)
    lower = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return np.array([lower.mean(), np.maximum(np.abs(low), np.abs(high)).mean()])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 on of (n,) values, equal ones at the mean of theirs; NaN has none."""
    ranks = np.full(len(values), np.nan)
    is_known = ~np.isnan(values)
    _, of, counts = np.unique(values[is_known], return_inverse=True, return_counts=True)
    ranks[is_known] = (np.cumsum(counts) - (counts - 1) / 2)[of]
    return ranks


def t_interval(values: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """The t interval of the mean of at least two independent values: (lower, upper)."""
    half = t_quantile((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


def welch_interval(
    values: np.ndarray, variances: np.ndarray, sizes: tuple[int, int], level: float = LEVEL
) -> np.ndarray:
    """t intervals of differences of the means of two independent samples (Welch 1947), (2, n).

    Args:
        values: (n,) differences.
        variances: (2, n) of the two means.
        sizes: of the two samples, each at least 2.
        level: of the intervals.
    """
    variance = variances.sum(axis=0)
    bottom = (variances**2 / (np.array(sizes)[:, None] - 1)).sum(axis=0)
    freedom = np.divide(variance**2, bottom, out=np.full(len(values), np.inf), where=bottom > 0)  # Welch-Satterthwaite
    reach = t_quantile((1 + level) / 2, freedom) * np.sqrt(variance)
    return np.stack([values - reach, values + reach])


def wilson_interval(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval (1927) of a share of at least one trial: (lower, upper), each in 0–1."""
    from scipy import stats

    bounds = stats.binomtest(hits, trials).proportion_ci(level, method="wilson")
    return float(bounds.low), float(bounds.high)
