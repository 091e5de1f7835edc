"""Pages of runs, and of several runs side by side: what the templates of :mod:`tod_bias.report.rendering` show."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from tod_bias.audit.notices import Opposed, opposed
from tod_bias.audit.record import ReportedRun, read_runs
from tod_bias.errors import TodBiasError
from tod_bias.io.files import check_plain_file, subfolder, write_text
from tod_bias.metrics.events import event_of
from tod_bias.report import notation
from tod_bias.report.answer import heading, treatment
from tod_bias.report.canvas import NARROW, draw
from tod_bias.report.cards import Card, cards_of
from tod_bias.report.circumstances import circumstances
from tod_bias.report.figures import MOST_ROWS, comparison, groups, su_comparison
from tod_bias.report.leading import leading_rows
from tod_bias.report.notation import (
    DAGGER,
    FEW_NOTE,
    count,
    is_matched,
    mark,
    p_cell,
    short,
    shown_gap,
    side,
    with_interval,
)
from tod_bias.report.rendering import FIGURES, REPORT, TEMPLATES, render_page
from tod_bias.results import (
    PLACEBO_VERDICT,
    THESE_TERMS,
    AuditResult,
    AxisResult,
    CorpusInfo,
    Group,
    MetricInfo,
    RunError,
)
from tod_bias.statistics.needed import ENOUGH_TERMS

_LABEL = "Dots with intervals: the gap of each group from the mean of groups, and the contributions of components."
_MOST_TERMS = 5
"""Terms of a group that are named."""
_RECORDED = ("corpus", "stages", "config", "signature")
"""Parts of ``results.json`` that the record of a page holds."""
_IN_OTHER_SECTIONS = ("intervals", "p_values")
"""Parts of the signature that the sections explain."""


@dataclass(frozen=True)
class Section:
    """Content of the report for one run."""

    run: ReportedRun
    id: str
    """The prefix of the page's anchors, unique among its runs."""
    cards: Sequence[Card]
    """The findings, the most important first."""
    rows: Sequence[AxisResult]
    """Each axis but the placebo, by its leading metric."""
    figures: Mapping[str, Markup]
    """Axis to the figure of its groups."""

    @property
    def corpus(self) -> CorpusInfo:
        """Name, split and counts of the corpus."""
        return self.run.result.corpus

    @property
    def title(self) -> str:
        """The corpus, or a given name."""
        name, split = self.corpus.name or "Run", self.corpus.split
        return f"{name} ({split})" if split else name

    @property
    def heading(self) -> str:
        """Name of the audited system."""
        return heading(self.run.result)

    @property
    def conditions(self) -> list[str]:
        """The settings of the run, in short."""
        result = self.run.result
        design = result.config.design
        return [
            " → ".join(result.stages),
            *([f"{design.draws} rewritings per dialogue"] if design.design == "draws" else []),
            f"seed {result.config.seed}",
        ]

    @property
    def circumstances(self) -> list[str]:
        """Notices: a changed file, missing, malformed or drawn outputs."""
        return circumstances(self.run.result)

    @property
    def record(self) -> list[tuple[str, str]]:
        """The settings, counts and versions of ``results.json``, as (name, text)."""
        result = self.run.result
        record = {name: value for name, value in settings(result).items() if name in _RECORDED}
        signature = {name: text for name, text in result.signature.items() if name not in _IN_OTHER_SECTIONS}
        cost = {"calls": result.cost.calls, "different calls": result.cost.distinct, "seconds": result.cost.seconds}
        return facts(record | {"signature": signature, "cost": cost})

    @property
    def has_placebo(self) -> bool:
        """True if any group is compared with the placebo."""
        return any(group.beyond_placebo is not None for row in self.rows for group in row.groups.values())

    @property
    def margin(self) -> float | None:
        """The margin within which the user calls groups equivalent."""
        return self.run.result.config.analysis.margin

    @property
    def results(self) -> list[AxisResult]:
        """Every axis by every metric, without events that have no finding."""
        result = self.run.result
        metrics = {finding.metric for finding in result.findings if finding.is_difference}
        return [row for row in result.rows if row.metric.name in metrics or event_of(row.metric.name) is None]

    @property
    def attributed(self) -> list[tuple[AxisResult, Group]]:
        """The groups whose gap is split over components: those of findings in their order, then where shares cancel."""
        rows = {row.axis: row for row in self.rows}
        named = [(rows[finding.axis], finding.group) for finding in self.run.result.findings if finding.axis in rows]
        named += [(row, pair.group) for row, pair in self.cancelling if (row, pair.group) not in named]
        return [(row, row.groups[name]) for row, name in named if name in row.groups and row.groups[name].parts]

    @property
    def cancelling(self) -> list[tuple[AxisResult, Opposed]]:
        """The axes on which two components work against each other for a group."""
        pairs = [(row, opposed(row)) for row in self.rows]
        return [(row, pair) for row, pair in pairs if pair is not None]

    @property
    def by_paper(self) -> list[AxisResult]:
        """Each axis by the first metric that has Su's numbers."""
        axes = self.run.result.axes.values()
        first = (next((row for row in by_metric.values() if row.su is not None), None) for by_metric in axes)
        return [row for row in first if row is not None]

    def claim(self, row: AxisResult, group: str) -> str:
        """Return what is found of a group, in a few words; empty if nothing is."""
        return claim_in(self.run.result, row, group)

    def placebo(self, row: AxisResult) -> AxisResult | None:
        """Return the placebo by the metric of an axis; None without it."""
        return self.run.result.axes.get(PLACEBO_VERDICT, {}).get(row.metric.name)

    def heavy_terms(self, row: AxisResult, group: str) -> str:
        """Return the terms of a group that carry most of its gap, with their shares of it."""
        shares = {term.term: term.share for term in row.terms if term.group == group and (term.share or 0.0) > 0}
        heavy = sorted(shares, key=lambda term: -(shares[term] or 0.0))[:_MOST_TERMS]
        return ", ".join(f"{short(term)} {notation.percent(shares[term])}" for term in heavy)


