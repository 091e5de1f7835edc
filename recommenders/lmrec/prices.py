"""Prices: Shen's price percentage score (eq. 1) and the average price level (Fig. 8) of what is recommended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.inference import FEWEST_QUERIES, SHEN, added, joined, mean_of_shares
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.recommenders.lmrec.venue import LEVELS
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.permutation import Exceedances, relabelled
from tod_bias.statistics.resampling import resampled
from tod_bias.statistics.settings import Inference

_KEPT = 16
"""Permutations of so many sizes are kept, at most 16 MB each."""


def price_percentage(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Price percentage score, Shen eq. 1: P(l | m) = |I_{l,m}| / |I_m|, for every dimension and intersection.

    The share of label l among the recommended items of price level m; range 0–1, summing to 1 over the labels; NaN
    where no item of the level was recommended. ``neutral`` is the value if recommendations did not depend on the label:
    its share of the lists. In the rows of city ``all``, value and neutral are means over the cities that have lists of
    every label. A level of which fewer than five queries got an item has no interval within a city.

    Returns:
        city, dimension, label, price, value, ci_low, ci_high, neutral, items (|I_m|).
    """
    how = inference or SHEN
    made = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        labels = recommendations.labels(dimension)
        cities = [
            _price_percentage(own, labels, str(city), dimension, how) for city, own in rows.groupby("city", sort=False)
        ]
        whole = [own for own in cities if (own["neutral"] > 0).all()] or cities
        made += [*cities, _mean_over_cities(whole, how.level)]
    columns = ["city", "dimension", "label", "price", "value", "ci_low", "ci_high", "neutral", "items"]
    return joined(made, columns)


def _price_percentage(
    rows: pd.DataFrame, labels: Sequence[str], city: str, dimension: str, how: Inference
) -> pd.DataFrame:
    tables = []
    for label in labels:
        own = rows[rows["group"] == label]
        units = pd.factorize(own["unit"])[0]
        table = np.zeros((units.max(initial=-1) + 1, len(LEVELS)))
        priced = own["price"].notna().to_numpy()
        np.add.at(table, (units[priced], own["price"].to_numpy()[priced].astype(int) - 1), 1.0)
        tables.append(table)
    lists = np.array([len(table) for table in tables], dtype=float)
    counts = np.array([table.sum(axis=0) for table in tables])  # (labels, levels)
    rng = how.rng("price", city, dimension)
    samples = np.stack(
        [resampled(rng, table, how.resamples) for table in tables], axis=1
    )  # (resamples, labels, levels)
    low, high = how.bounds(_shares(samples), int(lists.min()))
    few = sum((table > 0).sum(axis=0) for table in tables) < FEWEST_QUERIES
    low[:, few] = high[:, few] = np.nan
    value = _shares(counts[None])[0]
    return pd.DataFrame(
        {
            "city": city,
            "dimension": dimension,
            "label": np.repeat(labels, len(LEVELS)),
            "price": np.tile(LEVELS, len(labels)),
            "value": value.ravel(),
            "ci_low": low.ravel(),
            "ci_high": high.ravel(),
            "neutral": np.repeat(lists / lists.sum(), len(LEVELS)),
            "items": np.tile(counts.sum(axis=0).astype(int), len(labels)),
        }
    )


def _shares(counts: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=-2, keepdims=True)


def _mean_over_cities(cities: Sequence[pd.DataFrame], level: float) -> pd.DataFrame:
    """The mean of the cities' values with a t interval; where only one city has a value, its own interval."""
    whole = pd.concat(cities, ignore_index=True)
    rows = []
    for key, own in whole.groupby(["dimension", "label", "price"], sort=False):
        mean = mean_of_shares(own, level)
        rows.append((ALL, *key, *mean, own["neutral"].mean(), own["items"].sum()))
    columns = ["city", "dimension", "label", "price", "value", "ci_low", "ci_high", "neutral", "items"]
    return pd.DataFrame(rows, columns=columns)


