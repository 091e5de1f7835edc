"""Permutation tests of many statistics at once, as products of label matrices with statistics matrices.

*Groups*: under the null hypothesis that group labels are exchangeable, every choice of who is in the first group is
equally likely (:func:`group_test`; within strata, :func:`relabelled`). *Signs*: under the null hypothesis that scores
are symmetric about 0, every score may change its sign (:func:`sign_test`; several statistics jointly:
:mod:`tod_bias.statistics.flips`). The sum over a random first group is a row of 0s and 1s times the scores, so 10,000
permutations of all statistics are one matrix product, made in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Literal, get_args

import numpy as np

from tod_bias.errors import StatisticsError
from tod_bias.statistics.resampling import BLOCK, blocks
from tod_bias.statistics.sums import sums_by

Alternative = Literal["two-sided", "greater", "less"]
TOLERANCE = 1e-12
"""Sums of permuted integers are exact, but scores of equal sums may differ in the last bit."""
_SAME = 1e-7
"""Relative difference of two statistics of the same labelling, summed in another order."""
_NO_SPREAD = 1e-8
"""Part of the squares around the common mean below which a spread within groups is rounding."""


def check_alternative(alternative: str) -> None:
    """Raises StatisticsError for an unknown alternative."""
    if alternative not in get_args(Alternative):
        raise StatisticsError(f"alternative {alternative!r}: expected {', '.join(get_args(Alternative))}")


class Exceedances:
    """Counts the permutations whose statistic is at least as far from the null hypothesis as the observed one.

    Args:
        observed: (statistics,), or one number.
        alternative: ``greater`` counts values at least as large, ``less`` at most as large, ``two-sided`` at least as
            large without their signs.
        tolerance: of the comparison, (statistics,) or one number.
    """

    def __init__(
        self,
        observed: np.ndarray | float,
        alternative: Alternative = "greater",
        tolerance: np.ndarray | float = TOLERANCE,
    ) -> None:
        self._observed = np.asarray(observed, dtype=float)
        self._alternative = alternative
        self._tolerance = tolerance
        self._further = np.zeros(self._observed.shape)
        self.permutations = 0
        """Number of permutations."""

    def add(self, values: np.ndarray) -> None:
        """Count (permutations, statistics) values, or (permutations,) of one statistic; NaN is not as far."""
        observed, slack = self._observed, self._tolerance
        if self._alternative == "two-sided":
            hits = np.abs(values) >= np.abs(observed) - slack
        elif self._alternative == "greater":
            hits = values >= observed - slack
        else:
            hits = values <= observed + slack
        self._further += hits.sum(axis=0)
        self.permutations += len(values)

    def p_values(self, *, exact: bool = False) -> np.ndarray:
        """p-values, as ``observed``.

        p = (b + 1) / (m + 1) (Davison and Hinkley 1997, eq. 4.11), b of m random permutations being at least as far;
        b / m where all were enumerated (``exact``).
        """
        if exact:
            return np.asarray(self._further / self.permutations)
        return np.asarray((self._further + 1) / (self.permutations + 1))


@dataclass(frozen=True)
class TestResult:
    """p-values of one or several statistics under the same permutations."""

    __test__ = False  # not a test class of pytest

    p_values: np.ndarray
    """(statistics,), each in (0, 1]."""
    alternative: Alternative
    permutations: int
    """Labellings looked at: all of them where ``exact``."""
    exact: bool

    @property
    def p_value(self) -> float:
        """The p-value of the first statistic."""
        return float(self.p_values[0])

    def record(self, number: int = 0) -> dict[str, Any]:
        """Return one statistic's p-value with its settings, as JSON."""
        return {
            "p_value": float(self.p_values[number]),
            "alternative": self.alternative,
            "permutations": self.permutations,
            "exact": self.exact,
        }


