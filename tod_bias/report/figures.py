"""Figures of runs: their style, dots with intervals and contributions, and the SVG of a page.

Stage colours are Okabe & Ito's (2008), which stay apart under the common colour-vision deficiencies; stages also differ
by hatching if their bars touch. Heat maps go from white to orange. In a figure, every row is a number with its
interval. Its contributions, if any, are stacked on the same scale: positive ones to the right of 0, negative ones to
the left. Every public function returns a :class:`matplotlib.figure.Figure`.
"""

from __future__ import annotations

import textwrap
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tod_bias.report.canvas import (
    BAR,
    FONT_SIZE,
    GRID,
    HATCHES,
    INK,
    MUTED,
    PAPER,
    PLACEBO_COLOUR,
    RESIDUAL_COLOUR,
    WIDTH,
    fixed_figure,
    place,
    stage_colours,
    strip,
    styled,
    text_width,
)
from tod_bias.report.notation import TERMS_ONLY, fixed, mark, reference, shown_gap, sides
from tod_bias.results import DISPARITY, RESIDUAL, AxisResult, Estimate, Su

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_ROW, _TITLE, _AXIS, _KEY = 0.23, 0.3, 0.6, 0.24  # inches: a row, a block's title, what is below, a row of keys
_GAP, _LINE = 0.12, 0.16
_SMALL = 8.0
_PLACEBO: dict[str, Any] = {
    "marker": "|",
    "markersize": 13,
    "markeredgewidth": 2.2,
    "color": PLACEBO_COLOUR,
    "linestyle": "none",
    "zorder": 2,
}
_LONGEST = 2.4
"""Maximum inches of labels; longer ones are shortened, and the table shows them in full."""


@dataclass(frozen=True)
class Row:
    """One number."""

    label: str
    estimate: Estimate
    parts: Mapping[str, Estimate] | None = None
    """The contributions that it consists of, by stage."""
    claimed: bool = False
    """True if the row is marked as a claim."""
    colour: str = INK
    quiet: bool = False
    """True if the row is only for comparison."""
    placebo: float | None = None
    """The pooled difference of the placebo in the same dialogues."""


