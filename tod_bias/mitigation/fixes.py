"""Fixes of a system, what came of each, and which of them is chosen: the records of a mitigation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.mitigation.missing_rows import MissingRows
from tod_bias.mitigation.quality import is_quality_shown
from tod_bias.perturb.guards.guard import GUARDS
from tod_bias.results import AuditResult, AxisResult, Change, Comparison
from tod_bias.systems.pipeline import Pipeline
from tod_bias.testing.gate import WITHIN, Verdict

ROWS = "rows"
"""The fix of a lookup table: the rows that it lacks."""
KINDS = (ROWS, *GUARDS)
"""What a fix may be."""
SHOWN, SEEN = "shown", "seen"
"""What speaks for an attempt: all gaps are shown to lie within the margin, and that quality does not fall by more; or
that was seen and what was claimed is shown to be smaller, and dialogues or terms are too few to show more."""


@dataclass(frozen=True, order=True)
class Fix:
    """A change of one stage."""

    stage: str
    kind: str
    """One of :data:`KINDS`."""
    axes: tuple[str, ...]

    def __str__(self) -> str:
        what = "missing rows" if self.kind == ROWS else self.kind
        return f"{self.stage}: {what} ({', '.join(self.axes)})"

    @property
    def record(self) -> dict[str, Any]:
        """For ``mitigation.json``."""
        return {"stage": self.stage, "kind": self.kind, "axes": list(self.axes)}


@dataclass(frozen=True)
class Attempt:
    """A system with fixes, measured as the finished run was."""

    fixes: tuple[Fix, ...]
    axes: tuple[str, ...]
    """On which it was measured."""
    result: AuditResult
    comparison: Comparison
    verdicts: tuple[Verdict, ...]
    """Of the disparities and gaps: each within the margin or not."""
    reason: str
    """Why it is not sufficient; empty where it is."""
    seconds: float
    quality_metrics: tuple[str, ...] = ()
    """Metrics that were shown not to fall; none: quality was not measured."""

    @property
    def is_sufficient(self) -> bool:
        """Whether it closes the gaps of the axes that it was measured on, at no loss."""
        return not self.reason

    @property
    def evidence(self) -> str:
        """:data:`SHOWN` or :data:`SEEN`; empty where it is not sufficient."""
        if not self.is_sufficient:
            return ""
        is_shown = all(verdict.state == WITHIN for verdict in self.verdicts)
        return SHOWN if is_shown and is_quality_shown(self.comparison, self.quality_metrics) else SEEN

    @property
    def new_calls(self) -> dict[str, int]:
        """Stage to the calls that no cache answered."""
        cost = self.result.cost
        return {name: cost.distinct[name] - cost.cached.get(name, 0) for name in cost.distinct}

    @property
    def name(self) -> str:
        """Its fixes."""
        return "; ".join(map(str, self.fixes))

    @property
    def record(self) -> dict[str, Any]:
        """For ``mitigation.json``."""
        comparison = self.comparison
        return {
            "fixes": [fix.record for fix in self.fixes],
            "sufficient": self.is_sufficient,
            "reason": self.reason,
            "evidence": self.evidence,
            "quality_metrics": list(self.quality_metrics),
            "quality": {name: change.model_dump(mode="json") for name, change in comparison.quality.items()},
            "axes": {
                axis: {name: row.model_dump(mode="json") for name, row in comparison.axes[axis].items()}
                for axis in self.axes
            },
            "scores_after": {axis: scores_of(self.result.axes[axis]) for axis in self.axes},
            "new_calls": self.new_calls,
            "tokens": dict(self.result.cost.tokens),
            "seconds": round(self.seconds, 3),
        }

    def size(self, metric: str) -> tuple[float, ...]:
        """What decides between sufficient attempts, the smallest first: fixes, loss of quality to a hundredth, tokens,
        new calls."""
        change = self.comparison.quality.get(metric)
        gain = _gain(change, self.comparison.metrics[metric].better) if change else 0.0
        tokens, calls = sum(self.result.cost.tokens.values()), sum(self.new_calls.values())
        return len(self.fixes), -round(gain, 2), tokens, calls


def _gain(change: Change, better: str) -> float:
    return float(change.change.value or 0.0) * (-1.0 if better == "lower" else 1.0)


@dataclass(frozen=True)
class Goal:
    """What fixes must reach."""

    metric: str | None = None
    """Decides, and only axes on which it claims something are looked at; by default the run's first."""
    margin: float = 0.02
    """Within it all disparities and gaps must lie, on the metric's own scale."""
    quality_margin: float = 0.02
    """How much of the metric may be lost, in its own units."""
    terms_only: bool = False
    """Whether terms are taken as they are where the run has too few to speak of groups."""

    def metric_of(self, result: AuditResult) -> str:
        """The metric that decides on a run."""
        return result.leading_metric if self.metric is None else self.metric


