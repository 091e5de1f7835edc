"""Prices of what is recommended: shares of price levels (Shen eq. 1), average price levels (Fig. 8), differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.recommenders.lmrec.associations import Scale, Units, compared
from tod_bias.recommenders.lmrec.design import (
    WordCount,
    crossing_of,
    exchange,
    fewest_clusters,
    queries_of,
    templates_of,
    texts,
    word_count,
)
from tod_bias.recommenders.lmrec.inference import FEWEST_QUERIES, SHEN, joined
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.recommenders.lmrec.venue import LEVELS
from tod_bias.statistics.adjustment import Correction, adjusted
from tod_bias.statistics.crossed import CrossedSpread, crossed_sums, crossed_variance, crossing
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.permutation import Exceedances, relabelled, sign_test
from tod_bias.statistics.resampling import resampled
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = [
    *("city", "dimension", "label", "price", "value", "ci_low", "ci_high", "neutral", "items", "p_value"),
    *("p_adjusted", "p_permutation", "p_crossed", "p_cities", "permuted", "words"),
]


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
    words and templates (and cities). What differs from neutral beyond chance is in ``p_adjusted``.

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
        cities = {str(city): _units(subset, labels) for city, subset in rows.groupby("city", sort=False)}
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
        result = np.zeros((self.city.max(initial=-1) + 1, len(self.labels), len(LEVELS)))
        np.add.at(result, (self.city, self.codes), self.table)
        return result

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
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0))


def _of_city(units: _Units, city: str, dimension: str, dimensions: Sequence[str], how: Inference) -> pd.DataFrame:
    counts = units.counts.sum(axis=0)
    tests = _tests(units, dimension, dimensions, how, city)
    design = crossing_of(units.frame, units.codes)
    known = np.unique(units.codes)  # a city may have no lists of some label
    samples = np.zeros((how.resamples, *counts.shape))
    samples[:, known] = crossed_sums(how.rng("price", city, dimension), units.table, design, how.resamples)
    clusters = min(fewest_clusters(design.ways, units.codes == number) for number in known)
    bounds = how.bounds(_shares(samples), clusters)
    bounds[..., (units.table > 0).sum(axis=0) < FEWEST_QUERIES] = np.nan
    value, neutral = _shares(counts), _neutral(counts)
    scores = _Scores(value, neutral, bounds, np.full(value.shape, np.nan))
    return _rows(units, city, dimension, scores, tests, how.correction)


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
    for subset in single:
        mine = alone & subset["value"].notna().to_numpy().reshape(value.shape)
        for place, name in enumerate(("ci_low", "ci_high")):
            bounds[place][mine] = subset[name].to_numpy(dtype=float).reshape(value.shape)[mine]
    p_cities = _over(each - neutrals).p_values(value - neutral)
    return _rows(units, ALL, dimension, _Scores(value, neutral, bounds, p_cities), tests, how.correction)


def _over(values: np.ndarray) -> CrossedSpread:
    """Of the mean over (cities, …) values; NaN where fewer than two cities have one."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    squares = np.where(known, (values - _mean(values)) ** 2, 0.0).sum(axis=0)
    freedom = np.maximum(count - 1, 1)
    return CrossedSpread(np.where(count > 1, squares / freedom / np.maximum(count, 1), np.nan), freedom)


