"""Shares of price levels: Shen's price percentage score (eq. 1), with intervals and tests over words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.recommenders.lmrec.design import WordCount, crossing_of, exchange, fewest_clusters, queries_of, word_count
from tod_bias.recommenders.lmrec.inference import FEWEST_QUERIES, SHEN, joined
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.recommenders.lmrec.venue import LEVELS
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.crossed import Spread, crossed_sums, crossed_variance
from tod_bias.statistics.permutation import Exceedances, relabelled
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = [
    "city", "dimension", "label", "price", "value", "ci_low", "ci_high", "neutral", "items", "p_value", "p_adjusted",
    "p_permutation", "p_crossed", "p_cities", "permuted", "words",
]  # fmt: skip


def price_percentage(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Price percentage score, Shen eq. 1: P(l | m) = |I_{l,m}| / |I_m|, for every dimension and intersection.

    The share of label l among the recommended items of price level m; range 0–1, summing to 1 over the labels; NaN
    where no item of the level was recommended. Items without a price are in none of its counts. ``neutral`` is the
    value if the price of what is recommended did not depend on the label: its share of all recommended items that have
    a price (not of all items: a label whose items often have none has a smaller share of every level, whatever it is
    recommended). In the rows of city ``all``, value and neutral are means over the cities that have lists of every
    label and items of the level.

    Intervals are of the value. Within a city they are from the pigeonhole bootstrap of words and templates; over
    several cities the wider of a t interval over the cities and one over cities, words and templates. A level of which
    fewer than five queries got an item has none within a city, and neither has a dimension with a label of fewer than
    five words.

    Tests are of value − neutral: labels of words change places (or of queries, see ``permuted``), and a t test over
    words and templates (and cities). What differs from neutral beyond chance is told by ``p_adjusted``.

    Returns:
        city, dimension, label, price, value, ci_low, ci_high, neutral, items (|I_m|), p_value (the largest of the next
        three), p_adjusted (over the labels and levels of a dimension), p_permutation, p_crossed, p_cities (over several
        cities), permuted (``words`` or ``queries``), words (effective number, of the label with the fewest).
    """
    how = inference or SHEN
    made: list[pd.DataFrame] = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        labels = recommendations.labels(dimension)
        cities = {str(city): _units(own, labels) for city, own in rows.groupby("city", sort=False)}
        test = (dimension, recommendations.dimensions, how)
        parts = {city: _of_city(units, city, *test) for city, units in cities.items()}
        whole = [city for city, units in cities.items() if units.complete] or list(cities)
        made += parts.values()
        if len(whole) == 1:
            made.append(parts[whole[0]].assign(city=ALL))
        else:
            units = _units(rows[rows["city"].isin(whole)], labels)
            made.append(_over_cities(units, [parts[city] for city in whole], *test))
    return joined(made, _COLUMNS)


@dataclass(frozen=True)
class _Units:
    """Queries with a group, and how many items of each price level they were recommended."""

    frame: pd.DataFrame
    codes: np.ndarray  # (queries,) numbers of their labels
    city: np.ndarray  # (queries,) numbers of their cities
    table: np.ndarray  # (queries, levels)
    labels: Sequence[str]

    @cached_property
    def counts(self) -> np.ndarray:
        """(cities, labels, levels) items."""
        found = np.zeros((self.city.max(initial=-1) + 1, len(self.labels), len(LEVELS)))
        np.add.at(found, (self.city, self.codes), self.table)
        return found

    @property
    def complete(self) -> bool:
        """Whether every label has a list."""
        return len(np.unique(self.codes)) == len(self.labels)


def _units(rows: pd.DataFrame, labels: Sequence[str]) -> _Units:
    import pandas as pd

    numbers, frame = queries_of(rows)
    table = np.zeros((len(frame), len(LEVELS)))
    priced = rows["price"].notna().to_numpy()
    np.add.at(table, (numbers[priced], rows["price"].to_numpy()[priced].astype(int) - 1), 1.0)
    codes = np.asarray(pd.Categorical(frame["group"], categories=list(labels)).codes)
    return _Units(frame, codes, pd.factorize(frame["city"])[0], table, labels)


