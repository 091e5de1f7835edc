"""Changes from one run to another, as a table on a terminal and as sheets for a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tod_bias.report.notation import TERMS_ONLY, count, fixed, p_cell
from tod_bias.results import AxisChange, Change, Comparison

_HEADINGS = ("", "before", "after", "change [95%]", "p", "verdict")
_QUALITY = "the originals' scores"
_WIDEST = 20
"""Maximum columns of a terminal for the name of a changed value."""


def rows(result: Comparison) -> Iterator[tuple[str, str, str, Change]]:
    """Every change that has a verdict: axis (empty for quality), metric, what it is, and its record.

    Args:
        result: the content of ``compare.json``.
    """
    for metric, change in result.quality.items():
        if not result.metrics[metric].counterfactual:  # originals do not differ from themselves
            yield "", metric, "quality", change
    for axis, by_metric in result.axes.items():
        for metric, row in by_metric.items():
            for name, group in row.groups.items():
                yield axis, metric, f"gap, {name}", group.gap
                yield axis, metric, f"score, {name}", group.score
            yield axis, metric, "pooled difference", row.disparity
            for name, part in row.contributions.items():
                yield axis, metric, f"in {name}", part


SHOWN = ("better", "worse", "changed")
"""Verdicts that show a change."""


def chosen_gaps(row: AxisChange) -> dict[str, Change]:
    """Group to the change of its gap, the largest gap before first: those that are shown, or else this one."""
    ordered = sorted(row.groups, key=lambda name: -(row.groups[name].gap.before or 0.0))
    gaps = {name: row.groups[name].gap for name in ordered}
    shown = {name: gap for name, gap in gaps.items() if gap.verdict in SHOWN}
    if shown or not gaps:
        return shown
    largest = max(gaps, key=lambda name: abs(gaps[name].before or 0.0))
    return {largest: gaps[largest]}


def entered(row: AxisChange, group: str) -> str:
    """The stage whose share of a group's gap was largest in either run, before and after; empty without stages."""
    parts = row.groups[group].contributions
    if not parts:
        return ""
    sizes = {name: max(abs(part.before or 0.0), abs(part.after or 0.0)) for name, part in parts.items()}
    name = max(sizes, key=lambda stage: sizes[stage])
    before, after = (fixed(value, sign=True) for value in (parts[name].before, parts[name].after))
    return f"in {name} {before} to {after}" if sizes[name] else ""


def gap_changes(result: Comparison) -> Iterator[tuple[str, Change, str]]:
    """The gaps that matter (:func:`chosen_gaps`): whose each is, its change, and the stage of it (:func:`entered`)."""
    for axis, by_metric in result.axes.items():
        for metric, row in by_metric.items():
            for name, gap in chosen_gaps(row).items():
                yield f"{axis}, {result.metrics[metric].label}: gap of {name}", gap, entered(row, name)


def findings(result: Comparison) -> Iterator[str]:
    """The changes of gaps that are shown, in a sentence each, with the stage of it."""
    for where, gap, stage in gap_changes(result):
        if gap.verdict in SHOWN:
            values = f"{fixed(gap.before, sign=True)} to {fixed(gap.after, sign=True)}"
            change = f"{fixed(gap.change.value, sign=True)} {bounds(gap)}".rstrip()
            yield "; ".join(filter(None, (f"{gap.verdict}: {where} {values}, change {change}", stage)))


def bounds(change: Change) -> str:
    """Return the interval of a change; intervals that hold for few terms only are marked."""
    ci = change.change.ci
    mark = TERMS_ONLY if change.change.is_of_terms_only else ""
    return "" if ci is None else f"[{fixed(ci[0], sign=True)}, {fixed(ci[1], sign=True)}]{mark}"


def sentences(result: Comparison) -> list[str]:
    """Notes on the numbers."""
    notes = []
    if result.same:
        notes.append("Every counterfactual has the same score in both runs, whichever stages are replaced by twins.")
    systems = result.stages
    if systems.before != systems.after:
        common = ", ".join(systems.common) or "none"
        notes.append(
            f"The systems have different stages ({', '.join(systems.before)}; {', '.join(systems.after)}): "
            f"contributions are compared for those in both: {common}."
        )
    lost = {axis: number for axis, number in result.left_out.items() if number}
    if lost:
        notes.append(
            "Left out, as one of the runs lacks an output: "
            + ", ".join(f"{count(number)} dialogues ({axis})" for axis, number in lost.items())
            + "."
        )
    if result.margin is None:
        notes.append("No margin is set, so nothing is called equivalent; a change that is not shown may exist.")
    else:
        margins = f"{result.margin:g}"
        if result.quality_margin != result.margin:
            margins += f", of scores within {result.quality_margin:g}"
        notes.append(f"equivalent: the change is shown to be within {margins}; inconclusive does not mean equal.")
    notes.append("Intervals and p-values hold over all changes of the table.")
    notes.append(
        "better: nearer to 0 for gaps, disparities and contributions (positive is harm), for scores as the metric says."
    )
    if any(TERMS_ONLY in bounds(change) for _, _, _, change in rows(result)):
        notes.append(f"{TERMS_ONLY} true of these terms only: they are too few, or other terms might not show it")
    return notes


def table(result: Comparison) -> RenderableType:
    """One row per change, under a line per axis and metric, all in the same columns.

    Args:
        result: the content of ``compare.json``.
    """
    blocks: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for axis, metric, what, change in rows(result):
        label = result.metrics[metric].label
        value = f"{fixed(change.change.value, sign=True)} {bounds(change)}".rstrip()
        cells = fixed(change.before), fixed(change.after), value, p_cell(change.change.p), change.verdict
        blocks.setdefault((axis, axis and metric), []).append((what if axis else label, *cells))
    widths = [
        max(cell_len(line) for cell in column for line in cell.split("\n"))
        for column in zip(_HEADINGS, *chain(*blocks.values()), strict=True)
    ]
    widths[0] = min(widths[0], _WIDEST)
    parts: list[RenderableType] = []
    for number, ((axis, metric), block) in enumerate(blocks.items()):
        view = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=number == 0)
        for place, (heading, width) in enumerate(zip(_HEADINGS, widths, strict=True)):
            last = place + 1 == len(widths)
            numbers = place > 0 and not last
            view.add_column(
                heading if number == 0 else "",
                justify="right" if numbers else "left",
                no_wrap=numbers,
                overflow="fold",
                min_width=width,
                max_width=width,
            )
        for row in block:
            view.add_row(*map(Text, row))
        name = f"{axis}: {result.metrics[metric].label}" if axis else _QUALITY
        parts += [Text(f"\n{name}", style="bold"), view]
    title = f"{result.before} > {result.after}: changes, paired by dialogue and counterfactual"
    notes = (Text(text, style="dim") for text in sentences(result))
    return Group(Text(title, style="italic"), *parts, Text(), *map(Text, findings(result)), *notes)
