"""The report of an audit of recommendations: one HTML file that holds its figures and main tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.files import check_own_file
from tod_bias.recommenders.lmrec.reading import ALPHA, DIFFERENCE, LIMITS, captions, first_of_pairs, interval
from tod_bias.recommenders.lmrec.recommendations import ALL
from tod_bias.report.notation import count, fixed, p_cell
from tod_bias.report.page import FIGURES, REPORT, draw, write_page
from tod_bias.report.sheets import Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_TEMPLATE = Path(__file__).parent / "templates" / "audit.html.j2"


def write_report(
    folder: Path,
    figures: Mapping[str, Figure],
    record: Mapping[str, Any],
    level: float,
    percentage: pd.DataFrame,
    association: pd.DataFrame,
    average: pd.DataFrame,
    by_label: pd.DataFrame,
    places: Mapping[str, Sequence[str]],
) -> Path:
    """Write ``report.html`` and ``figures/*.svg``.

    Args:
        folder: where to.
        figures: by file name without ending.
        record: the content of ``audit.json``.
        level: of the intervals.
        percentage: price percentages.
        association: associations.
        average: average prices.
        by_label: average prices of labels.
        places: heading → substitutions that are places.
    """
    check_own_file(folder / REPORT)
    drawn = [
        (captions(name), draw(figure, folder / FIGURES / f"{name}.svg", captions(name)))
        for name, figure in figures.items()
    ]
    intervals = f"{level:.0%} intervals"
    sheets = [
        _percentage(percentage, f"Price percentage P(label | price), {intervals}"),
        _by_label(by_label, f"Average price level of a label's lists, 1 to 4, {intervals}"),
        _associations(association, f"Associations found (adjusted p < {ALPHA}), {DIFFERENCE}, {intervals}"),
        _prices(average, places, f"Average price level by place, {intervals}"),
    ]
    return write_page(
        folder / REPORT,
        _TEMPLATE,
        record=record,
        level=f"{level:.0%}",
        figures=drawn,
        sheets=[sheet for sheet in sheets if sheet.rows],
        limits=LIMITS,
    )


def _percentage(scores: pd.DataFrame, title: str) -> Sheet:
    rows = []
    own = scores[scores["city"] == ALL]
    for (dimension, label), levels in own.groupby(["dimension", "label"], sort=False):
        cells = [interval(row, "value") for _, row in levels.sort_values("price").iterrows()]
        rows.append((str(dimension), str(label), fixed(levels["neutral"].iloc[0]), *cells))
    columns = ("dimension", "label", "neutral", "$", "$$", "$$$", "$$$$")
    return Sheet("price_percentage", title, columns, tuple(rows))


def _by_label(scores: pd.DataFrame, title: str) -> Sheet:
    rows = [
        (
            str(row["dimension"]), f"{row['label']} / {row['other']}", fixed(row["value"]), fixed(row["other_value"]),
            interval(row, "difference", sign=True), p_cell(row["p_adjusted"]),
        )
        for _, row in first_of_pairs(scores[scores["city"] == ALL]).iterrows()
    ]  # fmt: skip
    return Sheet(
        "price_by_label", title, ("dimension", "labels", "first", "second", "difference", "p (adjusted)"), tuple(rows)
    )


def _associations(scores: pd.DataFrame, title: str) -> Sheet:
    own = scores[(scores["city"] == ALL) & (scores["p_adjusted"] < ALPHA) & (scores["difference"] > 0)]
    order = own["difference"].abs().sort_values(ascending=False, kind="stable").index
    order = own.loc[order].groupby("dimension", sort=False).head(20).sort_values("dimension", kind="stable").index
    rows = [
        (
            row["dimension"], row["category"], row["label"], row["other"], interval(row, "difference", sign=True),
            fixed(row["ratio"], 2) if row["ratio"] < float("inf") else "∞", p_cell(row["p_adjusted"]),
        )
        for _, row in own.loc[order].iterrows()
    ]  # fmt: skip
    columns = ("dimension", "category", "leans to", "away from", "difference", "ratio", "p (adjusted)")
    return Sheet("association", title, columns, tuple(rows))


def _prices(average: pd.DataFrame, places: Mapping[str, Sequence[str]], title: str) -> Sheet:
    import pandas as pd

    kinds = {word: kind for kind, words in places.items() for word in words}
    scores = average[average["city"] == ALL]
    own = scores[scores["substitution"].isin(list(kinds))].sort_values("value", ascending=False)
    rows = [
        (
            row["substitution"], kinds[row["substitution"]], count(row["queries"]), interval(row, "value"),
            fixed(row["neutral"]) if pd.notna(row["neutral"]) else "–",
        )
        for _, row in own.iterrows()
    ]  # fmt: skip
    return Sheet("average_price", title, ("place", "kind", "queries", "average price", "neutral"), tuple(rows))
