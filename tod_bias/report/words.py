"""Mentions of groups in a corpus, as a table for a terminal and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from rich.table import Table

from tod_bias.io.files import subfolder, write_text
from tod_bias.io.folder import writable
from tod_bias.report.canvas import (
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
    to_svg,
)
from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import new_table

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tod_bias.audit.mentions import WordStatistics

_BAR, _TITLE = 0.4, 0.35
"""Inches that a group takes, and the name of an axis."""
_ABOVE, _BELOW = 0.35, 0.5
"""Inches for the legend, and for the scale."""


def table(result: Mapping[str, Any]) -> Table:
    """One row per axis and group: mentions by speaker per 1,000 words, and shares of dialogues, with intervals.

    Args:
        result: the content of ``words.json``.
    """
    corpus = result["corpus"]
    title = f"{corpus['name']} {corpus['split']}".strip() + f": {count(corpus['dialogues'])} dialogues"
    view = new_table(f"{title}, {count(result['words']['both'])} words; mentions per 1,000 words", (0, 1, 0, 0))
    view.add_column("", no_wrap=True)
    for heading in ("count", "user", "system", "both \\[95%]", "dialogues \\[95%]"):
        view.add_column(heading, justify="right", no_wrap=True)
    for axis, groups in result["axes"].items():
        view.add_row(f"[bold]{axis}[/bold]")
        for number, (group, speakers) in enumerate(groups.items()):
            both = speakers["both"]
            view.add_row(
                f" {group}",
                count(both["mentions"]),
                *(_scaled(speakers[speaker]["share_of_words"], 1000) for speaker in ("user", "system")),
                _with_bounds(both["share_of_words"], both["share_of_words_ci"], 1000, ""),
                _with_bounds(both["share_of_dialogues"], both["share_of_dialogues_ci"], 100, "%"),
                end_section=number == len(groups) - 1,
            )
    return view


def corpora_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table of several corpora: each group's share of the mentions of its axis, and their number.

    Args:
        results: a corpus to the content of its ``words.json``.
    """
    view = new_table("share of the mentions of an axis (mentions), users and systems", (0, 1, 0, 0))
    view.add_column("", no_wrap=True)
    for name, result in results.items():
        view.add_column(f"{name}\n{count(result['corpus']['dialogues'])} dialogues", justify="right")
    for axis, groups in next(iter(results.values()))["axes"].items():
        view.add_row(f"[bold]{axis}[/bold]")
        for number, group in enumerate(groups):
            both = [result["axes"][axis][group]["both"] for result in results.values()]
            cells = (f"{_percent(counts['share_of_mentions'])} ({count(counts['mentions'])})" for counts in both)
            view.add_row(f" {group}", *cells, end_section=number == len(groups) - 1)
    return view


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


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


_SPEAKERS = ("user", "system")
_SHARES = (("share_of_words", 1000, "mentions per 1,000 words"), ("share_of_dialogues", 100, "% of dialogues"))
"""The columns of the figure: the value of a row, its scale, and the label."""


