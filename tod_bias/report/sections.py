"""What the report shows of a run: one section per metric, examples, and the record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tod_bias.metrics.behaviour import Behaviour
from tod_bias.report import notation
from tod_bias.report.answer import heading
from tod_bias.report.cards import Card, cards_of
from tod_bias.report.circumstances import circumstances
from tod_bias.report.figures import figures
from tod_bias.report.page import draw
from tod_bias.report.reading import (
    DAGGER,
    FEW_NOTE,
    Reading,
    mark,
    read,
    shown_gap,
)
from tod_bias.report.record import ReportedRun
from tod_bias.results import (
    ALPHA,
    DISPARITY,
    PER_CENT,
    SHARES,
    AuditResult,
    AxisResult,
    Contributions,
    CorpusInfo,
    Estimate,
    Gap,
    MetricInfo,
)
from tod_bias.statistics.arms import MOST_PLAYERS, WHOLE

_LABELS = {
    "groups": "Dots with intervals: the gap of each group from the mean of groups, and the contributions of stages.",
    "stages": "Dots with intervals: the widest gap of every axis and each stage's share of it.",
    "su": "Stacked bars of Su's contributions to the fairscore of every axis; the table below holds the numbers.",
    "su-pairs": "Heatmap of Su's fairscore by source and target group; its cells hold the numbers.",
}


@dataclass(frozen=True)
class MetricPart:
    """All axes by one metric."""

    metric: MetricInfo
    key: str
    """Its name for links and file names, unique in the run."""
    readings: Sequence[Reading]
    """One per axis, the placebo last."""
    figures: Mapping[str, Markup]
    """By kind, as inline SVG: see :func:`tod_bias.report.figures.figures`."""

    @property
    def axis_results(self) -> list[AxisResult]:
        """One per axis, the placebo last."""
        return [reading.axis_result for reading in self.readings]

    @property
    def claiming(self) -> list[Reading]:
        """Those of axes that may claim something."""
        return [reading for reading in self.readings if not reading.axis_result.is_placebo]

    @property
    def placebo(self) -> AxisResult | None:
        """The placebo."""
        return next((axis_result for axis_result in self.axis_results if axis_result.is_placebo), None)

    @property
    def has_placebo(self) -> bool:
        """Whether any group is compared with the placebo."""
        return any(
            group.beyond_placebo is not None
            for reading in self.claiming
            for group in reading.axis_result.groups.values()
        )

    @property
    def stages(self) -> list[str]:
        """In the pipeline's order."""
        shown = (name for row in self.axis_results for name in row.parts if name in row.contributions)
        return list(dict.fromkeys(shown))

    @property
    def all_stages(self) -> list[str]:
        """In the pipeline's order, those that change nothing among them."""
        return list(dict.fromkeys(stage for row in self.axis_results for stage in row.contributions))

    @property
    def arm_keys(self) -> list[str]:
        """All arms, those with fewer replaced stages first; of many stages those in which none, one, all but one or all
        are replaced."""
        keys = dict.fromkeys(key for axis_result in self.axis_results for key in axis_result.arms)
        number = len(self.all_stages)
        sizes = {key: len(key.split(",")) if key else 0 for key in keys}
        if number > MOST_PLAYERS:
            sizes = {key: size for key, size in sizes.items() if size <= 1 or size >= number - 1 or key == WHOLE}
        return sorted(sizes, key=lambda key: (sizes[key], key))

    @property
    def largest_arm(self) -> float:
        """The largest score of an arm, for bars; 0 where one is negative, and there are no bars."""
        values = [
            value for axis_result in self.axis_results for value in axis_result.arms.values() if value is not None
        ]
        return max(values, default=0.0) if min(values, default=0.0) >= 0 else 0.0

    @property
    def units(self) -> list[tuple[str, list[str]]]:
        """``ratio`` and ``difference``, each with the axes whose gaps have that scale."""
        axes: dict[str, list[str]] = {}
        for axis_result in self.axis_results:
            axes.setdefault(axis_result.scale, []).append(axis_result.axis)
        return list(axes.items())


@dataclass(frozen=True)
class Section:
    """What the report shows of one run."""

    run: ReportedRun
    """The run."""
    id: str
    """The prefix of the page's anchors, unique among its runs."""
    parts: Sequence[MetricPart]
    """One per metric with a section, those of findings first."""
    cards: Sequence[Card]
    """What was found, the most important first."""

    @property
    def corpus(self) -> CorpusInfo:
        """Name, split and counts of the corpus."""
        return self.run.result.corpus

    @property
    def title(self) -> str:
        """The corpus, or a name in its place."""
        name, split = self.corpus.name or "Run", self.corpus.split
        return f"{name} ({split})" if split else name

    @property
    def margin(self) -> float | None:
        """The margin within which the user calls groups equivalent."""
        return self.run.result.config.analysis.margin

    @property
    def heading(self) -> str:
        """What was audited."""
        return heading(self.run.result)

    @property
    def conditions(self) -> list[str]:
        """The settings of the run, in short."""
        result = self.run.result
        design = result.config.design
        return [
            f"{notation.count(self.corpus.dialogues)} dialogues",
            " → ".join(result.stages),
            f"{design.design} design",
            *([f"{design.draws} rewritings per dialogue"] if design.design == "draws" else []),
            f"{'recorded' if result.is_recorded else result.config.run.history} history",
            f"seed {result.config.seed}",
        ]

    @property
    def circumstances(self) -> list[str]:
        """What was unusual: a file that was changed, outputs that are missing, malformed or drawn."""
        return circumstances(self.run.result)

    @property
    def record(self) -> list[tuple[str, str]]:
        """Everything of ``results.json`` but the axes, as (name, text)."""
        return facts(settings(self.run.result))


