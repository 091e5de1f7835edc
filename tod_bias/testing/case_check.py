"""Cases run again on a system: which are fixed, which remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tod_bias.errors import TodBiasError
from tod_bias.io.cache import Cache
from tod_bias.io.files import finite
from tod_bias.metrics.choice import metric, shipped
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import is_user_defined, load_axis
from tod_bias.systems.pipeline import Pipeline
from tod_bias.testing.case_runs import CaseRunner, MeasuredCase
from tod_bias.testing.cases import EXPECTED, REWRITTEN, TOLERANCE, Case, axes_of_cases, rewrite_of

FIXED, REMAINS, LEVELLED, UNANSWERED = "fixed", "remains", "levelled down", "unanswered"
"""Outcomes of a case. Levelled down: all groups are served as badly as the harmed group was."""
CODES = {REMAINS: 1, LEVELLED: 1, UNANSWERED: 3, FIXED: 0}
"""Exit codes; 2 is for the user's mistakes."""


@dataclass(frozen=True)
class CheckedCase:
    """A case as a system serves it now."""

    case: Case
    state: str
    now: MeasuredCase | None
    """None: a call had no output."""
    reason: str = ""
    """Reason for which the case has no response."""

    @property
    def stage(self) -> str:
        """Stage at which most of the harm enters now; the case's own stage without harm."""
        if self.now is None or not self.now.contributions or self.state != REMAINS:
            return self.case.stage
        shares = self.now.contributions
        return max(shares, key=lambda name: shares[name])

    @property
    def record(self) -> dict[str, Any]:
        """Return the case as JSON, with harm, shares, scores and outputs of this check under ``now``."""
        case, now = self.case, self.now
        facts = ("id", "axis", "source", "target", "term", "turn", "turns", "metric")
        record: dict[str, Any] = finite(
            {
                **{name: getattr(case, name) for name in facts},
                "state": self.state,
                "reason": self.reason,
                "stage": self.stage,
                "before": {"stage": case.stage, "harm": case.harm, "scores": dict(case.scores)},
                "now": None if now is None else dict(vars(now)),
                "earlier": case.earlier,
                "user": dict(case.user),
                "reference": dict(case.reference),
            }
        )
        return record


@dataclass(frozen=True)
class CaseCheck:
    """Cases of a file, as a system serves them now."""

    checked: tuple[CheckedCase, ...]
    tolerance: float

    @property
    def state(self) -> str:
        """One that remains decides, then one that is levelled down, then one that has no answer."""
        states = {checked.state for checked in self.checked}
        return next(state for state in CODES if state in states or state == FIXED)

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.state]

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``check.json``."""
        return {
            "schema": 2,
            "state": self.state,
            "tolerance": self.tolerance,
            "cases": [checked.record for checked in self.checked],
        }


def user_objects(axes: Sequence[str], metrics: Sequence[str]) -> tuple[dict[str, Axis], dict[str, Metric]]:
    """Load the users' axes and metrics for :func:`check_cases`; cases never import what they name.

    Args:
        axes: those with ``module:name`` are loaded.
        metrics: names, or ``module:Class``.

    Returns:
        Names to axes, and names that a case may use to metrics.

    Raises:
        TodBiasError: an axis or metric cannot be loaded.
    """
    loaded = [load_axis(axis) for axis in axes if is_user_defined(axis)]
    by_spec = {name: metric(name) for name in metrics}
    return {axis.name: axis for axis in loaded}, {scored.name: scored for scored in by_spec.values()} | by_spec


def check_cases(
    cases: Sequence[Case],
    pipeline: Pipeline,
    *,
    tolerance: float = TOLERANCE,
    axes: Mapping[str, Axis] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    cache: Any = None,
    show_progress: bool = False,
) -> CaseCheck:
    """Run cases again.

    A case is fixed if, within the tolerance, the counterfactual's turn scores no worse than the rewritten output of the
    original, both in total and by the stage at which the harm entered. A change that moves the harm to another stage
    does not pass. A change that serves all groups as badly does not pass either: the score must be nearer to its target
    than to its former value.

    Args:
        cases: of one file or several.
        pipeline: the system; if it lacks the stage of a case, the total harm decides.
        tolerance: in the metric's own units.
        axes: users' axes by name.
        metrics: what a case calls its metric (a name or ``module:Class``) to a metric, where it is not a shipped one.
        cache: SQLite file of outputs.
        show_progress: on stderr.

    Raises:
        CaseError: a case is rewritten otherwise than when it was written.
        TodBiasError: a metric or axis that there is not, or a tolerance below 0.
    """
    if not tolerance >= 0:
        raise TodBiasError(f"tolerance must be at least 0, got {tolerance!r}")
    loaded = axes_of_cases(cases, axes)
    outputs = None if cache is None else Cache(cache)
    checked: dict[str, CheckedCase] = {}
    for name, history in dict.fromkeys((case.metric, case.history) for case in cases):
        of_metric = [case for case in cases if (case.metric, case.history) == (name, history)]
        given = metrics.get(name) if metrics else None
        scored = given or shipped(name, f"case {of_metric[0].id}", "--metrics")
        run = CaseRunner(pipeline, scored, history, outputs, show_progress=show_progress)
        pairs = [(case.counterfactual, rewrite_of(case, loaded[case.axis])) for case in of_metric]
        for case, measured in zip(of_metric, run(pairs), strict=True):
            checked[case.id] = _judged(case, measured, tolerance)
    return CaseCheck(tuple(checked[case.id] for case in cases), tolerance)


def _judged(case: Case, measured: MeasuredCase | str, tolerance: float) -> CheckedCase:
    if isinstance(measured, str):
        return CheckedCase(case, UNANSWERED, None, measured)
    share = measured.contributions.get(case.stage, measured.harm)
    if measured.harm != measured.harm:  # no score: neither variant has what is scored
        return CheckedCase(case, UNANSWERED, measured, f"{case.metric} of the turn is undefined")
    if max(measured.harm, share) > tolerance:
        return CheckedCase(case, REMAINS, measured)
    return CheckedCase(case, FIXED if _has_risen(case, measured) else LEVELLED, measured)


def _has_risen(case: Case, measured: MeasuredCase) -> bool:
    """True if the counterfactual's score is nearer to its target than to its former value."""
    expected, before = case.scores.get(EXPECTED), case.scores.get(REWRITTEN)
    if expected is None or before is None:
        return True
    now = measured.scores[REWRITTEN]
    return abs(now - expected) <= abs(now - before) or (now - expected) * (expected - before) > 0
