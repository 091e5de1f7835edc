"""The report of two runs against each other: before, after and what changed, in figures and tables of one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.io.files import check_plain_file, subfolder
from tod_bias.report.changes import SHOWN, bounds, gap_changes, rows, sentences
from tod_bias.report.figures import MOST_ROWS
from tod_bias.report.forest import Block, Row, Texts, forest
from tod_bias.report.gaps import side, sides
from tod_bias.report.notation import MISSING, fixed, p_cell
from tod_bias.report.page import FIGURES, REPORT, TEMPLATES, draw, write_page
from tod_bias.report.palette import NARROW, WIDTH
from tod_bias.report.sections import minus, slug, unique
from tod_bias.results import AuditResult, AxisResult, Change, Comparison, Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = TEMPLATES / "changes.html.j2"
_QUALITY = "Dots with intervals: how much each score of the original dialogues changed; the table holds the numbers."
_GAPS = (
    "Dots with intervals: the gap of every group before and after, and its change, paired by dialogue; stacked bars: "
    "the contributions of stages; the tables hold the numbers."
)


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
    taken: set[str] = set()
    figures = []
    for metric, about in result.metrics.items():
        blocks = list(_blocks(result, metric, names, runs))
        if 0 < 3 * len(blocks) <= MOST_ROWS:
            name = unique(slug(f"changes {metric}"), taken)
            figure, narrow = (_gaps(blocks, result, metric, width) for width in (WIDTH, NARROW))
            figures.append((metric, about.label, draw(figure, pictures / f"{name}.svg", _GAPS, name, narrow)))
    quality = None
    if result.quality:
        quality = draw(_quality(result, WIDTH), pictures / "quality.svg", _QUALITY, "quality", _quality(result, NARROW))
    return write_page(
        place / REPORT,
        _TEMPLATE,
        names=names,
        result=result,
        readings=list(_readings(result)),
        quality=quality,
        drawn=figures,
        tables=_tables(result),
        notes=[minus(text) for text in sentences(result)],
        sides={
            metric: side(about.better, counterfactual=about.counterfactual) for metric, about in result.metrics.items()
        },
        differences=[
            (name, *(MISSING if value is None else value for value in values))
            for name, values in result.differences.items()
        ],
    )


def _names(before: str, after: str) -> tuple[str, str]:
    """Return short names of the runs: their folders' names if these differ."""
    names = Path(before).name, Path(after).name
    if names[0] != names[1]:
        return names[0] or before, names[1] or after
    return before, after


def _readings(result: Comparison) -> Iterator[tuple[str, str, str, str]]:
    """Yield verdict, style of the badge, score and numbers, for quality and for the gaps that matter."""
    for metric, change in result.quality.items():
        if not result.metrics[metric].counterfactual:
            yield _reading(change, f"quality, {result.metrics[metric].label}")
    for where, change, stage in gap_changes(result):
        yield _reading(change, where, stage)


def _reading(change: Change, where: str, stage: str = "") -> tuple[str, str, str, str]:
    text = f"{fixed(change.before)} to {fixed(change.after)}: {fixed(change.change.value, sign=True)}"
    text = "; ".join(filter(None, (f"{text} {bounds(change)}".strip(), stage)))
    look = {"better": "good"}.get(change.verdict, "claim") if change.verdict in SHOWN else ""
    return change.verdict, look, where, minus(text)


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
