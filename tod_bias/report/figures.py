"""The figures of one run, and the one that compares runs.

Every function returns a :class:`matplotlib.figure.Figure`; :func:`figures` gives all of one run by file name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tod_bias.report.notation import count, fixed
from tod_bias.report.outcome import RESIDUAL, Axis, Effect, Estimate, arm_keys, read_axes
from tod_bias.report.palette import (
    DASHES,
    DIVERGING,
    GRID,
    HATCHES,
    INK,
    LETTER,
    MUTED,
    RESIDUAL_COLOUR,
    STAGE_COLOURS,
    WIDTH,
    new_figure,
    stage_colours,
    strip,
    styled,
    text_on,
)
from tod_bias.report.reading import ALPHA, DAGGER, FEW_NOTE, adjusted_pairs, has_few, placebo_of

MOST_ARMS = 32
"""All sets of five stages; of more, a chart cannot be read and only the table is given."""


def figures(results: Mapping[str, Any]) -> dict[str, Figure]:
    """All figures of a run by file name without ending; those it has no numbers for are left out."""
    axes = read_axes(results)
    made: dict[str, Figure] = {}
    limit = largest_pair(axes)
    for axis in axes:
        if any(pair.fairscore.value is not None for pair in axis.pairs):
            made[f"pairs_{axis.name}"] = pairs(axis, limit)
    if any(axis.contributions for axis in axes):
        made["contributions"] = contributions(axes)
    if 0 < len(arm_keys(axes)) <= MOST_ARMS:
        made["arms"] = arms(axes)
    return made


@styled
def contributions(axes: Sequence[Axis]) -> Figure:
    """Stacked contributions per axis (as Su Fig. 4), and beside them every contribution with its 95% interval.

    Positive parts are stacked to the right of 0 and negative ones to the left; the diamond is their sum, the
    fairscore, with its interval. The dashed line is the placebo's fairscore.
    """
    shown = [axis for axis in axes if axis.contributions]
    stages = _stages(shown)
    parts = [*stages, *([RESIDUAL] if any(axis.residual.value is not None for axis in shown) else [])]
    figure = new_figure(WIDTH, 1.3 + (0.16 * len(parts) + 0.28) * len(shown))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.1, 1))
    rows = np.arange(len(shown))
    _stack(left, list(enumerate(shown)), parts, stages)
    left.set_title("Stacked: they sum to the fairscore")
    left.set_yticks(rows, [axis.name for axis in shown])
    left.set_ylim(len(shown) - 0.5, -0.5)
    _floor_line(left, axes)

    step = 0.8 / len(parts)
    for number, part in enumerate(parts):
        heights = rows - 0.4 + step * (number + 0.5)
        for height, axis in zip(heights, shown, strict=True):
            _whisker(right, _part(axis, part), height, _colour(part, stages), marker="o")
    right.set_title("Each part with its 95% interval")
    for panel in (left, right):
        _bars_frame(panel)
        panel.set_xlabel("part of the fairscore")
        for row in rows[1:]:
            panel.axhline(row - 0.5, color=GRID, linewidth=0.6)
    _legend(figure, parts, stages, floor=placebo_of(axes) is not None)
    return figure


def _stack(panel: Axes, rows: Sequence[tuple[int, Axis]], parts: Sequence[str], stages: Sequence[str]) -> None:
    heights = [row for row, _ in rows]
    ends = {1: np.zeros(len(rows)), -1: np.zeros(len(rows))}
    for part in parts:
        values = np.array([_part(axis, part).value or 0.0 for _, axis in rows])
        for side, start in ends.items():
            widths = np.where(np.sign(values) == side, values, 0.0)
            shown = widths != 0  # the white edge of a bar without width would cut the line at 0
            panel.barh(
                np.array(heights)[shown],
                widths[shown],
                left=start[shown],
                height=0.5,
                color=_colour(part, stages),
                hatch=_hatch(part, stages),
                edgecolor="white",
                linewidth=0.5,
                zorder=2,
            )
            start += widths
    for row, axis in rows:
        _whisker(panel, axis.fairscore, row, INK, marker="D", zorder=4)


def _whisker(panel: Axes, estimate: Estimate, height: float, colour: str, *, marker: str, zorder: int = 3) -> None:
    if estimate.value is None:
        return
    if estimate.low is not None and estimate.high is not None:
        panel.plot([estimate.low, estimate.high], [height, height], color=colour, linewidth=1.6, zorder=zorder)
    panel.plot(
        [estimate.value],
        [height],
        marker=marker,
        markersize=5,
        color=colour,
        markeredgecolor="white",
        markeredgewidth=0.7,
        linestyle="none",
        zorder=zorder + 1,
    )


def _floor_line(panel: Axes, axes: Sequence[Axis]) -> None:
    placebo = placebo_of(axes)
    if placebo is not None and placebo.fairscore.value is not None:
        panel.axvline(placebo.fairscore.value, color=MUTED, linewidth=1, linestyle=DASHES, zorder=1.5)


def _stages(axes: Sequence[Axis]) -> list[str]:
    return list(dict.fromkeys(stage for axis in axes for stage in axis.contributions))


def _part(axis: Axis, part: str) -> Estimate:
    return axis.residual if part == RESIDUAL else axis.contributions.get(part, Estimate())


def _colour(part: str, stages: Sequence[str]) -> str:
    return RESIDUAL_COLOUR if part == RESIDUAL else stage_colours(stages)[part]


def _hatch(part: str, stages: Sequence[str]) -> str:
    return "" if part == RESIDUAL else HATCHES[list(stages).index(part) % len(HATCHES)]


def _legend(figure: Figure, parts: Sequence[str], stages: Sequence[str], *, floor: bool) -> None:
    handles: list[Artist] = [
        Patch(facecolor=_colour(part, stages), hatch=_hatch(part, stages), edgecolor="white", label=part)
        for part in parts
    ]
    handles.append(Line2D([], [], color=INK, marker="D", markersize=5, label="fairscore, 95% interval"))
    if floor:
        handles.append(Line2D([], [], color=MUTED, linewidth=1, linestyle=DASHES, label="placebo's fairscore"))
    names = [str(handle.get_label()) for handle in handles]
    one_row = LETTER * sum(len(name) + 7 for name in names) < WIDTH  # a key takes as much room as seven letters
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles) if one_row else 4)


def _bars_frame(panel: Axes) -> None:
    strip(panel)
    panel.use_sticky_edges = False  # else bars end at the frame, as if they were cut off there
    panel.margins(x=0.04)
    panel.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    panel.grid(axis="x", linewidth=0.6, zorder=0)
    panel.set_axisbelow(True)


def largest_pair(axes: Sequence[Axis]) -> float:
    """Where the colours of pairs end: at the largest fairscore of all axes, or at 1 (BLEU falls to 0, or doubles)."""
    values = [pair.fairscore.value for axis in axes for pair in axis.pairs]
    return min(1.0, max((value for value in values if value is not None), default=0.0) or 1.0)


@styled
def pairs(axis: Axis, limit: float) -> Figure:
    """Source by target: the signed fairscore of every pair (as Su Fig. 5), and how many dialogues it rests on.

    Bold with a star where the permutation test supports a difference (p < 0.05, Holm-adjusted over the pairs); a dagger
    where there are fewer than :data:`~tod_bias.report.reading.FEW` dialogues. Notes below the cells say so.

    Args:
        axis: the axis.
        limit: where the colours end; the same for all axes of a run (:func:`largest_pair`), so that they compare.
    """
    names = axis.attributes
    tested = {pair.name: pair for pair in adjusted_pairs(axis)}
    norm = Normalize(-limit, limit)
    notes = _notes(axis, tested)
    figure = new_figure(2.2 + 0.82 * len(names), 1.1 + 0.55 * len(names) + 0.14 * len(notes))
    panel = figure.subplots()
    for row, source in enumerate(names):
        for column, target in enumerate(names):
            pair = tested.get(f"{source}>{target}")
            known = pair is not None and pair.fairscore.value is not None
            signed = pair.signed.value if pair is not None else None
            colour = DIVERGING(norm(signed)) if known and signed is not None else (0.0, 0.0, 0.0, 0.0)
            panel.fill(
                np.array([-0.48, 0.48, 0.48, -0.48]) + column,
                np.array([-0.48, -0.48, 0.48, 0.48]) + row,
                facecolor=colour,
                edgecolor="none" if known else GRID,
                hatch=None if source == target or known else "//",
                linewidth=0.6,
            )
            if pair is None or source == target:
                continue
            ink = text_on(colour) if known and signed is not None else MUTED
            star = known and pair.fairscore.p is not None and pair.fairscore.p < ALPHA
            centred: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
            number = fixed(pair.fairscore.value) if signed is None else fixed(signed, sign=True).replace("-", "−")
            score = f"{number}{'*' if star else ''}"
            panel.text(column, row - 0.13, score, weight="bold" if star else "normal", **centred)
            label = f"n={count(pair.dialogues)}{DAGGER if has_few(pair) else ''}"
            panel.text(column, row + 0.22, label, fontsize=7.5, **centred)
    panel.set_xticks(range(len(names)), [_folded(name, 0.8) for name in names])
    panel.set_yticks(range(len(names)), names)
    panel.set_xlim(-0.5, len(names) - 0.5)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.xaxis.tick_top()
    panel.xaxis.set_label_position("top")
    panel.set_xlabel("rewritten to", color=MUTED, labelpad=8)
    panel.set_ylabel("rewritten from", color=MUTED)
    strip(panel, keep=())
    _scale(figure, panel, norm, [pair.signed.value for pair in axis.pairs if pair.signed.value is not None])
    figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=7.5, color=MUTED, linespacing=1.3)
    return figure


def _notes(axis: Axis, tested: Mapping[str, Effect]) -> list[str]:
    """What the signs in the cells of a heatmap mean, a line each; only of those that are there."""
    names = axis.attributes
    absent = any(f"{source}>{target}" not in tested for source in names for target in names if source != target)
    known = [pair for pair in tested.values() if pair.fairscore.value is not None]
    notes = {
        "signed fairscore: + answered worse, − better": True,
        f"* p < {ALPHA:g} (Holm over the pairs)": any(
            pair.fairscore.p is not None and pair.fairscore.p < ALPHA for pair in known
        ),
        f"{DAGGER} {FEW_NOTE}": any(map(has_few, tested.values())),
        "hatched: no dialogue rewritten so, or undefined": absent or len(known) < len(tested),
    }
    return [note for note, applies in notes.items() if applies]


def _scale(figure: Figure, panel: Axes, norm: Normalize, values: Sequence[float]) -> None:
    above, below = max(values, default=0.0) > (norm.vmax or 0.0), min(values, default=0.0) < (norm.vmin or 0.0)
    bar = figure.colorbar(
        ScalarMappable(norm, DIVERGING),
        ax=panel,
        fraction=0.06,
        aspect=14,
        pad=0.04,
        extend={(True, True): "both", (True, False): "max", (False, True): "min"}.get((above, below), "neither"),
        extendfrac=0.06,
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=7.5)
    room = 0.06 * panel.get_window_extent().height * 72 / figure.dpi  # of an arrow, in points
    bar.ax.set_title("worse", fontsize=7.5, weight="normal", loc="center", pad=4 + room * above)
    bar.ax.set_xlabel("better", fontsize=7.5, labelpad=4 + room * below)


def _folded(name: str, inches: float) -> str:
    """A name in lines of at most so many inches, broken after hyphens and underscores where it has some."""
    lines = [""]
    for part in re.findall(r"[^-_ ]+[-_ ]*", name):
        if lines[-1] and LETTER * len(lines[-1] + part) > inches:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


@styled
def arms(axes: Sequence[Axis]) -> Figure:
    """The fairscore v(S) of every set S of swapped stages with its interval; filled dots mark the stages of the set."""
    shown = [axis for axis in axes if axis.arms]
    keys = arm_keys(shown)
    stages = sorted({name for key in keys for name in key.split(",") if name})
    figure = new_figure(WIDTH, 1.4 + 0.27 * len(keys))
    grid = figure.subplots(1, len(shown) + 1, sharey=True, width_ratios=(0.32 * len(stages) + 0.2, *[1.5] * len(shown)))
    rows = range(len(keys))
    matrix = grid[0]
    for row, key in zip(rows, keys, strict=True):
        swapped = [number for number, stage in enumerate(stages) if stage in key.split(",")]
        matrix.scatter(range(len(stages)), [row] * len(stages), s=34, color=GRID, zorder=1)
        matrix.plot(swapped, [row] * len(swapped), color=INK, marker="o", markersize=6, linewidth=1.4, zorder=2)
    matrix.set_xticks(range(len(stages)), stages, rotation=45, ha="left", rotation_mode="anchor")
    matrix.xaxis.tick_top()
    matrix.set_xlim(-0.5, len(stages) - 0.5)
    matrix.set_yticks([])
    matrix.set_ylabel("stages swapped", color=MUTED)
    matrix.set_ylim(len(keys) - 0.4, -0.6)
    strip(matrix, keep=())
    ends = [end for axis in shown for key in keys for end in (axis.arms.get(key), axis.arm(key).high)]
    highest = max((end for end in ends if end is not None), default=0.0) or 1.0
    for panel, axis in zip(grid[1:], shown, strict=True):
        values = [axis.arms.get(key) for key in keys]
        panel.barh(rows, [value or 0.0 for value in values], height=0.6, color="#5b87b8", zorder=2)
        for row, key, value in zip(rows, keys, values, strict=True):
            low, high = axis.arm(key).low, axis.arm(key).high
            if low is not None and high is not None:
                panel.plot([low, high], [row, row], color=INK, linewidth=1.2, zorder=3)
            panel.text(max(value or 0.0, high or 0.0) + highest * 0.04, row, fixed(value), va="center", fontsize=7.5)
        panel.set_xlim(0, highest * 1.4)
        panel.set_title(_folded(axis.name, 0.8 * (WIDTH - 0.32 * len(stages) - 1) / len(shown)))
        panel.set_xticks([])
        strip(panel, keep=("left",))
    has_intervals = any(axis.arm(key).high is not None for axis in shown for key in keys)
    figure.supxlabel(f"fairscore that stays{', 95% interval' * has_intervals}", fontsize=9)
    return figure


@styled
def comparison(runs: Mapping[str, Sequence[Axis]]) -> Figure:
    """Stacked contributions of several runs, one panel an axis (Su Fig. 4); the dashed line is each run's placebo."""
    names = list(dict.fromkeys(axis.name for axes in runs.values() for axis in axes if axis.contributions))
    names.sort(key=lambda name: name == "placebo")
    every = [axis for axes in runs.values() for axis in axes]
    stages = _stages(every)
    parts = [*stages, RESIDUAL]
    rows = range(len(runs))
    figure = new_figure(WIDTH, 1.1 + len(names) * (0.45 + 0.3 * len(runs)))
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, names, strict=True):
        row_axes = [next((axis for axis in axes if axis.name == name), None) for axes in runs.values()]
        present = [(row, axis) for row, axis in zip(rows, row_axes, strict=True) if axis is not None]
        _stack(panel, present, parts, stages)
        panel.set_title(name)
        panel.set_yticks(rows, list(runs))
        panel.set_ylim(len(runs) - 0.5, -0.5)
        _bars_frame(panel)
    panels[-1].set_xlabel("part of the fairscore")
    _legend(figure, parts, stages, floor=False)
    return figure


