"""Shen's bias scores on a frame of recommendations, each with a 90% interval, and permutation tests.

Intervals. The items of one list are not independent, so within a city whole queries are resampled, as many of every
group as there are (the groups' sizes are the design, not chance). A mean over cities has a t interval over the cities;
what is pooled over cities resamples queries within every city. Intervals are expanded percentile intervals
(:func:`tod_bias.inference.interval`); a group of one query has none.

Tests. The null hypothesis is that a query's group does not matter. Groups belong to words (a name is black or white),
so the groups of the words change places, all queries of a word together, within the groups of the other dimensions.
Where the words are too few for that (fewer than 10,000 ways) or not known, the groups of the queries change places
within a city. p = (b + 1) / (m + 1), two-sided.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from tod_bias.errors import RecommenderError
from tod_bias.inference import holm, interval, resample_counts
from tod_bias.recommenders.lmrec.recommendations import CROSS, Recommendations
from tod_bias.recommenders.lmrec.venue import LEVELS

ALL = "all"
"""The rows over all cities."""
FEWEST_WAYS = 10_000
"""Words change places where there are so many ways for it."""
_BLOCK = 4_000_000


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


def price_percentage(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Price percentage score, Shen eq. 1: P(l | m) = |I_{l,m}| / |I_m|, for every dimension and intersection.

    The share of label l among the recommended items of price level m; range 0–1, summing to 1 over the labels; NaN
    where no item of the level was recommended. ``neutral`` is the value if recommendations did not depend on the label:
    its share of the lists. In the rows of city ``all``, value and neutral are means over the cities.

    Returns:
        city, dimension, label, price, value, ci_low, ci_high, neutral, items (|I_m|).
    """
    how = inference or Inference()
    made = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        labels = recommendations.labels(dimension)
        cities = [
            _price_percentage(own, labels, str(city), dimension, how) for city, own in rows.groupby("city", sort=False)
        ]
        made += [*cities, _mean_over_cities(cities, how.level)]
    columns = ["city", "dimension", "label", "price", "value", "ci_low", "ci_high", "neutral", "items"]
    return _joined(made, columns)


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
        [_resampled(rng, table, how.resamples) for table in tables], axis=1
    )  # (resamples, labels, levels)
    low, high = how.bounds(_shares(samples), int(lists.min()))
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
    keys = ["dimension", "label", "price"]
    found = whole.groupby(keys, sort=False)
    result = found.agg(
        value=("value", "mean"), spread=("value", "std"), cities=("value", "count"), neutral=("neutral", "mean"),
        items=("items", "sum"), ci_low=("ci_low", "first"), ci_high=("ci_high", "first"),
    ).reset_index()  # fmt: skip
    several = (result["cities"] > 1).to_numpy()
    size = result["cities"].to_numpy()[several]
    half = stats.t.ppf((1 + level) / 2, size - 1) * result["spread"].to_numpy()[several] / np.sqrt(size)
    result.loc[several, "ci_low"] = np.maximum(result["value"].to_numpy()[several] - half, 0.0)
    result.loc[several, "ci_high"] = np.minimum(result["value"].to_numpy()[several] + half, 1.0)
    return result.assign(city=ALL)