def section_of(run: ReportedRun, name: str, folder: Path) -> Section:
    """Read a run's results, and write its figures.

    Args:
        run: read from its folder.
        name: of the run, fit for links.
        folder: for the figures.
    """
    rows = leading_rows(run.result)
    return Section(run, name, cards_of(run.result), rows, dict(_drawn(rows, name, folder)))


def claim_in(result: AuditResult, row: AxisResult, group: str) -> str:
    """Return what a result's findings state of a group, in a few words; empty if they state nothing.

    Args:
        result: of the run.
        row: axis and metric beside which it stands; a finding by another metric names it.
        group: of the axis.
    """
    of_group = [finding for finding in result.findings if (finding.axis, finding.group) == (row.axis, group)]
    for finding in sorted(of_group, key=lambda some: some.metric != row.metric.name):
        if finding.is_difference:
            only = ", these terms" if finding.verdict == THESE_TERMS else ""
            other = "" if finding.metric == row.metric.name else f" by {finding.what}"
            return f"{treatment(finding)}{only}{other}"
    return ""


def _drawn(rows: Iterable[AxisResult], name: str, folder: Path) -> Iterator[tuple[str, Markup]]:
    """Write the figure of each axis with groups, and yield its axis and what the page shows."""
    taken: set[str] = set()
    for row in rows:
        if 0 < len(row.groups) <= MOST_ROWS:
            file = unique(slug(f"groups {row.axis}"), taken)
            narrow = groups([row], NARROW)
            yield row.axis, draw(groups([row]), folder / f"{file}.svg", _LABEL, f"{name}-{file}", narrow)


def marks(axis_results: Sequence[AxisResult]) -> list[str]:
    """Return the meanings of the marks that the numbers of groups have, and of their intervals."""
    numbers = [shown_gap(row, group) for row in axis_results for group in row.groups.values()]
    notes = {
        f"{notation.TERMS_ONLY} holds for the terms of this run only: they are too few or too uneven to represent a "
        "group": any(estimate.is_of_terms_only for estimate in numbers),
        "Intervals of scores are symmetric, so they may reach beyond the range of a score": any(
            map(_has_scores_beyond, axis_results)
        ),
    }
    return [f"{note}." for note, applies in notes.items() if applies]


def few(axis_results: Sequence[AxisResult]) -> str:
    """Return the meaning of the mark for Su's numbers with few dialogues; empty if no number has it."""
    return f"{DAGGER} {FEW_NOTE}." if any(map(mark, axis_results)) else ""


def _has_scores_beyond(axis_result: AxisResult) -> bool:
    """Return True if the interval of a group's score goes beyond the range of the metric."""
    metric = axis_result.metric
    is_share = metric.is_share
    if not (is_share or metric.unit):
        return False
    intervals = [group.score.ci for group in axis_result.groups.values() if group.score.ci]
    return any(low < 0 or (is_share and high > 1) for low, high in intervals)


def settings(result: AuditResult) -> dict[str, Any]:
    """Return everything of ``results.json`` but the results of axes."""
    return {key: value for key, value in result.model_dump(mode="json").items() if key not in ("axes", "schema")}


