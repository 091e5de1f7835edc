"""The report of an audit of recommendations: one HTML file that holds its figures and main tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup

from tod_bias.files import write_text
from tod_bias.recommenders.lmrec.reading import ALPHA, LIMITS, captions, interval
from tod_bias.recommenders.lmrec.recommendations import ALL
from tod_bias.report.notation import count, fixed, p_cell
from tod_bias.report.page import render_page
from tod_bias.report.palette import inline

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.audit import Audit

REPORT = "report.html"
_TEMPLATE = Path(__file__).parent / "templates" / "audit.html.j2"
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""Title, columns, rows of text."""


def write_report(audit: Audit, drawn: Mapping[str, str], folder: Path) -> Path:
    """Write ``report.html``.

    Args:
        audit: what it shows.
        drawn: file names (without ending) to SVG documents of the figures.
        folder: where to.
    """
    figures = [(name, captions(name), Markup(inline(svg, name, captions(name)))) for name, svg in drawn.items()]
    text = render_page(
        _TEMPLATE,
        record=audit.record,
        level=f"{audit.inference.level:.0%}",
        figures=figures,
        tables=_tables(audit),
        limits=LIMITS,
    )
    path = folder / REPORT
    write_text(path, text)
    return path


def _tables(audit: Audit) -> list[Table]:
    level = f"{audit.inference.level:.0%}"
    made = [
        (f"Price percentage P(label | price), {level} intervals", *_percentage(audit.price_percentage)),
        (f"Associations found (adjusted p < {ALPHA}), {level} intervals", *_associations(audit.association)),
        (f"Average price level by place, {level} intervals", *_prices(audit)),
    ]
    return [table for table in made if table[2]]


def _percentage(scores: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = []
    own = scores[scores["city"] == ALL]
    for (dimension, label), levels in own.groupby(["dimension", "label"], sort=False):
        cells = [interval(row, "value") for _, row in levels.sort_values("price").iterrows()]
        rows.append((str(dimension), str(label), fixed(levels["neutral"].iloc[0]), *cells))
    return ("dimension", "label", "neutral", "$", "$$", "$$$", "$$$$"), rows


def _associations(scores: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    own = scores[(scores["city"] == ALL) & (scores["p_adjusted"] < ALPHA) & (scores["difference"] > 0)]
    order = own["difference"].abs().sort_values(ascending=False, kind="stable").index
    order = own.loc[order].groupby("dimension", sort=False).head(20).sort_values("dimension", kind="stable").index
    names = ("dimension", "category", "leans to", "away from", "difference", "ratio", "p (adjusted)")
    return names, [
        (
            row["dimension"], row["category"], row["label"], row["other"], interval(row, "difference", sign=True),
            fixed(row["ratio"], 2) if row["ratio"] < float("inf") else "∞", p_cell(row["p_adjusted"]),
        )
        for _, row in own.loc[order].iterrows()
    ]  # fmt: skip


def _prices(audit: Audit) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    kinds = {word: kind for kind, words in audit.places.items() for word in words}
    scores = audit.average_price[audit.average_price["city"] == ALL]
    own = scores[scores["substitution"].isin(list(kinds))].sort_values("value", ascending=False)
    return ("place", "kind", "queries", "average price", "neutral"), [
        (
            row["substitution"], kinds[row["substitution"]], count(row["queries"]), interval(row, "value"),
            fixed(row["neutral"]) if pd.notna(row["neutral"]) else "–",
        )
        for _, row in own.iterrows()
    ]  # fmt: skip
