"""Words of the names of recommended items (Shen Fig. 6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.recommenders.lmrec.design import crossing_of, fewest_clusters, word_count
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.recommendations import Recommendations
from tod_bias.statistics.crossed import crossed_sums, crossed_variance
from tod_bias.statistics.jackknife import jackknife
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

_WORD = re.compile(r"[^\W\d_][\w'’]+")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    the an of and or nor but for to from in into on onto at by with without within about above across after
    against along among around as before behind below beneath beside between beyond down during except inside
    like near off out outside over past per since than through throughout till toward towards under until up
    upon via he him his she her hers it its they them their theirs we us our ours you your yours me my mine
    who whom whose this that these those which what where when why how here there all any both each every few
    more most much other some such no not only own same so too very be am is are was were been being have has
    had having do does did doing can could may might must shall should will would if because while although
    though yet also then once again
    """,
    )
)
"""Words that belong to no name in particular."""


def top_words(recommendations: Recommendations, inference: Inference | None = None, *, most: int = 20) -> pd.DataFrame:
    """Top words of the names of recommended items per group, over all cities (Shen Fig. 6: raw frequency).

    ``value`` is the share of the group's recommended items whose name holds the word, ``neutral`` the mean of this
    share over all groups of the dimension; stop words are left out. Within a city intervals resample the substituted
    words and the templates; with several cities they are over the cities, or over cities, words and templates where
    that is wider. A group of fewer than five substituted words has none. A share has no test.

    Returns:
        dimension, label, word, items, value, ci_low, ci_high, neutral; the ``most`` frequent words of each label.
    """
    import pandas as pd

    how = inference or SHEN
    made = []
    for dimension in recommendations.all_dimensions:
        rows = recommendations.rows(dimension)
        rows = rows[rows["item"] != ""]
        items, names = pd.factorize(rows["item"])
        words, holds = _words(list(names))
        labels = [label for label in recommendations.labels(dimension) if rows["group"].eq(label).any()]
        lists = {label: _lists(rows, items, label, len(names)) for label in labels}
        shares = np.array([np.asarray(part.sum(axis=0)).ravel() @ holds / part.sum() for part, _ in lists.values()])
        neutral = shares.mean(axis=0) if len(labels) else np.zeros(len(words))
        for (label, (part, frame)), share in zip(lists.items(), shares, strict=True):
            order = np.lexsort((words, -share))[:most]
            order = order[share[order] > 0]
            table = np.column_stack([(part @ holds[:, order]).toarray(), np.asarray(part.sum(axis=1)).ravel()])
            low, high = _bounds(table, frame, how, how.rng("words", dimension, label))
            counts = table.sum(axis=0)
            for place, number in enumerate(order):
                values = (share[number], low[place], high[place], neutral[number])
                made.append((dimension, label, words[number], int(counts[place]), *map(float, values)))
    columns = ["dimension", "label", "word", "items", "value", "ci_low", "ci_high", "neutral"]
    return pd.DataFrame(made, columns=columns)


def _words(names: list[str]) -> tuple[np.ndarray, sparse.csr_array]:
    """The words of some names, and which name holds which: (names, words) of 0 and 1."""
    from scipy import sparse

    held = [sorted(set(_WORD.findall(name.lower())) - _FUNCTION_WORDS) for name in names]
    words = sorted({word for part in held for word in part})
    number = {word: place for place, word in enumerate(words)}
    columns = [number[word] for part in held for word in part]
    rows = np.repeat(np.arange(len(names)), [len(part) for part in held])
    return np.array(words, dtype=object), sparse.csr_array(
        (np.ones(len(columns)), (rows, columns)), shape=(len(names), len(words))
    )


def _lists(rows: pd.DataFrame, items: np.ndarray, label: str, names: int) -> tuple[sparse.csr_array, pd.DataFrame]:
    """How often each query of a label got each name, (queries, names), and the queries."""
    import pandas as pd
    from scipy import sparse

    mine = rows["group"].eq(label).to_numpy()
    part = rows[mine]
    units = pd.factorize(part["unit"])[0]
    counts = sparse.csr_array((np.ones(len(part)), (units, items[mine])), shape=(units.max(initial=-1) + 1, names))
    return counts, part.drop_duplicates("unit")


def _bounds(table: np.ndarray, frame: pd.DataFrame, how: Inference, rng: np.random.Generator) -> np.ndarray:
    """(2, words) of the shares of one label."""
    import pandas as pd

    if not word_count(frame, table[:, -1]).enough_for_intervals:
        return np.full((2, table.shape[1] - 1), np.nan)
    label = np.zeros(len(table), dtype=int)
    city = pd.factorize(frame["city"])[0]
    design = crossing_of(frame, label, cities=city.max() > 0)
    if city.max() == 0:
        samples = crossed_sums(rng, table, design, how.resamples)[:, 0]
        return how.bounds(_shares(samples), fewest_clusters(design.ways, label == 0))
    over = jackknife(sums_by(city, table, city.max() + 1), _shares, how.level)
    influences = (table[:, :-1] - over.value * table[:, -1:]) / table[:, -1].sum()
    half = crossed_variance(influences, design).half(how.level)
    return np.clip([np.fmin(over.low, over.value - half), np.fmax(over.high, over.value + half)], 0.0, 1.0)


def _shares(sums: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return sums[..., :-1] / sums[..., -1:]
