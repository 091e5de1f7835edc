"""Prices of what is recommended: the average price level (Shen 2023, Fig. 8); shares and pairs by their old names."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.recommenders.lmrec.design import fewest_clusters, templates_of, texts
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.price_pairs import price_differences, price_sums, quotient
from tod_bias.recommenders.lmrec.price_shares import price_percentage
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.recommenders.lmrec.venue import LEVELS
from tod_bias.statistics.crossed import crossed_sums, crossed_variance, crossing
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["average_price", "price_differences", "price_percentage"]


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
        own = np.flatnonzero(queries.city == city) if city != ALL else np.arange(len(queries.city))
        there = (reference["city"] == city) | (city == ALL)
        codes, words = pd.factorize(queries.word[own])
        for number, word in enumerate(words):
            mine = queries.chosen(own[codes == number])
            value, low, high, items = _average(mine, str(word), how)
            same = there & (reference["substitution"] == word)
            if not same.any():
                same = there & np.isin(reference["kind"], list(set(mine.kind)))
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
