"""Associations: how much more often one group is recommended a category than another (Shen eqs. 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tod_bias.recommenders.lmrec.design import crossing_of, exchange, fewest_clusters, queries_of, word_count
from tod_bias.recommenders.lmrec.inference import FEWEST_QUERIES, SHEN, joined
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.crossed import CrossedSpread, Crossing, crossed_sums, crossed_variance
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.permutation import Exceedances, relabelled
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd


def association(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Association scores of categories with labels, Shen eqs. 2 and 3.

    With f(c | l) = |I_{c,D_l}| / |I_{D_l}|, the share of items of category c in the lists of label l, the *difference*
    is (f(c | l) − f(c | l')) / f(c | D), D being all queries of the dimension: 0 is no association, positive values are
    associations with l. The *ratio* is f(c | l) / f(c | l'): 1 is none, ``inf`` where only l has the category. Every
    pair of labels is given in both directions. City ``all`` pools the items of all cities that have lists of both
    labels. An item counts once in each of its categories; one without a category counts in no f but in every |I|.
    A category that fewer than five queries of a pair got has no interval within a city, and neither has a pair with a
    label of fewer than five words. Intervals within a city are from the pigeonhole bootstrap of words and templates.

    Returns:
        city, dimension, category, label, other, difference, ci_low, ci_high, ratio, ratio_ci_low, ratio_ci_high,
        items (with the category, of both labels), p_value (the largest of the next three), p_adjusted (over the
        categories of a pair), p_permutation, p_crossed (words and templates, and cities if several), p_cities (over
        several cities), permuted (``words`` or ``queries``), words (effective number, of the label with fewer).
    """
    columns = [
        *("city", "dimension", "category", "label", "other", "difference", "ci_low", "ci_high", "ratio"),
        *("ratio_ci_low", "ratio_ci_high", "items", "p_value", "p_adjusted", "p_permutation", "p_crossed"),
        *("p_cities", "permuted", "words"),
    ]
    return joined(compared(recommendations, inference or SHEN, _units, RELATIVE), columns)


def compared(
    recommendations: Recommendations, how: Inference, units_of: Callable[[pd.DataFrame], Units], scale: Scale
) -> list[pd.DataFrame]:
    """Every pair of labels of every dimension, in each city and over all, in both directions.

    Args:
        recommendations: the tidy frame.
        how: intervals and tests.
        units_of: what is summed over the queries of a label.
        scale: of differences.
    """
    made: list[pd.DataFrame] = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        labels = recommendations.labels(dimension)
        present = set(rows[["city", "group"]].drop_duplicates().itertuples(index=False, name=None))
        by_city = {}
        for city in recommendations.cities:
            pairs = list(combinations([label for label in labels if (city, label) in present], 2))
            if pairs:
                subset = rows[rows["city"] == city]
                by_city[city] = _association(
                    units_of(subset), pairs, city, dimension, recommendations.dimensions, how, scale
                )
        made += by_city.values()
        alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for pair in combinations(labels, 2):
            cities = tuple(city for city in by_city if all((city, label) in present for label in pair))
            alike.setdefault(cities, []).append(pair)
        for cities, pairs in alike.items():
            if len(cities) == 1:
                result = by_city[cities[0]]
                both = [tuple(sorted(pair)) for pair in pairs]
                wanted = [tuple(sorted(pair)) in both for pair in zip(result["label"], result["other"], strict=True)]
                made.append(result[wanted].assign(city=ALL))
            elif cities:
                subset = rows[rows["city"].isin(cities)]
                made.append(
                    _association(units_of(subset), pairs, ALL, dimension, recommendations.dimensions, how, scale)
                )
    return made


@dataclass(frozen=True)
class Units:
    """Queries with a group, and how many items of each category (last column: items) they were recommended."""

    frame: pd.DataFrame
    """A row a query and group."""
    table: np.ndarray
    """(queries, categories + 1)."""
    categories: list[str]
    """What is summed."""


class Scale(NamedTuple):
    """The unit of differences of two shares or means."""

    relative: bool
    """As parts of the whole's share, Shen eq. 2."""
    most: float = math.inf
    """The furthest that two can be apart, where they are not."""


RELATIVE = Scale(relative=True)
"""Of associations."""


def _units(rows: pd.DataFrame) -> Units:
    import pandas as pd

    numbers, frame = queries_of(rows)
    lengths = rows["categories"].map(len).to_numpy()
    names = [name for cell in rows["categories"] for name in cell]
    codes, categories = pd.factorize(np.asarray(names, dtype=object), sort=True)
    table = np.zeros((len(frame), len(categories) + 1), dtype=np.float32)
    np.add.at(table, (np.repeat(numbers, lengths), codes), 1.0)
    table[:, -1] = np.bincount(numbers, minlength=len(frame))
    return Units(frame, table, list(categories))


