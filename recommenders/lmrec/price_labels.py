"""How dear what is recommended to one group is, against another: average price levels of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tod_bias.recommenders.lmrec.associations import Scale, Units, compared
from tod_bias.recommenders.lmrec.design import queries_of
from tod_bias.recommenders.lmrec.inference import SHEN, joined
from tod_bias.recommenders.lmrec.price_pairs import price_sums
from tod_bias.recommenders.lmrec.recommendations import Recommendations
from tod_bias.recommenders.lmrec.venue import LEVELS
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd

IN_LEVELS = Scale(relative=False, most=float(LEVELS[-1] - LEVELS[0]))
"""Differences of two average price levels."""


def price_by_label(recommendations: Recommendations, inference: Inference | None = None) -> pd.DataFrame:
    """Average price level of what each label is recommended, against another label's; range 1–4.

    Where Shen's eq. 1 asks whose queries a price goes to, this is the mean price of a label's lists, every item with a
    price counting once, and ``difference`` is that of two labels in price levels, positive where the first is dearer.
    Intervals and tests are those of associations (:func:`~tod_bias.recommenders.lmrec.associations.association`): words
    and templates are clusters, over several cities the cities too, and labels change places by word. City ``all`` pools
    the items of all cities that have lists of both labels. Every pair is given in both directions.

    Returns:
        city, dimension, label, other, value, other_value, difference, ci_low, ci_high, p_value (the largest of the next
        three), p_adjusted (over the pairs of a dimension), p_permutation, p_crossed, p_cities, permuted, words.
    """
    names = {"share": "value", "other_share": "other_value"}
    columns = [
        "city", "dimension", "label", "other", *names, "difference", "ci_low", "ci_high", "p_value", "p_adjusted",
        "p_permutation", "p_crossed", "p_cities", "permuted", "words",
    ]  # fmt: skip
    how = inference or SHEN
    found = joined(compared(recommendations, how, _units, IN_LEVELS), columns)
    once = found.groupby(["city", "dimension", found["label"] < found["other"]])["p_value"]
    found["p_adjusted"] = once.transform(lambda values: adjusted(values.to_numpy(dtype=float), how.correction))
    return found.rename(columns=names)


def _units(rows: pd.DataFrame) -> Units:
    numbers, frame = queries_of(rows)
    return Units(frame, price_sums(rows, numbers), ["price"])