def attributed(axis_result: AxisResult) -> list[tuple[str, Estimate, Contributions]]:
    """The gaps of an axis that are taken apart, with their names: those that are claimed, then the widest."""
    gaps = [
        (name, gap, axis_result.groups[name].parts)
        for name, gap in sorted(axis_result.claims.items(), key=lambda entry: -(entry[1].value or 0.0))
    ]
    if (widest := axis_result.widest) is not None:
        gaps.append((f"{widest.worse} - {widest.better}", widest.gap, widest.parts))
    return [gap for gap in gaps if gap[2]]


def section_of(run: ReportedRun, name: str, folder: Path) -> Section:
    """Read a run's results, and write its figures.

    Args:
        run: read from its folder.
        name: of the run, fit for links.
        folder: for the figures.
    """
    readings = read(run.result.rows)
    metrics = _metrics(run, run.result.rows)
    keys: set[str] = set()
    names: set[str] = set()
    parts = []
    for metric in metrics:
        chosen = [reading for reading in readings if reading.axis_result.metric.name == metric.name]
        drawn = {}
        for kind, (figure, narrow) in figures([reading.axis_result for reading in chosen]).items():
            file = unique(slug(f"{kind} {metric.name}"), names)
            label = _LABELS[kind.partition(" ")[0]]
            drawn[kind] = draw(figure, folder / f"{file}.svg", label, f"{name}-{file}", narrow)
        parts.append(MetricPart(metric, unique(slug(metric.name), keys), chosen, drawn))
    return Section(run, name, parts, cards_of(run.result))


def _metrics(run: ReportedRun, axis_results: Iterable[AxisResult]) -> list[MetricInfo]:
    """Return the metrics with a section: those of findings first, then all but the events of which nothing is found."""
    measured = {axis_result.metric.name: axis_result.metric for axis_result in axis_results}
    found = [finding.metric for finding in run.result.findings if finding.is_difference]
    others = [name for name in dict.fromkeys([*run.result.metrics, *measured]) if Behaviour.of(name) is None]
    shown = [name for name in dict.fromkeys([*found, *others]) if name in measured]
    return [measured[name] for name in shown or measured]


def unordered_pairs(axis_result: AxisResult) -> list[Gap]:
    """Every gap once, from the side that is served worse, the largest first; undefined ones last."""
    seen: set[frozenset[str]] = set()
    pairs = []
    for pair in sorted(axis_result.pairs.values(), key=lambda pair: (pair.value is None, -(pair.value or 0.0))):
        if (ends := frozenset((pair.source, pair.target))) not in seen:
            seen.add(ends)
            pairs.append(pair)
    return pairs


def marks(axis_results: Sequence[AxisResult]) -> list[str]:
    """What the marks in tables mean, of those that occur."""
    numbers = [gap for row in axis_results for gap in (row.disparity, *row.pairs.values())]
    numbers += [shown_gap(row, group) for row in axis_results for group in row.groups.values()]
    notes = {
        f"* claimed: p < {ALPHA:g} over everything that the run claims": any(
            row.verdict == DISPARITY for row in axis_results
        ),
        f"{DAGGER} {FEW_NOTE}": any(map(mark, axis_results)),
        f"{notation.TERMS_ONLY} true of the terms of this run only: they are too few, or too uneven, to stand for a "
        "group": any(estimate.is_of_terms_only for estimate in numbers),
        "intervals of scores are symmetric, so they may go beyond what a score can be": any(
            map(_has_scores_beyond, axis_results)
        ),
    }
    return [f"{note}." for note, applies in notes.items() if applies]


def _has_scores_beyond(axis_result: AxisResult) -> bool:
    """Whether the interval of a group's score is partly where no score of the metric can be."""
    metric = axis_result.metric
    is_share = metric.name in (*SHARES, "corpus_bleu", "sentence_bleu") or PER_CENT in metric.unit
    if not (is_share or metric.unit):
        return False
    intervals = [group.score.ci for group in axis_result.groups.values() if group.score.ci]
    return any(low < 0 or (is_share and high > 1) for low, high in intervals)


def settings(result: AuditResult) -> dict[str, Any]:
    """Everything of ``results.json`` but the results of axes."""
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
    """The name, with a number where it is taken; adds it to ``taken``."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free
