"""The report of two runs against each other: before, after and what changed, in figures and tables of one page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.files import check_own_file, own_folder
from tod_bias.report.changes import bounds, p_value, rows, sentences, verdict
from tod_bias.report.forest import Block, Row, Texts, forest
from tod_bias.report.notation import MISSING, fixed
from tod_bias.report.page import FIGURES, REPORT, TEMPLATES, draw, write_page
from tod_bias.report.reading import side, sides
from tod_bias.report.sections import minus, slug, unique
from tod_bias.report.values import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = TEMPLATES / "changes.html.j2"
_SHOWN = ("better", "worse", "changed")
"""Verdicts that show a change."""
_QUALITY = "Dots with intervals: how much each score of the original dialogues changed; the table holds the numbers."
_DISPARITY = (
    "Dots with intervals: the disparity of every axis before and after, and its change, paired by dialogue; stacked "
    "bars: its parts by component; the tables hold the numbers."
)


def write_changes(
    result: Mapping[str, Any], folder: str | Path, runs: Sequence[Mapping[str, Any] | None] = (None, None)
) -> Path:
    """Write ``report.html`` and ``figures/*.svg``; returns the path of the page.

    Args:
        result: the content of ``compare.json``.
        folder: where to.
        runs: ``results.json`` of both, for the intervals of each by itself; None where there is none.
    """
    place = Path(folder)
    check_own_file(place / REPORT)
    pictures = own_folder(place, FIGURES)
    names = _names(result["before"], result["after"])
    taken: set[str] = set()
    drawn = []
    for metric, about in result["metrics"].items():
        blocks = list(_blocks(result, metric, names, runs))
        if blocks:
            name = unique(slug(f"changes {metric}"), taken)
            figure = _disparities(blocks, result, metric)
            drawn.append((metric, about["label"], draw(figure, pictures / f"{name}.svg", _DISPARITY, name)))
    quality = None
    if result["quality"]:
        quality = draw(_quality(result), pictures / "quality.svg", _QUALITY, "quality")
    return write_page(
        place / REPORT,
        _TEMPLATE,
        names=names,
        result=result,
        readings=list(_readings(result)),
        quality=quality,
        drawn=drawn,
        tables=_tables(result),
        said=[minus(text) for text in sentences(result)],
        sides={
            metric: side(about["better"], counterfactual=about.get("counterfactual") is True)
            for metric, about in result["metrics"].items()
        },
        differences=[
            (name, *(MISSING if value is None else value for value in values))
            for name, values in result["differences"].items()
        ],
    )


def _names(before: str, after: str) -> tuple[str, str]:
    """What the runs are called: the last parts of their paths that differ."""
    one, other = Path(before), Path(after)
    if one.name != other.name:
        return one.name or before, other.name or after
    return before, after


def _readings(result: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Verdict, whether it shows a change, what of, and the numbers; quality and disparities only."""
    for axis, metric, what, record in rows(result):
        if what in ("quality", "disparity"):
            label = result["metrics"][metric]["label"]
            where = f"quality, {label}" if not axis else f"{axis}, {label}"
            change = record["change"]
            text = f"{fixed(record['before'])} to {fixed(record['after'])}: {fixed(change['value'], sign=True)}"
            known = verdict(record)
            yield known, record["verdict"] in _SHOWN, where, minus(f"{text} {bounds(record)}".strip())


def _tables(result: Mapping[str, Any]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """A table for the quality and one a metric: its title, and its rows."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    last = ""
    for axis, metric, what, record in rows(result):
        label = result["metrics"][metric]["label"]
        title = label if axis else "Quality"
        change = record["change"]
        own = found.setdefault(title, [])
        first = (axis if not own or axis != last else "") if axis else label
        last = axis
        values = (fixed(record["before"]), fixed(record["after"]), fixed(change["value"], sign=True), bounds(record))
        own.append((first, what, *map(minus, values), p_value(record), verdict(record)))
    return list(found.items())


def _quality(result: Mapping[str, Any]) -> Figure:
    shown = tuple(
        Row(
            f"{result['metrics'][metric]['label']}, {fixed(record['before'])} to {fixed(record['after'])}",
            Estimate.read(record["change"], metric),
            claimed=record["verdict"] in _SHOWN,
        )
        for metric, record in result["quality"].items()
    )
    return forest([Block("Originals", shown)], [], Texts("change of the score", "", "higher", "lower"))


def _disparities(blocks: Sequence[Block], result: Mapping[str, Any], metric: str) -> Figure:
    about = result["metrics"][metric]
    unit = f"part of the originals' {about['label']}" if about["scale"] == "ratio" else about["label"]
    texts = Texts(
        f"disparity\n({unit})", "its parts", *sides(about["better"], counterfactual=about.get("counterfactual") is True)
    )
    return forest(blocks, result["pipeline"]["common"], texts)


def _blocks(
    result: Mapping[str, Any], metric: str, names: tuple[str, str], runs: Sequence[Mapping[str, Any] | None]
) -> Iterator[Block]:
    for axis, by_metric in result["axes"].items():
        if metric not in by_metric:
            continue
        record = by_metric[metric]
        whole = record["disparity"]
        shown = []
        for which, name, run in zip(("before", "after"), names, runs, strict=True):
            parts = {stage: Estimate(part[which]) for stage, part in record["contributions"].items()}
            shown.append(Row(name, _own(whole[which], run, axis, metric), parts or None))
        change = Estimate.read(whole["change"], f"{axis}.{metric}")
        shown.append(Row("change", change, claimed=whole["verdict"] in _SHOWN, quiet=whole["verdict"] not in _SHOWN))
        yield Block(axis, tuple(shown), verdict(whole))


def _own(value: float | None, run: Mapping[str, Any] | None, axis: str, metric: str) -> Estimate:
    """A run's own disparity with its interval, where that is of the dialogues that are compared."""
    record = {} if run is None else run["axes"].get(axis, {}).get(metric, {}).get("disparity", {})
    own = record.get("value")
    if value is None or own is None or abs(own - value) > 1e-6:
        return Estimate(value)
    return Estimate.read({name: record.get(name) for name in ("value", "ci", "ci_these_words")}, f"{axis}.{metric}")
