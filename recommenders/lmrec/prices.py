"""Prices of what is recommended: the average price level (Shen 2023, Fig. 8); shares and pairs by their old names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.recommenders.lmrec.design import fewest_clusters, templates_of
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
    made = []
    for city in [*recommendations.cities, ALL]:
        own = rows if city == ALL else rows[rows["city"] == city]
        reference = recommendations.neutral
        reference = reference if city == ALL else reference[reference["city"] == city]
        for word, mine in own.groupby("substitution", sort=False):
            value, low, high, items = _average(mine, str(word), how)
            same = reference[reference["substitution"] == word]
            if same.empty and not reference.empty:
                kinds = set(mine["kind"])
                same = reference[reference["kind"].isin(kinds)]
            made.append(
                {
                    "city": city,
                    "substitution": word,
                    "queries": mine["unit"].nunique(),
                    "value": value,
                    "ci_low": low,
                    "ci_high": high,
                    "neutral": float(same["price"].mean()) if len(same) else math.nan,
                    "items": items,
                }
            )
    columns = ["city", "substitution", "queries", "value", "ci_low", "ci_high", "neutral", "items"]
    return pd.DataFrame(made, columns=columns)


def _average(rows: pd.DataFrame, word: str, how: Inference) -> tuple[float, float, float, int]:
    """Value, bounds and items with a price of one word."""
    import pandas as pd

    table = price_sums(rows)
    frame = rows.drop_duplicates("unit")
    total = table.sum(axis=0)
    value = quotient(total)
    city = pd.factorize(frame["city"])[0]
    ways = [pd.factorize(templates_of(frame))[0]]
    if frame["second"].ne("").any():
        ways.append(pd.factorize(frame["second"])[0])
    nobody = np.zeros(len(table), dtype=int)
    if city.max() == 0:
        design = crossing(nobody, ways)
        samples = crossed_sums(how.rng("average", str(frame["city"].iloc[0]), word), table, design, how.resamples)
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
