"""Changes of a system, what came of each, and which of them mends: the records of a repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.mitigation.missing_rows import Lack
from tod_bias.perturb.guards.guard import GUARDS
from tod_bias.results import AuditResult, AxisResult, Comparison
from tod_bias.results import Change as Difference
from tod_bias.systems.pipeline import Pipeline
from tod_bias.testing.gate import WITHIN, Asked, Judged

ROWS = "rows"
"""The change of a lookup table: the rows that it lacks."""
KINDS = (ROWS, *GUARDS)
"""What may be changed of a component."""


@dataclass(frozen=True, order=True)
class Change:
    """What is changed of one component."""

    component: str
    kind: str
    """One of :data:`KINDS`."""
    axes: tuple[str, ...]

    def __str__(self) -> str:
        what = "missing rows" if self.kind == ROWS else self.kind
        return f"{self.component}: {what} ({', '.join(self.axes)})"


@dataclass(frozen=True)
class Attempt:
    """A system with changes, measured as the finished run was."""

    changes: tuple[Change, ...]
    axes: tuple[str, ...]
    """On which it was measured."""
    result: AuditResult
    comparison: Comparison
    values: tuple[Judged, ...]
    """The disparities and gaps, each within the margin or not."""
    reason: str
    """Why it does not do; empty where it does."""
    asked: Mapping[str, int]
    """Component to the questions that were new."""
    seconds: float
    quality_by: tuple[str, ...] = ()
    """Metrics that were shown not to fall; none: quality was not measured."""

    @property
    def is_sufficient(self) -> bool:
        """Whether it mends the axes it was measured on, at no loss."""
        return not self.reason

    @property
    def equal(self) -> str:
        """What speaks for it: *shown* where all is shown to lie within the margin, else *none differs*, as no dialogue
        does and they are too few (or their words are) to show that none would."""
        if not self.is_sufficient:
            return ""
        return "shown" if all(one.state == WITHIN for one in self.values) else "none differs"

    @property
    def name(self) -> str:
        """Its changes."""
        return "; ".join(map(str, self.changes))

    def to_json(self) -> dict[str, Any]:
        """For ``repair.json``."""
        return {
            "changes": [{"component": one.component, "kind": one.kind, "axes": list(one.axes)} for one in self.changes],
            "sufficient": self.is_sufficient,
            "reason": self.reason,
            "quality_by": list(self.quality_by),
            "equal": self.equal,
            "quality": {name: change.model_dump(mode="json") for name, change in self.comparison.quality.items()},
            "axes": {
                axis: {name: one.model_dump(mode="json") for name, one in self.comparison.axes[axis].items()}
                for axis in self.axes
            },
            "measured": {axis: measured_of(self.result.axes[axis]) for axis in self.axes},
            "asked": dict(self.asked),
            "tokens": dict(self.result.cost.tokens),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Repair:
    """What was tried, and what mends."""

    before: str
    metric: str
    margin: float
    quality_margin: float
    named: Mapping[str, Mapping[str, float]]
    """Axis to the components that the attribution names, with their parts."""
    attempts: tuple[Attempt, ...]
    """In the order in which they were tried."""
    mend: Attempt | None
    """The smallest sufficient change of all axes together; None where there is none."""
    lacks: tuple[Lack, ...] = ()
    """What the database lacks."""
    pipeline: Pipeline | None = field(default=None, compare=False)
    """The mended system."""
    measured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Axis and metric to the originals' score and the disparity of the finished run."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """What its language models read and wrote."""
    tried: int = 1
    """Changes that were tried."""
    doubt: str = ""
    """Why the mend is not shown at a level divided by how many were tried on these dialogues; empty where it is."""
    these_words: bool = False
    """Whether what is shown is true of these words only."""
    left: Mapping[str, list[str]] = field(default_factory=dict)
    """Axes on which only other metrics than the one that decides claim something, and these; they were not mended."""

    @property
    def ranked(self) -> list[Attempt]:
        """Sufficient ones first; fewer changes, better quality, fewer new questions first."""
        return sorted(self.attempts, key=lambda one: (not one.is_sufficient, *size_of(one, self.metric)))

    def to_json(self) -> dict[str, Any]:
        """The content of ``repair.json``."""
        return {
            "schema": 1,
            "run": self.before,
            "metric": self.metric,
            "margin": self.margin,
            "quality_margin": self.quality_margin,
            "named": {axis: dict(parts) for axis, parts in self.named.items()},
            "mend": None if self.mend is None else self.mend.to_json(),
            "attempts": [one.to_json() for one in self.ranked],
            "missing_rows": len(self.lacks),
            "measured": {axis: dict(found) for axis, found in self.measured.items()},
            "tokens": dict(self.tokens),
            "tried": self.tried,
            "doubt": self.doubt,
            "these_words": self.these_words,
            "left": {axis: list(metrics) for axis, metrics in self.left.items()},
        }


def nothing_differs(asked: Asked) -> bool:
    """Whether no dialogue shows any difference."""
    return asked.value == 0 and asked.error_these_words == 0


def measured_of(by_metric: Mapping[str, AxisResult]) -> dict[str, dict[str, Any]]:
    """Of an axis by each metric what stands in its run: the originals' score and the disparity, with intervals."""
    return {
        metric: {"original": row.original.model_dump(mode="json"), "disparity": row.disparity.model_dump(mode="json")}
        for metric, row in by_metric.items()
    }


def size_of(attempt: Attempt, metric: str) -> tuple[float, ...]:
    """Fewer changes first, then what is better by more than a hundredth, then what asks less anew."""
    quality = attempt.comparison.quality.get(metric)
    gain = _gain(quality, attempt.comparison.metrics[metric].better) if quality else 0.0
    return (
        len(attempt.changes),
        -round(gain, 2),
        sum(attempt.result.cost.tokens.values()),
        sum(attempt.asked.values()),
    )


def _gain(quality: Difference, better: str) -> float:
    return float(quality.change.value or 0.0) * (-1.0 if better == "lower" else 1.0)


def merged(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Changes of one component of one kind as one; a component gets one guard, the first kind that is named for it."""
    axes: dict[tuple[str, str], list[str]] = {}
    guards: dict[str, str] = {}
    for one in changes:
        kind = one.kind if one.kind == ROWS else guards.setdefault(one.component, one.kind)
        own = axes.setdefault((one.component, kind), [])
        own += [axis for axis in one.axes if axis not in own]
    return tuple(Change(name, kind, tuple(own)) for (name, kind), own in axes.items())
