"""Shen's bias scores: prices of recommendations, associations with categories, and words of items' names.

Shares of price levels are Shen's eq. 1, average price levels are in Fig. 8. An association is how much more often one
group is recommended a category than another (eqs. 2 and 3). Words of the names of recommended items are in Fig. 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import sparse

from tod_bias.recommenders.lmrec.families import (
    AVERAGE_PRICE,
    PLACES,
    PRICES,
    in_families,
    is_of_relationships,
    questions_of_categories,
)
from tod_bias.recommenders.lmrec.inference import (
    FEWEST_QUERIES,
    SHEN,
    GroupedQueries,
    cross_validated,
    exchange,
    fewest_clusters,
    largest_word,
    queries_of,
    quotient_bounds,
    quotients,
    templates_of,
    texts,
    widened,
    word_count,
)
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.recommenders.lmrec.templates import word_list
from tod_bias.recommenders.lmrec.venue import LEVELS
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.crossed import CrossedSpread, crossed_sums, crossed_variance, crossing
from tod_bias.statistics.jackknife import Jackknife, jackknife
from tod_bias.statistics.permutation import sign_test
from tod_bias.statistics.resampling import resampled
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by


def association(recommendations: Recommendations, how: Inference = SHEN) -> pd.DataFrame:
    """Association scores of categories with labels, Shen eqs. 2 and 3.

    With f(c | l) = |I_{c,D_l}| / |I_{D_l}|, the share of items of category c in the lists of label l, the *difference*
    is (f(c | l) − f(c | l')) / f(c | D), D being all queries of the dimension: 0 means no association, positive values
    are associations with l. The *ratio* is f(c | l) / f(c | l'): 1 is none, ``inf`` where only l has the category.
    Every pair of labels is given in both directions. City ``all`` pools the items of all cities that have lists of both
    labels. An item counts once in each of its categories; one without a category counts in no f but in every |I|. A
    category that fewer than five queries of a pair got has no interval within a city, and neither has a pair with a
    label of fewer than five words. Intervals within a city are from the pigeonhole bootstrap of words and templates.

    Returns:
        city, dimension, category, label, other, share (f(c | l)), other_share, difference, ci_low, ci_high, ratio,
        ratio_ci_low, ratio_ci_high, items (with the category, of both labels), p_value (the largest of three below),
        p_adjusted (over the ``tests`` tests of the ``family``), family, tests, p_permutation, p_crossed (words and
        templates, and cities if several; the larger one of difference and ratio), p_cities (over several cities),
        permuted (``words`` or ``queries``), words (effective number, of the label with fewer), largest_word and
        largest_share (the word that carries most of the difference,
        and how much of it).
    """
    columns = [
        *("city", "dimension", "category", "label", "other", "share", "other_share", "difference", "ci_low", "ci_high"),
        *("ratio", "ratio_ci_low", "ratio_ci_high", "items", "p_value", "p_adjusted", "family", "tests"),
        *("p_permutation", "p_crossed", "p_cities", "permuted", "words", "largest_word", "largest_share"),
    ]
    result = compared(recommendations, how, _category_counts)
    of_relationships = {
        name
        for name in recommendations.all_dimensions
        if is_of_relationships(name, recommendations.rows(name)["substitution"])
    }
    return in_families(result, questions_of_categories(result, of_relationships), how.correction)[columns]


Counted = tuple[pd.DataFrame, np.ndarray, list[str]]
"""A row a query and group; (queries, n + 1) what is summed, last the items that count; names of the n."""


def compared(
    recommendations: Recommendations,
    how: Inference,
    counted: Callable[[pd.DataFrame], Counted],
    furthest: float | None = None,
) -> pd.DataFrame:
    """Every pair of labels of every dimension, in each city and over all, in both directions.

    Args:
        recommendations: the tidy frame.
        how: intervals and tests.
        counted: of some recommendations, what is summed over the queries of a label.
        furthest: how far two labels can be apart; None where differences are parts of the whole's share (Shen eq. 2).
    """
    made = [pd.DataFrame(columns=_COMPARED)]
    for dimension in recommendations.all_dimensions:
        made += _of_dimension(recommendations, dimension, how, counted, furthest)
    return pd.concat(made[1:] or made, ignore_index=True)[_COMPARED]


_COMPARED = [
    *("city", "dimension", "category", "label", "other", "share", "other_share", "difference", "ci_low", "ci_high"),
    *("ratio", "ratio_ci_low", "ratio_ci_high", "items", "p_value", "p_permutation", "p_crossed", "p_cities"),
    *("permuted", "words", "largest_word", "largest_share"),
]


def _of_dimension(
    recommendations: Recommendations,
    dimension: str,
    how: Inference,
    counted: Callable[[pd.DataFrame], Counted],
    furthest: float | None,
) -> Iterator[pd.DataFrame]:
    rows = recommendations.rows(dimension)
    pairs = list(combinations(recommendations.labels(dimension), 2))

    def scored(cities: Sequence[str], name: str, chosen: Sequence[tuple[str, str]]) -> pd.DataFrame:
        frame, table, names = counted(rows[rows["city"].isin(cities)])
        queries = GroupedQueries(frame, table, name, dimension, recommendations.dimensions, how)
        return _Comparison(queries, names, furthest).scored(chosen)

    by_city: dict[str, pd.DataFrame] = {}
    cities_of: dict[tuple[str, str], tuple[str, ...]] = dict.fromkeys(pairs, ())
    for city in recommendations.cities:
        present = set(rows.loc[rows["city"] == city, "group"])
        if here := [pair for pair in pairs if present.issuperset(pair)]:
            by_city[city] = scored([city], city, here)
            cities_of |= {pair: (*cities_of[pair], city) for pair in here}
    yield from by_city.values()
    for cities in dict.fromkeys(cities_of.values()):
        alike = [pair for pair in pairs if cities_of[pair] == cities]
        if len(cities) == 1:
            part = by_city[cities[0]]
            both = {*alike, *(pair[::-1] for pair in alike)}
            yield part[[pair in both for pair in zip(part["label"], part["other"], strict=True)]].assign(city=ALL)
        elif cities:
            yield scored(cities, ALL, alike)


def _category_counts(rows: pd.DataFrame) -> Counted:
    numbers, frame = queries_of(rows)
    lengths = rows["categories"].map(len).to_numpy()
    names = [name for cell in rows["categories"] for name in cell]
    codes, categories = pd.factorize(np.asarray(names, dtype=object), sort=True)
    table = np.zeros((len(frame), len(categories) + 1), dtype=np.float32)
    np.add.at(table, (np.repeat(numbers, lengths), codes), 1.0)
    table[:, -1] = np.bincount(numbers, minlength=len(frame))
    return frame, table, list(categories)


class _Comparison:
    """The queries of one city, or of all, whose labels are compared."""

    def __init__(self, queries: GroupedQueries, categories: Sequence[str], furthest: float | None) -> None:
        self.queries, self.categories, self.furthest, self.how = queries, categories, furthest, queries.how
        self.sums, self.codes, self.table = queries.sums, queries.codes, queries.table
        self.design = queries.design()
        self.samples = np.zeros((0, *self.sums.shape[1:]))
        if not queries.is_over_cities:
            rng = self.how.rng("association", queries.city, queries.dimension)
            self.samples = crossed_sums(rng, self.table, self.design, self.how.resamples)

    def scored(self, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
        """The rows of some pairs of labels, in both directions."""
        single = [self._pair(*pair) for pair in pairs]
        return pd.concat([part for rows in single for part in (rows, _mirrored(rows))], ignore_index=True)

    def _pair(self, label: str, other: str) -> pd.DataFrame:
        """The rows of two labels, a category each."""
        queries, how = self.queries, self.how
        first, second = queries.labels.index(label), queries.labels.index(other)
        whole = self.sums.sum(axis=0)
        difference, ratio = self._scores(whole, first, second)
        shares = quotients(whole)
        p_permutation, permuted = self._permutation_test(label, other)
        both = np.isin(self.codes, (first, second))
        count = word_count(queries.frame[both], self.table[both, -1])
        tested = self.design if count.enough else queries.design(words=False)
        spreads = [crossed_variance(part, tested) for part in self._influences(first, second)]
        p_crossed = np.full(len(difference), np.nan)
        if how.permutations:
            with np.errstate(divide="ignore", invalid="ignore"):
                p_crossed = np.fmax(spreads[0].p_values(difference), spreads[1].p_values(np.log(ratio)))
        p_value, p_cities = np.fmax(p_permutation, p_crossed), np.full(len(difference), np.nan)
        if queries.is_over_cities:
            bounds, ratio_bounds, p_cities = self._over_cities(first, second, spreads)
            p_value = np.maximum(p_value, p_cities)
        else:
            bounds, ratio_bounds = self._within_city(first, second)
        if not count.enough_for_intervals:
            bounds, ratio_bounds = np.full_like(bounds, np.nan), np.full_like(ratio_bounds, np.nan)
        word, share = self._largest_word(first, second, shares)
        rows = pd.DataFrame(
            {
                "city": queries.city,
                "dimension": queries.dimension,
                "category": self.categories,
                "label": label,
                "other": other,
                "share": shares[first],
                "other_share": shares[second],
                "difference": difference,
                "ci_low": bounds[0],
                "ci_high": bounds[1],
                "ratio": ratio,
                "ratio_ci_low": ratio_bounds[0],
                "ratio_ci_high": ratio_bounds[1],
                "items": self.sums[:, [first, second], :-1].sum(axis=(0, 1)).astype(int),
                "p_value": p_value,
                "p_permutation": p_permutation,
                "p_crossed": p_crossed,
                "p_cities": p_cities,
                "permuted": permuted,
                "words": count.recorded,
                "largest_word": word,
                "largest_share": share,
            }
        )
        return rows[rows["items"] > 0].reset_index(drop=True)

    def _scores(self, sums: np.ndarray, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """Eqs. 2 and 3 of two labels from (…, labels, categories + 1) sums of items with a category, of all items."""
        shares, whole = quotients(sums), quotients(sums.sum(axis=-2))
        mine, theirs = shares[..., first, :], shares[..., second, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (mine - theirs) / (whole if self.furthest is None else 1.0), mine / theirs

    def _influences(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """Influence of each query on the difference and on the logarithm of the ratio, each (queries, categories).

        A share x / n moves by (xᵢ − share nᵢ) / n, and the scores by the chain rule.
        """
        table, codes, sums = self.table, self.codes, self.sums.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = sums[:, :-1] / sums[:, -1:]
            whole = sums[:, :-1].sum(axis=0) / sums[:, -1].sum()
            mine, theirs = (
                np.where(
                    (codes == label)[:, None], (table[:, :-1] - shares[label] * table[:, -1:]) / sums[label, -1], 0.0
                )
                for label in (first, second)
            )
            moved = mine - theirs
            if self.furthest is None:
                of_whole = (table[:, :-1] - whole * table[:, -1:]) / sums[:, -1].sum()
                moved = (moved - (shares[first] - shares[second]) / whole * of_whole) / whole
            weighed = cross_validated(self.queries.frame, codes, table[:, -1])[:, None]
            return moved * weighed, (mine / shares[first] - theirs / shares[second]) * weighed

    def _largest_word(self, first: int, second: int, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The word that carries most of each difference, and its share, by how far words are from the other label."""
        table = self.table
        parts = [
            np.where((self.codes == label)[:, None], table[:, :-1] - shares[other] * table[:, -1:], 0.0)
            for label, other in ((first, second), (second, first))
        ]
        return largest_word(self.queries.frame, parts)

    def _within_city(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """(2, categories) bounds of difference and ratio from resamples; NaN where few queries got a category."""
        differences, ratios = self._scores(self.samples, first, second)
        clusters = min(fewest_clusters(self.design.ways, self.codes == label) for label in (first, second))
        bounds = self.how.bounds(differences, clusters)
        ratio_bounds = self.how.bounds(np.where(np.isinf(ratios), 1e300, ratios), clusters)
        ratio_bounds = np.where(ratio_bounds > 1e290, np.inf, ratio_bounds)
        both = np.isin(self.codes, (first, second))
        few = (self.table[both, :-1] > 0).sum(axis=0) < FEWEST_QUERIES
        bounds[:, few] = ratio_bounds[:, few] = np.nan
        return bounds, ratio_bounds

    def _over_cities(
        self, first: int, second: int, spreads: Sequence[CrossedSpread]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(2, categories) bounds of difference and ratio (made on its logarithm), and p-values over cities alone.

        The wider of two intervals: that of leaving out a city at a time, and that over cities, words and templates.
        """
        sums, level = self.sums, self.how.level
        with np.errstate(divide="ignore", invalid="ignore"):
            lowest, highest = -(self.furthest or 0.0), self.furthest or 0.0
            if self.furthest is None:  # where only one label has a category
                of_label = sums[..., -1].sum(axis=0) / sums[..., -1].sum()
                lowest, highest = -1 / of_label[second], 1 / of_label[first]
            present = sums[:, [first, second], :-1].sum(axis=1) > 0
            difference = jackknife(
                sums,
                lambda part: self._scores(part, first, second)[0],
                level,
                is_scored=present,
                lowest=lowest,
                highest=highest,
            )
            ratio = jackknife(sums, lambda part: np.log(self._scores(part, first, second)[1]), level, is_scored=present)
            halves = [np.nan_to_num(spread.half(level), nan=0.0) for spread in spreads]
            bounds, logs = (
                np.stack([np.minimum(part.low, part.value - half), np.maximum(part.high, part.value + half)])
                for part, half in zip((difference, ratio), halves, strict=True)
            )
            return np.clip(bounds, lowest, highest), np.exp(logs), difference.p_value

    def _permutation_test(self, label: str, other: str) -> tuple[np.ndarray, str]:
        """Two-sided p-values of all categories, and what was permuted."""
        if not self.how.permutations:
            return np.full(len(self.categories), np.nan), ""
        queries = self.queries
        chosen = queries.frame["group"].isin([label, other]).to_numpy()
        frame, table = queries.frame[chosen], queries.table[chosen]
        total = table.sum(axis=0, dtype=float)

        def distances(sums: np.ndarray) -> np.ndarray:
            return np.abs(quotients(sums) - quotients(total - sums))

        moves = exchange(frame, (frame["group"] == label).to_numpy(), queries.dimension, queries.dimensions)
        rng = self.how.rng("permutation", queries.city, queries.dimension, label, other)
        return moves.p_values(table, distances, rng, self.how.permutations), moves.permuted


def _mirrored(result: pd.DataFrame) -> pd.DataFrame:
    """The same pairs seen from the other label."""
    with np.errstate(divide="ignore"):
        return result.assign(
            label=result["other"],
            other=result["label"],
            share=result["other_share"],
            other_share=result["share"],
            difference=-result["difference"],
            ci_low=-result["ci_high"],
            ci_high=-result["ci_low"],
            ratio=1 / result["ratio"],
            ratio_ci_low=1 / result["ratio_ci_high"],
            ratio_ci_high=1 / result["ratio_ci_low"],
        )


_COLUMNS = [
    *("city", "dimension", "label", "price", "value", "ci_low", "ci_high", "neutral", "items", "p_value"),
    *("p_adjusted", "family", "tests", "p_permutation", "p_crossed", "p_cities", "permuted", "words", "largest_word"),
    "largest_share",
]


def price_percentage(recommendations: Recommendations, how: Inference = SHEN) -> pd.DataFrame:
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
        three), p_adjusted (over the ``tests`` tests of the ``family``: labels and levels of a dimension),
        p_permutation, p_crossed, p_cities (over several cities), permuted (``words`` or ``queries``), words (effective
        number, of the label with the fewest),
        largest_word and largest_share (the word that carries most of value − neutral, and how much of it).
    """
    made = [pd.DataFrame(columns=_COLUMNS)]
    for dimension in recommendations.all_dimensions:
        made += _prices_of_dimension(recommendations, dimension, how)
    return in_families(pd.concat(made[1:] or made, ignore_index=True), PRICES, how.correction)[_COLUMNS]


def _prices_of_dimension(recommendations: Recommendations, dimension: str, how: Inference) -> list[pd.DataFrame]:
    """The rows of every city, and last those over the cities that have lists of every label."""
    rows, labels = recommendations.rows(dimension), recommendations.labels(dimension)

    def scored(part: pd.DataFrame, city: str, single: Sequence[pd.DataFrame] = ()) -> pd.DataFrame:
        frame, table = _level_counts(part)
        return _scored(GroupedQueries(frame, table, city, dimension, recommendations.dimensions, how, labels), single)

    parts = {str(city): scored(part, str(city)) for city, part in rows.groupby("city", sort=False)}
    complete = rows.groupby("city", sort=False)["group"].nunique() == len(labels)
    cities = [str(city) for city in complete.index[complete]] or list(parts)
    single = [parts[city] for city in cities]
    whole = single[0].assign(city=ALL) if len(single) == 1 else scored(rows[rows["city"].isin(cities)], ALL, single)
    return [*parts.values(), whole]


def _level_counts(rows: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Queries with a group, and how many items of each price level they were recommended, (queries, levels)."""
    numbers, frame = queries_of(rows)
    table = np.zeros((len(frame), len(LEVELS)))
    priced = rows["price"].notna().to_numpy()
    np.add.at(table, (numbers[priced], rows["price"].to_numpy()[priced].astype(int) - 1), 1.0)
    return frame, table


def price_shares(counts: np.ndarray) -> np.ndarray:
    """Return P(l | m) of Shen eq. 1 from counts of items, both (…, labels, levels)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts / counts.sum(axis=-2, keepdims=True))


def neutral_shares(counts: np.ndarray) -> np.ndarray:
    """Return each label's share of all priced items, the same at every level, (…, labels, levels)."""
    priced = counts.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.broadcast_to(priced / priced.sum(axis=-2, keepdims=True), counts.shape)


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the first axis without missing values; NaN if all are missing."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0))


def _scored(queries: GroupedQueries, single: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of one city, or the means over several, whose own rows are ``single``."""
    how = queries.how
    each, usual = price_shares(queries.sums), neutral_shares(queries.sums)  # (cities, labels, levels)
    neutrals = np.where(np.isnan(each), np.nan, usual)
    shares, leans = _over(each, how.level), _over(each - neutrals, how.level)
    value, lean = shares.value, leans.value
    neutral = _mean(neutrals) if single else usual[0]
    count = word_count(queries.frame, queries.table.sum(axis=1))
    influences = np.concatenate(_influences(queries, each, usual), axis=1).reshape(len(queries.table), -1)
    spread = crossed_variance(influences, queries.design(words=count.enough))
    p_permutation, p_crossed = np.full((2, *value.shape), np.nan)
    permuted = ""
    if how.permutations:
        p_crossed = spread.p_values(np.tile(lean.ravel(), 2)).reshape(2, *lean.shape)[1]
        p_permutation, permuted = _permutation_tests(queries)
    p_permutation, p_crossed = (np.where(np.isnan(lean), np.nan, p) for p in (p_permutation, p_crossed))
    p_value, p_cities = np.fmax(p_permutation, p_crossed), np.full(value.shape, np.nan)
    if single:
        p_cities = leans.p_value
        p_value = np.maximum(p_value, p_cities)
        bounds = widened(shares, spread.half(how.level).reshape(2, *value.shape)[0], (0.0, 1.0))
        _keep_single(bounds, each, single)
    else:
        bounds = _within_city(queries)
    if not count.enough_for_intervals:
        bounds = np.full(bounds.shape, np.nan)
    p_value = np.where(np.isnan(value), np.nan, p_value)
    scores = {"value": value, "ci_low": bounds[0], "ci_high": bounds[1], "neutral": neutral, "p_value": p_value}
    scores |= dict(zip(("largest_word", "largest_share"), _largest_words(queries), strict=True))
    scores |= {"p_permutation": p_permutation, "p_crossed": p_crossed, "p_cities": p_cities}
    return pd.DataFrame(
        {
            "city": queries.city,
            "dimension": queries.dimension,
            "label": np.repeat(queries.labels, len(LEVELS)),
            "price": np.tile(LEVELS, len(queries.labels)),
            "items": np.tile(queries.table.sum(axis=0).astype(int), len(queries.labels)),
            "permuted": permuted,
            "words": count.recorded,
            **{name: np.broadcast_to(part, value.shape).ravel() for name, part in scores.items()},
        }
    )


def _largest_words(queries: GroupedQueries) -> tuple[np.ndarray, np.ndarray]:
    """Return, for value − neutral, (labels, levels): the word that carries most of it, and its share.

    A query contributes its items of a level minus the expected number at the overall prices. The contributions of the
    label's own queries add up to value − neutral, and those of the others to its negative.
    """
    totals = queries.sums.sum(axis=1)  # (cities, levels)
    priced = queries.table.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        usual = (totals / totals.sum(axis=1, keepdims=True))[queries.cities]
        added = np.nan_to_num((queries.table - priced * usual) / totals[queries.cities])
    shape = len(queries.labels), len(LEVELS)
    names, shares = np.empty(shape, dtype=object), np.empty(shape)
    for number in range(len(queries.labels)):
        mine = (queries.codes == number)[:, None]
        names[number], shares[number] = largest_word(
            queries.frame, [np.where(mine, added, 0.0), np.where(mine, 0.0, added)]
        )
    return names, shares


def _within_city(queries: GroupedQueries) -> np.ndarray:
    """(2, labels, levels) bounds of the shares of one city."""
    how, design = queries.how, queries.design()
    rng = how.rng("price", queries.city, queries.dimension)
    known = np.unique(queries.codes)  # a city may have no lists of some label
    samples = np.zeros((how.resamples, *queries.sums.shape[1:]))
    samples[:, known] = crossed_sums(rng, queries.table, design, how.resamples)
    fewest = min(fewest_clusters(design.ways, queries.codes == label) for label in known)
    bounds = how.bounds(price_shares(samples), fewest)
    bounds[..., (queries.table > 0).sum(axis=0) < FEWEST_QUERIES] = np.nan
    return bounds


def _keep_single(bounds: np.ndarray, each: np.ndarray, single: Sequence[pd.DataFrame]) -> None:
    """Give a level that one city alone has that city's interval, in (2, labels, levels) bounds of the means."""
    alone = (~np.isnan(each)).sum(axis=0) == 1
    for part in single:
        mine = alone & part["value"].notna().to_numpy().reshape(alone.shape)
        for place, name in enumerate(("ci_low", "ci_high")):
            bounds[place][mine] = part[name].to_numpy(dtype=float).reshape(alone.shape)[mine]


def _over(values: np.ndarray, level: float) -> Jackknife:
    """The mean over (cities, …) values; NaN bounds where fewer than two cities have one."""
    known = ~np.isnan(values)
    table = np.stack([np.where(known, values, 0.0), known], axis=-1)
    return jackknife(table, lambda sums: quotients(sums)[..., 0], level, is_scored=known)


def _influences(queries: GroupedQueries, each: np.ndarray, neutral: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the influence of each query on value, and on value − neutral, each (queries, labels, levels).

    A share x / n changes by (xᵢ − share nᵢ) / n, and a mean over cities by this divided by their number.
    """
    mine = (queries.codes[:, None] == np.arange(len(queries.labels)))[:, :, None]  # (queries, labels, 1)
    table, totals = queries.table[:, None, :], queries.sums.sum(axis=1)  # (queries, 1, levels), (cities, levels)
    priced = table.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_value = table * (mine - each[queries.cities]) / totals[queries.cities][:, None, :]
        of_neutral = priced * (mine - neutral[queries.cities]) / totals.sum(axis=-1)[queries.cities][:, None, None]
        cities = (totals > 0).sum(axis=0)
        known = (totals > 0)[queries.cities][:, None, :]
        of_value = np.where(known, of_value, 0.0) / cities
        of_neutral = np.where(known, of_neutral, 0.0) / cities
    return of_value, of_value - of_neutral


def _permutation_tests(queries: GroupedQueries) -> tuple[np.ndarray, str]:
    """Two-sided p-values of value − neutral, (labels, levels), and what was permuted."""
    shape = queries.sums.shape[0], len(LEVELS)
    wide = np.zeros((len(queries.table), *shape))  # (queries, cities, levels)
    wide[np.arange(len(wide)), queries.cities] = queries.table
    totals = queries.sums.sum(axis=1)

    def distances(sums: np.ndarray) -> np.ndarray:
        mine = sums.reshape(-1, *shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            lean = mine / totals - (mine.sum(axis=-1) / totals.sum(axis=-1))[..., None]
        return np.abs(_mean(np.moveaxis(lean, 1, 0)))

    p = np.full((len(queries.labels), len(LEVELS)), np.nan)
    two = len(queries.labels) == 2  # what one of two labels has the other one has not
    for number, label in enumerate(queries.labels[: 1 if two else None]):
        moves = exchange(queries.frame, queries.codes == number, queries.dimension, queries.dimensions)
        rng = queries.how.rng("price test", queries.city, queries.dimension, label)
        p[number] = moves.p_values(wide.reshape(len(wide), -1), distances, rng, queries.how.permutations)
    return p[[0, 0]] if two else p, moves.permuted


def price_by_label(recommendations: Recommendations, how: Inference = SHEN) -> pd.DataFrame:
    """Compare the average price level of each label's recommendations with another label's; range 1–4.

    Where Shen's eq. 1 asks whose queries a price goes to, this is the mean price of a label's lists, every item with a
    price counting once, and ``difference`` is that of two labels in price levels, positive if the first is more
    expensive. Intervals and tests are those of associations
    (:func:`~tod_bias.recommenders.lmrec.scores.association`): words and templates are clusters, over several
    cities the cities too, and labels change places by word. City ``all`` pools the items of all cities that have lists
    of both labels. Every pair is given in both directions.

    Returns:
        city, dimension, label, other, value, other_value, difference, ci_low, ci_high, p_value (the largest of the next
        three), p_adjusted (over the ``tests`` pairs of the ``family``), family, tests, p_permutation, p_crossed,
        p_cities, permuted, words, largest_word, largest_share.
    """
    names = {"share": "value", "other_share": "other_value"}
    columns = [
        *("city", "dimension", "label", "other", "share", "other_share", "difference", "ci_low", "ci_high"),
        *("p_value", "p_adjusted", "family", "tests", "p_permutation", "p_crossed", "p_cities", "permuted", "words"),
        *("largest_word", "largest_share"),
    ]
    result = compared(recommendations, how, _price_counts, furthest=float(LEVELS[-1] - LEVELS[0]))
    return in_families(result, AVERAGE_PRICE, how.correction)[columns].rename(columns=names)


def _price_counts(rows: pd.DataFrame) -> Counted:
    numbers, frame = queries_of(rows)
    return frame, _price_sums(rows, numbers), ["price"]


def average_price(recommendations: Recommendations, how: Inference = SHEN) -> pd.DataFrame:
    """Average price level of the recommendations for each substitution (Shen §4.7, Fig. 8); range 1–4.

    The mean over all recommended items that have a price, of all queries with the word. A row speaks of its word alone:
    within a city its interval resamples the templates of the word (and second words, if there are any, both ways). City
    ``all`` pools the items of all cities; its interval is the wider of that over the cities and that over cities and
    templates, a template being one cluster in all cities. ``neutral`` is the same mean for neutralised queries (those
    marked with the word, else of its kind), NaN if there are none.

    Returns:
        city, substitution, queries, value, ci_low, ci_high, neutral, items.
    """
    rows = recommendations.distinct
    rows = rows[rows["substitution"] != ""]
    queries = rows.drop_duplicates("unit")
    table = _price_sums(rows, pd.factorize(rows["unit"])[0])
    city, word, kind = (texts(queries[name]) for name in ("city", "substitution", "kind"))
    second, template = texts(queries["second"]), templates_of(queries)
    reference = {name: texts(recommendations.neutral[name]) for name in ("city", "substitution", "kind", "price")}
    made = []
    for name in [*recommendations.cities, ALL]:
        within = np.flatnonzero(city == name) if name != ALL else np.arange(len(city))
        known = (reference["city"] == name) | (name == ALL)
        codes, words = pd.factorize(word[within])
        for number, substitution in enumerate(words):
            mine = within[codes == number]
            total = table[mine].sum(axis=0)
            cities = pd.factorize(city[mine])[0]
            ways = [pd.factorize(template[mine])[0]]
            if (second[mine] != "").any():
                ways.append(pd.factorize(second[mine])[0])
            several = cities.max() > 0
            design = crossing(np.zeros(len(mine), dtype=int), [cities, *ways] if several else ways)
            rng = how.rng("average", str(city[mine[0]]), str(substitution))
            low, high = quotient_bounds(table[mine], design, cities, how, rng, (LEVELS[0], LEVELS[-1]))[:, 0]
            same = known & (reference["substitution"] == substitution)
            if not same.any():
                same = known & np.isin(reference["kind"], list(set(kind[mine])))
            neutral = float(pd.Series(reference["price"][same], dtype=float).mean())
            value = float(quotients(total)[0])
            made.append((name, substitution, len(mine), value, float(low), float(high), neutral, int(total[1])))
    columns = ["city", "substitution", "queries", "value", "ci_low", "ci_high", "neutral", "items"]
    return pd.DataFrame(made, columns=columns)


FEWEST_TEMPLATES = 6
"""Fewest shared templates for a comparison of two words; with fewer, exchanging them never gives p < 0.05."""


def price_differences(
    recommendations: Recommendations, kinds: Mapping[str, str], how: Inference = SHEN
) -> pd.DataFrame:
    """Differences of average price between every two of some substitutions, over all cities.

    Two words of a rank chart may have intervals that overlap and still differ, or the other way round: this is the
    comparison itself. Both words fill the same templates, and some templates ask for more expensive places than others,
    so the words are compared within templates: the difference is the mean over templates (and cities) of the difference
    of their mean prices, the interval resamples templates, and in the test the two words change places in whole
    templates (a sign-flip test of the templates' differences). A template is one cluster in all cities. Over several
    cities the p-value is the largest of this one, of that over the cities alone and of that over cities and templates,
    and the interval the wider one.

    Two words that share fewer than six templates, or less than half of what either was asked, are not compared.

    Args:
        recommendations: the tidy frame.
        kinds: the substitutions, each with its kind (location, religion, …). The pairs of the same two kinds are one
            family of tests, so that three places of worship do not answer for four hundred pairs of shops.
        how: how intervals and tests are made.

    Returns:
        substitution, other, difference, ci_low, ci_high, p_value, p_adjusted (over the ``tests`` pairs of the
        ``family``), family, tests.
    """
    rows = recommendations.distinct
    rows = rows[rows["substitution"].isin(list(kinds))]
    queried = set(rows["substitution"])
    present = [word for word in kinds if word in queried]
    cells = _Cells.of(rows, present)
    pairs = [pair for pair in combinations(range(len(present)), 2) if cells.share_templates(*pair)]
    values = _paired(cells, pairs, how) if pairs else np.zeros((0, 4))
    named = [(present[first], present[second]) for first, second in pairs]
    frame = pd.DataFrame(named, columns=["substitution", "other"])
    frame[["difference", "ci_low", "ci_high", "p_value"]] = values
    of_kinds = [" and ".join(sorted({kinds[word] for word in pair})) for pair in named]
    frame["family"] = pd.Series([f"{PLACES}, {name}" for name in of_kinds], dtype=object)
    each = frame.groupby("family", sort=False)["p_value"]
    corrected = each.transform(lambda p: adjusted(p.to_numpy(dtype=float), how.correction))
    return frame.assign(p_adjusted=corrected, tests=each.transform("count").astype(int))


@dataclass(frozen=True)
class _Cells:
    """The lists of some words, one cell a city and template."""

    city: np.ndarray  # (cells,) numbers
    template: np.ndarray  # (cells,) numbers
    queried: np.ndarray  # (cells, words)
    mean: np.ndarray  # (cells, words), NaN where nothing has a price

    @classmethod
    def of(cls, rows: pd.DataFrame, words: Sequence[str]) -> _Cells:
        """Make the cells of some recommendations."""
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
        return cls(levels[0], levels[1], queried, quotients(sums)[..., 0])

    def share_templates(self, first: int, second: int) -> bool:
        """True if two words share enough templates to be compared."""
        both = self.queried[:, first] & self.queried[:, second]
        most = max(self.queried[:, first].sum(), self.queried[:, second].sum())
        return len(np.unique(self.template[both])) >= FEWEST_TEMPLATES and bool(2 * both.sum() >= most)


def _paired(cells: _Cells, pairs: Sequence[tuple[int, int]], how: Inference) -> np.ndarray:
    """(pairs, 4): difference, bounds and p-value, paired by template."""

    def mean(sums: np.ndarray) -> np.ndarray:
        return quotients(sums)[..., 0]

    apart = np.stack([cells.mean[:, first] - cells.mean[:, second] for first, second in pairs], axis=1)
    known = ~np.isnan(apart)
    table = np.stack([np.where(known, apart, 0.0), known.astype(float)], axis=-1)  # (cells, pairs, 2)
    by_template = sums_by(cells.template, table, cells.template.max() + 1)
    by_city = sums_by(cells.city, table, cells.city.max() + 1)
    over = jackknife(by_city, mean, how.level, is_scored=by_city[..., 1] > 0)
    value, low, high = over.value, over.low, over.high
    p = np.full(len(pairs), np.nan)
    if how.permutations:
        p = sign_test(by_template[..., 0], permutations=how.permutations, seed=how.seed).p_values
    if len(by_city) == 1:
        used = (by_template[..., 1] > 0).sum(axis=0)
        samples = resampled(how.rng("differences"), by_template.reshape(len(by_template), -1), how.resamples)
        shares = mean(samples.reshape(-1, *table.shape[1:]))
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


def _price_sums(rows: pd.DataFrame, units: np.ndarray) -> np.ndarray:
    """(queries, 2): sum of prices and number of items with a price; ``units``: the number of each row's query."""
    prices = rows["price"].to_numpy(dtype=float)
    known = ~np.isnan(prices)
    return sums_by(units, np.stack([np.where(known, prices, 0.0), known], axis=1), units.max(initial=-1) + 1)


_WORD = re.compile(r"[^\W\d_][\w'’]+")
_FUNCTION_WORDS = word_list("function_words.txt")
"""Words that belong to no name in particular."""


def top_words(recommendations: Recommendations, how: Inference = SHEN, *, most: int = 20) -> pd.DataFrame:
    """Top words of the names of recommended items per group, over all cities (Shen Fig. 6: raw frequency).

    ``value`` is the share of the group's recommended items whose name holds the word, ``neutral`` the mean of this
    share over all groups of the dimension; stop words are left out. Within a city intervals resample the substituted
    words and the templates; with several cities they are over the cities, or over cities, words and templates where
    that is wider. A group of fewer than five substituted words has none. A share has no test.

    Returns:
        dimension, label, word, items, value, ci_low, ci_high, neutral; the ``most`` frequent words of each label.
    """
    made = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        rows = rows[rows["item"] != ""]
        items, names = pd.factorize(rows["item"])
        words, holds = _words(list(names))
        groups = rows["group"].to_numpy(dtype=object)
        parts = {label: np.flatnonzero(groups == label) for label in recommendations.labels(dimension)}
        parts = {label: mine for label, mine in parts.items() if len(mine)}
        shares = {label: holds[items[mine]].sum(axis=0) / len(mine) for label, mine in parts.items()}
        neutral = np.mean(list(shares.values()), axis=0) if shares else np.zeros(len(words))
        for label, mine in parts.items():
            order = np.lexsort((words, -shares[label]))[:most]
            order = order[shares[label][order] > 0]
            table = np.column_stack([holds[items[mine]][:, order].toarray(), np.ones(len(mine))])
            low, high = _bounds(rows.iloc[mine], table, how, how.rng("words", dimension, label))
            for place, number in enumerate(order):
                values = (shares[label][number], low[place], high[place], neutral[number])
                made.append((dimension, label, words[number], int(table[:, place].sum()), *map(float, values)))
    columns = ["dimension", "label", "word", "items", "value", "ci_low", "ci_high", "neutral"]
    return pd.DataFrame(made, columns=columns)


def _words(names: list[str]) -> tuple[np.ndarray, sparse.csr_array]:
    """The words of some names, and which name holds which: (names, words) of 0 and 1."""
    held = [sorted(set(_WORD.findall(name.lower())) - _FUNCTION_WORDS) for name in names]
    words = sorted({word for part in held for word in part})
    number = {word: place for place, word in enumerate(words)}
    columns = [number[word] for part in held for word in part]
    rows = np.repeat(np.arange(len(names)), [len(part) for part in held])
    holds = sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(names), len(words)))
    return np.array(words, dtype=object), holds


def _bounds(rows: pd.DataFrame, table: np.ndarray, how: Inference, rng: np.random.Generator) -> np.ndarray:
    """(2, words) bounds of the shares of one label; ``table`` is (items, words + 1)."""
    units = pd.factorize(rows["unit"])[0]
    frame, table = rows.drop_duplicates("unit"), sums_by(units, table, units.max(initial=-1) + 1)
    if not word_count(frame, table[:, -1]).enough_for_intervals:
        return np.full((2, table.shape[1] - 1), np.nan)
    queries = GroupedQueries(frame, table, "", "", (), how)
    return quotient_bounds(table, queries.design(), queries.cities, how, rng, (0.0, 1.0))