@dataclass(frozen=True)
class Block:
    """Rows under a title."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""
    """Beside the title."""


@dataclass(frozen=True)
class Texts:
    """The labels around the rows."""

    left: str
    """Below the dots."""
    right: str
    """Below the stacks."""
    positive: str = "served worse"
    """Meaning of values to the right of 0; empty for absolute numbers."""
    negative: str = "served better"


@styled
def forest(blocks: Sequence[Block], stages: Sequence[str], texts: Texts, width: float = WIDTH) -> Figure:
    """The figure: dots with intervals to the left, their values in the middle, stacked parts to the right.

    On a narrow one the stacked parts are below.

    Args:
        blocks: from top to bottom; there is at least one row.
        stages: in the order of their colours.
        texts: of the axes.
        width: in inches.
    """
    rows = [row for block in blocks for row in block.rows]
    parts = _parts(rows, stages)
    span = _span(rows)
    keys = _key_rows(_keys(rows, parts, stages, span), width)
    signed = bool(texts.positive)
    labels = [_broken(text, width) for text in (texts.left, texts.right)]
    margin = 0.1 + min(_LONGEST, width / 3, max(text_width(row.label) for row in rows) + 0.2)
    middle = 0.2 + max(text_width(_number(row, signed=signed), _SMALL, bold=True) for row in rows)
    panels = _panels(blocks, len(keys), labels, (width, margin, middle))
    left = panels[0]
    named = panels if width < WIDTH else panels[:1]
    for panel in panels:
        panel.set_xlim(*span)
    height = 0.0
    for block in blocks:
        for panel in named:
            _title(panel, block, height, first=height == 0)
        height += _TITLE
        for row in block.rows:
            middle_of_row = height + _ROW / 2
            _dot(left, row, middle_of_row)
            _value(left, _number(row, signed=signed), row, middle_of_row, _inches(left) + _GAP + middle - 0.1)
            for panel in named:
                _label(panel, row, middle_of_row, margin - 0.25)
            if row.parts:
                _stack(panels[-1], row, middle_of_row, parts, stages)
            height += _ROW
    for panel, label in zip(panels, labels, strict=False):
        _frame(panel, label, texts)
    figure = cast("Figure", left.figure)
    _legend(figure, keys)
    return figure


def _panels(
    blocks: Sequence[Block], keys: int, labels: Sequence[str], across: tuple[float, float, float]
) -> list[Axes]:
    """Return the panel of dots, and that of stacked parts if there are any: to its right, or below on a narrow figure.

    Args:
        blocks: of rows.
        keys: rows of the legend.
        labels: below the panels.
        across: inches: the width of the figure, of the labels and of the values.
    """
    width, margin, middle = across
    top = 0.05 + _KEY * keys + (0.05 if keys else 0)
    inside = sum(_TITLE + _ROW * len(block.rows) for block in blocks)
    below = _AXIS + (_LINE * max(label.count("\n") for label in labels) if width < WIDTH else 0)
    room = width - margin - middle - 2 * _GAP - 0.1
    shapes = [(margin, top, room, inside)]
    if any(row.parts for block in blocks for row in block.rows):
        if width < WIDTH:
            shapes.append((margin, top + inside + below, room + middle + _GAP, inside))
        else:
            shapes = [
                (margin, top, room / 2, inside),
                (margin + room / 2 + middle + 2 * _GAP, top, room / 2, inside),
            ]
    figure = fixed_figure(width, shapes[-1][1] + inside + below)
    panels = [place(figure, *shape) for shape in shapes]
    for panel in panels:
        panel.set_ylim(inside, 0)
    return panels


def _broken(text: str, width: float) -> str:
    """A label in lines that fit the panel of a narrow figure."""
    if width >= WIDTH:
        return text
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, int(6.5 * width)))


def _inches(panel: Axes) -> float:
    """The width of a panel."""
    return panel.get_window_extent().width / panel.figure.dpi


def part_colour(part: str, stages: Sequence[str]) -> str:
    """The colour of a stage, or of the residual."""
    return RESIDUAL_COLOUR if part == RESIDUAL else stage_colours(stages).get(part, INK)


def _parts(rows: Sequence[Row], stages: Sequence[str]) -> list[str]:
    known = {name for row in rows for name in row.parts or ()}
    return [name for name in (*stages, RESIDUAL) if name in known]


def _span(rows: Sequence[Row]) -> tuple[float, float]:
    """The scale: all values, intervals and stacks, 0 among them."""
    ends = [0.0]
    for row in rows:
        ends += [end for end in (row.estimate.value, row.placebo, *(row.estimate.ci or ())) if end is not None]
        values = [part.value or 0.0 for part in (row.parts or {}).values()]
        ends += [sum(value for value in values if value > 0), sum(value for value in values if value < 0)]
    low, high = min(ends), max(ends)
    width = (high - low) or 1.0
    return low - 0.06 * width, high + 0.06 * width


def _number(row: Row, *, signed: bool) -> str:
    text = fixed(row.estimate.value, sign=signed).replace("-", "−")
    return f"{text}{'*' if row.claimed else ''}{TERMS_ONLY if row.estimate.is_of_terms_only else ''}"


def _title(panel: Axes, block: Block, height: float, *, first: bool) -> None:
    width = _inches(panel) / panel.get_position().width
    across = panel.get_position().x0 * width
    bottom = height + _TITLE - 0.07
    inches = _inches(panel)
    if not first:
        line = Line2D(
            [(0.1 - across) / inches, (width - 0.1 - across) / inches], [height + 0.03] * 2, color=GRID, linewidth=0.8
        )
        line.set_transform(panel.get_yaxis_transform())
        line.set_clip_on(False)
        panel.add_artist(line)
    anchored: dict[str, Any] = {"transform": panel.get_yaxis_transform(), "va": "bottom", "ha": "left"}
    panel.text((0.1 - across) / inches, bottom, block.title, weight="bold", **anchored)
    if block.note:
        start = 0.1 - across + text_width(block.title, bold=True) + 0.12
        panel.text(start / inches, bottom, block.note, color=MUTED, fontsize=_SMALL, **anchored)


def _label(panel: Axes, row: Row, height: float, room: float) -> None:
    _beside(panel, _cut(row.label, room), row, height, -0.1, {})


def _value(panel: Axes, text: str, row: Row, height: float, right: float) -> None:
    _beside(panel, text, row, height, right, {"fontsize": _SMALL, "weight": "bold" if row.claimed else "normal"})


def _beside(panel: Axes, text: str, row: Row, height: float, right: float, font: Mapping[str, Any]) -> None:
    """Write a text that ends at a distance in inches from the panel's left side."""
    inches = _inches(panel)
    ink = MUTED if row.quiet else INK
    across = panel.get_yaxis_transform()
    panel.text(right / inches, height, text, color=ink, va="center", ha="right", transform=across, **font)


