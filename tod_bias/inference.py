"""Intervals and tests over dialogues, as matrix products on summed statistics.

Dialogues are the units that are resampled: the turns, draws and arms of one dialogue are not independent. A resample
is a row of counts (how often each dialogue was drawn), so all resamples of all statistics are one product of a counts
matrix with a statistics matrix, and no text is scored again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy import stats

LEVEL = 0.95
"""Level of every interval."""
_BLOCK = 2_000_000
"""Numbers of a counts matrix that are in memory at once."""


def resample(
    statistics: np.ndarray, score: Callable[[np.ndarray], np.ndarray], resamples: int, seed: int
) -> np.ndarray:
    """Bootstrap over dialogues: ``score`` of the summed statistics of each resample.

    Args:
        statistics: (dialogues, n) summed over each dialogue's segments.
        score: (rows, n) sums to (rows, …) scores.
        resamples: how many.
        seed: of the draws; equal seeds resample the same dialogues, so that differences are paired.

    Returns:
        (resamples, …).
    """
    clusters = len(statistics)
    rng = np.random.default_rng(seed)
    parts = []
    for rows in _blocks(resamples, clusters):
        parts.append(score(resample_counts(rng, rows, clusters).astype(float) @ statistics))
    return np.concatenate(parts)


def resample_counts(rng: np.random.Generator, rows: int, clusters: int) -> np.ndarray:
    """How often each dialogue is in each of ``rows`` resamples, (rows, dialogues).

    Drawing dialogues and counting them is several times faster than drawing multinomial counts.
    """
    drawn = rng.integers(0, clusters, size=(rows, clusters), dtype=np.int32)
    drawn += np.arange(rows, dtype=np.int32)[:, None] * clusters
    return np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters)


def _blocks(rows: int, columns: int) -> Iterator[int]:
    size = max(1, _BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield min(size, rows - start)


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
    tail = stats.norm.cdf(-math.sqrt(clusters / (clusters - 1)) * stats.t.ppf((1 + level) / 2, clusters - 1))
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
    values get a simultaneous band (percentiles so far out that a share ``level`` of resamples lies inside in all
    values at once), which is folded at 0 and averaged. For one value, or values that move together, the coverage is
    that of the signed interval; for independent ones it is at least ``level``. Where the band leaves out 0 in every
    value, the mean of absolute values is a mean of signed ones, and gets the interval of that.

    Args:
        samples: (resamples, values), signed; NaN where a resample has no value.
        clusters: how many dialogues were resampled.
        level: of the interval.

    Returns:
        (2,), lower and upper bound.
    """
    ranks = stats.rankdata(samples, axis=0, nan_policy="omit")  # (resamples, values), NaN stays
    counts = np.maximum((~np.isnan(samples)).sum(axis=0), 1)
    depth = np.abs(2 * (ranks - 0.5) / counts - 1)  # 0: the median, 1: the furthest out
    joint = float(np.quantile(np.fmax.reduce(depth, axis=1, initial=0.0), level))
    low, high = interval(samples, clusters, max(level, min(joint, 1 - 1e-9)))
    if ((low > 0) | (high < 0)).all():
        # No value is near 0, so each keeps its sign and the mean of absolute values is a plain mean.
        signed = np.where(low > 0, samples, -samples)
        there = (~np.isnan(signed)).sum(axis=-1)
        means = np.where(there > 0, np.nansum(signed, axis=-1) / np.maximum(there, 1), np.nan)
        return interval(means, clusters, level)
    lower = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return np.array([lower.mean(), np.maximum(np.abs(low), np.abs(high)).mean()])


def swap_test(
    original: np.ndarray,
    rewritten: np.ndarray,
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    permutations: int,
    seed: int,
) -> float:
    """Paired permutation test: is it chance which of the two is called the original?

    Under the null hypothesis that a system answers original and rewritten dialogues alike, the two may change places
    in every dialogue. All draws of a dialogue change places together.

    Args:
        original: (dialogues, values, n) summed statistics.
        rewritten: the same shape.
        statistic: two (rows, values, n) sums to (rows,); larger means further from the null.
        permutations: random ones; exact enumeration of all 2**dialogues where that is no more work.
        seed: of the random ones.

    Returns:
        p = (b + 1) / (m + 1) (Davison and Hinkley 1997, eq. 4.11), b of m permutations being at least as far; b / m
        where all were enumerated.
    """
    clusters = len(original)
    difference = (rewritten - original).reshape(clusters, -1)
    shape = (-1, *original.shape[1:])
    totals = original.sum(axis=0), rewritten.sum(axis=0)
    observed = float(statistic(totals[0][None], totals[1][None])[0])
    exact = 2**clusters <= permutations if clusters < 63 else False
    rng = np.random.default_rng(seed)
    further = done = 0
    for rows in _blocks(2**clusters if exact else permutations, clusters):
        if exact:
            flips = (np.arange(done, done + rows)[:, None] >> np.arange(clusters)) & 1  # (rows, dialogues)
        else:
            flips = rng.integers(0, 2, size=(rows, clusters))
        moved = (flips.astype(float) @ difference).reshape(shape)  # (rows, values, n)
        values = statistic(totals[0] + moved, totals[1] - moved)
        # Sums of permuted integers are exact, but scores of equal sums may differ in the last bit.
        further += int((values >= observed - 1e-12).sum())
        done += rows
    return further / done if exact else (further + 1) / (done + 1)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment (Holm 1979): adjusted p-values that control the family-wise error rate."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