@dataclass(frozen=True)
class Mitigation:
    """What was tried, and what is chosen."""

    before: AuditResult
    """The finished run."""
    goal: Goal
    stages: Mapping[str, Mapping[str, float]]
    """Axis to the stages that the attribution names, with their contributions."""
    attempts: tuple[Attempt, ...]
    """In the order in which they were tried."""
    chosen: Attempt | None
    """The smallest sufficient fixes of all axes together; None where there are none."""
    missing_rows: tuple[MissingRows, ...] = ()
    """What the database lacks."""
    pipeline: Pipeline | None = field(default=None, compare=False)
    """The fixed system."""
    tried: int = 1
    """Fixes that were tried."""
    unconfirmed: str = ""
    """Why the chosen one is not shown at a level divided by how many were tried; empty where it is."""
    other_metrics: Mapping[str, list[str]] = field(default_factory=dict)
    """Axes on which only other metrics than the one that decides claim something, and these; no fix was tried there."""

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``mitigation.json``; sufficient attempts stand first, then the smallest."""
        metric = self.goal.metric_of(self.before)
        ranked = sorted(self.attempts, key=lambda attempt: (not attempt.is_sufficient, *attempt.size(metric)))
        return {
            "schema": 2,
            "run": self.before.name,
            "metric": metric,
            "margin": self.goal.margin,
            "quality_margin": self.goal.quality_margin,
            "terms_only": self.goal.terms_only,
            "stages": {axis: dict(sizes) for axis, sizes in self.stages.items()},
            "chosen": None if self.chosen is None else self.chosen.record,
            "attempts": [attempt.record for attempt in ranked],
            "missing_rows": len(self.missing_rows),
            "scores_before": {axis: scores_of(self.before.axes[axis]) for axis in self.stages},
            "tokens": dict(self.before.cost.tokens),
            "tried": self.tried,
            "unconfirmed": self.unconfirmed,
            "other_metrics": {axis: list(metrics) for axis, metrics in self.other_metrics.items()},
        }


def scores_of(by_metric: Mapping[str, AxisResult]) -> dict[str, dict[str, Any]]:
    """What a run has of an axis by each metric: the originals' score and the disparity, with intervals."""
    return {
        metric: {"original": row.original.model_dump(mode="json"), "disparity": row.disparity.model_dump(mode="json")}
        for metric, row in by_metric.items()
    }


def merged(fixes: Sequence[Fix]) -> tuple[Fix, ...]:
    """Fixes of one stage and kind as one; a stage gets one guard, of the first kind that is named for it."""
    axes: dict[tuple[str, str], list[str]] = {}
    guards: dict[str, str] = {}
    for fix in fixes:
        kind = fix.kind if fix.kind == ROWS else guards.setdefault(fix.stage, fix.kind)
        together = axes.setdefault((fix.stage, kind), [])
        together += [axis for axis in fix.axes if axis not in together]
    return tuple(Fix(stage, kind, tuple(together)) for (stage, kind), together in axes.items())