def facts(record: Any, name: str = "") -> list[tuple[str, str]]:
    """Any part of ``results.json`` as (name, text) rows; names of nested values are joined by a slash."""
    if isinstance(record, Mapping):
        return [row for key, value in record.items() for row in facts(value, f"{name} / {key}" if name else str(key))]
    if record is None:
        return []
    if isinstance(record, (list, tuple)):
        return [(name, ", ".join(map(str, record)))]
    if isinstance(record, bool) or not isinstance(record, (int, float)):
        return [(name, str(record))]
    if isinstance(record, float):
        return [(name, f"{record:.6g}")]
    return [(name, str(record) if name.endswith("seed") else f"{record:,}")]


def minus(text: str) -> str:
    """True minus signs before numbers."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text)


def slug(name: str) -> str:
    """A name for links and file names."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "run"


def unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken, and add it to ``taken``."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


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


def write_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` from run folders; several are compared side by side.

    Args:
        folders: run folders, each with ``results.json``.
        out: the folder to write to, or an ``.html`` file; ``None`` writes into the run's own folder, or for several
            runs into the folder that holds them all.

    Returns:
        The path of the report.

    Raises:
        RunError: a folder cannot be read as a run, or the report cannot be written.
    """
    runs = read_runs(folders)
    path = _destination([run.folder for run in runs], out)
    is_named = out is not None and path == out
    taken: set[str] = set()
    try:
        if not is_named:
            check_plain_file(path)
        pictures = subfolder(path.parent, FIGURES)
        names = [unique(slug(run.name), taken) for run in runs]
        sections = [
            section_of(run, name, pictures if len(runs) == 1 else subfolder(pictures, name))
            for run, name in zip(runs, names, strict=True)
        ]
        compared = compare(sections, pictures) if len(sections) > 1 else None
        write_text(path, render(sections, compared), named=is_named)
    except TodBiasError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror or error}); choose another --out") from error
    return path


def render(sections: Sequence[Section], compared: Compared | None = None) -> str:
    """The report as HTML text.

    Args:
        sections: the runs.
        compared: how they differ, for several.
    """
    numbers = (
        notation.fixed,
        notation.interval,
        notation.with_interval,
        notation.p_cell,
        notation.p_text,
        notation.percent,
        notation.count,
    )
    return render_page(
        TEMPLATES / "report.html.j2",
        {
            **{function.__name__: _typeset(function) for function in numbers},
            "mark": mark,
            "marks": marks,
            "few": few,
            "prose": prose,
            "reference": notation.reference,
        },
        sections=sections,
        compared=compared,
        is_matched=is_matched,
        shown_gap=shown_gap,
        side=side,
        ENOUGH_TERMS=ENOUGH_TERMS,
    )


def prose(text: str) -> Markup:
    """A sentence of a reading as HTML: `stage` as code, ``a>b`` with an arrow, true minus signs, intervals whole."""
    html = re.sub(r"(?<=\w)&gt;(?=\w)", "&nbsp;→&nbsp;", str(escape(text)))
    html = re.sub(r"`([^`]*)`", r"<code>\1</code>", html)
    html = re.sub(r"\[[-+\d][^\]<]{,40}\]", lambda interval: interval[0].replace(" ", "&nbsp;"), html)
    return Markup(minus(html))  # escaped above


def _destination(folders: Sequence[Path], out: Path | None) -> Path:
    if out is not None:
        return out if out.suffix == ".html" else out / REPORT
    if len(folders) == 1:
        return folders[0] / REPORT
    return Path(os.path.commonpath([folder.parent for folder in folders])) / REPORT


def _typeset(function: Callable[..., str]) -> Any:
    return lambda *args, **options: minus(function(*args, **options))


def html(result: AuditResult) -> str:
    """Return the findings and the groups of each axis as HTML, without scripts or styles.

    Args:
        result: of an audit.
    """
    tables = [(row, _rows(result, row)) for row in leading_rows(result) if row.groups]
    return render_page(TEMPLATES / "notebook.html.j2", cards=cards_of(result), tables=tables)


def _rows(result: AuditResult, row: AxisResult) -> list[tuple[str, ...]]:
    rows = []
    for group in row.groups.values():
        gap = shown_gap(row, group)
        numbers = count(group.dialogues), with_interval(group.score), with_interval(gap, sign=True)
        rows.append((group.name, *map(minus, numbers), p_cell(gap.p), claim_in(result, row, group.name)))
    return rows