@styled
def word_shares(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Mentions of every group by speaker (Su Fig. 2): per 1,000 words, and in which share of dialogues.

    Args:
        rows: those of :func:`tod_bias.audit.mentions.word_statistics`, one per axis, group and speaker.
    """
    axes: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        axes.setdefault(row["axis"], []).append(row)
    heights = {axis: _BAR * len({row["group"] for row in some}) for axis, some in axes.items()}
    left = min(max(map(text_width, {row["group"] for row in rows})) + 0.2, WIDTH / 3)
    width = (WIDTH - left - 0.35) / 2
    figure = fixed_figure(WIDTH, _ABOVE + sum(heights.values()) + _TITLE * len(axes) + _BELOW)
    for column, (_, _, label) in enumerate(_SHARES):
        panels: list[Axes] = []
        top = _ABOVE
        for axis, some in axes.items():
            top += _TITLE
            panel = place(figure, left + column * (width + 0.2), top, width, heights[axis])
            top += heights[axis]
            _share_bars(panel, some, column)
            if column == 0:
                panel.set_title(axis)
            panels.append(panel)
        end = max(panel.get_xlim()[1] for panel in panels)
        for panel in panels:
            panel.set_xlim(0, end)
            panel.tick_params(labelbottom=panel is panels[-1])
        panels[-1].set_xlabel(label)
    figure.legend(handles=_speaker_keys(), loc="upper left", ncols=3)
    return figure


@styled
def corpora_shares(results: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Whom several corpora mention (Su Fig. 2): shares of the mentions of an axis, a bar per corpus.

    Args:
        results: a corpus to the content of its ``words.json``.
    """
    axes = {axis: list(groups) for axis, groups in next(iter(results.values()))["axes"].items()}
    left = min(max(map(text_width, results)) + 0.2, WIDTH / 3)
    high = _BAR * len(results)
    figure = fixed_figure(WIDTH, _BELOW + (high + _TITLE + _ABOVE) * len(axes))
    top = 0.0
    for axis, groups in axes.items():
        top += _TITLE + _ABOVE
        panel = place(figure, left, top, WIDTH - left - 0.35, high)
        top += high
        start = np.zeros(len(results))
        for number, group in enumerate(groups):
            known = [result["axes"][axis][group]["both"]["share_of_mentions"] for result in results.values()]
            shares = 100 * np.array([share or 0.0 for share in known])
            panel.barh(range(len(results)), shares, left=start, height=0.6, zorder=2, **_group_style(number))
            start += shares
        _bars_frame(panel)
        panel.set_yticks(range(len(results)), list(results))
        panel.set_ylim(len(results) - 0.5, -0.5)
        panel.set_xlim(0, 100)
        keys = [Patch(**_group_style(number), label=group) for number, group in enumerate(groups)]
        title = panel.legend(handles=keys, title=axis, ncols=len(keys), loc="lower left", bbox_to_anchor=(0, 1))
        title.set_alignment("left")
    panel.set_xlabel("% of the mentions of an axis")
    return figure


def _group_style(number: int) -> dict[str, Any]:
    colours = len(STAGE_COLOURS)
    return {
        "facecolor": STAGE_COLOURS[number % colours],
        "hatch": HATCHES[(number + number // colours) % colours],
        **BAR,
    }


def _share_bars(panel: Axes, rows: Sequence[Mapping[str, Any]], column: int) -> None:
    """The bars of one axis, with their intervals; group names on the left column only."""
    share, scale, _ = _SHARES[column]
    names: list[str] = []
    for number, speaker in enumerate(_SPEAKERS):
        spoken = [row for row in rows if row["speaker"] == speaker]
        names = [row["group"] for row in spoken]
        heights = np.arange(len(spoken)) + 0.4 * number - 0.2
        values = scale * np.array([row[share] for row in spoken])
        panel.barh(heights, values, height=0.36, zorder=2, **_speaker_style(number))
        lows, highs = (scale * np.array([row[f"{share}_{end}"] for row in spoken]) for end in ("low", "high"))
        panel.hlines(heights, lows, highs, color=INK, linewidth=1.2, zorder=3)
    _bars_frame(panel)
    panel.set_yticks(range(len(names)), names if column == 0 else [])
    panel.set_ylim(len(names) - 0.5, -0.5)


def _speaker_style(number: int) -> dict[str, Any]:
    return {"facecolor": STAGE_COLOURS[number], "hatch": HATCHES[number], **BAR}


def _speaker_keys() -> list[Artist]:
    keys: list[Artist] = [Patch(**_speaker_style(number), label=name) for number, name in enumerate(_SPEAKERS)]
    return [*keys, Line2D([], [], color=INK, linewidth=1.2, label="95% interval")]


def _bars_frame(panel: Axes) -> None:
    strip(panel)
    panel.use_sticky_edges = False  # else bars end at the frame, as if cut off
    panel.margins(x=0.04)
    panel.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    panel.grid(axis="x", linewidth=0.6, zorder=0)
    panel.set_axisbelow(True)


def write_shares(statistics: WordStatistics, folder: Path) -> None:
    """Write ``figures/words.svg``: the share of words of each group, by speaker (Su Fig. 2)."""
    write_text(subfolder(writable(folder), "figures") / "words.svg", to_svg(word_shares(statistics.rows)))


def write_corpora(results: Mapping[str, WordStatistics], folder: Path) -> None:
    """Write ``figures/corpora.svg``: the shares of each group in several corpora."""
    write_text(subfolder(writable(folder), "figures") / "corpora.svg", to_svg(corpora_shares(results)))