def group_test(
    scores: np.ndarray,
    first: int,
    *,
    clusters: np.ndarray | None = None,
    alternative: Alternative = "two-sided",
    permutations: int = 10_000,
    seed: int = 0,
) -> TestResult:
    """Test if the mean score of a group differs from that of the other entities by more than chance.

    The statistic is Welch's t, the difference of the two means in standard errors that allow for unequal spread (and
    for clusters): so that a small group with a larger spread is not mistaken for one with another mean
    (Janssen 1997). With two groups of equal size it orders the labellings as the difference of the sums does.

    Args:
        scores: (entities,) or (entities, statistics); the first group's entities come first.
        first: size of the first group, at least 1 and less than the number of entities.
        clusters: (entities,) numbers of what is exchanged as a whole; a cluster with entities of both groups is one in
            each of them. Left out: every entity by itself.
        alternative: ``greater`` asks whether the first group's mean is larger.
        permutations: all C(n, first) labellings of n clusters where they are no more than this, else so many seeded
            random ones, each a draw of the first group without replacement.
        seed: of the random ones.

    Raises:
        StatisticsError: a group without entities, or an unknown alternative.
    """
    _check_groups(len(scores), first, alternative)
    table = np.asarray(scores, dtype=np.float64).reshape(len(scores), -1)
    table - table.mean(axis=0)  # a constant shifts nothing; sums then lose fewer digits
    sizes = np.ones(len(table))
    if clusters is not None:
        codes, first = _codes(clusters, first)
        table, sizes = (sums_by(codes, part, int(codes.max()) + 1) for part in (table, sizes))
    count = len(table)
    labels, exact = _labellings(count, first, permutations, seed)
    welch = _Welch(table, sizes, first)
    observed = welch.statistics((np.arange(count) < first)[None].astype(np.float64))[0]
    exceedances = Exceedances(observed, alternative, _SAME * np.abs(observed) + TOLERANCE)
    for rows in labels:
        exceedances.add(welch.statistics(rows.astype(np.float64)))
    return TestResult(exceedances.p_values(exact=exact), alternative, exceedances.permutations, exact)


def sum_difference_test(
    scores: np.ndarray,
    first: int,
    *,
    clusters: np.ndarray | None = None,
    alternative: Alternative = "two-sided",
    permutations: int = 10_000,
    seed: int = 0,
) -> TestResult:
    """Test a difference of sums by exchanging labels: the sum over the first group minus that over the other one.

    The statistic of WEAT (Caliskan et al. 2017) and of DEAA (Beattie et al. 2023, eq. 3 and section 4.3.2). Unlike
    :func:`group_test` it is neither scaled by standard errors nor by the groups' sizes, so groups of unequal size are
    compared as they are; ``two-sided`` takes its size without its sign.

    Args:
        scores: (entities,); the first group's entities come first.
        first: size of the first group, at least 1 and less than the number of entities.
        clusters: (entities,) numbers of what is exchanged as a whole, as in :func:`group_test`.
        alternative: ``greater`` asks whether the difference is above what exchanged labels give.
        permutations: as in :func:`group_test`.
        seed: of the random ones.

    Raises:
        StatisticsError: a group without entities, or an unknown alternative.
    """
    _check_groups(len(scores), first, alternative)
    values = np.asarray(scores, dtype=np.float64)
    if clusters is not None:
        codes, first = _codes(clusters, first)
        values = sums_by(codes, values, int(codes.max()) + 1)
    total = values.sum()
    labels, exact = _labellings(len(values), first, permutations, seed)
    observed = 2 * values[:first].sum() - total
    # labellings that are as far sum the same values in another order, and would otherwise count by rounding alone
    exceedances = Exceedances(observed, alternative, 1e-11 * np.abs(values).sum())
    for rows in labels:
        exceedances.add(2 * (rows.astype(np.float64) @ values) - total)
    return TestResult(np.atleast_1d(exceedances.p_values(exact=exact)), alternative, exceedances.permutations, exact)


