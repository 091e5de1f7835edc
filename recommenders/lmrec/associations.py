"""Associations: how much more often one group is recommended a category than another (Shen eqs. 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.inference import FEWEST_QUERIES, SHEN, joined
from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS, Recommendations
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.permutation import Exceedances, relabelled
from tod_bias.statistics.resampling import resampled
from tod_bias.statistics.settings import Inference

FEWEST_WAYS = 100
"""Words change places where there are so many ways for it; p is no smaller than one in so many then."""


def association(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Association scores of categories with labels, Shen eqs. 2 and 3.

    With f(c | l) = |I_{c,D_l}| / |I_{D_l}|, the share of items of category c in the lists of label l, the *difference*
    is (f(c | l) − f(c | l')) / f(c | D), D being all queries of the dimension: 0 is no association, positive values are
    associations with l. The *ratio* is f(c | l) / f(c | l'): 1 is none, ``inf`` where only l has the category. Every
    pair of labels is given in both directions. City ``all`` pools the items of all cities that have lists of both
    labels. An item counts once in each of its categories; one without a category counts in no f but in every |I|.
    A category that fewer than five queries of a pair got has no interval within a city.

    Returns:
        city, dimension, category, label, other, difference, ci_low, ci_high, ratio, ratio_ci_low, ratio_ci_high,
        items (with the category, of both labels), p_value, p_adjusted (over the categories of a pair), p_permutation,
        p_cities (over several cities; p_value is the larger of the two), permuted (``words`` or ``queries``).
    """
    how = inference or SHEN
    made: list[pd.DataFrame] = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        labels = recommendations.labels(dimension)
        there = {(str(city), str(group)) for city, group in zip(rows["city"], rows["group"], strict=True)}
        by_city = {}
        for city in recommendations.cities:
            pairs = list(combinations([label for label in labels if (city, label) in there], 2))
            if pairs:
                own = rows[rows["city"] == city]
                by_city[city] = _association(own, pairs, city, dimension, recommendations.dimensions, how)
        made += by_city.values()
        alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for pair in combinations(labels, 2):
            cities = tuple(city for city in by_city if all((city, label) in there for label in pair))
            alike.setdefault(cities, []).append(pair)
        for cities, pairs in alike.items():
            if len(cities) == 1:
                found = by_city[cities[0]]
                both = [tuple(sorted(pair)) for pair in pairs]
                wanted = [tuple(sorted(pair)) in both for pair in zip(found["label"], found["other"], strict=True)]
                made.append(found[wanted].assign(city=ALL))
            elif cities:
                own = rows[rows["city"].isin(cities)]
                made.append(_association(own, pairs, ALL, dimension, recommendations.dimensions, how))
    columns = [
        "city", "dimension", "category", "label", "other", "difference", "ci_low", "ci_high", "ratio", "ratio_ci_low",
        "ratio_ci_high", "items", "p_value", "p_adjusted", "p_permutation", "p_cities", "permuted",
    ]  # fmt: skip
    return joined(made, columns)


@dataclass(frozen=True)
class _Units:
    """Queries with a group, and how many items of each category (last column: items) they were recommended."""

    frame: pd.DataFrame
    table: np.ndarray  # (queries, categories + 1)
    categories: list[str]


def _units(rows: pd.DataFrame) -> _Units:
    keys = ["unit", "group"]
    numbers = rows.groupby(keys, sort=False).ngroup().to_numpy()
    frame = rows.drop_duplicates(keys).reset_index(drop=True)
    lengths = rows["categories"].map(len).to_numpy()
    names = [name for cell in rows["categories"] for name in cell]
    codes, categories = pd.factorize(np.asarray(names, dtype=object), sort=True)
    table = np.zeros((len(frame), len(categories) + 1), dtype=np.float32)
    np.add.at(table, (np.repeat(numbers, lengths), codes), 1.0)
    table[:, -1] = np.bincount(numbers, minlength=len(frame))
    return _Units(frame, table, list(categories))


def _association(
    rows: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    city: str,
    dimension: str,
    dimensions: Sequence[str],
    how: Inference,
) -> pd.DataFrame:
    units = _units(rows)
    labels = list(dict.fromkeys(units.frame["group"]))
    cities = list(dict.fromkeys(units.frame["city"]))
    members = {
        (label, name): units.table[((units.frame["group"] == label) & (units.frame["city"] == name)).to_numpy()]
        for label in labels
        for name in cities
    }
    sums = np.array([[members[label, name].sum(axis=0, dtype=float) for label in labels] for name in cities])
    rng = how.rng("association", city, dimension)
    samples = (
        np.stack([resampled(rng, members[label, cities[0]], how.resamples) for label in labels], axis=1)
        if len(cities) == 1
        else np.zeros((0, len(labels), sums.shape[-1]))
    )
    made = []
    for label, other in pairs:
        first, second = labels.index(label), labels.index(other)
        difference, ratio = _scores(sums.sum(axis=0), first, second)
        p, permuted = _permutation_test(units, label, other, city, dimension, dimensions, how)
        p_cities = np.full(len(units.categories), np.nan)
        if len(cities) > 1:
            bounds, ratio_bounds, p_cities = _over_cities(sums, first, second, how)
        else:
            differences, ratios = _scores(samples, first, second)
            clusters = min(len(members[name, cities[0]]) for name in (label, other))
            bounds = how.bounds(differences, clusters)
            ratio_bounds = how.bounds(np.where(np.isinf(ratios), 1e300, ratios), clusters)
            ratio_bounds = np.where(ratio_bounds > 1e290, np.inf, ratio_bounds)
            few = sum((members[name, cities[0]][:, :-1] > 0).sum(axis=0) for name in (label, other)) < FEWEST_QUERIES
            bounds[:, few] = ratio_bounds[:, few] = np.nan
        found = pd.DataFrame(
            {
                "city": city,
                "dimension": dimension,
                "category": units.categories,
                "label": label,
                "other": other,
                "difference": difference,
                "ci_low": bounds[0],
                "ci_high": bounds[1],
                "ratio": ratio,
                "ratio_ci_low": ratio_bounds[0],
                "ratio_ci_high": ratio_bounds[1],
                "items": sums[:, [first, second], :-1].sum(axis=(0, 1)).astype(int),
                "p_value": np.maximum(p, p_cities) if len(cities) > 1 else p,
                "p_permutation": p,
                "p_cities": p_cities,
                "permuted": permuted,
            }
        )
        found = found[found["items"] > 0].reset_index(drop=True)
        found["p_adjusted"] = adjusted(found["p_value"].to_numpy(), how.correction)
        made += [found, _mirrored(found)]
    return pd.concat(made, ignore_index=True)


