"""Words of the names of recommended items (Shen Fig. 6)."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from scipy import sparse

from tod_bias.recommenders.lmrec.inference import SHEN, GroupedQueries, quotient_bounds, word_count
from tod_bias.recommenders.lmrec.recommendations import Recommendations
from tod_bias.recommenders.lmrec.templates import word_list
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

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