def _cut(label: str, inches: float) -> str:
    """Shorten a label in the middle if it is too wide, because names of runs differ at their ends."""
    if text_width(label) <= inches:
        return label
    length = bisect(range(1, len(label)), inches, key=lambda some: text_width(_ends(label, some)))
    return _ends(label, length)


def _ends(label: str, length: int) -> str:
    return f"{label[: length - length // 2]}…{label[len(label) - length // 2 :]}"


def _dot(panel: Axes, row: Row, height: float) -> None:
    value, bounds = row.estimate.value, row.estimate.ci
    if value is None:
        return
    colour = MUTED if row.quiet else row.colour
    if row.placebo is not None:
        panel.plot([row.placebo], [height], **_PLACEBO)
    if bounds is not None:
        dashes = (0, (2, 1.2)) if row.estimate.is_of_terms_only else "solid"
        panel.plot(list(bounds), [height, height], color=colour, linewidth=1.5, linestyle=dashes, zorder=3)
    panel.plot(
        [value],
        [height],
        marker="o",
        markersize=5.5,
        color=colour,
        markerfacecolor=colour if row.claimed else PAPER,
        markeredgewidth=1.2,
        linestyle="none",
        zorder=4,
    )


def _stack(panel: Axes, row: Row, height: float, parts: Sequence[str], stages: Sequence[str]) -> None:
    ends = {True: 0.0, False: 0.0}
    for part in parts:
        value = (row.parts or {}).get(part, Estimate()).value
        if not value:
            continue  # the outline of a bar without width would cut the line at 0
        panel.barh(
            [height],
            [value],
            left=[ends[value > 0]],
            height=0.62 * _ROW,
            facecolor=part_colour(part, stages),
            hatch=_hatch(part, stages),
            zorder=2,
            **BAR,
        )
        ends[value > 0] += value
    if _has_sum(row, panel.get_xlim()):
        panel.plot(
            [row.estimate.value or 0.0], [height], marker="D", markersize=4, color=INK, linestyle="none", zorder=4
        )


def _has_sum(row: Row, span: tuple[float, float]) -> bool:
    """True if a mark shows the sum of the contributions: their signs differ, so the stack does not end there."""
    values = [part.value or 0.0 for part in (row.parts or {}).values()]
    sides = sum(value for value in values if value > 0), -sum(value for value in values if value < 0)
    return row.estimate.value is not None and min(sides) > 0.01 * (span[1] - span[0])