def _over_cities(
    sums: np.ndarray, first: int, second: int, how: Inference
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(2, categories) bounds of difference and ratio (made on its logarithm), and p-values of the difference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = sums[..., -1].sum(axis=0) / sums[..., -1].sum()
        furthest = {"lowest": -1 / shares[second], "highest": 1 / shares[first]}  # where only one has the category
        there = sums[:, [first, second], :-1].sum(axis=1) > 0
        difference = jackknife(sums, lambda own: _scores(own, first, second)[0], how.level, there=there, **furthest)
        ratio = jackknife(sums, lambda own: np.log(_scores(own, first, second)[1]), how.level, there=there)
        return np.stack([difference.low, difference.high]), np.exp([ratio.low, ratio.high]), difference.p_value


def _mirrored(found: pd.DataFrame) -> pd.DataFrame:
    """The same pairs seen from the other label."""
    with np.errstate(divide="ignore"):
        return found.assign(
            label=found["other"],
            other=found["label"],
            difference=-found["difference"],
            ci_low=-found["ci_high"],
            ci_high=-found["ci_low"],
            ratio=1 / found["ratio"],
            ratio_ci_low=1 / found["ratio_ci_high"],
            ratio_ci_high=1 / found["ratio_ci_low"],
        )


def _scores(sums: np.ndarray, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    """Eqs. 2 and 3 of two labels from (…, labels, categories + 1) sums of items with a category and of all items."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = sums[..., :-1] / sums[..., -1:]
        whole = sums.sum(axis=-2)
        mine, theirs = shares[..., first, :], shares[..., second, :]
        return (mine - theirs) / (whole[..., :-1] / whole[..., -1:]), mine / theirs


def _permutation_test(
    units: _Units, label: str, other: str, city: str, dimension: str, dimensions: Sequence[str], how: Inference
) -> tuple[np.ndarray, str]:
    """Two-sided p-values of all categories, and what was permuted."""
    chosen = units.frame["group"].isin([label, other]).to_numpy()
    frame, table = units.frame[chosen], units.table[chosen]
    if not how.permutations:
        return np.full(len(units.categories), np.nan), ""
    mine = (frame["group"] == label).to_numpy()
    others = [f"label:{name}" for name in dimensions if name not in dimension.split(CROSS)]
    permuted = "queries"
    strata = frame.groupby(["city", *others], sort=False).ngroup().to_numpy()
    for word in ("substitution", "second"):
        names = frame[word].to_numpy(dtype=object)
        facts = pd.DataFrame({"word": names, "mine": mine}).drop_duplicates()
        if "" in facts["word"].to_numpy() or facts["word"].duplicated().any():
            continue  # words unknown, or of several groups
        fixed = [name for name in ("city", *others) if frame.groupby(names)[name].nunique().max() == 1]
        owners = frame.drop_duplicates(word).set_index(word).loc[facts["word"], fixed]
        groups = owners.groupby(fixed, sort=False).ngroup().to_numpy() if fixed else np.zeros(len(facts), dtype=int)
        ways = math.prod(
            math.comb(int((groups == g).sum()), int(facts["mine"].to_numpy()[groups == g].sum())) for g in set(groups)
        )
        if ways >= FEWEST_WAYS:
            codes = pd.Categorical(names, categories=facts["word"]).codes
            summed = np.zeros((len(facts), table.shape[1]), dtype=np.float32)
            np.add.at(summed, codes, table)
            table, mine, strata, permuted = summed, facts["mine"].to_numpy(), groups, "words"
            break
    total = table.sum(axis=0, dtype=float)

    def distances(sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.abs(sums[:, :-1] / sums[:, -1:] - (total - sums)[:, :-1] / (total - sums)[:, -1:])

    found = Exceedances(distances(table[mine].sum(axis=0, dtype=float)[None])[0])
    rng = how.rng("permutation", city, dimension, label, other)
    for drawn in relabelled(rng, mine, strata, how.permutations):
        found.add(distances((drawn @ table).astype(float)))
    return found.p_values(), permuted