@dataclass(frozen=True)
class _Tests:
    """(labels, levels) p-values of value − neutral, before cities are looked at, and what they rest on."""

    permutation: np.ndarray
    crossed: np.ndarray
    half: np.ndarray
    """Half the length of the t interval of the value over words and templates (and cities)."""
    permuted: str
    count: WordCount


def _shares(counts: np.ndarray) -> np.ndarray:
    """Eq. 1 from (…, labels, levels) counts."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts / counts.sum(axis=-2, keepdims=True))


def _neutral(counts: np.ndarray) -> np.ndarray:
    """(…, labels, levels): each label's share of the priced items, at every level."""
    priced = counts.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.broadcast_to(priced / priced.sum(axis=-2, keepdims=True), counts.shape)


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is there; NaN of nothing."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, values, 0.0).sum(axis=0) / there.sum(axis=0))


def _of_city(units: _Units, city: str, dimension: str, dimensions: Sequence[str], how: Inference) -> pd.DataFrame:
    counts = units.counts.sum(axis=0)
    tests = _tests(units, dimension, dimensions, how, city)
    design = crossing_of(units.frame, units.codes)
    there = np.unique(units.codes)  # a city may have no lists of some label
    samples = np.zeros((how.resamples, *counts.shape))
    samples[:, there] = crossed_sums(how.rng("price", city, dimension), units.table, design, how.resamples)
    clusters = min(fewest_clusters(design.ways, units.codes == number) for number in there)
    bounds = how.bounds(_shares(samples), clusters)
    bounds[..., (units.table > 0).sum(axis=0) < FEWEST_QUERIES] = np.nan
    value, neutral = _shares(counts), _neutral(counts)
    return _rows(units, city, dimension, value, neutral, bounds, np.full(value.shape, np.nan), tests, how)


def _over_cities(
    units: _Units, single: Sequence[pd.DataFrame], dimension: str, dimensions: Sequence[str], how: Inference
) -> pd.DataFrame:
    """Means over the cities, whose own rows are ``single``."""
    each = _shares(units.counts)  # (cities, labels, levels)
    neutrals = np.where(np.isnan(each), np.nan, _neutral(units.counts))
    value, neutral = _mean(each), _mean(neutrals)
    tests = _tests(units, dimension, dimensions, how, ALL)
    half = np.fmax(_over(each).half(how.level), tests.half)
    bounds = np.clip(np.stack([value - half, value + half]), 0.0, 1.0)
    alone = (~np.isnan(each)).sum(axis=0) == 1  # a level that one city alone has keeps that city's interval
    for own in single:
        mine = alone & own["value"].notna().to_numpy().reshape(value.shape)
        for place, name in enumerate(("ci_low", "ci_high")):
            bounds[place][mine] = own[name].to_numpy(dtype=float).reshape(value.shape)[mine]
    p_cities = _over(each - neutrals).p_values(value - neutral)
    return _rows(units, ALL, dimension, value, neutral, bounds, p_cities, tests, how)


def _over(values: np.ndarray) -> Spread:
    """Of the mean over (cities, …) values; NaN where fewer than two cities have one."""
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    squares = np.where(there, (values - _mean(values)) ** 2, 0.0).sum(axis=0)
    freedom = np.maximum(count - 1, 1)
    return Spread(np.where(count > 1, squares / freedom / np.maximum(count, 1), np.nan), freedom)


def _tests(units: _Units, dimension: str, dimensions: Sequence[str], how: Inference, city: str) -> _Tests:
    """Words (or queries) exchanged, and the multiway variance."""
    counts = units.counts
    each, neutral = _shares(counts), _neutral(counts)
    there = ~np.isnan(each)
    lean = _mean(np.where(there, each - neutral, np.nan))
    count = word_count(units.frame, units.table.sum(axis=1))
    design = crossing_of(units.frame, units.codes, cities=len(counts) > 1, words=count.enough)
    of_value, of_lean = _influences(units, each, neutral)
    flat = np.concatenate([of_value, of_lean], axis=1).reshape(len(units.table), -1)
    spread = crossed_variance(flat, design)
    half, _ = spread.half(how.level).reshape(2, *lean.shape)
    p_crossed = spread.p_values(np.tile(lean.ravel(), 2)).reshape(2, *lean.shape)[1]
    p, permuted = np.full(lean.shape, np.nan), ""
    if how.permutations:
        two = len(units.labels) == 2  # what one of two labels has the other one has not
        for number, label in enumerate(units.labels[: 1 if two else None]):
            p[number], permuted = _permutation_test(units, number, label, dimension, dimensions, how, city)
        if two:
            p[1] = p[0]
    else:
        p_crossed = np.full(lean.shape, np.nan)
    p, p_crossed = (np.where(np.isnan(lean), np.nan, own) for own in (p, p_crossed))
    return _Tests(p, p_crossed, half, permuted, count)


