"""Associations: how much more often one group is recommended a category than another (Shen eqs. 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.inference import (
    FEWEST_QUERIES,
    SHEN,
    GroupedQueries,
    cross_validated,
    exchange,
    fewest_clusters,
    largest_word,
    queries_of,
    quotients,
    word_count,
)
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.crossed import CrossedSpread, crossed_sums, crossed_variance
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.settings import Inference


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
        city, dimension, category, label, other, difference, ci_low, ci_high, ratio, ratio_ci_low, ratio_ci_high,
        items (with the category, of both labels), p_value (the largest of the next three), p_adjusted (over the
        categories of a pair), p_permutation, p_crossed (words and templates, and cities if several; the larger one of
        difference and ratio), p_cities (over several cities), permuted (``words`` or ``queries``), words (effective
        number, of the label with fewer), largest_word and largest_share (the word that carries most of the difference,
        and how much of it).
    """
    columns = [
        *("city", "dimension", "category", "label", "other", "difference", "ci_low", "ci_high", "ratio"),
        *("ratio_ci_low", "ratio_ci_high", "items", "p_value", "p_adjusted", "p_permutation", "p_crossed"),
        *("p_cities", "permuted", "words", "largest_word", "largest_share"),
    ]
    return compared(recommendations, how, _category_counts, columns)


Counted = tuple[pd.DataFrame, np.ndarray, list[str]]
"""A row a query and group; (queries, n + 1) what is summed, last the items that count; names of the n."""


def compared(
    recommendations: Recommendations,
    how: Inference,
    counted: Callable[[pd.DataFrame], Counted],
    columns: Sequence[str],
    furthest: float | None = None,
) -> pd.DataFrame:
    """Every pair of labels of every dimension, in each city and over all, in both directions.

    Args:
        recommendations: the tidy frame.
        how: intervals and tests.
        counted: of some recommendations, what is summed over the queries of a label.
        columns: of the result.
        furthest: how far two labels can be apart; None where differences are parts of the whole's share (Shen eq. 2).
    """
    made = [pd.DataFrame(columns=list(columns))]
    for dimension in recommendations.all_dimensions:
        made += _of_dimension(recommendations, dimension, how, counted, furthest)
    return pd.concat(made[1:] or made, ignore_index=True)[list(columns)]


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
        rows = rows[rows["items"] > 0].reset_index(drop=True)
        return rows.assign(p_adjusted=adjusted(rows["p_value"].to_numpy(), how.correction))

    def _scores(self, sums: np.ndarray, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """Eqs. 2 and 3 of two labels from (…, labels, categories + 1) sums of items with a category, of all items."""
        shares, whole = quotients(sums), quotients(sums.sum(axis=-2))
        mine, theirs = shares[..., first, :], shares[..., second, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (mine - theirs) / (whole if self.furthest is None else 1.0), mine / theirs

    def _influences(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """How far each query moves the difference and the logarithm of the ratio, each (queries, categories).

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
