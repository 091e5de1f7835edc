"""Two runs against each other, for a terminal and as a page: findings first, then the clearest other changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tod_bias.audit.changes import SHOWN
from tod_bias.changes import Change, Comparison, FindingChange, OtherChange
from tod_bias.io.files import check_plain_file, subfolder
from tod_bias.metrics.events import event_of
from tod_bias.report.answer import treatment
from tod_bias.report.canvas import NARROW, WIDTH, draw
from tod_bias.report.figures import MOST_ROWS, Block, Row, Texts, forest
from tod_bias.report.notation import NOT_AVAILABLE, TERMS_ONLY, count, fixed, p_cell, p_text, side, sides
from tod_bias.report.rendering import FIGURES, REPORT, TEMPLATES, write_page
from tod_bias.report.section import minus, slug, unique
from tod_bias.report.sheets import ascii_of, column_of, folded
from tod_bias.results import AuditResult, AxisResult, Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = {"gone": "✓", "smaller": "~", "not shown any more": "?"}
"""Marks of the states of findings; all others are ✗."""
_LOOKS = {"gone": "good", "smaller": "open", "not shown any more": "open"}
_TEMPLATE = TEMPLATES / "changes.html.j2"
_LABEL_OF_QUALITY = (
    "Dots with intervals: how much each score of the original dialogues changed; the table holds the numbers."
)
_GAPS = (
    "Dots with intervals: the gap of every group before and after, and its change, paired by dialogue; stacked bars: "
    "the contributions of stages; the tables hold the numbers."
)


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


def bounds(change: Change) -> str:
    """Return the interval of a change; intervals that hold for few terms only are marked."""
    ci = change.change.ci
    mark = TERMS_ONLY if change.change.is_of_terms_only else ""
    return "" if ci is None else f"[{fixed(ci[0], sign=True)}, {fixed(ci[1], sign=True)}]{mark}"


@dataclass(frozen=True)
class Fate:
    """A finding before and after, in words."""

    axis: str
    state: str
    what: str
    """Treatment, event and components."""
    values: str
    """Scores of the group and of the others, before and after, with the change of the gap."""

    @property
    def mark(self) -> str:
        """Mark of the state."""
        return _MARKS.get(self.state, "✗")

    @property
    def look(self) -> str:
        """Class in the style sheet."""
        return _LOOKS.get(self.state, "claim")


def fate_of(change: FindingChange) -> Fate:
    """Put the change of a finding into words."""
    finding = change.finding
    where = f" ({finding.stage})" if finding.stage else ""
    what = f"{treatment(finding)} as {finding.group}{where}; {finding.what}"
    if change.score.before is None:
        return Fate(finding.axis, change.state, what, "no turn could show it in both runs")
    sides = [f"{_moved(change.score, is_share=finding.is_share)} as {finding.group}"]
    if change.others.before is not None:
        sides.append(f"{_moved(change.others, is_share=finding.is_share)} as others")
    p = p_text(change.gap.change.p)
    sides.append(f"{p} for the change of the gap")
    return Fate(finding.axis, change.state, what, "; ".join(sides))


def _moved(change: Change, *, is_share: bool) -> str:
    def shown(value: float | None) -> str:
        return NOT_AVAILABLE if value is None else f"{100 * value:.0f}%" if is_share else f"{value:.2f}"

    return f"{shown(change.before)} → {shown(change.after)}"


def other_line(other: OtherChange, result: Comparison) -> str:
    """Return a change that no finding is about, in one line."""
    label = result.metrics[other.metric].label
    what = f"{other.axis}: {label}, gap of {other.group}" if other.axis else f"{label} of the originals"
    change = other.change
    values = f"{fixed(change.before, 2)} → {fixed(change.after, 2)}"
    return f"{other.change.verdict:8} {what} {values} {bounds(change)}".rstrip()


_ROOM = 3
"""Number of other changes on a terminal."""


def summary(result: Comparison, width: int = 80, *, plain: bool = False) -> Iterator[Text]:
    """Yield the lines of a terminal: every finding before and after, then the clearest other changes.

    Args:
        result: the content of ``compare.json``.
        width: columns of the terminal.
        plain: True if the terminal shows ASCII only.
    """
    styles = {"good": "green", "open": "yellow", "claim": "bold red"}

    def line(text: str, style: str = "") -> Text:
        return Text(ascii_of(text) if plain else text, style=style)

    yield line(f"{result.before} → {result.after}: {count(result.corpus.dialogues)} dialogues", "bold")
    fates = [fate_of(change) for change in result.findings]
    column = column_of(fate.axis for fate in fates)
    for fate in fates:
        begin = f"{fate.mark} {fate.axis:<{column}} "
        first, *more = folded(f"{fate.state}: {fate.what}", " " * len(begin), width, begin)
        yield line(first, styles[fate.look])
        yield from map(line, [*more, *folded(fate.values, " " * len(begin), width)])
    if not fates:
        yield line("neither run has a finding")
    elif not any(fate.state == "new" for fate in fates):
        yield line("no new finding")
    for other in result.others[:_ROOM]:
        yield from map(line, folded(other_line(other, result), "    ", width, "  "))
    if len(result.others) > _ROOM:
        yield line(f"  and {len(result.others) - _ROOM} more on the page", "dim")
    for text in notes(result):
        yield from (line(some, "dim") for some in folded(text, "", width))


def notes(result: Comparison) -> list[str]:
    """Return what is unusual about the comparison; empty if nothing is."""
    said = []
    if result.same:
        said.append("Every counterfactual has the same score in both runs, whichever stages are replaced by twins.")
    systems = result.stages
    if systems.before != systems.after:
        common = ", ".join(systems.common) or "none"
        said.append(
            f"The systems have different stages ({', '.join(systems.before)}; {', '.join(systems.after)}): "
            f"contributions are compared for those in both: {common}."
        )
    lost = {axis: number for axis, number in result.left_out.items() if number}
    if lost:
        said.append(
            "Left out, as one of the runs lacks an output: "
            + ", ".join(f"{count(number)} dialogues ({axis})" for axis, number in lost.items())
            + "."
        )
    return said


def sentences(result: Comparison) -> list[str]:
    """Return notes on the numbers, for the page."""
    said = notes(result)
    if result.margin is None:
        said.append("No margin is set, so nothing is called equivalent; a change that is not shown may exist.")
    else:
        margins = f"{result.margin:g}"
        if result.quality_margin != result.margin:
            margins += f", of scores within {result.quality_margin:g}"
        said.append(f"equivalent: the change is shown to be within {margins}; inconclusive does not mean equal.")
    said.append("p-values of the findings hold over the findings of both runs, and all others over all other changes.")
    said.append(
        "better: nearer to 0 for gaps, disparities and contributions (positive is harm), for scores as the metric says."
    )
    if any(TERMS_ONLY in bounds(change) for _, _, _, change in rows(result)):
        said.append(f"{TERMS_ONLY} true of these terms only: they are too few, or other terms might not show it")
    return said


def write_changes(result: Comparison, folder: str | Path, runs: Sequence[AuditResult | None] = (None, None)) -> Path:
    """Write ``report.html`` and ``figures/*.svg``; returns the path of the page.

    Args:
        result: the content of ``compare.json``.
        folder: where to.
        runs: ``results.json`` of both, for the intervals of each run; None if missing.
    """
    place = Path(folder)
    check_plain_file(place / REPORT)
    pictures = subfolder(place, FIGURES)
    names = _names(result.before, result.after)
    quality = None
    if result.quality:
        quality = draw(
            _quality(result, WIDTH),
            pictures / "quality.svg",
            _LABEL_OF_QUALITY,
            "quality",
            _quality(result, NARROW),
        )
    return write_page(
        place / REPORT,
        _TEMPLATE,
        names=names,
        result=result,
        fates=[fate_of(change) for change in result.findings],
        others=[minus(other_line(other, result)) for other in result.others],
        quality=quality,
        drawn=list(_drawn(result, pictures, names, runs)),
        tables=_tables(result),
        notes=[minus(text) for text in sentences(result)],
        sides={
            metric: side(about.better, counterfactual=about.counterfactual) for metric, about in result.metrics.items()
        },
        differences=[
            (name, *(NOT_AVAILABLE if value is None else value for value in values))
            for name, values in result.differences.items()
        ],
    )


def _drawn(
    result: Comparison, pictures: Path, names: tuple[str, str], runs: Sequence[AuditResult | None]
) -> Iterator[tuple[str, str, Any]]:
    """Yield metric, label and figure of the gaps by each metric that is no event or leads a finding."""
    taken: set[str] = set()
    of_findings = {change.finding.metric for change in result.findings}
    for metric in (name for name in result.metrics if name in of_findings or event_of(name) is None):
        blocks = list(_blocks(result, metric, names, runs))
        if 0 < 3 * len(blocks) <= MOST_ROWS:
            name = unique(slug(f"changes {metric}"), taken)
            figure, narrow = (_gaps(blocks, result, metric, width) for width in (WIDTH, NARROW))
            yield metric, result.metrics[metric].label, draw(figure, pictures / f"{name}.svg", _GAPS, name, narrow)


def _names(before: str, after: str) -> tuple[str, str]:
    """Return short names of the runs: their folders' names if these differ."""
    names = Path(before).name, Path(after).name
    if names[0] != names[1]:
        return names[0] or before, names[1] or after
    return before, after


def _tables(result: Comparison) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """One table for the quality and one per metric: its title, and its rows."""
    tables: dict[str, list[tuple[Any, ...]]] = {}
    last = ""
    for axis, metric, what, change in rows(result):
        label = result.metrics[metric].label
        title = label if axis else "Quality"
        table = tables.setdefault(title, [])
        first = (axis if not table or axis != last else "") if axis else label
        last = axis
        numbers = fixed(change.before), fixed(change.after), fixed(change.change.value, sign=True), bounds(change)
        table.append((first, what, *map(minus, numbers), p_cell(change.change.p), change.verdict))
    return list(tables.items())


def _quality(result: Comparison, width: float) -> Figure:
    shown = tuple(
        Row(
            f"{result.metrics[metric].label}, {fixed(change.before)} to {fixed(change.after)}",
            change.change,
            claimed=change.verdict in SHOWN,
        )
        for metric, change in result.quality.items()
    )
    return forest([Block("Originals", shown)], [], Texts("change of the score", "", "higher", "lower"), width)


def _gaps(blocks: Sequence[Block], result: Comparison, metric: str, width: float) -> Figure:
    about = result.metrics[metric]
    unit = f"share of the originals' {about.label}" if about.scale == "ratio" else about.label
    texts = Texts(
        f"gap from the mean of groups\n({unit})",
        "contributions of stages",
        *sides(about.better, counterfactual=about.counterfactual),
    )
    return forest(blocks, result.stages.common, texts, width)


def _blocks(
    result: Comparison, metric: str, names: tuple[str, str], runs: Sequence[AuditResult | None]
) -> Iterator[Block]:
    for axis, by_metric in result.axes.items():
        groups = by_metric[metric].groups if metric in by_metric else {}
        for group, change in groups.items():
            shown = []
            for which, name, run in zip(("before", "after"), names, runs, strict=True):
                parts = {stage: Estimate(value=getattr(part, which)) for stage, part in change.contributions.items()}
                axis_result = None if run is None else run.axes.get(axis, {}).get(metric)
                shown.append(Row(name, _with_interval(getattr(change.gap, which), axis_result, group), parts or None))
            is_shown = change.gap.verdict in SHOWN
            shown.append(Row("change", change.gap.change, claimed=is_shown, quiet=not is_shown))
            yield Block(f"{axis}: {group}", tuple(shown), change.gap.verdict)


def _with_interval(value: float | None, row: AxisResult | None, group: str) -> Estimate:
    """Return the gap of a group in one run, with its interval if it is for the compared dialogues."""
    gap = row.groups[group].gap if row is not None and group in row.groups else Estimate()
    if value is None or gap.value is None or abs(gap.value - value) > 1e-6:
        return Estimate(value=value)
    return gap