@styled
def word_shares(frame: pd.DataFrame) -> Figure:
    """Mentions of every attribute by speaker (Su Fig. 2): per 1,000 words, and in which share of dialogues.

    Args:
        frame: the table of :func:`tod_bias.studies.words.word_statistics`.
    """
    names = list(dict.fromkeys(frame["axis"]))
    parts = [frame[frame["axis"] == name] for name in names]
    sizes = [part["attribute"].nunique() for part in parts]
    figure = new_figure(WIDTH, 0.9 + 0.4 * sum(sizes) + 0.35 * len(names))
    grid = figure.subplots(len(names), 2, sharex="col", sharey="row", squeeze=False, height_ratios=sizes)
    columns = (("share_of_words", 1000, "mentions per 1,000 words"), ("share_of_dialogues", 100, "% of dialogues"))
    for panels, part, name, size in zip(grid, parts, names, sizes, strict=True):
        for panel, (share, scale, _) in zip(panels, columns, strict=True):
            for number, speaker in enumerate(("user", "system")):
                rows = part[part["speaker"] == speaker]
                heights = np.arange(size) + 0.4 * number - 0.2
                values = scale * rows[share].to_numpy()
                style_of = {"color": STAGE_COLOURS[number], "hatch": HATCHES[number], "edgecolor": "white"}
                panel.barh(heights, values, height=0.36, linewidth=0.5, zorder=2, **style_of)
                lows, highs = (scale * rows[f"{share}_{end}"].to_numpy() for end in ("low", "high"))
                panel.hlines(heights, lows, highs, color=INK, linewidth=1.2, zorder=3)
            _bars_frame(panel)
            panel.set_xlim(left=0)
        panels[0].set_title(name)
        panels[0].set_yticks(range(size), rows["attribute"])
        panels[0].set_ylim(size - 0.5, -0.5)
    for panel, (_, _, label) in zip(grid[-1], columns, strict=True):
        panel.set_xlabel(label)
    handles: list[Artist] = [
        Patch(facecolor=STAGE_COLOURS[number], hatch=HATCHES[number], edgecolor="white", label=speaker)
        for number, speaker in enumerate(("user", "system"))
    ]
    handles.append(Line2D([], [], color=INK, linewidth=1.2, label="95% interval"))
    figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return figure