def _influences(units: _Units, each: np.ndarray, neutral: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far each query moves value, and value − neutral, each (queries, labels, levels).

    A share x / n moves by (xᵢ − share nᵢ) / n, and a mean over cities by so much over their number.
    """
    mine = (units.codes[:, None] == np.arange(len(units.labels)))[:, :, None]  # (queries, labels, 1)
    table, totals = units.table[:, None, :], units.counts.sum(axis=1)  # (queries, 1, levels), (cities, levels)
    priced = table.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_value = table * (mine - each[units.city]) / totals[units.city][:, None, :]
        of_neutral = priced * (mine - neutral[units.city]) / totals.sum(axis=-1)[units.city][:, None, None]
        cities = (totals > 0).sum(axis=0)
        there = (totals > 0)[units.city][:, None, :]
        of_value = np.where(there, of_value, 0.0) / cities
        of_neutral = np.where(there, of_neutral, 0.0) / cities
    return of_value, of_value - of_neutral


def _permutation_test(
    units: _Units, number: int, label: str, dimension: str, dimensions: Sequence[str], how: Inference, city: str
) -> tuple[np.ndarray, str]:
    """Two-sided p-values of value − neutral of one label at every level, and what was permuted."""
    moves = exchange(units.frame, units.codes == number, dimension, dimensions)
    shape = units.counts.shape[0], len(LEVELS)
    wide = np.zeros((len(units.table), *shape))  # (queries, cities, levels)
    wide[np.arange(len(wide)), units.city] = units.table
    table = moves.summed(wide.reshape(len(wide), -1))
    totals = units.counts.sum(axis=1)

    def distances(sums: np.ndarray) -> np.ndarray:
        own = sums.reshape(-1, *shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            lean = own / totals - (own.sum(axis=-1) / totals.sum(axis=-1))[..., None]
        return np.abs(_mean(np.moveaxis(lean, 1, 0)))

    found = Exceedances(distances(table[moves.mine].sum(axis=0, dtype=float)[None])[0])
    for drawn in relabelled(how.rng("price test", city, dimension, label), moves.mine, moves.strata, how.permutations):
        found.add(distances((drawn @ table).astype(float)))
    return found.p_values(), moves.permuted


def _rows(
    units: _Units,
    city: str,
    dimension: str,
    value: np.ndarray,
    neutral: np.ndarray,
    bounds: np.ndarray,
    p_cities: np.ndarray,
    tests: _Tests,
    how: Inference,
) -> pd.DataFrame:
    import pandas as pd

    labels = units.labels
    if not tests.count.enough_for_intervals:
        bounds = np.full(bounds.shape, np.nan)
    p_value = np.fmax(tests.permutation, tests.crossed)
    if city == ALL:
        p_value = np.maximum(p_value, p_cities)
    p_value = np.where(np.isnan(value), np.nan, p_value)
    tested = p_value[:1] if len(labels) == 2 else p_value
    p_adjusted = adjusted(tested.ravel(), how.correction).reshape(tested.shape)
    cells = {
        "value": value, "ci_low": bounds[0], "ci_high": bounds[1], "neutral": neutral, "p_value": p_value,
        "p_adjusted": np.broadcast_to(p_adjusted, value.shape), "p_permutation": tests.permutation,
        "p_crossed": tests.crossed, "p_cities": p_cities,
    }  # fmt: skip
    return pd.DataFrame(
        {
            "city": city,
            "dimension": dimension,
            "label": np.repeat(labels, len(LEVELS)),
            "price": np.tile(LEVELS, len(labels)),
            **{name: own.ravel() for name, own in cells.items()},
            "items": np.tile(units.table.sum(axis=0).astype(int), len(labels)),
            "permuted": tests.permuted,
            "words": tests.count.recorded,
        }
    )
