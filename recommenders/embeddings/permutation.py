"""Permutation tests of many scores at once, as products of label matrices with score matrices.

Two groups: under the null hypothesis that group labels are exchangeable, every choice of who is in the first group is
equally likely. The sum over a random first group is a row of 0s and 1s times the scores, so 10,000 permutations of all
metrics are one matrix product, made in blocks. One group: under the null hypothesis that scores are symmetric about 0,
every score may change its sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from tod_bias.errors import EmbeddingsError

Alternative = Literal["two-sided", "greater", "less"]
_BLOCK = 4_000_000
"""Labels that are in memory at once."""


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
        """One statistic's p-value with what it rests on, as JSON."""
        return {
            "p_value": float(self.p_values[number]),
            "alternative": self.alternative,
            "permutations": self.permutations,
            "exact": self.exact,
        }


def check_alternative(alternative: str) -> None:
    """Raises EmbeddingsError for an unknown alternative."""
    if alternative not in get_args(Alternative):
        raise EmbeddingsError(f"alternative {alternative!r}: expected {', '.join(get_args(Alternative))}")


def group_test(
    scores: np.ndarray,
    first: int,
    *,
    alternative: Alternative = "two-sided",
    permutations: int = 10_000,
    seed: int = 0,
) -> TestResult:
    """Is the mean score of a group other than that of the rest by more than chance?

    The statistic is the difference of the two means. For given sizes it orders the labellings as the difference of
    sums (DEAA) does; unlike DEAA it is centred at 0 when the sizes differ, which a two-sided test needs.

    Args:
        scores: (entities,) or (entities, statistics); the first group's entities come first.
        first: size of the first group, at least 1 and less than the number of entities.
        alternative: ``greater`` asks whether the first group's mean is larger.
        permutations: all C(n, first) labellings where they are no more than this, else so many seeded random ones, each
            a draw of the first group without replacement.
        seed: of the random ones.

    Returns:
        p = (b + 1) / (m + 1) for b of m random labellings at least as far; b / m where all were enumerated.
    """
    check_alternative(alternative)
    table = np.asarray(scores, dtype=np.float64).reshape(len(scores), -1)
    count = len(table)
    if not 0 < first < count:
        raise EmbeddingsError(f"{first} of {count} entities in the first group: both groups need at least one")
    table = table - table.mean(axis=0)  # a constant shifts nothing; sums then lose fewer digits
    factor = 1 / first + 1 / (count - first)  # mean(first) - mean(rest) of centred scores, per unit of the sum
    observed = table[:first].sum(axis=0) * factor
    exact = math.comb(count, first) <= permutations
    rng = np.random.default_rng(seed)
    blocks = _all_groups(count, first) if exact else _random_groups(rng, permutations, count, first)
    further, done = _count(blocks, table, factor, observed, alternative)
    return TestResult(further / done if exact else (further + 1) / (done + 1), alternative, done, exact)


def sign_test(
    scores: np.ndarray, *, alternative: Alternative = "two-sided", permutations: int = 10_000, seed: int = 0
) -> TestResult:
    """Is the mean score other than 0 by more than chance? Under the null every score may change its sign.

    Args:
        scores: (entities,) or (entities, statistics).
        alternative: ``greater`` asks whether the mean is above 0.
        permutations: all 2ⁿ signs where they are no more than this, else so many seeded random ones.
        seed: of the random ones.
    """
    check_alternative(alternative)
    table = np.asarray(scores, dtype=np.float64).reshape(len(scores), -1)
    count = len(table)
    exact = count < 63 and 2**count <= permutations
    rng = np.random.default_rng(seed)
    blocks = _all_signs(count) if exact else _random_signs(rng, permutations, count)
    further, done = _count(blocks, table, 1 / count, table.mean(axis=0), alternative)
    return TestResult(further / done if exact else (further + 1) / (done + 1), alternative, done, exact)


def _count(
    blocks: Iterator[np.ndarray], table: np.ndarray, factor: float, observed: np.ndarray, alternative: Alternative
) -> tuple[np.ndarray, int]:
    slack = 1e-11 * np.abs(table).max(axis=0)  # the same labelling summed in another order is still as far
    further, done = np.zeros(table.shape[1]), 0
    for labels in blocks:
        values = (labels.astype(np.float64) @ table) * factor  # (rows, statistics)
        if alternative == "two-sided":
            hits = np.abs(values) >= np.abs(observed) - slack
        elif alternative == "greater":
            hits = values >= observed - slack
        else:
            hits = values <= observed + slack
        further += hits.sum(axis=0)
        done += len(labels)
    return further, done


def _rows(rows: int, columns: int) -> Iterator[int]:
    size = max(1, _BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield min(size, rows - start)


def _all_groups(count: int, first: int) -> Iterator[np.ndarray]:
    groups = combinations(range(count), first)
    while chosen := list(islice(groups, max(1, _BLOCK // count))):
        labels = np.zeros((len(chosen), count), dtype=np.uint8)
        np.put_along_axis(labels, np.array(chosen), 1, axis=1)
        yield labels


def _all_signs(count: int) -> Iterator[np.ndarray]:
    done = 0
    for rows in _rows(2**count, count):
        flips = (np.arange(done, done + rows)[:, None] >> np.arange(count)) & 1
        yield 1 - 2 * flips
        done += rows


def _random_signs(rng: np.random.Generator, permutations: int, count: int) -> Iterator[np.ndarray]:
    for rows in _rows(permutations, count):
        packed = np.frombuffer(rng.bytes(rows * -(-count // 8)), dtype=np.uint8).reshape(rows, -1)
        yield 1 - 2 * np.unpackbits(packed, axis=1, count=count).astype(np.int8)


def _random_groups(rng: np.random.Generator, permutations: int, count: int, first: int) -> Iterator[np.ndarray]:
    for rows in _rows(permutations, count):
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
        at, there = open_rows[wrong], places[wrong]
        labels[at, there] ^= 1
        surplus[at] -= np.sign(surplus[at])
        open_rows = open_rows[surplus[open_rows] != 0]
    return labels


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
        alternative: as in :func:`group_test`.
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
    found: dict[str, Any] = {"p_value": None, "size": length, "subsamples": [len(part) for part in means]}
    if min(map(len, means)) >= 2:
        outcome = stats.mannwhitneyu(*means, alternative=alternative)
        found |= {"p_value": float(outcome.pvalue), "statistic": float(outcome.statistic)}
    return found
