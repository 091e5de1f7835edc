"""An audit's numbers as tables, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.recommenders.lmrec.mitigation import CONDITIONS, SHOWN, MitigationScores
from tod_bias.recommenders.lmrec.reading import ALPHA, DIFFERENCE, first_of_pairs, score
from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS
from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import Probability, Sheet

if TYPE_CHECKING:
    import pandas as pd

_SIGNS = ("$", "$$", "$$$", "$$$$")
_PLACES = 6
"""So many of the dearest and of the cheapest places on a terminal."""
_CITIES = 3
"""More cities are not shown side by side."""


def sheets(
    percentage: pd.DataFrame,
    by_label: pd.DataFrame,
    association: pd.DataFrame,
    average: pd.DataFrame,
    places: Mapping[str, Sequence[str]],
    level: float,
) -> list[Sheet]:
    """The main tables of an audit over all cities; those without rows are left out."""
    intervals = f"{level:.0%} intervals"
    percentage, by_label, association, average = (
        frame[frame["city"] == ALL] for frame in (percentage, by_label, association, average)
    )
    made = [
        _percentage(percentage, f"Price percentage P(label | price), {intervals}"),
        _by_label(by_label, f"Average price level of a label's lists, 1 to 4, {intervals}"),
        _associations(association, f"Associations found (adjusted p < {ALPHA}), {DIFFERENCE}, {intervals}"),
        _prices(average, places, f"Average price level by place, {intervals}"),
    ]
    return [sheet for sheet in made if sheet.rows]


def for_terminal(made: Sequence[Sheet]) -> Iterator[Sheet]:
    """The same in short: without intersections and associations, with the dearest and the cheapest places."""
    for sheet in made:
        rows = sheet.rows
        if sheet.name == "association":
            continue
        if sheet.name == "average_price" and len(rows) > 2 * _PLACES:
            more = (f"… {len(rows) - 2 * _PLACES} more", *[""] * (len(sheet.columns) - 1))
            rows = (*rows[:_PLACES], more, *rows[-_PLACES:])
        yield replace(sheet, rows=tuple(row for row in rows if CROSS not in row[0]))


def _percentage(scores: pd.DataFrame, title: str) -> Sheet:
    rows = []
    for (dimension, label), levels in scores.groupby(["dimension", "label"], sort=False):
        cells = [score(row, "value") for _, row in levels.sort_values("price").iterrows()]
        rows.append((str(dimension), str(label), fixed(levels["neutral"].iloc[0]), *cells))
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
    shifted = scores[(scores["p_adjusted"] < ALPHA) & (scores["difference"] > 0)]
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
        )
        for _, row in shifted.loc[order].iterrows()
    ]
    columns = ("dimension", "category", "leans to", "away from", "difference", "ratio", "p (adjusted)")
    return Sheet("association", title, columns, tuple(rows))


def _prices(scores: pd.DataFrame, places: Mapping[str, Sequence[str]], title: str) -> Sheet:
    import pandas as pd

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


def quality_sheet(scores: pd.DataFrame, level: float) -> Sheet:
    """Scores of recommendation quality, a column per city; of many cities only what holds over all of them."""
    cities = list(map(str, dict.fromkeys(scores["city"])))
    if len(cities) == 2:
        cities = cities[:1]
    elif len(cities) - 1 > _CITIES:
        cities = [ALL]
    many = f", over {scores['city'].nunique() - 1} cities" if cities == [ALL] else ""
    rows = []
    for name, part in scores.groupby("score", sort=False):
        cells = (score(part[part["city"] == city].iloc[0], "value") for city in cities)
        rows.append((str(name), *cells))
    title = f"Recommendation quality on test reviews, {level:.0%} intervals{many}"
    return Sheet("quality", title, ("score", *cities), tuple(rows))


def mitigation_sheet(result: MitigationScores, level: float) -> Sheet:
    """Quality and bias side by side, a column per condition."""
    rows: list[tuple[Any, ...]] = []
    for name in SHOWN:
        part = result.quality[result.quality["score"] == name]
        cells = (score(part[part["condition"] == condition].iloc[0], "value") for condition in CONDITIONS)
        rows.append((name, *cells))
    for bias, part in result.bias.groupby("score", sort=False):
        values = part.set_index("condition")["value"]
        rows.append((f"bias: {bias}", *(fixed(values[condition]) for condition in CONDITIONS)))
    return Sheet("mitigation", f"Before and after masking, {level:.0%} intervals", ("score", *CONDITIONS), tuple(rows))


def statistics_sheets(statistics: Sequence[Mapping[str, Any]], names: pd.DataFrame) -> list[Sheet]:
    """Sizes of the cities' data (Shen Tables 2 and 6), and where names are mentioned (Table 7)."""
    sizes = [
        (
            city["city"],
            count(city["reviews"]),
            count(city["venues"]),
            count(city["venues_with_fewer_reviews"] + city["venues_dropped"]),
            count(city["most_rated_venue"]),
            count(city["categories"]),
        )
        for city in statistics
    ]
    levels = (*_SIGNS, "missing")
    prices = [(city["city"], *(fixed(city["venues_by_price"][key]) for key in levels)) for city in statistics]
    mentions = []
    for (dimension, label), rows in names.groupby(["dimension", "label"], sort=False):
        values = rows.groupby("price")["value"].mean().reindex(range(1, 5)).to_numpy(dtype=float)
        mentions.append((str(dimension), str(label), *(fixed(v) if np.isfinite(v) else "–" for v in values)))
    several = f", mean of {len(statistics)} cities" if len(statistics) > 1 else ""
    sized = ("city", "reviews", "venues", "left out", "most rated", "categories")
    return [
        Sheet("sizes", "Reviews and venues", sized, tuple(sizes)),
        Sheet("prices", "Share of venues by price level", ("city", *levels), tuple(prices)),
        Sheet(
            "mentions",
            f"Share of name mentions by price level{several}",
            ("dimension", "label", *_SIGNS),
            tuple(mentions),
        ),
    ]