def _tests(units: _Units, dimension: str, dimensions: Sequence[str], how: Inference, city: str) -> _Tests:
    """Words (or queries) exchanged, and the multiway variance."""
    counts = units.counts
    each, neutral = _shares(counts), _neutral(counts)
    known = ~np.isnan(each)
    lean = _mean(np.where(known, each - neutral, np.nan))
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
    p, p_crossed = (np.where(np.isnan(lean), np.nan, subset) for subset in (p, p_crossed))
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
        known = (totals > 0)[units.city][:, None, :]
        of_value = np.where(known, of_value, 0.0) / cities
        of_neutral = np.where(known, of_neutral, 0.0) / cities
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
        subset = sums.reshape(-1, *shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            lean = subset / totals - (subset.sum(axis=-1) / totals.sum(axis=-1))[..., None]
        return np.abs(_mean(np.moveaxis(lean, 1, 0)))

    result = Exceedances(distances(table[moves.mine].sum(axis=0, dtype=float)[None])[0])
    for drawn in relabelled(how.rng("price test", city, dimension, label), moves.mine, moves.strata, how.permutations):
        result.add(distances((drawn @ table).astype(float)))
    return result.p_values(), moves.permuted


@dataclass(frozen=True)
class _Scores:
    """(labels, levels) scores; bounds are (2, labels, levels)."""

    value: np.ndarray
    neutral: np.ndarray
    bounds: np.ndarray
    p_cities: np.ndarray
    """Of value − neutral over the cities alone; NaN within a city."""


def _rows(
    units: _Units, city: str, dimension: str, scores: _Scores, tests: _Tests, correction: Correction
) -> pd.DataFrame:
    import pandas as pd

    labels, bounds = units.labels, scores.bounds
    if not tests.count.enough_for_intervals:
        bounds = np.full(bounds.shape, np.nan)
    p_value = np.fmax(tests.permutation, tests.crossed)
    if city == ALL:
        p_value = np.maximum(p_value, scores.p_cities)
    p_value = np.where(np.isnan(scores.value), np.nan, p_value)
    tested = p_value[:1] if len(labels) == 2 else p_value
    p_adjusted = adjusted(tested.ravel(), correction).reshape(tested.shape)
    return pd.DataFrame(
        {
            "city": city,
            "dimension": dimension,
            "label": np.repeat(labels, len(LEVELS)),
            "price": np.tile(LEVELS, len(labels)),
            "value": scores.value.ravel(),
            "ci_low": bounds[0].ravel(),
            "ci_high": bounds[1].ravel(),
            "neutral": scores.neutral.ravel(),
            "p_value": p_value.ravel(),
            "p_adjusted": np.broadcast_to(p_adjusted, p_value.shape).ravel(),
            "p_permutation": tests.permutation.ravel(),
            "p_crossed": tests.crossed.ravel(),
            "p_cities": scores.p_cities.ravel(),
            "items": np.tile(units.table.sum(axis=0).astype(int), len(labels)),
            "permuted": tests.permuted,
            "words": tests.count.recorded,
        }
    )


IN_LEVELS = Scale(relative=False, most=float(LEVELS[-1] - LEVELS[0]))
"""Differences of two average price levels."""


def price_by_label(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Average price level of what each label is recommended, against another label's; range 1–4.

    Where Shen's eq. 1 asks whose queries a price goes to, this is the mean price of a label's lists, every item with a
    price counting once, and ``difference`` is that of two labels in price levels, positive where the first is dearer.
    Intervals and tests are those of associations (:func:`~tod_bias.recommenders.lmrec.associations.association`): words
    and templates are clusters, over several cities the cities too, and labels change places by word. City ``all`` pools
    the items of all cities that have lists of both labels. Every pair is given in both directions.

    Returns:
        city, dimension, label, other, value, other_value, difference, ci_low, ci_high, p_value (the largest of the next
        three), p_adjusted (over the pairs of a dimension), p_permutation, p_crossed, p_cities, permuted, words.
    """
    names = {"share": "value", "other_share": "other_value"}
    columns = [
        *("city", "dimension", "label", "other", "share", "other_share", "difference", "ci_low", "ci_high"),
        *("p_value", "p_adjusted", "p_permutation", "p_crossed", "p_cities", "permuted", "words"),
    ]
    how = inference or SHEN
    result = joined(compared(recommendations, how, _price_units, IN_LEVELS), columns)
    once = result.groupby(["city", "dimension", result["label"] < result["other"]])["p_value"]
    result["p_adjusted"] = once.transform(lambda values: adjusted(values.to_numpy(dtype=float), how.correction))
    return result.rename(columns=names)


def _price_units(rows: pd.DataFrame) -> Units:
    numbers, frame = queries_of(rows)
    return Units(frame, price_sums(rows, numbers), ["price"])


def average_price(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Average price level of what is recommended for each substitution (Shen §4.7, Fig. 8); range 1–4.

    The mean over all recommended items that have a price, of all queries with the word. A row speaks of its word alone:
    within a city its interval resamples the templates that the word fills (and second words, where there are any, both
    ways). City ``all`` pools the items of all cities; its interval is the wider of that over the cities and that over
    cities and templates, a template being one cluster in all cities. ``neutral`` is the same mean for neutralised
    queries (those marked with the word, else of its kind), NaN where there are none.

    Returns:
        city, substitution, queries, value, ci_low, ci_high, neutral, items.
    """
    import pandas as pd

    how = inference or SHEN
    rows = recommendations.distinct
    rows = rows[rows["substitution"] != ""]
    queries = _Queries.of(rows)
    reference = {name: texts(recommendations.neutral[name]) for name in ("city", "substitution", "kind", "price")}
    made = []
    for city in [*recommendations.cities, ALL]:
        subset = np.flatnonzero(queries.city == city) if city != ALL else np.arange(len(queries.city))
        known = (reference["city"] == city) | (city == ALL)
        codes, words = pd.factorize(queries.word[subset])
        for number, word in enumerate(words):
            mine = queries.chosen(subset[codes == number])
            value, low, high, items = _average(mine, str(word), how)
            same = known & (reference["substitution"] == word)
            if not same.any():
                same = known & np.isin(reference["kind"], list(set(mine.kind)))
            made.append(
                {
                    "city": city,
                    "substitution": word,
                    "queries": len(mine.city),
                    "value": value,
                    "ci_low": low,
                    "ci_high": high,
                    "neutral": float(pd.Series(reference["price"][same], dtype=float).mean()),
                    "items": items,
                }
            )
    columns = ["city", "substitution", "queries", "value", "ci_low", "ci_high", "neutral", "items"]
    return pd.DataFrame(made, columns=columns)


@dataclass(frozen=True)
class _Queries:
    """Some queries; all but the table (queries,) texts."""

    city: np.ndarray
    kind: np.ndarray
    word: np.ndarray
    second: np.ndarray
    template: np.ndarray
    table: np.ndarray
    """(queries, 2): sum of prices and number of items with a price."""

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Queries:
        """Those of some recommendations."""
        frame = rows.drop_duplicates("unit")
        city, kind, word, second = (texts(frame[name]) for name in ("city", "kind", "substitution", "second"))
        return cls(city, kind, word, second, templates_of(frame), price_sums(rows))

    def chosen(self, numbers: np.ndarray) -> _Queries:
        """The queries of some numbers."""
        return _Queries(*(getattr(self, field.name)[numbers] for field in fields(self)))


def _average(queries: _Queries, word: str, how: Inference) -> tuple[float, float, float, int]:
    """Value, bounds and items with a price of one word."""
    import pandas as pd

    table = queries.table
    total = table.sum(axis=0)
    value = quotient(total)
    city = pd.factorize(queries.city)[0]
    ways = [pd.factorize(queries.template)[0]]
    if (queries.second != "").any():
        ways.append(pd.factorize(queries.second)[0])
    nobody = np.zeros(len(table), dtype=int)
    if city.max() == 0:
        design = crossing(nobody, ways)
        samples = crossed_sums(how.rng("average", str(queries.city[0]), word), table, design, how.resamples)
        low, high = how.bounds(quotient(samples)[:, 0], fewest_clusters(design.ways, nobody == 0))
    else:
        over = jackknife(sums_by(city, table, city.max() + 1), quotient, how.level)
        with np.errstate(invalid="ignore", divide="ignore"):
            influences = (table[:, :1] - value * table[:, 1:]) / total[1]
        half = crossed_variance(influences, crossing(nobody, [city, *ways])).half(how.level)[0]
        low, high = (
            np.clip(bound, LEVELS[0], LEVELS[-1])
            for bound in (np.fmin(over.low, value - half), np.fmax(over.high, value + half))
        )
    return float(value), float(low), float(high), int(total[1])


FEWEST_TEMPLATES = 6
"""Two words are paired where they share so many templates: with fewer, exchanging them never gives p < 0.05."""
_STORED = 16
"""Permutations of so many sizes are kept, at most 16 MB each."""


def price_differences(
    recommendations: Recommendations,
    words: Sequence[str],
    inference: Inference | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Differences of average price between every two of some substitutions, over all cities.

    Two words of a rank chart may have intervals that overlap and still differ, or the other way round: this is the
    comparison itself. Both words fill the same templates, and some templates ask for dearer places than others, so the
    words are compared within templates: the difference is the mean over templates (and cities) of the difference of
    their mean prices, the interval resamples templates, and in the test the two words change places in whole templates
    (a sign-flip test of the templates' differences). A template is one cluster in all cities. Over several cities the
    p-value is the largest of this one, of that over the cities alone and of that over cities and templates, and the
    interval the wider one.

    Two words that share fewer than six templates, or less than half of what either was asked, are compared without:
    the difference is that of their average prices, and queries are resampled and change places within a city.

    Args:
        recommendations: the tidy frame.
        words: the substitutions.
        inference: of intervals and tests.
        kinds: word → its kind (location, religion, …). The pairs of the same two kinds are one family of tests, so that
            three places of worship do not answer for four hundred pairs of shops; all pairs are one where left out.

    Returns:
        substitution, other, difference, ci_low, ci_high, p_value, p_adjusted (over the pairs of a family), permuted
        (``templates`` or ``queries``).
    """
    import pandas as pd

    how = inference or SHEN
    rows = recommendations.distinct
    rows = rows[rows["substitution"].isin(list(words))]
    queried = set(rows["substitution"])
    present = [word for word in dict.fromkeys(words) if word in queried]
    pairs = list(combinations(range(len(present)), 2))
    columns = ["difference", "ci_low", "ci_high", "p_value"]
    values = np.full((len(pairs), len(columns)), np.nan)
    paired = np.zeros(len(pairs), dtype=bool)
    if pairs:
        cells = _cells(rows, present)
        paired = np.array([cells.share_templates(*pair) for pair in pairs])
        if paired.any():
            values[paired] = _paired(cells, [pair for pair, subset in zip(pairs, paired, strict=True) if subset], how)
        if not paired.all():
            apart = [(present[i], present[j]) for (i, j), subset in zip(pairs, paired, strict=True) if not subset]
            values[~paired] = _unpaired(rows, apart, how)
    named = [(present[i], present[j]) for i, j in pairs]
    frame = pd.DataFrame(named, columns=["substitution", "other"]).assign(**dict(zip(columns, values.T, strict=True)))
    p_adjusted = np.full(len(frame), np.nan)
    families = pd.factorize(pd.Series([str(sorted((kinds or {}).get(word, "") for word in pair)) for pair in named]))[0]
    for family in np.unique(families):
        subset = families == family
        p_adjusted[subset] = adjusted(frame["p_value"].to_numpy(dtype=float)[subset], how.correction)
    return frame.assign(p_adjusted=p_adjusted, permuted=np.where(paired, "templates", "queries"))


@dataclass(frozen=True)
class _Cells:
    """The lists of some words, one cell a city and template."""

    city: np.ndarray  # (cells,) numbers
    template: np.ndarray  # (cells,) numbers
    queried: np.ndarray  # (cells, words)
    mean: np.ndarray  # (cells, words), NaN where nothing has a price

    def share_templates(self, first: int, second: int) -> bool:
        """Whether two words are asked alike enough to be paired."""
        both = self.queried[:, first] & self.queried[:, second]
        most = max(self.queried[:, first].sum(), self.queried[:, second].sum())
        return len(np.unique(self.template[both])) >= FEWEST_TEMPLATES and bool(2 * both.sum() >= most)


def _cells(rows: pd.DataFrame, words: Sequence[str]) -> _Cells:
    import pandas as pd

    frame = rows.drop_duplicates("unit")
    of_unit = pd.Series(templates_of(frame), index=frame["unit"])
    keys = pd.MultiIndex.from_arrays([rows["city"], of_unit.loc[rows["unit"]].to_numpy()])
    codes, result = pd.factorize(keys)
    word = pd.Categorical(rows["substitution"], categories=list(words)).codes
    sums = np.zeros((len(result), len(words), 2))
    queried = np.zeros((len(result), len(words)), dtype=bool)
    queried[codes, word] = True
    prices = rows["price"].to_numpy(dtype=float)
    known = ~np.isnan(prices)
    np.add.at(sums, (codes[known], word[known]), np.stack([prices[known], np.ones(int(known.sum()))], axis=1))
    levels = [pd.factorize(result.get_level_values(number))[0] for number in (0, 1)]
    return _Cells(levels[0], levels[1], queried, quotient(sums))


def _paired(cells: _Cells, pairs: Sequence[tuple[int, int]], how: Inference) -> np.ndarray:
    """(pairs, 4): difference, bounds and p-value, paired by template."""
    apart = np.stack([cells.mean[:, first] - cells.mean[:, second] for first, second in pairs], axis=1)
    known = ~np.isnan(apart)
    table = np.stack([np.where(known, apart, 0.0), known.astype(float)], axis=-1)  # (cells, pairs, 2)
    by_template = sums_by(cells.template, table, cells.template.max() + 1)
    by_city = sums_by(cells.city, table, cells.city.max() + 1)
    over = jackknife(by_city, quotient, how.level, is_scored=by_city[..., 1] > 0)
    value, low, high = over.value, over.low, over.high
    p = np.full(len(pairs), np.nan)
    if how.permutations:
        p = sign_test(by_template[..., 0], permutations=how.permutations, seed=how.seed).p_values
    if len(by_city) == 1:
        used = (by_template[..., 1] > 0).sum(axis=0)
        samples = resampled(how.rng("differences"), by_template.reshape(len(by_template), -1), how.resamples)
        shares = quotient(samples.reshape(-1, *table.shape[1:]))
        for number, count in enumerate(used):
            low[number], high[number] = how.bounds(shares[:, number], int(count))
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            influences = (table[..., 0] - value * table[..., 1]) / table[..., 1].sum(axis=0)
        design = crossing(np.zeros(len(table), dtype=int), [cells.city, cells.template])
        spread = crossed_variance(np.nan_to_num(influences), design)
        half = spread.half(how.level)
        low, high = np.minimum(low, value - half), np.maximum(high, value + half)
        if how.permutations:
            p = np.maximum(np.maximum(p, over.p_value), spread.p_values(value))
    p = np.where(np.isnan(value), np.nan, p)
    return np.stack([value, low, high, p], axis=1)


def _unpaired(rows: pd.DataFrame, pairs: Sequence[tuple[str, str]], how: Inference) -> np.ndarray:
    """(pairs, 4): the same of two words that share no templates."""
    tables = {
        str(word): {str(city): price_sums(part) for city, part in subset.groupby("city", sort=False)}
        for word, subset in rows.groupby("substitution", sort=False)
    }
    samples = {
        word: resampled(how.rng("differences", word), next(iter(strata.values())), how.resamples)
        for word, strata in tables.items()
        if len(strata) == 1
    }
    made = []
    remaining: dict[str, np.ndarray] = {}
    for word, other in pairs:
        pair = tables[word], tables[other]
        cities = list(dict.fromkeys([*pair[0], *pair[1]]))
        sums = np.stack([[table.get(city, np.zeros((0, 2))).sum(axis=0) for table in pair] for city in cities])
        over = jackknife(sums, _price_difference, how.level)
        low, high, p = over.low, over.high, _price_test(*pair, how, remaining)
        if len(cities) == 1:
            low, high = how.bounds(
                quotient(samples[word]) - quotient(samples[other]), min(len(table[cities[0]]) for table in pair)
            )
        elif how.permutations:
            p = float(np.maximum(p, over.p_value))
        made.append((float(over.value), float(low), float(high), p))
    return np.array(made)


def _price_difference(sums: np.ndarray) -> np.ndarray:
    return quotient(sums[0]) - quotient(sums[1])


def _price_test(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], how: Inference, remaining: dict[str, np.ndarray]
) -> float:
    """Two-sided; the queries of the two words change places within a city. NaN where a word has no price."""
    total = np.sum([table.sum(axis=0) for table in (*first.values(), *second.values())], axis=0)
    observed = np.sum([table.sum(axis=0) for table in first.values()], axis=0)
    distance = abs(quotient(observed) - quotient(total - observed))
    if not how.permutations or np.isnan(distance):
        return math.nan
    moved = np.zeros((how.permutations, 2))
    for city in {**first, **second}:
        subset, other = (table.get(city, np.zeros((0, 2))) for table in (first, second))
        moved += _moved(np.concatenate([subset, other]), len(subset), city, how, remaining)
    distances = np.abs(quotient(moved) - quotient(total - moved))
    result = Exceedances(float(distance))
    result.add(np.where(np.isnan(distances), np.inf, distances))  # a word left without prices is as far as can be
    return float(result.p_values())


def _moved(table: np.ndarray, size: int, city: str, how: Inference, remaining: dict[str, np.ndarray]) -> np.ndarray:
    """(permutations, 2): sums of ``size`` rows of a table, drawn anew each time.

    Tables of one size see the same draws, which ``kept`` holds while they are few and small.
    """
    key = f"{city}/{size}/{len(table)}"
    if key in remaining:
        return remaining[key] @ table
    mine = np.arange(len(table)) < size
    parts = []
    for drawn in relabelled(how.rng("difference", key), mine, np.zeros(len(table)), how.permutations):
        parts.append(drawn @ table)
        if len(drawn) == how.permutations and len(remaining) < _STORED:
            remaining[key] = drawn
    return np.concatenate(parts)


def price_sums(rows: pd.DataFrame, units: np.ndarray | None = None) -> np.ndarray:
    """(queries, 2): sum of prices and number of items with a price; ``units``: the number of each row's query."""
    import pandas as pd

    units = pd.factorize(rows["unit"])[0] if units is None else units
    prices = rows["price"].to_numpy(dtype=float)
    known = ~np.isnan(prices)
    return sums_by(units, np.stack([np.where(known, prices, 0.0), known], axis=1), units.max(initial=-1) + 1)


def quotient(sums: np.ndarray) -> np.ndarray:
    """The first of the last axis by the second; NaN of nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])
