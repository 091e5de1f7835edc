"""Words of the names of recommended items (Shen Fig. 6)."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.inference import Inference, over_cities, resampled
from tod_bias.recommenders.lmrec.recommendations import Recommendations

_WORD = re.compile(r"[^\W\d_][\w'’]+")


def top_words(recommendations: Recommendations, inference: Inference | None = None, *, most: int = 20) -> pd.DataFrame:
    """Top words of the names of recommended items per group, over all cities (Shen Fig. 6: raw frequency).

    ``value`` is the share of the group's recommended items whose name holds the word; stop words are left out. With
    several cities the intervals are over the cities.

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
            total = table.sum(axis=0)
            cities = own.drop_duplicates("unit")["city"].to_numpy()
            if len(set(cities)) > 1:
                sums = np.stack([table[cities == city].sum(axis=0) for city in dict.fromkeys(cities)])
                over = over_cities(sums, _shares, how.level, lowest=0.0, highest=1.0)
                low, high = over.low, over.high
            else:
                samples = resampled(how.rng("words", dimension, label), table, how.resamples)
                low, high = how.bounds(_shares(samples), len(table))
            for place, word in enumerate(chosen):
                made.append(
                    (dimension, label, word, int(total[place]), total[place] / total[-1], low[place], high[place])
                )
    return pd.DataFrame(made, columns=["dimension", "label", "word", "items", "value", "ci_low", "ci_high"])


def _shares(sums: np.ndarray) -> np.ndarray:
    return sums[..., :-1] / sums[..., -1:]
