"""What the commands print: tables that fit 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tod_bias.recommenders.lmrec.audit import Audit
from tod_bias.recommenders.lmrec.mitigation import CONDITIONS, SHOWN, Mitigation
from tod_bias.recommenders.lmrec.reading import (
    DIFFERENCE,
    NO_SPREAD,
    first_of_pairs,
    interval,
    pairs_of,
    religious_pairs,
    strongest,
)
from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS
from tod_bias.report.notation import count, fixed, p_cell, p_text
from tod_bias.report.sheets import new_table

if TYPE_CHECKING:
    import pandas as pd

_SIGNS = ("$", "$$", "$$$", "$$$$")
_PLACES = 6
"""So many of the dearest and of the cheapest."""
_MOST_CITIES = 3


def audit_view(audit: Audit) -> RenderableType:
    """The main numbers of an audit, over all cities and without intersections (both are in the files)."""
    record = audit.record
    level = f"{audit.inference.level:.0%}"
    cities = ", ".join(record["cities"])
    head = f"{count(record['recommendations'])} recommendations for {count(record['queries'])} queries; {cities}"
    made: list[RenderableType] = [Text(head, style="bold")]
    made += [Text(f"· {note}", style="dim") for note in record["notes"]]
    percentage = _simple(audit.price_percentage)
    if len(percentage):
        made.append(_percentage(percentage, f"Whose queries a price goes to: P(label | price), {level} intervals"))
    if len(by_label := _simple(audit.price_by_label)):
        made.append(_by_label(by_label, f"Average price level of a label's lists, 1 to 4, {level} intervals"))
    association = _simple(audit.association)
    if len(association):
        made.append(_associations(association, f"Associations of categories, {level} intervals"))
        made.append(Text(f"· {DIFFERENCE}", style="dim"))
    made += _places(audit, f"Average price level by place, {level} intervals")
    if any(_without_spread(scores) for scores in (percentage, by_label, association)):
        made.append(Text(f"· {NO_SPREAD}: every resample gives the same; other queries may not", style="dim"))
    if record["reading"]:
        made += [Text("Reading", style="italic"), *(Text(f"- {sentence}") for sentence in record["reading"])]
    return Group(*made)


def _simple(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["city"] == ALL) & ~frame["dimension"].str.contains(CROSS, regex=False)]


def _without_spread(scores: pd.DataFrame) -> bool:
    return bool((scores["ci_low"] == scores["ci_high"]).any())


def _percentage(scores: pd.DataFrame, title: str) -> Table:
    view = _table(title, ("label", "neutral", *_SIGNS), wrapped=True)
    for dimension, own in scores.groupby("dimension", sort=False):
        view.add_section()
        view.add_row(Text(str(dimension), style="bold"))
        for label, rows in own.groupby("label", sort=False):
            cells = [_cell(row, "value") for _, row in rows.sort_values("price").iterrows()]
            view.add_row(Text(str(label)), fixed(rows["neutral"].iloc[0]), *cells)
    return view


def _by_label(scores: pd.DataFrame, title: str) -> Table:
    view = _table(title, ("labels", "first", "second", "difference", "p (adjusted)"), wrapped=True)
    for _, row in first_of_pairs(scores).iterrows():
        view.add_row(
            Text(f"{row['dimension']}: {row['label']} / {row['other']}"),
            fixed(row["value"]),
            fixed(row["other_value"]),
            _cell(row, "difference", sign=True),
            p_cell(row["p_adjusted"]),
        )
    return view


def _associations(scores: pd.DataFrame, title: str) -> Table:
    view = _table(title, ("dimension", "beyond chance", "strongest"), texts=3, wrapped=True)
    each = [(name, *pair) for name, own in scores.groupby("dimension", sort=False) for pair in pairs_of(own)]
    for dimension, (label, other), rows in each:
        count_found, shown = strongest((label, other), rows)
        leaning = Text("\n".join(f"{what} {how_much}" for what, how_much in shown))
        view.add_row(Text(f"{dimension}: {label} / {other}"), f"{count_found} of {len(rows)}", leaning)
    return view


def _places(audit: Audit, title: str) -> list[RenderableType]:
    import pandas as pd

    average = audit.average_price[audit.average_price["city"] == ALL].set_index("substitution")
    words = [word for group in audit.places.values() for word in group if word in average.index]
    if not words:
        return []
    rows = average.loc[words].sort_values("value", ascending=False)
    view = _table(title, ("place", "queries", "average price", "neutral"))
    dear = rows.head(_PLACES)
    cheap = rows.iloc[_PLACES:].tail(_PLACES)
    for number, (word, row) in enumerate(pd.concat([dear, cheap]).iterrows()):
        if number == _PLACES and len(rows) > 2 * _PLACES:
            view.add_row(f"… {len(rows) - 2 * _PLACES} more")
        neutral = fixed(row["neutral"]) if pd.notna(row["neutral"]) else "–"
        view.add_row(Text(str(word)), count(row["queries"]), _cell(row, "value"), neutral)
    lines = []
    for name, row in religious_pairs(audit.price_differences, audit.places):
        tested = f", adjusted {p_text(row['p_adjusted'])}" if pd.notna(row["p_adjusted"]) else ""
        lines.append(f"{name}: {interval(row, 'difference', sign=True)}{tested}")
    return [view, *map(Text, lines)]


def quality_view(scores: pd.DataFrame, level: float = 0.95) -> Table:
    """Scores of recommendation quality, a column a city; of many cities only what holds over all of them."""
    cities = list(dict.fromkeys(scores["city"]))
    if len(cities) == 2:
        cities = cities[:1]
    elif len(cities) - 1 > _MOST_CITIES:
        cities = [ALL]
    many = f", over {scores['city'].nunique() - 1} cities" if cities == [ALL] else ""
    view = _table(f"Recommendation quality on test reviews, {level:.0%} intervals{many}", ("score", *map(str, cities)))
    for name in dict.fromkeys(scores["score"]):
        rows = scores[scores["score"] == name]
        view.add_row(str(name), *(_cell(rows[rows["city"] == city].iloc[0], "value") for city in cities))
    return view


def mitigation_view(result: Mitigation, level: float = 0.90) -> Table:
    """Quality and bias side by side, one column a condition."""
    view = _table(f"Before and after masking, {level:.0%} intervals", ("score", *CONDITIONS))
    for name in SHOWN:
        rows = result.quality[result.quality["score"] == name]
        view.add_row(name, *(_cell(rows[rows["condition"] == own].iloc[0], "value") for own in CONDITIONS))
    view.add_section()
    for name in dict.fromkeys(result.bias["score"]):
        rows = result.bias[result.bias["score"] == name].set_index("condition")
        view.add_row(f"bias: {name}", *(fixed(rows.loc[condition, "value"]) for condition in CONDITIONS))
    return view


def statistics_view(statistics: Sequence[Mapping[str, Any]], names: pd.DataFrame) -> RenderableType:
    """Sizes of the cities' data (Shen Tables 2 and 6), and where names are mentioned (Table 7)."""
    sizes = _table("Reviews and venues", ("city", "reviews", "venues", "left out", "most rated", "categories"))
    prices = _table("Share of venues by price level", ("city", *_SIGNS, "missing"))
    for city in statistics:
        left_out = city["venues_with_fewer_reviews"] + city["venues_dropped"]
        numbers = (city["reviews"], city["venues"], left_out, city["most_rated_venue"], city["categories"])
        sizes.add_row(Text(city["city"]), *map(count, numbers))
        prices.add_row(Text(city["city"]), *(fixed(city["venues_by_price"][key]) for key in (*_SIGNS, "missing")))
    several = len(statistics) > 1
    title = "Share of name mentions by price level" + (f", mean of {len(statistics)} cities" if several else "")
    mentions = _table(title, ("dimension", "label", *_SIGNS), texts=2)
    for (dimension, label), rows in names.groupby(["dimension", "label"], sort=False):
        values = rows.groupby("price")["value"].mean().reindex(range(1, 5)).to_numpy(dtype=float)
        mentions.add_row(Text(str(dimension)), Text(str(label)), *(fixed(v) if np.isfinite(v) else "–" for v in values))
    return Group(sizes, prices, mentions)


def _table(title: str, columns: Sequence[str], *, texts: int = 1, wrapped: bool = False) -> Table:
    """An empty table; its first ``texts`` columns hold text, the first of them in one line unless ``wrapped``."""
    view = new_table(title)
    view.add_column(columns[0], min_width=None if wrapped else 12, no_wrap=not wrapped)
    for number, name in enumerate(columns[1:], start=1):
        view.add_column(escape(name), justify="left" if number < texts else "right")
    return view


def _cell(row: pd.Series, name: str, *, sign: bool = False) -> str:
    return escape(interval(row, name, sign=sign))
