"""An audit's numbers as tables, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from tod_bias.recommenders.lmrec.reading import ALPHA, DIFFERENCE, claimed, first_of_pairs, largest, score
from tod_bias.recommenders.lmrec.recommendations import ALL
from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import Probability, Sheet

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.results import Audit

_SIGNS = ("$", "$$", "$$$", "$$$$")


def sheets(audited: Audit) -> list[Sheet]:
    """The main tables of an audit over all cities; those without rows are left out."""
    intervals = f"{audited.level:.0%} intervals"
    percentage, by_label, association, average = (
        frame[frame["city"] == ALL]
        for frame in (audited.price_percentage, audited.price_by_label, audited.association, audited.average_price)
    )
    made = [
        _percentage(percentage, f"Price percentage P(label | price), {intervals}"),
        _by_label(by_label, f"Average price level of a label's lists, 1 to 4, {intervals}"),
        _associations(association, f"Associations found (adjusted p < {ALPHA}), {DIFFERENCE}, {intervals}"),
        _prices(average, audited.places, f"Average price level by place, {intervals}"),
        _examples(audited.record.get("examples", ())),
    ]
    return [sheet for sheet in made if sheet.rows]


def _percentage(scores: pd.DataFrame, title: str) -> Sheet:
    rows = []
    for (dimension, label), levels in scores.groupby(["dimension", "label"], sort=False):
        cells = [score(row, "value") for _, row in levels.sort_values("price").iterrows()]
        rows.append((str(dimension), str(label), fixed(levels["neutral"].mean()), *cells))
    return Sheet("price_percentage", title, ("dimension", "label", "neutral", *_SIGNS), tuple(rows))


def _by_label(scores: pd.DataFrame, title: str) -> Sheet:
    rows = [
        (
            str(row["dimension"]),
            f"{row['label']} / {row['other']}",
            fixed(row["value"]),
            fixed(row["other_value"]),
            score(row, "difference", sign=True),
            Probability(row["p_adjusted"]),
        )
        for _, row in first_of_pairs(scores).iterrows()
    ]
    columns = ("dimension", "labels", "first", "second", "difference", "p (adjusted)")
    return Sheet("price_by_label", title, columns, tuple(rows))


def _associations(scores: pd.DataFrame, title: str) -> Sheet:
    shifted = scores[claimed(scores) & (scores["difference"] > 0)]
    order = shifted["difference"].abs().sort_values(ascending=False, kind="stable").index
    order = shifted.loc[order].groupby("dimension", sort=False).head(20).sort_values("dimension", kind="stable").index
    rows = [
        (
            row["dimension"],
            row["category"],
            row["label"],
            row["other"],
            score(row, "difference", sign=True),
            fixed(row["ratio"], 2) if row["ratio"] < float("inf") else "∞",
            Probability(row["p_adjusted"]),
            largest(row),
        )
        for _, row in shifted.loc[order].iterrows()
    ]
    columns = ("dimension", "category", "leans to", "away from", "difference", "ratio", "p (adjusted)", "largest word")
    return Sheet("association", title, columns, tuple(rows))


def _examples(examples: Sequence[Mapping[str, Any]]) -> Sheet:
    rows = [
        (
            str(row["dimension"]),
            str(row["query"]),
            str(row["substitution"]),
            str(row["item"] or "–"),
            _SIGNS[row["price"] - 1] if row["price"] else "–",
            str(row["categories"] or "–"),
        )
        for row in examples
    ]
    columns = ("dimension", "request", "substitution", "first item", "price", "categories")
    return Sheet("examples", "Examples: the first item for one request, and nothing more", columns, tuple(rows))


def _prices(scores: pd.DataFrame, places: Mapping[str, Sequence[str]], title: str) -> Sheet:
    kinds = {word: kind for kind, words in places.items() for word in words}
    shown = scores[scores["substitution"].isin(list(kinds))].sort_values("value", ascending=False)
    rows = [
        (
            row["substitution"],
            kinds[row["substitution"]],
            count(row["queries"]),
            score(row, "value"),
            fixed(row["neutral"]) if pd.notna(row["neutral"]) else "–",
        )
        for _, row in shown.iterrows()
    ]
    return Sheet("average_price", title, ("place", "kind", "queries", "average price", "neutral"), tuple(rows))
