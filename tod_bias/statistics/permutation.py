"""Permutation tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tod_bias.statistics.resampling import blocks


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
    for rows in blocks(2**clusters if exact else permutations, clusters):
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
