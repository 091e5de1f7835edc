"""Units that share clusters in several ways at once: queries that share a name, a template, a city.

Two queries with one name are not independent, nor are two with one template, so neither names alone nor templates alone
may be resampled. Two ways out, both for any number of ways:

* :func:`crossed_sums`, the pigeonhole bootstrap (Owen 2007, *The pigeonhole bootstrap*): the clusters of every way are
  resampled on their own, and a unit counts the product of how often its clusters were drawn. It is conservative: of
  what is noise of single units it holds up to 2ᵏ − 1 times the variance for k ways, of cluster effects the right one.
* :func:`crossed_variance`, the multiway variance of Cameron, Gelbach and Miller (2011, eq. 2.13): the variances by
  each way, minus those by each pair of ways, plus …, of scores that were linearised to a sum over units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tod_bias.statistics.distributions import t_quantile, t_tail
from tod_bias.statistics.resampling import blocks, resample_counts


@dataclass(frozen=True)
class Crossing:
    """Ways in which units are clustered; made by :func:`crossing`."""

    groups: np.ndarray
    """(units,) numbers of the groups that are compared, from 0."""
    facts: tuple[np.ndarray, ...]
    """Further facts by which the units differ by design, (units,) numbers each."""
    ways: tuple[np.ndarray, ...]
    """Each (units,) numbers of the clusters of one way, from 0."""

    def strata(self, way: np.ndarray) -> np.ndarray:
        """Return (clusters,) strata within which clusters are drawn: the groups and facts that are constant in every
        cluster.

        A fact that would make a cluster the only one of its stratum is ignored.
        """
        strata_codes = np.zeros(way.max(initial=-1) + 1, dtype=int)
        for place, fact in enumerate((self.groups, *self.facts)):
            if _within(way, fact):
                fact_codes = np.zeros(len(strata_codes), dtype=int)
                fact_codes[way] = fact
                finer = cells([strata_codes, fact_codes])
                if place == 0 or np.bincount(finer).min(initial=2) > 1:
                    strata_codes = finer
        return strata_codes


def crossing(groups: np.ndarray, ways: Sequence[np.ndarray], facts: Sequence[np.ndarray] = ()) -> Crossing:
    """Bring ways of clustering into shape.

    A way whose clusters lie within those of another is left out, since the other one holds it (a query that was asked
    of one name only), and so is one of a single cluster, unless nothing else is left.

    Args:
        groups: (units,) integers; how many clusters a group has is taken as the design.
        ways: each (units,) integers.
        facts: each (units,) integers, further facts that were balanced by design: the race of names in a test of
            gender.
    """
    numbers, *others = (np.unique(codes, return_inverse=True)[1] for codes in (groups, *facts))
    coded = [np.unique(way, return_inverse=True)[1] for way in ways]
    coded = [way for way in coded if way.max(initial=0) > 0] or coded[:1]
    needed: list[np.ndarray] = []
    for place, way in enumerate(coded):
        rest = [*needed, *coded[place + 1 :]]
        if not any(_within(way, other) for other in rest):
            needed.append(way)
    return Crossing(numbers, tuple(others), tuple(needed))


def _within(inner: np.ndarray, outer: np.ndarray) -> bool:
    """True if every cluster of ``inner`` is part of one cluster of ``outer``."""
    return int(cells([inner, outer]).max(initial=-1)) == int(inner.max(initial=-1))


def cells(ways: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of the clusters that some ways make together, (units,)."""
    codes = ways[0]
    for way in ways[1:]:
        codes = np.unique(codes * (way.max(initial=0) + 1) + way, return_inverse=True)[1]
    return codes


def crossed_sums(rng: np.random.Generator, table: np.ndarray, how: Crossing, resamples: int) -> np.ndarray:
    """Sums of a table's rows under the pigeonhole bootstrap, a group at a time.

    Args:
        rng: draws the clusters.
        table: (units, n).
        how: groups and clusters of the units. Clusters shared by groups (templates) are drawn once for all of them.
        resamples: how many.

    Returns:
        (resamples, groups, n); zeros if no unit of a group was drawn.
    """
    members = [np.flatnonzero(how.groups == group) for group in range(how.groups.max(initial=-1) + 1)]
    parts = [np.zeros((0, len(members), table.shape[1]))]
    for rows in blocks(resamples, max(1, len(table))):
        # counts of draws are small whole numbers, which single precision holds exactly in half the memory
        weights = np.ones((rows, len(table)), dtype=np.float32)
        for way in how.ways:
            strata = how.strata(way)
            counts = np.zeros((rows, len(strata)), dtype=np.float32)
            for stratum in np.unique(strata):
                members_here = np.flatnonzero(strata == stratum)
                counts[:, members_here] = resample_counts(rng, rows, len(members_here))
            weights *= counts[:, way]
        parts.append(
            np.stack([weights[:, members_here] @ table[members_here] for members_here in members], axis=1).astype(float)
        )
    return np.concatenate(parts)