def _check_groups(count: int, first: int, alternative: Alternative) -> None:
    """Raise for an unknown alternative, or a group without entities."""
    check_alternative(alternative)
    if not 0 < first < count:
        raise StatisticsError(f"{first} of {count} entities in the first group: both groups need at least one")


def _codes(clusters: np.ndarray, first: int) -> tuple[np.ndarray, int]:
    """Return the number of each entity's cluster within its group, and the number of clusters in the first group."""
    keys = np.stack([np.arange(len(clusters)) >= first, clusters], axis=1)
    codes = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    return codes, int(codes[:first].max()) + 1


def _labellings(count: int, first: int, permutations: int, seed: int) -> tuple[Iterator[np.ndarray], bool]:
    """Return labellings in chunks of rows that are true in the first group, and True if they are all there are."""
    if math.comb(count, first) <= permutations:
        return _all_groups(count, first), True
    return _random_groups(np.random.default_rng(seed), permutations, count, first), False


class _Welch:
    """Welch's t of the means of two groups of clusters, of many labellings at once.

    Args:
        sums: (clusters, statistics) of centred scores.
        sizes: (clusters,) entities.
        first: clusters in the first group.
    """

    def __init__(self, sums: np.ndarray, sizes: np.ndarray, first: int) -> None:
        self._statistics = sums.shape[1]
        self._clusters = np.array([first, len(sums) - first])
        self._columns = np.column_stack([sizes, sizes**2, sums, sums**2, sums * sizes[:, None]])
        self._totals = self._columns.sum(axis=0)
        squares = (sums**2).sum(axis=0) / sizes.sum() ** 2
        self._least = np.where(squares > 0, _NO_SPREAD * squares, 1.0)

    def statistics(self, labels: np.ndarray) -> np.ndarray:
        """(labellings, statistics) from (labellings, clusters) rows that are 1 in the first group."""
        inside = labels @ self._columns
        means, variances = [], []
        for part, count in zip((inside, self._totals - inside), self._clusters, strict=True):
            size, square = part[:, :1], part[:, 1:2]
            sums, squares, crossed = np.split(part[:, 2:], 3, axis=1)
            mean = sums / size
            spread = np.maximum(squares - 2 * mean * crossed + mean**2 * square, 0.0)
            means.append(mean)
            variances.append(spread / size**2 * count / max(count - 1, 1))
        return np.asarray((means[0] - means[1]) / np.sqrt(np.maximum(variances[0] + variances[1], self._least)))


def sign_test(
    scores: np.ndarray, *, alternative: Alternative = "two-sided", permutations: int = 10_000, seed: int = 0
) -> TestResult:
    """Test if the mean score differs from 0 by more than chance; under the null every score may change its sign.

    Args:
        scores: (entities,) or (entities, statistics).
        alternative: ``greater`` asks whether the mean is above 0.
        permutations: number of seeded random signs; all 2ⁿ signs are used if they are fewer.
        seed: of the random ones.

    Raises:
        StatisticsError: an unknown alternative.
    """
    check_alternative(alternative)
    table = np.asarray(scores, dtype=np.float64).reshape(len(scores), -1)
    count = len(table)
    exact, drawn = signs(count, permutations, np.random.default_rng(seed))
    slack = 1e-11 * np.abs(table).max(axis=0)  # the same signs summed in another order are still as far
    exceedances = Exceedances(table.mean(axis=0), alternative, slack)
    for rows in drawn:
        exceedances.add((rows.astype(np.float64) @ table) / count)  # (rows, statistics)
    return TestResult(exceedances.p_values(exact=exact), alternative, exceedances.permutations, exact)


def signs(count: int, permutations: int, rng: np.random.Generator) -> tuple[bool, Iterator[np.ndarray]]:
    """Yield rows of 1s and -1s, (rows, count) at a time.

    Returns:
        True with all 2**count rows if these are at most ``permutations``; otherwise False with rows drawn by ``rng``.
    """
    if _can_enumerate(count, permutations):
        return True, (1 - 2 * flips for flips in _all_flips(count))
    return False, _random_signs(rng, permutations, count)