def _hatch(part: str, stages: Sequence[str]) -> str:
    if part not in stages:
        return ""
    number = list(stages).index(part)
    return HATCHES[(number + number // len(HATCHES)) % len(HATCHES)]  # another beside the same colour


def _frame(panel: Axes, label: str, texts: Texts) -> None:
    strip(panel)
    panel.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    panel.grid(axis="x", linewidth=0.6, zorder=0)
    panel.set_axisbelow(True)
    panel.set_yticks([])
    panel.locator_params(axis="x", nbins=6 if _inches(panel) > 2.5 else 3)
    panel.tick_params(axis="x", labelsize=_SMALL)
    panel.set_xlabel(label, fontsize=FONT_SIZE, labelpad=2)
    low, high = panel.get_xlim()
    width = _inches(panel)
    side: dict[str, Any] = {"transform": panel.get_xaxis_transform(), "fontsize": 7.5, "color": MUTED, "va": "bottom"}
    for text, room, place_of_text, align in (
        (f"{texts.positive} →", high, 1.0, "right"),
        (f"← {texts.negative}", -low, 0.0, "left"),
    ):
        if texts.positive and room / (high - low) * width > text_width(text, 7.5):
            panel.text(low + place_of_text * (high - low), 1.0, text, ha=align, **side)


def _keys(
    rows: Sequence[Row], parts: Sequence[str], stages: Sequence[str], span: tuple[float, float]
) -> list[tuple[str, Artist]]:
    keys: list[tuple[str, Artist]] = [
        (part, Patch(facecolor=part_colour(part, stages), hatch=_hatch(part, stages), **BAR)) for part in parts
    ]
    if any(_has_sum(row, span) for row in rows):
        keys.append(("their sum", Line2D([], [], color=INK, marker="D", markersize=4, linestyle="none")))
    if any(row.estimate.ci is not None and not row.estimate.is_of_terms_only for row in rows):
        keys.append(("95% interval", Line2D([], [], color=INK, linewidth=1.5)))
    if any(row.estimate.is_of_terms_only for row in rows):
        keys.append(
            (f"95% interval of these terms only {TERMS_ONLY}", Line2D([], [], color=INK, linestyle=(0, (2, 1.2))))
        )
    if any(row.placebo is not None for row in rows):
        keys.append(("placebo, same dialogues", Line2D([], [], **_PLACEBO)))
    if any(row.claimed for row in rows):
        keys.append(("* claimed: p < 0.05 over all claims", Line2D([], [], color=INK, marker="o", linestyle="none")))
    return keys


def _key_rows(keys: Sequence[tuple[str, Artist]], most: float) -> list[list[tuple[str, Artist]]]:
    """Keys in rows that fit the figure's width."""
    rows: list[list[tuple[str, Artist]]] = []
    used = most
    for key in keys:
        width = text_width(key[0], _SMALL) + 0.6
        if used + width > most - 0.2:
            rows.append([])
            used = 0.0
        rows[-1].append(key)
        used += width
    return rows


def _legend(figure: Figure, keys: Sequence[Sequence[tuple[str, Artist]]]) -> None:
    height = figure.get_size_inches()[1]
    for number, row in enumerate(keys):
        figure.legend(
            handles=[handle for _, handle in row],
            labels=[label for label, _ in row],
            loc="upper left",
            bbox_to_anchor=(0.0, 1 - (0.02 + number * _KEY) / height),
            ncols=len(row),
            fontsize=_SMALL,
            borderaxespad=0.2,
            columnspacing=1.3,
            handlelength=1.6,
        )


MOST_ROWS = 80
"""Rows of a figure; the report shows more only as a table."""


def groups(axis_results: Sequence[AxisResult], width: float = WIDTH) -> Figure:
    """The gap of every group from the mean of groups, with the contributions of stages, by axis."""
    blocks = [
        Block(axis_result.axis, tuple(_group_rows(axis_result)), axis_result.verdict)
        for axis_result in _claiming(axis_results)
        if axis_result.groups
    ]
    return forest(
        blocks,
        _stages(axis_results),
        _labels(axis_results, "gap from the mean of groups", "contributions of stages"),
        width,
    )


def _group_rows(axis_result: AxisResult) -> Iterator[Row]:
    """The groups, then the reference variants."""
    is_claimed = axis_result.verdict == DISPARITY
    for group in axis_result.groups.values():
        yield Row(
            group.name,
            shown_gap(axis_result, group),
            group.all_shares,
            claimed=is_claimed and group.name in axis_result.claims,
        )
    for variant in axis_result.references.values():
        label = f"no group: {reference(variant.name)}"
        yield Row(label, variant.gap, variant.shares, quiet=True)


def su_comparison(runs: Mapping[str, Sequence[AxisResult]], width: float = WIDTH) -> Figure:
    """Su's Fig. 4 of several runs: stacked contributions up to the fairscore, by axis.

    Below each bar are the signed pooled difference with its contributions, and the placebo of the same dialogues.

    Args:
        runs: a run's name to its axis_results by one metric; at least one axis_result has Su's numbers.
    """
    blocks = [
        Block(
            axis,
            tuple(
                row for name, axis_result in by_run if axis_result.su is not None for row in _su_rows(name, axis_result)
            ),
        )
        for axis, by_run in _by_axis(runs)
    ]
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    shown = [block for block in blocks if block.rows]
    return _su_forest(shown, every, "fairscore (absolute); pooled difference (signed)", width)


def _su_rows(name: str, axis_result: AxisResult) -> Iterator[Row]:
    if axis_result.su is None:
        return
    yield Row(f"{name}{mark(axis_result)}", axis_result.su.fairscore, _su_parts(axis_result.su))
    disparity, above = (
        axis_result.disparity.value,
        None if axis_result.beyond_placebo is None else axis_result.beyond_placebo.value,
    )
    yield Row(
        "signed difference",
        axis_result.disparity,
        axis_result.all_shares,
        quiet=True,
        placebo=None if disparity is None or above is None else disparity - above,
    )


def _su_parts(su: Su) -> dict[str, Estimate]:
    return {**su.contributions, RESIDUAL: su.residual}


def _su_forest(
    blocks: Sequence[Block],
    axis_results: Sequence[AxisResult],
    left: str = "fairscore (absolute)",
    width: float = WIDTH,
) -> Figure:
    stages = _stages(axis_results)
    orders = dict.fromkeys(
        tuple(axis_result.su.contributions) for axis_result in axis_results if axis_result.su is not None
    )
    named = list(dict.fromkeys([*stages, *(name for order in orders for name in order)]))
    order = f"in the order {', '.join(next(iter(orders)))}" if len(orders) == 1 else "in each run's order"
    return forest(blocks, named, Texts(left, _shortened(f"Su's shares {order}"), "", ""), width)


def _by_axis(runs: Mapping[str, Sequence[AxisResult]]) -> list[tuple[str, list[tuple[str, AxisResult]]]]:
    """Axes, the placebo last, each with the runs that have it."""
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    axes = dict.fromkeys(
        axis_result.axis for axis_result in sorted(every, key=lambda axis_result: axis_result.is_placebo)
    )
    return [
        (
            axis,
            [
                (name, axis_result)
                for name, axis_results in runs.items()
                for axis_result in axis_results
                if axis_result.axis == axis
            ],
        )
        for axis in axes
    ]


def comparison(runs: Mapping[str, Sequence[AxisResult]], width: float = WIDTH) -> Figure:
    """The widest gaps of several runs by one metric, with the shares of stages.

    Args:
        runs: a run's name to its axis_results by that metric; at least one has two groups on an axis.
    """
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    blocks = [
        Block(axis, tuple(row for name, axis_result in by_run for row in _compared_rows(name, axis_result)))
        for axis, by_run in _by_axis(runs)
    ]
    shown = [block for block in blocks if block.rows]
    return forest(shown, _stages(every), _labels(every, "widest gap", "shares of stages"), width)


def _compared_rows(name: str, axis_result: AxisResult) -> Iterator[Row]:
    widest = axis_result.widest
    if widest is not None and not axis_result.is_placebo:
        label = f"{name}: {widest.worse} - {widest.better}"
        yield Row(label, widest.gap, widest.all_shares, claimed=axis_result.is_claimed(widest.gap))


def _claiming(axis_results: Sequence[AxisResult]) -> list[AxisResult]:
    return [axis_result for axis_result in axis_results if not axis_result.is_placebo]


def _stages(axis_results: Sequence[AxisResult]) -> list[str]:
    return list(dict.fromkeys(stage for axis_result in axis_results for stage in axis_result.all_shares))


def _labels(axis_results: Sequence[AxisResult], left: str, right: str) -> Texts:
    metric = axis_results[0].metric
    scales = {axis_result.scale for axis_result in axis_results}
    unit = f"share of the originals' {metric.label}" if scales == {"ratio"} else metric.label
    return Texts(f"{left}\n({_shortened(unit)})", right, *sides(metric.better, counterfactual=metric.counterfactual))


def _shortened(text: str, most: int = 52) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