def average_price(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Average price level of what is recommended for each substitution (Shen §4.7, Fig. 8); range 1–4.

    The mean over all recommended items that have a price, of all queries with the word. City ``all`` pools the items of
    all cities; its interval is over the cities. ``neutral`` is the same mean for neutralised queries (those marked with
    the word, else of its kind), NaN where there are none.

    Returns:
        city, substitution, queries, value, ci_low, ci_high, neutral, items.
    """
    how = inference or SHEN
    rows = recommendations.distinct
    rows = rows[rows["substitution"] != ""]
    made = []
    for city in [*recommendations.cities, ALL]:
        own = rows if city == ALL else rows[rows["city"] == city]
        reference = recommendations.neutral
        reference = reference if city == ALL else reference[reference["city"] == city]
        for word, mine in own.groupby("substitution", sort=False):
            strata = [_price_sums(part) for _, part in mine.groupby("city", sort=False)]
            total = added(table.sum(axis=0) for table in strata)
            if len(strata) > 1:
                sums = np.stack([table.sum(axis=0) for table in strata])
                over = jackknife(sums, _quotient, how.level, lowest=LEVELS[0], highest=LEVELS[-1])
                low, high = over.low, over.high
            else:
                samples = resampled(how.rng("average", str(mine["city"].iloc[0]), str(word)), strata[0], how.resamples)
                low, high = how.bounds(_quotient(samples), len(strata[0]))
            same = reference[reference["substitution"] == word]
            if same.empty and not reference.empty:
                kinds = set(mine["kind"])
                same = reference[reference["kind"].isin(kinds)]
            made.append(
                {
                    "city": city,
                    "substitution": word,
                    "queries": mine["unit"].nunique(),
                    "value": float(_quotient(total)),
                    "ci_low": float(low),
                    "ci_high": float(high),
                    "neutral": float(same["price"].mean()) if len(same) else math.nan,
                    "items": int(total[1]),
                }
            )
    columns = ["city", "substitution", "queries", "value", "ci_low", "ci_high", "neutral", "items"]
    return pd.DataFrame(made, columns=columns)


def price_differences(
    recommendations: Recommendations,
    words: Sequence[str],
    inference: Inference | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Differences of average price between every two of some substitutions, over all cities.

    Two words of a rank chart may have intervals that overlap and still differ, or the other way round: this is the
    comparison itself. Within a city queries are resampled, and in the test the queries of the two words change places;
    over several cities interval and test are also over the cities (:mod:`tod_bias.recommenders.lmrec.inference`).

    Args:
        recommendations: the tidy frame.
        words: the substitutions.
        inference: of intervals and tests.
        kinds: word → its kind (location, religion, …). The pairs of the same two kinds are one family of tests, so that
            three places of worship do not answer for four hundred pairs of shops; all pairs are one where left out.

    Returns:
        substitution, other, difference, ci_low, ci_high, p_value, p_adjusted (over the pairs of a family).
    """
    how = inference or SHEN
    rows = recommendations.distinct
    tables: dict[str, dict[str, np.ndarray]] = {}
    for word in words:
        own = rows[rows["substitution"] == word].groupby("city", sort=False)
        if own.ngroups:
            tables[word] = {str(city): _price_sums(part) for city, part in own}
    samples = {
        word: resampled(how.rng("differences", word), next(iter(strata.values())), how.resamples)
        for word, strata in tables.items()
        if len(strata) == 1
    }
    made = []
    kept: dict[str, np.ndarray] = {}
    for word, other in combinations(tables, 2):
        pair = tables[word], tables[other]
        cities = list(dict.fromkeys([*pair[0], *pair[1]]))
        sums = np.stack([[table.get(city, np.zeros((0, 2))).sum(axis=0) for table in pair] for city in cities])
        over = jackknife(sums, _price_difference, how.level)
        low, high, p = over.low, over.high, _price_test(*pair, how, kept)
        if len(cities) == 1:
            low, high = how.bounds(
                _quotient(samples[word]) - _quotient(samples[other]), min(len(table[cities[0]]) for table in pair)
            )
        elif how.permutations:
            p = float(np.maximum(p, over.p_value))
        made.append((word, other, float(over.value), float(low), float(high), p))
    frame = pd.DataFrame(made, columns=["substitution", "other", "difference", "ci_low", "ci_high", "p_value"])
    p_values = frame["p_value"].to_numpy(dtype=float)
    p_adjusted = np.full(len(frame), np.nan)
    named = zip(frame["substitution"], frame["other"], strict=True)
    families = pd.factorize(pd.Series([str(sorted((kinds or {}).get(word, "") for word in pair)) for pair in named]))[0]
    for family in np.unique(families):
        own = families == family
        p_adjusted[own] = adjusted(p_values[own], how.correction)
    return frame.assign(p_adjusted=p_adjusted)


def _price_difference(sums: np.ndarray) -> np.ndarray:
    return _quotient(sums[0]) - _quotient(sums[1])


def _price_test(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], how: Inference, kept: dict[str, np.ndarray]
) -> float:
    """Two-sided; the queries of the two words change places within a city. NaN where a word has no price."""
    total = added(table.sum(axis=0) for table in (*first.values(), *second.values()))
    observed = added(table.sum(axis=0) for table in first.values())
    distance = abs(_quotient(observed) - _quotient(total - observed))
    if not how.permutations or np.isnan(distance):
        return math.nan
    moved = np.zeros((how.permutations, 2))
    for city in {**first, **second}:
        own, other = (table.get(city, np.zeros((0, 2))) for table in (first, second))
        moved += _moved(np.concatenate([own, other]), len(own), city, how, kept)
    distances = np.abs(_quotient(moved) - _quotient(total - moved))
    found = Exceedances(float(distance))
    found.add(np.where(np.isnan(distances), np.inf, distances))  # a word left without prices is as far as can be
    return float(found.p_values())


def _moved(table: np.ndarray, size: int, city: str, how: Inference, kept: dict[str, np.ndarray]) -> np.ndarray:
    """(permutations, 2): sums of ``size`` rows of a table, drawn anew each time.

    Tables of one size see the same draws, which ``kept`` holds while they are few and small.
    """
    key = f"{city}/{size}/{len(table)}"
    if key in kept:
        return kept[key] @ table
    mine = np.arange(len(table)) < size
    parts = []
    for drawn in relabelled(how.rng("difference", key), mine, np.zeros(len(table)), how.permutations):
        parts.append(drawn @ table)
        if len(drawn) == how.permutations and len(kept) < _KEPT:
            kept[key] = drawn
    return np.concatenate(parts)


def _price_sums(rows: pd.DataFrame) -> np.ndarray:
    """(queries, 2): sum of prices and number of items with a price."""
    units = pd.factorize(rows["unit"])[0]
    table = np.zeros((units.max(initial=-1) + 1, 2))
    prices = rows["price"].to_numpy(dtype=float)
    there = ~np.isnan(prices)
    np.add.at(table, units[there], np.stack([prices[there], np.ones(int(there.sum()))], axis=1))
    return table


def _quotient(sums: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]
