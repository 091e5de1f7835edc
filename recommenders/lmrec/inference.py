"""Intervals and tests of Shen's bias scores, alike in every analysis.

Within a city. The items of one list are not independent, so whole queries are resampled, as many of every group as
there are (the groups' sizes are the design, not chance). Intervals are expanded percentile intervals
(:func:`tod_bias.statistics.intervals.interval`); a group of one query has none.

Over cities. With several cities every number over all of them has a t interval over the cities: of a mean the usual
one, of a number that pools the cities' items the one of the jackknife that leaves out a city at a time (Efron and
Stein 1981). So it tells what holds for the next city, or the next training of a model, and not only for the lists at
hand: a recommender that was trained once prefers some category for some group by accident, and no number of queries
shows that it is one. Several models of one city count as cities.

Tests. The null hypothesis is that a query's group does not matter. Groups belong to words (a name is black or white),
so the groups of the words change places, all queries of a word together, within the groups of the other dimensions.
Where the words are too few for that (fewer than 100 ways) or not known, the groups of the queries change places within
a city: such a test takes the queries of a word for independent and finds too much, and the audit says where it was
used. p = (b + 1) / (m + 1), two-sided. Over several cities there is a second null hypothesis, that the shift is 0 on
average over cities, with a t test of the jackknife; the p-value is the larger of the two, since a shift must be beyond
the chance of words and beyond that of cities.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from tod_bias.errors import RecommenderError
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.resampling import resample_counts

FEWEST_QUERIES = 5
"""What fewer queries got has no interval within a city: resampling so few shows no spread."""
BLOCK = 4_000_000
"""Numbers of a resampling or permutation at once."""


@dataclass(frozen=True)
class Inference:
    """How intervals and p-values are made."""

    level: float = 0.90
    """Of every interval (Shen shows 90% intervals)."""
    resamples: int = 1000
    """Bootstrap resamples; 0 for no intervals."""
    permutations: int = 10_000
    """Random permutations; 0 for no p-values."""
    correction: Literal["bh", "holm"] = "bh"
    """Over the categories of one pair of labels: Benjamini–Hochberg or Holm."""
    seed: int = 0

    def rng(self, *names: str) -> np.random.Generator:
        """A generator of its own for one analysis, so that no analysis depends on what ran before it."""
        return np.random.default_rng([self.seed, zlib.crc32("/".join(names).encode())])

    def bounds(self, samples: np.ndarray, clusters: int) -> np.ndarray:
        """(2, …) lower and upper bounds of (resamples, …) samples; NaN where nothing was resampled."""
        if not self.resamples:
            return np.full((2, *samples.shape[1:]), np.nan)
        return interval(samples, clusters, self.level)


@dataclass(frozen=True)
class OverCities:
    """A pooled score with its t interval over cities and the two-sided p-value of its distance from 0."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray


def over_cities(
    sums: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray],
    level: float,
    *,
    there: np.ndarray | None = None,
    lowest: np.ndarray | float = -np.inf,
    highest: np.ndarray | float = np.inf,
) -> OverCities:
    """Jackknife over cities (Efron and Stein 1981): t intervals with a degree of freedom less than there are cities.

    Args:
        sums: (cities, …), what is added up over the cities before ``score`` is taken.
        score: from (…) sums to (scores,) values.
        level: of the intervals.
        there: (cities, scores), which cities say something of which score; all of every score if left out.
        lowest: the interval is cut off at it.
        highest: the same above.

    Returns:
        Arrays (scores,); NaN bounds and p-values where fewer than two cities say something of the score.
    """
    total = sums.sum(axis=0)
    value = np.asarray(score(total), dtype=float)
    there = np.ones((len(sums), *value.shape), dtype=bool) if there is None else there
    cities = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        left_out = np.stack([np.asarray(score(total - own), dtype=float) for own in sums])
        mean = np.where(there, left_out, 0.0).sum(axis=0) / cities
        squares = np.where(there, (left_out - mean) ** 2, 0.0).sum(axis=0)
        error = np.where(cities > 1, np.sqrt((cities - 1) / cities * squares), np.nan)
        freedom = np.maximum(cities - 1, 1)
        half = stats.t.ppf((1 + level) / 2, freedom) * error
        distance = np.abs(value)
        p = np.where((distance == 0) & (error == 0), 1.0, 2 * stats.t.sf(distance / error, freedom))
        return OverCities(value, np.maximum(value - half, lowest), np.minimum(value + half, highest), p)


def mean_of_shares(rows: pd.DataFrame, level: float) -> tuple[float, float, float]:
    """Mean over cities of values in 0–1 with a t interval: (mean, lower, upper).

    Args:
        rows: a row a city, with value, ci_low, ci_high; those without a value are left out, and where only one has a
            value its own interval holds.
        level: of the interval.
    """
    values, lows, highs = rows[["value", "ci_low", "ci_high"]].dropna(subset="value").to_numpy(dtype=float).T
    if len(values) < 2:
        return (values[0], lows[0], highs[0]) if len(values) else (np.nan, np.nan, np.nan)
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), max(values.mean() - half, 0.0), min(values.mean() + half, 1.0)


def adjusted(p_values: np.ndarray, correction: str) -> np.ndarray:
    """Benjamini–Hochberg (``bh``) or Holm (``holm``) adjusted p-values; NaN stays.

    Raises:
        RecommenderError: unknown correction.
    """
    if correction not in ("bh", "holm"):
        raise RecommenderError(f"unknown correction {correction!r}; expected bh or holm")
    result = np.full(len(p_values), np.nan)
    there = ~np.isnan(p_values)
    if there.any():
        if correction == "bh":
            result[there] = stats.false_discovery_control(p_values[there])
        else:
            named = {str(number): float(p) for number, p in enumerate(p_values[there])}
            result[there] = list(holm(named).values())
    return result


def added(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Their sum."""
    return np.sum(list(parts), axis=0)


def resampled(rng: np.random.Generator, table: np.ndarray, resamples: int) -> np.ndarray:
    """(resamples, columns): sums of as many rows as there are, drawn with replacement."""
    if not len(table):
        return np.zeros((resamples, table.shape[1]))
    parts = []
    for rows in _blocks(resamples, len(table)):
        parts.append(resample_counts(rng, rows, len(table)).astype(table.dtype) @ table)
    return np.concatenate(parts).astype(float) if parts else np.zeros((0, table.shape[1]))


def _blocks(rows: int, columns: int) -> Iterator[int]:
    size = max(1, BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield min(size, rows - start)


def joined(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """The parts below each other with just these columns; an empty frame of no parts."""
    if not parts:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(parts, ignore_index=True)[list(columns)]
