"""Su's Fig. 4 and Fig. 5, from finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from findings import StudyRun

from tod_bias.report.canvas import (
    BAR,
    HATCHES,
    INK,
    MUTED,
    RESIDUAL_COLOUR,
    WIDTH,
    new_figure,
    stage_colours,
    strip,
    styled,
)
from tod_bias.results import RESIDUAL, AxisResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 4
"""Panels in a row."""


def short(run: StudyRun) -> str:
    """Name a run in a panel's title."""
    return f"{run.model}\n{run.beginning}\n{run.corpus} ({run.training:,})"


def _panels(runs: Sequence[StudyRun], high: float, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Make a figure with a titled panel per run, in rows of ``high`` inches."""
    rows = -(-len(runs) // ACROSS)
    figure = new_figure(WIDTH, high * rows)
    panels = list(figure.subplots(rows, ACROSS, sharey=sharey, squeeze=False).flat)
    for panel, run in zip(panels, runs, strict=False):
        panel.set_title(short(run), fontsize=7, fontweight="normal")
    for panel in panels[len(runs) :]:
        panel.set_visible(False)
    return figure, panels[: len(runs)]


@styled
def fairscores(runs: Sequence[StudyRun]) -> Figure:
    """Stacked shares of the fairscore by stage, a bar per axis and a panel per run (Su Fig. 4).

    Shares below 0 are drawn below the line. The mark is the fairscore, which is the sum of the shares.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, panels = _panels(runs, 2.5, sharey=True)
    stages = list(
        dict.fromkeys(name for run in runs for one in run.axes.values() if one.su for name in one.su.contributions)
    )
    styles: dict[str, dict[str, Any]] = {
        name: {"facecolor": colour, "hatch": HATCHES[number], **BAR}
        for number, (name, colour) in enumerate(stage_colours(stages).items())
    }
    styles[RESIDUAL] = {"facecolor": RESIDUAL_COLOUR, **BAR}
    for panel, run in zip(panels, runs, strict=True):
        _bars(panel, run.axes, styles)
    for panel in panels[::ACROSS]:
        panel.set_ylabel("fairscore (BLEU)")
    keys = [Patch(**style, label=name) for name, style in styles.items()]
    whole = Line2D([], [], marker="_", color=INK, linestyle="none", label="fairscore")
    figure.legend(handles=[*keys, whole], loc="outside lower center", ncols=len(keys) + 1)
    return figure


def _bars(panel: Axes, axes: Mapping[str, AxisResult], styles: Mapping[str, dict[str, Any]]) -> None:
    known = {axis: one.su for axis, one in axes.items() if one.su is not None}
    for place, su in enumerate(known.values()):
        ends = {True: 0.0, False: 0.0}
        for name, part in {**su.contributions, RESIDUAL: su.residual}.items():
            size = part.value or 0.0
            panel.bar(place, size, bottom=ends[size >= 0], width=0.6, zorder=2, **styles[name])
            ends[size >= 0] += size
        panel.plot([place], [su.fairscore.value], marker="_", markersize=14, color=INK, zorder=3)
    strip(panel)
    panel.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    panel.grid(axis="y", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.set_xticks(range(len(known)), [_label(axis) for axis in known], fontsize=7)


def _label(axis: str) -> str:
    kind, _, rest = axis.partition("_")
    return f"{rest}\n{kind}" if rest else axis


@styled
def pairs(runs: Sequence[StudyRun], axis: str = "gender") -> Figure:
    """Fairscore by source (rows) and target (columns), a panel per run (Su Fig. 5)."""
    import numpy as np

    shown = [(run, run.axes[axis].su) for run in runs if axis in run.axes and run.axes[axis].su is not None]
    figure, panels = _panels([run for run, _ in shown], 2.3)
    most = max(pair.value or 0.0 for _, su in shown for pair in su.pairs.values())
    for panel, (_, su) in zip(panels, shown, strict=True):
        groups = list(dict.fromkeys(name for pair in su.pairs.values() for name in (pair.source, pair.target)))
        values = np.full((len(groups), len(groups)), np.nan)
        for pair in (one for one in su.pairs.values() if one.value is not None):
            row, column = groups.index(pair.source), groups.index(pair.target)
            values[row, column] = pair.value
            panel.text(column, row, f"{pair.value:.3f}\n({pair.dialogues})", ha="center", va="center", fontsize=7)
        panel.imshow(values, cmap="Oranges", vmin=0, vmax=1.6 * most)  # so that black digits stay readable
        strip(panel, ())
        panel.set_xticks(range(len(groups)), groups, fontsize=7)
        panel.set_yticks(range(len(groups)), groups, fontsize=7)
    return figure
