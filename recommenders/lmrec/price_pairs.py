"""Differences of average price between two words, paired by the templates that both fill."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.recommenders.lmrec.design import templates_of
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.recommendations import Recommendations
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.crossed import crossed_variance, crossing
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.permutation import Exceedances, relabelled, sign_test
from tod_bias.statistics.resampling import resampled
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

if TYPE_CHECKING:
    import pandas as pd

FEWEST_TEMPLATES = 6
"""Two words are paired where they share so many templates: with fewer, exchanging them never gives p < 0.05."""
_KEPT = 16
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
    asked = set(rows["substitution"])
    present = [word for word in dict.fromkeys(words) if word in asked]
    pairs = list(combinations(range(len(present)), 2))
    columns = ["difference", "ci_low", "ci_high", "p_value"]
    values = np.full((len(pairs), len(columns)), np.nan)
    paired = np.zeros(len(pairs), dtype=bool)
    if pairs:
        cells = _cells(rows, present)
        paired = np.array([cells.share_templates(*pair) for pair in pairs])
        if paired.any():
            values[paired] = _paired(cells, [pair for pair, own in zip(pairs, paired, strict=True) if own], how)
        if not paired.all():
            apart = [(present[i], present[j]) for (i, j), own in zip(pairs, paired, strict=True) if not own]
            values[~paired] = _unpaired(rows, apart, how)
    named = [(present[i], present[j]) for i, j in pairs]
    frame = pd.DataFrame(named, columns=["substitution", "other"]).assign(**dict(zip(columns, values.T, strict=True)))
    p_adjusted = np.full(len(frame), np.nan)
    families = pd.factorize(pd.Series([str(sorted((kinds or {}).get(word, "") for word in pair)) for pair in named]))[0]
    for family in np.unique(families):
        own = families == family
        p_adjusted[own] = adjusted(frame["p_value"].to_numpy(dtype=float)[own], how.correction)
    return frame.assign(p_adjusted=p_adjusted, permuted=np.where(paired, "templates", "queries"))


@dataclass(frozen=True)
class _Cells:
    """The lists of some words, one cell a city and template."""

    city: np.ndarray  # (cells,) numbers
    template: np.ndarray  # (cells,) numbers
    asked: np.ndarray  # (cells, words)
    mean: np.ndarray  # (cells, words), NaN where nothing has a price

    def share_templates(self, first: int, second: int) -> bool:
        """Whether two words are asked alike enough to be paired."""
        both = self.asked[:, first] & self.asked[:, second]
        most = max(self.asked[:, first].sum(), self.asked[:, second].sum())
        return len(np.unique(self.template[both])) >= FEWEST_TEMPLATES and bool(2 * both.sum() >= most)


def _cells(rows: pd.DataFrame, words: Sequence[str]) -> _Cells:
    import pandas as pd

    frame = rows.drop_duplicates("unit")
    of_unit = pd.Series(templates_of(frame), index=frame["unit"])
    keys = pd.MultiIndex.from_arrays([rows["city"], of_unit.loc[rows["unit"]].to_numpy()])
    codes, found = pd.factorize(keys)
    word = pd.Categorical(rows["substitution"], categories=list(words)).codes
    sums = np.zeros((len(found), len(words), 2))
    asked = np.zeros((len(found), len(words)), dtype=bool)
    asked[codes, word] = True
    prices = rows["price"].to_numpy(dtype=float)
    there = ~np.isnan(prices)
    np.add.at(sums, (codes[there], word[there]), np.stack([prices[there], np.ones(int(there.sum()))], axis=1))
    levels = [pd.factorize(found.get_level_values(number))[0] for number in (0, 1)]
    return _Cells(levels[0], levels[1], asked, quotient(sums))


def _paired(cells: _Cells, pairs: Sequence[tuple[int, int]], how: Inference) -> np.ndarray:
    """(pairs, 4): difference, bounds and p-value, paired by template."""
    apart = np.stack([cells.mean[:, first] - cells.mean[:, second] for first, second in pairs], axis=1)
    there = ~np.isnan(apart)
    table = np.stack([np.where(there, apart, 0.0), there.astype(float)], axis=-1)  # (cells, pairs, 2)
    by_template = sums_by(cells.template, table, cells.template.max() + 1)
    by_city = sums_by(cells.city, table, cells.city.max() + 1)
    over = jackknife(by_city, quotient, how.level, there=by_city[..., 1] > 0)
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
        str(word): {str(city): price_sums(part) for city, part in own.groupby("city", sort=False)}
        for word, own in rows.groupby("substitution", sort=False)
    }
    samples = {
        word: resampled(how.rng("differences", word), next(iter(strata.values())), how.resamples)
        for word, strata in tables.items()
        if len(strata) == 1
    }
    made = []
    kept: dict[str, np.ndarray] = {}
    for word, other in pairs:
        pair = tables[word], tables[other]
        cities = list(dict.fromkeys([*pair[0], *pair[1]]))
        sums = np.stack([[table.get(city, np.zeros((0, 2))).sum(axis=0) for table in pair] for city in cities])
        over = jackknife(sums, _price_difference, how.level)
        low, high, p = over.low, over.high, _price_test(*pair, how, kept)
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
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], how: Inference, kept: dict[str, np.ndarray]
) -> float:
    """Two-sided; the queries of the two words change places within a city. NaN where a word has no price."""
    total = np.sum([table.sum(axis=0) for table in (*first.values(), *second.values())], axis=0)
    observed = np.sum([table.sum(axis=0) for table in first.values()], axis=0)
    distance = abs(quotient(observed) - quotient(total - observed))
    if not how.permutations or np.isnan(distance):
        return math.nan
    moved = np.zeros((how.permutations, 2))
    for city in {**first, **second}:
        own, other = (table.get(city, np.zeros((0, 2))) for table in (first, second))
        moved += _moved(np.concatenate([own, other]), len(own), city, how, kept)
    distances = np.abs(quotient(moved) - quotient(total - moved))
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


def price_sums(rows: pd.DataFrame, units: np.ndarray | None = None) -> np.ndarray:
    """(queries, 2): sum of prices and number of items with a price; ``units``: the number of each row's query."""
    import pandas as pd

    units = pd.factorize(rows["unit"])[0] if units is None else units
    prices = rows["price"].to_numpy(dtype=float)
    there = ~np.isnan(prices)
    return sums_by(units, np.stack([np.where(there, prices, 0.0), there], axis=1), units.max(initial=-1) + 1)


def quotient(sums: np.ndarray) -> np.ndarray:
    """The first of the last axis by the second; NaN of nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])