@dataclass(frozen=True)
class CrossedSpread:
    """Variances of some scores with their degrees of freedom, each (scores,)."""

    variance: np.ndarray
    freedom: np.ndarray

    def half(self, level: float) -> np.ndarray:
        """Return half the length of t intervals; NaN without a variance."""
        return np.asarray(t_quantile((1 + level) / 2, self.freedom) * np.sqrt(self.variance))

    def p_values(self, values: np.ndarray) -> np.ndarray:
        """Two-sided p-values of the distance of (scores,) values from 0; 1 where value and variance are both 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = np.abs(values) / np.sqrt(self.variance)
            p = 2 * t_tail(distance, self.freedom)
        return np.where((np.abs(values) == 0) & (self.variance == 0), 1.0, p)


def crossed_variance(influences: np.ndarray, how: Crossing) -> CrossedSpread:
    """Multiway variance (Cameron, Gelbach and Miller 2011) of sums over units.

    Clusters are centred at the mean of their stratum (:meth:`Crossing.strata`) and count n / (n − 1) of it. Where the
    sum over ways is smaller than the variance by a single way, that one is taken. Degrees of freedom are
    Satterthwaite's for the largest single way, doubted by all of them, so that a way with few clusters counts as far as
    it matters; but no more than those of the one group that has most of the variance: what a steady group knows of its
    spread says nothing of that of a small and more uneven one.

    Args:
        influences: (units, scores): how far a unit moves each score, with a sum of 0 over all units.
        how: groups and clusters of the units.

    Returns:
        Variances and degrees of freedom, (scores,); NaN where a stratum has one cluster.
    """
    scores = influences.shape[1]
    total, largest, doubt, most = np.zeros((4, scores))
    freedom = np.full(scores, np.inf)
    for size in range(1, len(how.ways) + 1):
        for chosen in combinations(range(len(how.ways)), size):
            way = cells([how.ways[place] for place in chosen])
            strata = how.strata(way)
            parts, freedoms = _variances(influences, way, strata)  # (strata, scores), (strata,)
            variance_of_cells = parts.sum(axis=0)
            total += variance_of_cells if size % 2 else -variance_of_cells
            if size > 1:
                continue
            largest = np.maximum(largest, variance_of_cells)
            doubts = parts**2 / freedoms[:, None]
            doubt += doubts.sum(axis=0)
            for mine in _by_group(how.groups, way, strata):
                variance = parts[mine].sum(axis=0)
                freedom = np.where(variance > most, _satterthwaite(variance, doubts[mine].sum(axis=0)), freedom)
                most = np.maximum(most, variance)
    freedom = np.minimum(freedom, _satterthwaite(largest, doubt))
    return CrossedSpread(np.maximum(total, largest), np.where(np.isnan(doubt), np.nan, np.maximum(freedom, 1.0)))


def _satterthwaite(variance: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    return np.divide(variance**2, doubt, out=np.full(len(variance), np.inf), where=doubt > 0)


def _by_group(groups: np.ndarray, way: np.ndarray, strata: np.ndarray) -> list[np.ndarray]:
    """The strata of each group, as masks; all together where clusters are shared by groups."""
    numbers = np.unique(strata)
    if not _within(way, groups):
        return [np.ones(len(numbers), dtype=bool)]
    of_cluster = np.zeros(len(strata), dtype=int)
    of_cluster[way] = groups
    of_stratum = np.array([of_cluster[strata == number][0] for number in numbers])
    return [of_stratum == group for group in np.unique(of_stratum)]


def _variances(influences: np.ndarray, way: np.ndarray, strata: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy import sparse

    clusters = len(strata)
    member = sparse.csr_array((np.ones(len(way)), (way, np.arange(len(way)))), shape=(clusters, len(way)))
    sums = member @ influences  # (clusters, scores)
    parts, freedoms = [], []
    for stratum in np.unique(strata):
        of_stratum = sums[strata == stratum]
        count = len(of_stratum)
        freedoms.append(max(count - 1, 1))
        squares = ((of_stratum - of_stratum.mean(axis=0)) ** 2).sum(axis=0)
        parts.append(count / (count - 1) * squares if count > 1 else np.full(sums.shape[1], np.nan))
    return np.array(parts), np.array(freedoms, dtype=float)


def effective_number(weights: np.ndarray) -> float:
    """Effective number of clusters with weights (clusters,): (Σw)² / Σw² (Kish 1965); 0 without clusters."""
    squares = float((np.asarray(weights, dtype=float) ** 2).sum())
    return float(np.sum(weights)) ** 2 / squares if squares > 0 else 0.0