@dataclass(frozen=True)
class _Comparison:
    """The queries of one city, or of all, whose labels are compared."""

    units: Units
    codes: np.ndarray  # (queries,) numbers of their labels
    labels: list[str]
    sums: np.ndarray  # (cities, labels, categories + 1)
    dimension: str
    dimensions: Sequence[str]
    city: str
    how: Inference
    scale: Scale

    @property
    def is_over_cities(self) -> bool:
        """Whether intervals and tests are over cities too."""
        return len(self.sums) > 1


def _association(
    units: Units,
    pairs: Sequence[tuple[str, str]],
    city: str,
    dimension: str,
    dimensions: Sequence[str],
    how: Inference,
    scale: Scale,
) -> pd.DataFrame:
    import pandas as pd

    codes, labels = pd.factorize(units.frame["group"])
    cities = pd.factorize(units.frame["city"])[0]
    sums = np.zeros((cities.max() + 1, len(labels), units.table.shape[1]))
    np.add.at(sums, (cities, codes), units.table)
    among = _Comparison(units, codes, list(labels), sums, dimension, dimensions, city, how, scale)
    design = crossing_of(units.frame, codes, cities=among.is_over_cities)
    samples = np.zeros((0, *sums.shape[1:]))
    if not among.is_over_cities:
        samples = crossed_sums(how.rng("association", city, dimension), units.table, design, how.resamples)
    made = []
    for pair in pairs:
        rows = _pair(among, pair, design, samples)
        made += [rows, _mirrored(rows)]
    return pd.concat(made, ignore_index=True)


