"""Resamples of dialogues, as matrix products on summed statistics.

Dialogues are the units that are resampled: the turns, draws and arms of one dialogue are not independent. A resample
is a row of counts (how often each dialogue was drawn), so all resamples of all statistics are one product of a counts
matrix with a statistics matrix, and no text is scored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

BLOCK = 2_000_000
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
    for rows in blocks(resamples, clusters):
        parts.append(score(resample_counts(rng, rows, clusters).astype(float) @ statistics))
    return np.concatenate(parts)


def resample_counts(rng: np.random.Generator, rows: int, clusters: int) -> np.ndarray:
    """How often each dialogue is in each of ``rows`` resamples, (rows, dialogues).

    Drawing dialogues and counting them is several times faster than drawing multinomial counts.
    """
    drawn = rng.integers(0, clusters, size=(rows, clusters), dtype=np.int32)
    drawn += np.arange(rows, dtype=np.int32)[:, None] * clusters
    return np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters)


def blocks(rows: int, columns: int) -> Iterator[int]:
    """Numbers of rows, which add up to ``rows``, of matrices that are in memory one after the other."""
    size = max(1, BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield min(size, rows - start)
