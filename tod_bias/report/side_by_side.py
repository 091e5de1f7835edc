"""Runs side by side on one page: settings that differ, and the groups of each axis in every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tod_bias.audit.record import ReportedRun
from tod_bias.report import notation
from tod_bias.report.canvas import NARROW, draw
from tod_bias.report.figures import comparison, su_comparison
from tod_bias.report.section import Section, facts, settings, slug, unique
from tod_bias.results import (
    AxisResult,
    Group,
    MetricInfo,
)

_SHARED = ("corpus", "stages", "config", "signature")
"""Parts that compared runs should share; the report names differences."""
_LABEL_OF_RUNS = (
    "Dots with intervals: the widest gap of every axis in each run, and the shares of stages, as in the tables."
)
_SU_LABEL = "Bars: Su's fairscore of every axis in each run, stacked by stage; the tables of the runs hold the numbers."


@dataclass(frozen=True)
class MetricCompared:
    """Comparison of all runs by one metric."""

    metric: MetricInfo
    rows: Sequence[tuple[str, Sequence[tuple[Section, AxisResult]]]]
    """Axes, each with the runs that have it."""
    runs: Sequence[Section]
    """Runs that measured the metric."""
    figure: Markup | None
    """Figure of the groups, if a run compares groups."""
    su: Markup | None
    """Su's stacked fairscores, where any run has them."""

    def gaps(self, axis: str) -> list[tuple[str, list[tuple[AxisResult, Group] | None]]]:
        """Return every group of an axis with its gap in each of the runs; None if a run has no such group."""
        by_run = {section.run.name: row for name, entries in self.rows if name == axis for section, row in entries}
        rows = [by_run.get(section.run.name) for section in self.runs]
        names = dict.fromkeys(name for row in rows if row is not None and not row.is_placebo for name in row.groups)
        return [
            (name, [None if row is None or name not in row.groups else (row, row.groups[name]) for row in rows])
            for name in names
        ]


@dataclass(frozen=True)
class Compared:
    """Runs side by side."""

    differences: Sequence[tuple[str, Sequence[str]]]
    """Settings that differ: name, and value by run."""
    metrics: Sequence[MetricCompared]
    """Metrics that several runs measured."""
    single: Sequence[MetricInfo]
    """Metrics that one run measured."""


def compare(sections: Sequence[Section], folder: Path) -> Compared:
    """Compare runs, and draw their widest gaps.

    Args:
        sections: the runs.
        folder: for the figures.
    """
    metrics: dict[str, MetricInfo] = {}
    for section in sections:
        metrics |= {row.metric.name: row.metric for row in section.results if row.metric.name not in metrics}
    measured = Counter(name for section in sections for name in {row.metric.name for row in section.results})
    taken: set[str] = set()
    return Compared(
        differences([section.run for section in sections]),
        [
            _compared(metric, sections, folder, unique(slug(f"comparison {name}"), taken))
            for name, metric in metrics.items()
            if measured[name] > 1
        ],
        [metric for name, metric in metrics.items() if measured[name] == 1],
    )


def _compared(metric: MetricInfo, sections: Sequence[Section], folder: Path, name: str) -> MetricCompared:
    every = [(section, row) for section in sections for row in section.results if row.metric.name == metric.name]
    axes = dict.fromkeys(row.axis for _, row in sorted(every, key=lambda entry: entry[1].is_placebo))
    rows = [(axis, [entry for entry in every if entry[1].axis == axis]) for axis in axes]
    runs = [section for section in sections if any(section is other for other, _ in every)]
    by_run = {run.run.name: [row for section, row in every if section is run] for run in runs}
    return MetricCompared(metric, rows, runs, *_drawn_runs(by_run, folder, name))


def _drawn_runs(
    runs: Mapping[str, Sequence[AxisResult]], folder: Path, name: str
) -> tuple[Markup | None, Markup | None]:
    """The figures of the widest gaps and of Su's fairscores."""
    every = [row for some in runs.values() for row in some]
    gaps = stacked = None
    if any(row.widest is not None and not row.is_placebo for row in every):
        gaps = draw(comparison(runs), folder / f"{name}.svg", _LABEL_OF_RUNS, name, comparison(runs, NARROW))
    if any(row.su is not None for row in every):
        narrow = su_comparison(runs, NARROW)
        stacked = draw(su_comparison(runs), folder / f"su-{name}.svg", _SU_LABEL, f"su-{name}", narrow)
    return gaps, stacked


def differences(runs: Sequence[ReportedRun]) -> list[tuple[str, list[str]]]:
    """Settings that should be equal in compared runs and are not: (name, value per run). Stages may differ."""
    named = [run.result.metrics for run in runs]
    common = [name for name in named[0] if all(name in metrics for metrics in named)]
    flat: list[Mapping[str, str]] = [dict(facts(_shared(run, common))) for run in runs]
    names = dict.fromkeys(name for row in flat for name in row if not name.startswith("signature / stage "))
    rows = [(name, [row.get(name, notation.NOT_AVAILABLE) for row in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _shared(run: ReportedRun, common: Sequence[str]) -> dict[str, Any]:
    """The settings of a run; of its metrics their names, and how those are scored that all runs have."""
    result = run.result
    record: dict[str, Any] = {key: value for key, value in settings(result).items() if key in _SHARED}
    record["config"] = {key: value for key, value in record["config"].items() if key in ("seed", "design", "run")}
    record["margin"] = result.config.analysis.margin
    metrics = {name: metric.model_dump(mode="json") for name, metric in result.metrics.items()}
    record |= {"metrics": list(metrics), **{f"metric {name}": metrics[name] for name in common}}
    return record | {"order of Su's parts": order} if (order := _order(run)) else record


def _order(run: ReportedRun) -> list[str]:
    """Return the order of Su's parts of a run; empty if it has none."""
    return next((list(row.su.contributions) for row in run.result.rows if row.su is not None), [])