def _pair(among: _Comparison, pair: tuple[str, str], design: Crossing, samples: np.ndarray) -> pd.DataFrame:
    """The rows of two labels, a category each."""
    import pandas as pd

    units, how, sums = among.units, among.how, among.sums
    first, second = map(among.labels.index, pair)
    whole = sums.sum(axis=0)
    difference, ratio = _scores(whole, first, second, among.scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = whole[:, :-1] / whole[:, -1:]
    p_permutation, permuted = _permutation_test(units, *pair, among.city, among.dimension, among.dimensions, how)
    both = units.frame["group"].isin(pair).to_numpy()
    count = word_count(units.frame[both], units.table[both, -1])
    tested = design
    if not count.enough:
        tested = crossing_of(units.frame, among.codes, cities=among.is_over_cities, words=False)
    influences = _influences(units.table, among.codes, whole, first, second, among.scale)
    spread, log_spread = (crossed_variance(part, tested) for part in influences)
    p_crossed = spread.p_values(difference) if how.permutations else np.full(len(difference), np.nan)
    p_value, p_cities = np.fmax(p_permutation, p_crossed), np.full(len(units.categories), np.nan)
    if among.is_over_cities:
        bounds, ratio_bounds, p_cities = _over_cities(sums, first, second, (spread, log_spread), how, among.scale)
        p_value = np.maximum(p_value, p_cities)
    else:
        bounds, ratio_bounds = _within_city(among, first, second, design, samples)
    if not count.enough_for_intervals:
        bounds, ratio_bounds = np.full_like(bounds, np.nan), np.full_like(ratio_bounds, np.nan)
    rows = pd.DataFrame(
        {
            "city": among.city,
            "dimension": among.dimension,
            "category": units.categories,
            "label": pair[0],
            "other": pair[1],
            "share": shares[first],
            "other_share": shares[second],
            "difference": difference,
            "ci_low": bounds[0],
            "ci_high": bounds[1],
            "ratio": ratio,
            "ratio_ci_low": ratio_bounds[0],
            "ratio_ci_high": ratio_bounds[1],
            "items": sums[:, [first, second], :-1].sum(axis=(0, 1)).astype(int),
            "p_value": p_value,
            "p_permutation": p_permutation,
            "p_crossed": p_crossed,
            "p_cities": p_cities,
            "permuted": permuted,
            "words": count.recorded,
        }
    )
    rows = rows[rows["items"] > 0].reset_index(drop=True)
    return rows.assign(p_adjusted=adjusted(rows["p_value"].to_numpy(), how.correction))


def _within_city(
    among: _Comparison, first: int, second: int, design: Crossing, samples: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(2, categories) bounds of difference and ratio from bootstrap samples; NaN where few queries got a category."""
    differences, ratios = _scores(samples, first, second, among.scale)
    clusters = min(fewest_clusters(design.ways, among.codes == number) for number in (first, second))
    bounds = among.how.bounds(differences, clusters)
    ratio_bounds = among.how.bounds(np.where(np.isinf(ratios), 1e300, ratios), clusters)
    ratio_bounds = np.where(ratio_bounds > 1e290, np.inf, ratio_bounds)
    both = np.isin(among.codes, (first, second))
    few = (among.units.table[both, :-1] > 0).sum(axis=0) < FEWEST_QUERIES
    bounds[:, few] = ratio_bounds[:, few] = np.nan
    return bounds, ratio_bounds


def _over_cities(
    sums: np.ndarray,
    first: int,
    second: int,
    spreads: tuple[CrossedSpread, CrossedSpread],
    how: Inference,
    scale: Scale,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(2, categories) bounds of difference and ratio (made on its logarithm), and p-values over cities alone.

    The wider of two intervals: that of leaving out a city at a time, and that over cities, words and templates.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = sums[..., -1].sum(axis=0) / sums[..., -1].sum()
        furthest = {"highest": scale.most, "lowest": -scale.most}
        if scale.relative:  # where only one label has a category
            furthest = {"highest": 1 / shares[first], "lowest": -1 / shares[second]}
        present = sums[:, [first, second], :-1].sum(axis=1) > 0
        difference = jackknife(
            sums, lambda subset: _scores(subset, first, second, scale)[0], how.level, is_scored=present, **furthest
        )
        ratio = jackknife(
            sums, lambda subset: np.log(_scores(subset, first, second, scale)[1]), how.level, is_scored=present
        )
        bounds = []
        for result, spread in zip((difference, ratio), spreads, strict=True):
            half = np.nan_to_num(spread.half(how.level), nan=0.0)
            bounds.append(
                np.stack([np.minimum(result.low, result.value - half), np.maximum(result.high, result.value + half)])
            )
        bounds[0] = np.clip(bounds[0], furthest["lowest"], furthest["highest"])
        return bounds[0], np.exp(bounds[1]), difference.p_value


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


def _scores(sums: np.ndarray, first: int, second: int, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Eqs. 2 and 3 of two labels from (…, labels, categories + 1) sums of items with a category and of all items."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = sums[..., :-1] / sums[..., -1:]
        whole = sums.sum(axis=-2)
        mine, theirs = shares[..., first, :], shares[..., second, :]
        unit = whole[..., :-1] / whole[..., -1:] if scale.relative else 1.0
        return (mine - theirs) / unit, mine / theirs


def _influences(
    table: np.ndarray, codes: np.ndarray, sums: np.ndarray, first: int, second: int, scale: Scale
) -> tuple[np.ndarray, np.ndarray]:
    """How far each query moves the difference and the logarithm of the ratio, linearised, each (queries, categories).

    A share x / n moves by (xᵢ − share nᵢ) / n, and the scores by the chain rule.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = sums[:, :-1] / sums[:, -1:]
        whole = sums[:, :-1].sum(axis=0) / sums[:, -1].sum()
        subset = {
            number: np.where(
                (codes == number)[:, None], (table[:, :-1] - shares[number] * table[:, -1:]) / sums[number, -1], 0.0
            )
            for number in (first, second)
        }
        moved = subset[first] - subset[second]
        if scale.relative:
            of_whole = (table[:, :-1] - whole * table[:, -1:]) / sums[:, -1].sum()
            moved = (moved - (shares[first] - shares[second]) / whole * of_whole) / whole
        return (
            moved,
            subset[first] / shares[first] - subset[second] / shares[second],
        )


def _permutation_test(
    units: Units, label: str, other: str, city: str, dimension: str, dimensions: Sequence[str], how: Inference
) -> tuple[np.ndarray, str]:
    """Two-sided p-values of all categories, and what was permuted."""
    chosen = units.frame["group"].isin([label, other]).to_numpy()
    frame, table = units.frame[chosen], units.table[chosen]
    if not how.permutations:
        return np.full(len(units.categories), np.nan), ""
    moves = exchange(frame, (frame["group"] == label).to_numpy(), dimension, dimensions)
    table = moves.summed(table)
    total = table.sum(axis=0, dtype=float)

    def distances(sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.abs(sums[:, :-1] / sums[:, -1:] - (total - sums)[:, :-1] / (total - sums)[:, -1:])

    result = Exceedances(distances(table[moves.mine].sum(axis=0, dtype=float)[None])[0])
    rng = how.rng("permutation", city, dimension, label, other)
    for drawn in relabelled(rng, moves.mine, moves.strata, how.permutations):
        result.add(distances((drawn @ table).astype(float)))
    return result.p_values(), moves.permuted
