"""Rank tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from tod_bias.statistics.permutation import Alternative, check_alternative


def subsample_rank_sum(
    first: np.ndarray,
    second: np.ndarray,
    *,
    size: int | None = None,
    alternative: Alternative = "two-sided",
    seed: int = 0,
) -> dict[str, Any]:
    """Wilcoxon's rank-sum test on means of subsamples, the alternative of Beattie section 4.3.2.

    Each set is cut at random into disjoint subsamples, so that their means are independent, as the test needs; drawn
    with overlap they would not be, and p would be far too small.

    Args:
        first: (n,) scores of E.
        second: (m,) scores of P.
        size: entities in a subsample; by default as many as give 20 subsamples of the smaller set, at least 1.
        alternative: as in :func:`~tod_bias.statistics.permutation.group_test`.
        seed: of the cut.

    Returns:
        ``p_value`` (None where a set gives fewer than two subsamples), ``statistic`` and the numbers of subsamples.
    """
    check_alternative(alternative)
    length = size or max(1, min(len(first), len(second)) // 20)
    rng = np.random.default_rng(seed)
    means = []
    for scores in (first, second):
        shuffled = rng.permutation(np.asarray(scores, dtype=np.float64))
        groups = len(shuffled) // length
        means.append(shuffled[: groups * length].reshape(groups, length).mean(axis=1))
    result: dict[str, Any] = {"p_value": None, "size": length, "subsamples": [len(part) for part in means]}
    if min(map(len, means)) >= 2:
        from scipy import stats

        outcome = stats.mannwhitneyu(*means, alternative=alternative)
        result |= {"p_value": float(outcome.pvalue), "statistic": float(outcome.statistic)}
    return result
