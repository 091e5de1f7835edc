"""Resamples of independent units, as matrix products on summed statistics.

The units are what is independent: dialogues (the turns, draws and arms of one are not), queries (the items of one list
are not), entities. A resample is a row of counts (how often each unit was drawn), so all resamples of all statistics
are one product of a counts matrix with a statistics matrix, and nothing is scored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

BLOCK = 4_000_000
"""Numbers of a matrix of counts or labels that are in memory at once. Where several matrices are drawn in turn, the
random numbers depend on it, so changing it changes results."""


def resample(
    statistics: np.ndarray, score: Callable[[np.ndarray], np.ndarray], resamples: int, seed: int
) -> np.ndarray:
    """Bootstrap over units: ``score`` of the summed statistics of each resample.

    Args:
        statistics: (units, n), for instance summed over each dialogue's segments.
        score: (rows, n) sums to (rows, …) scores.
        resamples: how many, at least 1.
        seed: of the draws; equal seeds resample the same units, so that differences are paired.

    Returns:
        (resamples, …).
    """
    table = statistics.astype(float, copy=False)
    return np.concatenate([score(sums) for sums in _sums(np.random.default_rng(seed), table, resamples)])


def resampled(rng: np.random.Generator, table: np.ndarray, resamples: int) -> np.ndarray:
    """Sums of as many rows as there are, drawn with replacement, (resamples, columns); zeros of an empty table."""
    if not len(table) or not resamples:
        return np.zeros((resamples, table.shape[1]))
    return np.concatenate(list(_sums(rng, table, resamples))).astype(float)


def _sums(rng: np.random.Generator, table: np.ndarray, resamples: int) -> Iterator[np.ndarray]:
    """Sums of the rows of every resample, (rows, columns) at a time, in single precision where the table is."""
    precision = np.result_type(table.dtype, np.float32)
    for rows in blocks(resamples, len(table)):
        yield resample_counts(rng, rows, len(table)).astype(precision) @ table


def resample_counts(rng: np.random.Generator, rows: int, clusters: int) -> np.ndarray:
    """Count each unit in each of ``rows`` resamples, (rows, units).

    Drawing units and counting them is several times faster than drawing multinomial counts.
    """
    drawn = rng.integers(0, clusters, size=(rows, clusters), dtype=np.int32)
    drawn += np.arange(rows, dtype=np.int32)[:, None] * clusters
    return np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters)


def blocks(rows: int, columns: int) -> Iterator[int]:
    """Numbers of rows, which add up to ``rows``, of matrices that are in memory one after the other."""
    size = max(1, BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield min(size, rows - start)
