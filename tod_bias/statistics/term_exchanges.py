"""Exchanges of terms between groups: a test of rare events that happen with many terms of one group.

A t test over terms cannot see six events among 120 dialogues of a group if many events are tested: its statistic is at
most about √6, whatever the other groups do. Under the null hypothesis that terms are drawn alike for all groups, terms
may be exchanged between groups, each with all that happened with it. If six terms of eight show an event, and none of
the sixteen terms of the others, that is a chance of C(18, 2) / C(24, 8).

Exchanged are sums over the dialogues of a term. They are sums of the event, not of a difference from the mean of a
dialogue: what happens with one term would lower the sums of the terms beside it in other groups, and the sums of terms
would no longer be independent. In simulations of ten events that a few terms trigger, .15 to .30 of fair systems were
claimed with such differences, and .01 to .07 with sums of events.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from tod_bias.statistics.exchanges import MOST_DRAWS, ExchangedRows

_MOST_LABELS = 20_000_000
"""Labels that are in memory at once; a run of very many terms has fewer draws."""


def exchanged_terms(
    values: np.ndarray, has: np.ndarray, terms: Sequence[sparse.csr_array | None], draws: int, seed: int
) -> ExchangedRows | None:
    """Exchange the terms of groups; None of two groups, or if some group is not expressed by terms.

    Args:
        values: (units, groups, events).
        has: (units, groups) bool.
        terms: of each group (units, terms) weights.
        draws: number of draws.
        seed: rows of as many terms have the same draws if their seed is the same, so that they can be joined.
    """
    if draws < 1 or has.shape[1] < 3 or any(some is None for some in terms):
        return None
    levels = _above_smallest(values, has)
    sums, sizes = [], []
    for group, weights in enumerate(terms):
        assert weights is not None
        used = weights[:, np.flatnonzero(np.asarray(weights.sum(axis=0)).ravel() > 0)]
        sums.append(used.T @ levels[:, group])
        sizes.append(used.shape[1])
    pool = np.concatenate(sums)
    number = len(pool)
    pool = pool - pool.mean(axis=0)
    ends = np.cumsum(sizes)
    counts = np.array(sizes)[:, None] * (number - np.array(sizes))[:, None] / max(1, number - 1)
    scale = np.sqrt(counts * (pool**2).mean(axis=0))
    scale = np.where(scale > 0, scale, np.inf)  # (groups, events)
    z = np.stack([np.abs(some.sum(axis=0)) for some in np.split(pool, ends[:-1])]) / scale
    draws = min(draws, MOST_DRAWS, max(1, _MOST_LABELS // max(1, number)))
    order = np.random.default_rng([seed, 2]).random((draws, number)).argsort(axis=1)
    largest = np.zeros(draws)
    for group, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        inside = ((order >= end - size) & (order < end)).astype(float)
        largest = np.maximum(largest, (np.abs(inside @ pool) / scale[group]).max(axis=1, initial=0.0))
    return ExchangedRows(z, largest)


def _above_smallest(values: np.ndarray, has: np.ndarray) -> np.ndarray:
    """Return (units, groups, events) values above the smallest of their unit, less their mean; 0 for groups it lacks.

    An event that happens in some groups of a unit is 1 there and 0 in the others. A difference between two units that
    all groups share tells nothing.
    """
    inside = has[:, :, None]
    smallest = np.where(inside, values, np.inf).min(axis=1, keepdims=True)
    above = np.where(inside, values - np.where(np.isfinite(smallest), smallest, 0.0), 0.0)
    mean = above.sum(axis=(0, 1)) / max(1, int(has.sum()))
    return np.asarray(np.where(inside, above - mean, 0.0))