def relabelled(
    rng: np.random.Generator, mine: np.ndarray, strata: np.ndarray, permutations: int
) -> Iterator[np.ndarray]:
    """Labels that change places at random within strata, some permutations at a time.

    Args:
        rng: draws them.
        mine: (units,), true in the first group.
        strata: (units,) numbers; labels of different strata do not change places.
        permutations: how many in all.

    Yields:
        (rows, units) float32: 1 in the first group, 0 outside.
    """
    inside = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    for rows in blocks(permutations, len(mine)):
        drawn = np.zeros((rows, len(mine)), dtype=np.float32)
        for members in inside:
            drawn[:, members] = rng.permuted(np.tile(mine[members], (rows, 1)), axis=1)
        yield drawn


def _can_enumerate(count: int, permutations: int) -> bool:
    """True if all 2**count swaps or signs are at most the permutations asked for."""
    return count < 63 and 2**count <= permutations


def _all_flips(count: int) -> Iterator[np.ndarray]:
    """Return all rows of 0s and 1s."""
    done = 0
    for rows in blocks(2**count, count):
        yield (np.arange(done, done + rows)[:, None] >> np.arange(count)) & 1
        done += rows


def _random_signs(rng: np.random.Generator, permutations: int, count: int) -> Iterator[np.ndarray]:
    for rows in blocks(permutations, count):
        packed = np.frombuffer(rng.bytes(rows * -(-count // 8)), dtype=np.uint8).reshape(rows, -1)
        yield 1 - 2 * np.unpackbits(packed, axis=1, count=count).astype(np.int8)


def _all_groups(count: int, first: int) -> Iterator[np.ndarray]:
    groups = combinations(range(count), first)
    while chosen := list(islice(groups, max(1, BLOCK // count))):
        labels = np.zeros((len(chosen), count), dtype=np.uint8)
        np.put_along_axis(labels, np.array(chosen), 1, axis=1)
        yield labels


def _random_groups(rng: np.random.Generator, permutations: int, count: int, first: int) -> Iterator[np.ndarray]:
    for rows in blocks(permutations, count):
        if first <= count - first:
            yield random_groups(rng, rows, count, first)
        else:
            yield 1 - random_groups(rng, rows, count, count - first)


def random_groups(rng: np.random.Generator, rows: int, count: int, size: int) -> np.ndarray:
    """Rows of 0s and 1s with exactly ``size`` 1s, every such row equally likely, (rows, count) uint8.

    Every place is first drawn on its own with a probability near size / count; then places drawn at random are turned
    until the row has ``size`` 1s. A row of independent draws is, given how many 1s it has, uniform; so is what is left
    after taking away or adding members at random. This is several times faster than shuffling rows.
    """
    # Turning a 1 off is slow where 1s are rare (places are tried at random), so such rows start with too few.
    aim = size if 10 * size >= count else max(0.0, size - 3 * math.sqrt(size))
    threshold = int(256 * aim / count)  # a byte is below it with a probability close enough to aim / count
    drawn = np.frombuffer(rng.bytes(rows * count), dtype=np.uint8).reshape(rows, count)
    labels = (drawn < threshold).view(np.uint8)
    surplus = labels.sum(axis=1, dtype=np.int64) - size
    open_rows = np.flatnonzero(surplus)
    while len(open_rows):
        places = rng.integers(0, count, size=len(open_rows))
        wrong = labels[open_rows, places] == (surplus[open_rows] > 0)  # a 1 where there are too many, 0 where too few
        at, columns = open_rows[wrong], places[wrong]
        labels[at, columns] ^= 1
        surplus[at] -= np.sign(surplus[at])
        open_rows = open_rows[surplus[open_rows] != 0]
    return labels
