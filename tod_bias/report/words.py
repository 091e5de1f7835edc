"""The words of a corpus: a table on a terminal, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from tod_bias.report.notation import count, fixed
from tod_bias.report.palette import (
    BAR,
    HATCHES,
    INK,
    MUTED,
    STAGE_COLOURS,
    WIDTH,
    fixed_figure,
    place,
    strip,
    styled,
    text_width,
)
from tod_bias.report.sheets import new_table

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR, _TITLE = 0.4, 0.35
"""Inches that an attribute takes, and the name of an axis."""
_ABOVE, _BELOW = 0.35, 0.5
"""Inches for the legend, and for the scale."""


def table(result: Mapping[str, Any]) -> Table:
    """A row an axis and attribute: mentions by speaker in per mille of words, and the dialogues, with intervals.

    Args:
        result: the content of ``words.json``.
    """
    corpus = result["corpus"]
    title = f"{corpus['name']} {corpus['split']}".strip() + f": {count(corpus['dialogues'])} dialogues"
    view = new_table(f"{title}, {count(result['words']['both'])} words; mentions per 1,000 words", (0, 1, 0, 0))
    view.add_column("", no_wrap=True)
    for heading in ("count", "user", "system", "both \\[95%]", "dialogues \\[95%]"):
        view.add_column(heading, justify="right", no_wrap=True)
    for axis, attributes in result["axes"].items():
        view.add_row(f"[bold]{axis}[/bold]")
        for number, (attribute, speakers) in enumerate(attributes.items()):
            both = speakers["both"]
            view.add_row(
                f" {attribute}",
                count(both["mentions"]),
                *(_scaled(speakers[speaker]["share_of_words"], 1000) for speaker in ("user", "system")),
                _with_bounds(both["share_of_words"], both["share_of_words_ci"], 1000, ""),
                _with_bounds(both["share_of_dialogues"], both["share_of_dialogues_ci"], 100, "%"),
                end_section=number == len(attributes) - 1,
            )
    return view


def _scaled(share: float | None, scale: int) -> str:
    return fixed(None if share is None else scale * share, _decimals(share, scale))


def _decimals(share: float | None, scale: int) -> int:
    return 1 if scale == 100 or (share or 0.0) * scale >= 10 else 2


def _with_bounds(share: float | None, bounds: Sequence[float] | None, scale: int, unit: str) -> str:
    value = _scaled(share, scale) + unit
    if bounds is None:
        return value
    low, high = (fixed(scale * bound, _decimals(share, scale)) for bound in bounds)
    return f"{value} \\[{low}, {high}]"


@styled
def word_shares(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Mentions of every attribute by speaker (Su Fig. 2): per 1,000 words, and in which share of dialogues.

    Args:
        rows: those of :func:`tod_bias.audit.mentions.word_statistics`, an axis, attribute and speaker each.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = list(dict.fromkeys(row["axis"] for row in rows))
    parts = [[row for row in rows if row["axis"] == name] for name in names]
    sizes = [len({row["attribute"] for row in part}) for part in parts]
    left = min(max(map(text_width, {row["attribute"] for row in rows})) + 0.2, WIDTH / 3)
    wide = (WIDTH - left - 0.35) / 2
    heights = [_BAR * size for size in sizes]
    figure = fixed_figure(WIDTH, _ABOVE + sum(heights) + _TITLE * len(names) + _BELOW)
    columns = (("share_of_words", 1000, "mentions per 1,000 words"), ("share_of_dialogues", 100, "% of dialogues"))
    for column, (share, scale, label) in enumerate(columns):
        panels: list[Axes] = []
        top = _ABOVE
        for part, name, size, height in zip(parts, names, sizes, heights, strict=True):
            top += _TITLE
            panel = place(figure, left + column * (wide + 0.2), top, wide, height)
            top += height
            for number, speaker in enumerate(("user", "system")):
                own = [row for row in part if row["speaker"] == speaker]
                where = np.arange(size) + 0.4 * number - 0.2
                values = scale * np.array([row[share] for row in own])
                style_of = {"facecolor": STAGE_COLOURS[number], "hatch": HATCHES[number], **BAR}
                panel.barh(where, values, height=0.36, zorder=2, **style_of)
                lows, highs = (scale * np.array([row[f"{share}_{end}"] for row in own]) for end in ("low", "high"))
                panel.hlines(where, lows, highs, color=INK, linewidth=1.2, zorder=3)
            _bars_frame(panel)
            panel.set_yticks(range(size), [row["attribute"] for row in own] if column == 0 else [])
            panel.set_ylim(size - 0.5, -0.5)
            if column == 0:
                panel.set_title(name)
            panels.append(panel)
        reach = max(panel.get_xlim()[1] for panel in panels)
        for panel in panels:
            panel.set_xlim(0, reach)
            panel.tick_params(labelbottom=panel is panels[-1])
        panels[-1].set_xlabel(label)
    handles: list[Artist] = [
        Patch(facecolor=STAGE_COLOURS[number], hatch=HATCHES[number], **BAR, label=speaker)
        for number, speaker in enumerate(("user", "system"))
    ]
    handles.append(Line2D([], [], color=INK, linewidth=1.2, label="95% interval"))
    figure.legend(handles=handles, loc="upper left", ncols=3)
    return figure


def _bars_frame(panel: Axes) -> None:
    strip(panel)
    panel.use_sticky_edges = False  # else bars end at the frame, as if they were cut off there
    panel.margins(x=0.04)
    panel.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    panel.grid(axis="x", linewidth=0.6, zorder=0)
    panel.set_axisbelow(True)
