"""The section of a page about one run: its findings, tables, figures and record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tod_bias.audit.notices import Opposed, opposed
from tod_bias.audit.record import ReportedRun
from tod_bias.metrics.events import event_of
from tod_bias.report import notation
from tod_bias.report.answer import heading, treatment
from tod_bias.report.canvas import NARROW, draw
from tod_bias.report.cards import Card, cards_of
from tod_bias.report.circumstances import circumstances
from tod_bias.report.figures import MOST_ROWS, groups
from tod_bias.report.leading import leading_rows
from tod_bias.report.notation import (
    DAGGER,
    FEW_NOTE,
    mark,
    short,
    shown_gap,
)
from tod_bias.results import (
    PLACEBO_VERDICT,
    THESE_TERMS,
    AuditResult,
    AxisResult,
    CorpusInfo,
    Group,
)

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
