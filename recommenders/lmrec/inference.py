"""Intervals and tests of Shen's bias scores, alike in every analysis.

Within a city. Neither the items of one list nor the lists of one name are independent, and names are a sample of the
group's: a finding that another choice of names would not show is none about the group. So whole words and whole
templates are resampled, each on their own (the pigeonhole bootstrap, :mod:`tod_bias.statistics.crossed`), as many words
of every group as there are (the groups' sizes are the design, not chance). Intervals are expanded percentile intervals
(:func:`tod_bias.statistics.intervals.interval`), for as many clusters as the smallest group has words or templates; a
group of fewer than five words has none.

Over cities. With several cities every number over all of them has a t interval over the cities: of a mean the usual
one, of a number that pools the cities' items the one of the jackknife that leaves out a city at a time (Efron and
Stein 1981). So it tells what holds for the next city, or the next training of a model, and not only for the lists at
hand: a recommender that was trained once prefers some category for some group by accident, and no number of queries
shows that it is one. Several models of one city count as cities. Cities that are asked with the same names share what
those names do, so where the t interval over cities, words and templates (the multiway variance, Cameron, Gelbach and
Miller 2011) is wider, it is taken.

Tests. The null hypothesis is that a query's group does not matter. Groups belong to words (a name is black or white),
so the groups of the words change places, all queries of a word together and in all cities at once, within the groups of
the other dimensions. Where the words are too few for that (fewer than 100 ways), not known, or of several groups, the
groups of the queries change places within a city. p = (b + 1) / (m + 1), two-sided. Beside it stands a t test with the
multiway variance, which knows of templates too (and cities, if several), and over several cities one of the cities
alone. The p-value is the largest: a shift must be beyond the chance of words, of templates and of cities. Adjusted are
the p-values of what one sentence of the report looks at: the categories of a pair of labels, the labels and levels of a
price share, the pairs of places of two kinds. What stands on fewer than six effective words of a group, (Σw)² / Σw² for
words with w items, is said of these words and not of the group, and the t test takes them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.statistics import settings
from tod_bias.statistics.intervals import t_interval

if TYPE_CHECKING:
    import pandas as pd

SHEN = settings.Inference(level=0.90, correction="bh")
"""The usual settings: Shen shows 90% intervals; corrections are over the categories of one pair of labels."""
FEWEST_QUERIES = 5
"""What fewer queries got has no interval within a city: resampling so few shows no spread."""


def mean_of_shares(rows: pd.DataFrame, level: float) -> tuple[float, float, float]:
    """Mean over cities of values in 0–1 with a t interval: (mean, lower, upper).

    Args:
        rows: a row a city, with value, ci_low, ci_high; those without a value are left out, and where only one has a
            value its own interval holds.
        level: of the interval.
    """
    values, lows, highs = rows[["value", "ci_low", "ci_high"]].dropna(subset="value").to_numpy(dtype=float).T
    if len(values) < 2:
        return (values[0], lows[0], highs[0]) if len(values) else (np.nan, np.nan, np.nan)
    low, high = t_interval(values, level)
    return float(values.mean()), max(low, 0.0), min(high, 1.0)


def joined(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """The parts below each other with just these columns; an empty frame of no parts."""
    import pandas as pd

    if not parts:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(parts, ignore_index=True)[list(columns)]