def association(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Association scores of categories with labels, Shen eqs. 2 and 3.

    With f(c | l) = |I_{c,D_l}| / |I_{D_l}|, the share of items of category c in the lists of label l, the *difference*
    is (f(c | l) − f(c | l')) / f(c | D), D being all queries of the dimension: 0 is no association, positive values are
    associations with l. The *ratio* is f(c | l) / f(c | l'): 1 is none, ``inf`` where only l has the category. Every
    pair of labels is given in both directions. City ``all`` pools the items of all cities. An item counts once in each
    of its categories; one without a category counts in no f but in every |I|.

    Returns:
        city, dimension, category, label, other, difference, ci_low, ci_high, ratio, ratio_ci_low, ratio_ci_high,
        items (with the category, of both labels), p_value, p_adjusted (over the categories of a pair), permuted
        (``words`` or ``queries``).
    """
    how = inference or Inference()
    made: list[pd.DataFrame] = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        labels = recommendations.labels(dimension)
        for city in [*recommendations.cities, ALL]:
            own = rows if city == ALL else rows[rows["city"] == city]
            present = [label for label in labels if own["group"].eq(label).any()]
            if len(present) < 2:
                continue
            if city == ALL and len(recommendations.cities) == 1:
                made.append(made[-1].assign(city=ALL))
                continue
            made.append(_association(own, present, city, dimension, recommendations.dimensions, how))
    columns = [
        "city", "dimension", "category", "label", "other", "difference", "ci_low", "ci_high", "ratio", "ratio_ci_low",
        "ratio_ci_high", "items", "p_value", "p_adjusted", "permuted",
    ]  # fmt: skip
    return _joined(made, columns)


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
    rows: pd.DataFrame, labels: Sequence[str], city: str, dimension: str, dimensions: Sequence[str], how: Inference
) -> pd.DataFrame:
    units = _units(rows)
    rng = how.rng("association", city, dimension)
    sums, samples, sizes = {}, {}, {}
    for label in labels:
        mine = (units.frame["group"] == label).to_numpy()
        strata = [units.table[mine & (units.frame["city"] == c).to_numpy()] for c in units.frame["city"].unique()]
        strata = [part for part in strata if len(part)]
        sums[label] = _added(part.sum(axis=0, dtype=float) for part in strata)
        samples[label] = _added(_resampled(rng, part, how.resamples) for part in strata)
        sizes[label] = min(map(len, strata))
    whole = _added(sums.values())
    whole_samples = _added(samples.values())
    made = []
    for label, other in combinations(labels, 2):
        difference, ratio = _scores(sums[label], sums[other], whole)
        low, high = _scores(samples[label], samples[other], whole_samples)
        clusters = min(sizes[label], sizes[other])
        bounds = how.bounds(low, clusters)
        ratio_bounds = how.bounds(np.where(np.isinf(high), 1e300, high), clusters)
        ratio_bounds = np.where(ratio_bounds > 1e290, np.inf, ratio_bounds)
        p, permuted = _permutation_test(units, label, other, city, dimension, dimensions, how)
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
                "items": (sums[label] + sums[other])[:-1].astype(int),
                "p_value": p,
                "permuted": permuted,
            }
        )
        found = found[found["items"] > 0].reset_index(drop=True)
        found["p_adjusted"] = adjusted(found["p_value"].to_numpy(), how.correction)
        made += [found, _mirrored(found)]
    return pd.concat(made, ignore_index=True)


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


def _scores(first: np.ndarray, second: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eqs. 2 and 3 from sums (…, categories + 1) of items with each category and of all items."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mine, theirs, both = (part[..., :-1] / part[..., -1:] for part in (first, second, whole))
        return (mine - theirs) / both, mine / theirs


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
    strata = pd.factorize(pd.MultiIndex.from_frame(frame[["city", *others]]))[0] if others else _codes(frame["city"])
    for word in ("substitution", "second"):
        names = frame[word].to_numpy(dtype=object)
        facts = pd.DataFrame({"word": names, "mine": mine}).drop_duplicates()
        if "" in facts["word"].to_numpy() or facts["word"].duplicated().any():
            continue  # words unknown, or of several groups
        fixed = [name for name in others if frame.groupby(names)[name].nunique().max() == 1]
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

    observed = distances(table[mine].sum(axis=0, dtype=float)[None])[0]
    rng = how.rng("permutation", city, dimension, label, other)
    further = np.zeros(len(observed))
    done = 0
    while done < how.permutations:
        rows = min(how.permutations - done, max(1, _BLOCK // len(mine)))
        drawn = np.zeros((rows, len(mine)), dtype=np.float32)
        for stratum in np.unique(strata):
            inside = np.flatnonzero(strata == stratum)
            drawn[:, inside] = rng.permuted(np.tile(mine[inside], (rows, 1)), axis=1)
        further += (distances((drawn @ table).astype(float)) >= observed - 1e-12).sum(axis=0)
        done += rows
    return (further + 1) / (done + 1), permuted


def _codes(column: pd.Series) -> np.ndarray:
    return pd.factorize(column)[0]


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


def average_price(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Average price level of what is recommended for each substitution (Shen §4.7, Fig. 8); range 1–4.

    The mean over all recommended items that have a price, of all queries with the word. City ``all`` pools the items of
    all cities. ``neutral`` is the same mean for neutralised queries (those marked with the word, else of its kind),
    NaN where there are none.

    Returns:
        city, substitution, queries, value, ci_low, ci_high, neutral, items.
    """
    how = inference or Inference()
    rows = recommendations.distinct
    rows = rows[rows["substitution"] != ""]
    made = []
    for city in [*recommendations.cities, ALL]:
        own = rows if city == ALL else rows[rows["city"] == city]
        reference = recommendations.neutral
        reference = reference if city == ALL else reference[reference["city"] == city]
        rng = how.rng("average", city)
        for word, mine in own.groupby("substitution", sort=False):
            strata = [_price_sums(part) for _, part in mine.groupby("city", sort=False)]
            samples = _added(_resampled(rng, table, how.resamples) for table in strata)
            low, high = how.bounds(_quotient(samples), min(map(len, strata)))
            total = _added(table.sum(axis=0) for table in strata)
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
    recommendations: Recommendations, words: Sequence[str], inference: Inference | None = None
) -> pd.DataFrame:
    """Differences of average price between every two of some substitutions, over all cities.

    Two words of a rank chart may have intervals that overlap and still differ, or the other way round: this is the
    comparison itself. Queries are resampled; in the test the queries of the two words change places within a city.

    Returns:
        substitution, other, difference, ci_low, ci_high, p_value, p_adjusted (over the pairs).
    """
    how = inference or Inference()
    rows = recommendations.distinct
    rng = how.rng("differences")
    sums, samples, tables, sizes = {}, {}, {}, {}
    for word in words:
        strata = {
            str(city): _price_sums(part)
            for city, part in rows[rows["substitution"] == word].groupby("city", sort=False)
        }
        if not strata:
            continue
        tables[word] = strata
        sums[word] = _added(table.sum(axis=0) for table in strata.values())
        samples[word] = _added(_resampled(rng, table, how.resamples) for table in strata.values())
        sizes[word] = min(map(len, strata.values()))
    made = []
    draws: dict[tuple[str, int, int], np.ndarray] = {}
    for word, other in combinations(tables, 2):
        difference = float(_quotient(sums[word]) - _quotient(sums[other]))
        low, high = how.bounds(_quotient(samples[word]) - _quotient(samples[other]), min(sizes[word], sizes[other]))
        p = _price_test(tables[word], tables[other], how, draws)
        made.append((word, other, difference, float(low), float(high), p))
    frame = pd.DataFrame(made, columns=["substitution", "other", "difference", "ci_low", "ci_high", "p_value"])
    return frame.assign(p_adjusted=adjusted(frame["p_value"].to_numpy(dtype=float), how.correction))


def _price_test(
    first: Mapping[str, np.ndarray],
    second: Mapping[str, np.ndarray],
    how: Inference,
    draws: dict[tuple[str, int, int], np.ndarray],
) -> float:
    """Two-sided; pairs of equal size share their permutations, which ``draws`` keeps."""
    if not how.permutations:
        return math.nan
    total = _added(table.sum(axis=0) for table in (*first.values(), *second.values()))
    moved = np.zeros((how.permutations, 2))
    for city in {**first, **second}:
        own, other = first.get(city, np.zeros((0, 2))), second.get(city, np.zeros((0, 2)))
        key = (city, len(own), len(other))
        if key not in draws:
            mine = np.repeat([True, False], [len(own), len(other)])
            rng = how.rng("difference", *map(str, key))
            draws[key] = rng.permuted(np.tile(mine, (how.permutations, 1)), axis=1).astype(float)
        moved += draws[key] @ np.concatenate([own, other])
    observed = _added(table.sum(axis=0) for table in first.values())
    distance = np.abs(_quotient(moved) - _quotient(total - moved))
    further = int(np.sum(distance >= abs(_quotient(observed) - _quotient(total - observed)) - 1e-12))
    return (further + 1) / (how.permutations + 1)


def _price_sums(rows: pd.DataFrame) -> np.ndarray:
    """(queries, 2): sum of prices and number of items with a price."""
    units = pd.factorize(rows["unit"])[0]
    table = np.zeros((units.max(initial=-1) + 1, 2))
    prices = rows["price"].to_numpy(dtype=float)
    there = ~np.isnan(prices)
    np.add.at(table, units[there], np.stack([prices[there], np.ones(int(there.sum()))], axis=1))
    return table


def _added(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.sum(list(parts), axis=0)


def _quotient(sums: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


_WORD = re.compile(r"[^\W\d_][\w'’]+")


def top_words(recommendations: Recommendations, inference: Inference | None = None, *, most: int = 20) -> pd.DataFrame:
    """Top words of the names of recommended items per group, over all cities (Shen Fig. 6: raw frequency).

    ``value`` is the share of the group's recommended items whose name holds the word; stop words are left out.

    Returns:
        dimension, label, word, items, value, ci_low, ci_high; the ``most`` frequent words of each label.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    how = inference or Inference()
    made = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        rows = rows[rows["item"] != ""]
        words = {
            name: frozenset(word for word in _WORD.findall(name.lower()) if word not in ENGLISH_STOP_WORDS)
            for name in rows["item"].unique()
        }
        for label in recommendations.labels(dimension):
            own = rows[rows["group"] == label]
            counts = Counter(word for name in own["item"] for word in words[name])
            chosen = [word for word, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:most]]
            if not chosen:
                continue
            number = {word: place for place, word in enumerate(chosen)}
            units = pd.factorize(own["unit"])[0]
            table = np.zeros((units.max(initial=-1) + 1, len(chosen) + 1))
            for unit, name in zip(units, own["item"], strict=True):
                table[unit, [number[word] for word in words[name] if word in number]] += 1
                table[unit, -1] += 1
            samples = _resampled(how.rng("words", dimension, label), table, how.resamples)
            low, high = how.bounds(samples[:, :-1] / samples[:, -1:], len(table))
            total = table.sum(axis=0)
            for place, word in enumerate(chosen):
                made.append(
                    (dimension, label, word, int(total[place]), total[place] / total[-1], low[place], high[place])
                )
    return pd.DataFrame(made, columns=["dimension", "label", "word", "items", "value", "ci_low", "ci_high"])


def _resampled(rng: np.random.Generator, table: np.ndarray, resamples: int) -> np.ndarray:
    """(resamples, columns): sums of as many rows as there are, drawn with replacement."""
    if not len(table):
        return np.zeros((resamples, table.shape[1]))
    parts = []
    for rows in _blocks(resamples, len(table)):
        parts.append(resample_counts(rng, rows, len(table)).astype(table.dtype) @ table)
    return np.concatenate(parts).astype(float) if parts else np.zeros((0, table.shape[1]))


def _blocks(rows: int, columns: int) -> Iterator[int]:
    size = max(1, _BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield min(size, rows - start)


def _joined(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(parts, ignore_index=True)[list(columns)]
