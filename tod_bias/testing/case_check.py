"""Cases run again on a system: which are mended, which remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tod_bias.cache import Cache
from tod_bias.errors import TodBiasError
from tod_bias.files import finite
from tod_bias.metrics.choice import metric, shipped
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import is_own, load_axis
from tod_bias.systems.execution import HistoryMode, check_history
from tod_bias.systems.pipeline import Pipeline
from tod_bias.testing.case_runs import Measured, Questioning
from tod_bias.testing.cases import EXPECTED, TOLD, TOLERANCE, Case, perturbers_of, rewrite_of

MENDED, REMAINS, LEVELLED, UNANSWERED = "mended", "remains", "levelled down", "unanswered"
"""What may come of a case. Levelled down: nobody is served worse, as all are served as badly as the one who was."""
CODES = {REMAINS: 1, LEVELLED: 1, UNANSWERED: 3, MENDED: 0}
"""Exit codes; 2 is for the user's mistakes."""


@dataclass(frozen=True)
class Checked:
    """A case as a system serves it now."""

    case: Case
    state: str
    now: Measured | None
    """None: a question had no answer."""
    reason: str = ""
    """Why it had none."""

    @property
    def component(self) -> str:
        """Where the most of the harm enters now; the case's own where there is none."""
        if self.now is None or not self.now.by_component or self.state != REMAINS:
            return self.case.component
        shares = self.now.by_component
        return max(shares, key=lambda name: shares[name])

    @property
    def record(self) -> dict[str, Any]:
        """What is read of the case: as it was written, and under ``now`` harm, shares, scores and outputs."""
        case, now = self.case, self.now
        facts = ("id", "axis", "source", "target", "word", "turn", "turns", "metric")
        found: dict[str, Any] = finite(
            {
                **{name: getattr(case, name) for name in facts},
                "state": self.state,
                "reason": self.reason,
                "component": self.component,
                "before": {"component": case.component, "harm": case.harm, "scores": dict(case.scores)},
                "now": None if now is None else dict(vars(now)),
                "earlier": case.earlier,
                "user": dict(case.user),
                "reference": dict(case.reference),
            }
        )
        return found


@dataclass(frozen=True)
class CaseCheck:
    """All cases of a file as a system serves them now."""

    checked: tuple[Checked, ...]
    tolerance: float

    @property
    def state(self) -> str:
        """One that remains decides, then one that is levelled down, then one that has no answer."""
        states = {one.state for one in self.checked}
        return next(state for state in CODES if state in states or state == MENDED)

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.state]

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``check.json``."""
        return {
            "schema": 1,
            "state": self.state,
            "tolerance": self.tolerance,
            "cases": [one.record for one in self.checked],
        }


def own_of(axes: Sequence[str], metrics: Sequence[str]) -> tuple[dict[str, Axis], dict[str, Metric]]:
    """What :func:`check_cases` takes of one's own, from names that the user gives: cases do not import what they name.

    Args:
        axes: those with ``module:name`` are loaded.
        metrics: names, or ``module:Class``.

    Returns:
        Axis to perturber, and what a case may call a metric to the metric.

    Raises:
        TodBiasError: one cannot be loaded.
    """
    perturbers = [load_axis(axis) for axis in axes if is_own(axis)]
    loaded = {name: metric(name) for name in metrics}
    return {one.name: one for one in perturbers}, {one.name: one for one in loaded.values()} | loaded


def check_cases(
    cases: Sequence[Case],
    pipeline: Pipeline,
    *,
    tolerance: float = TOLERANCE,
    perturbers: Mapping[str, Axis] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    cache: Any = None,
    show_progress: bool = False,
) -> CaseCheck:
    """Run cases again.

    A case is mended where the telling's turn scores no worse than the original's answer told alike, and no worse by the
    component that the harm entered at, both within the tolerance; a mend at one component that only moves the harm to
    another does not pass. Nor does one that serves all as badly as the telling was served: its score must be nearer to
    what it should have been than to what it was.

    Args:
        cases: of one file or several.
        pipeline: the system; where it has no component of a case's, the harm as a whole decides.
        tolerance: in the metric's own units.
        perturbers: axis to a perturber, where it is not a shipped one.
        metrics: what a case calls its metric (a name or ``module:Class``) to a metric, where it is not a shipped one.
        cache: SQLite file in which answers are kept.
        show_progress: on stderr.

    Raises:
        CaseError: a case is told otherwise than when it was written.
        TodBiasError: a metric or axis that there is not, or a tolerance below 0.
    """
    if not tolerance >= 0:
        raise TodBiasError(f"tolerance must be at least 0, got {tolerance!r}")
    told_by = perturbers_of(cases, perturbers)
    answers = None if cache is None else Cache(cache)
    found: dict[str, Checked] = {}
    for name, history in dict.fromkeys((case.metric, case.history) for case in cases):
        own = [case for case in cases if (case.metric, case.history) == (name, history)]
        given = metrics.get(name) if metrics else None
        scored = given or shipped(name, f"case {own[0].id}", "--metrics")
        ask = Questioning(pipeline, scored, _history(history), answers, show_progress=show_progress)
        asked = [(case.telling, rewrite_of(case, told_by[case.axis])) for case in own]
        for case, measured in zip(own, ask(asked), strict=True):
            found[case.id] = _judged(case, measured, tolerance)
    return CaseCheck(tuple(found[case.id] for case in cases), tolerance)


def _history(history: str) -> HistoryMode:
    check_history(history)
    return "system" if history == "system" else "gold"


def _judged(case: Case, measured: Measured | str, tolerance: float) -> Checked:
    if isinstance(measured, str):
        return Checked(case, UNANSWERED, None, measured)
    share = measured.by_component.get(case.component, measured.harm)
    if measured.harm != measured.harm:  # no score: neither telling has what is scored
        return Checked(case, UNANSWERED, measured, f"{case.metric} of the turn is undefined")
    if max(measured.harm, share) > tolerance:
        return Checked(case, REMAINS, measured)
    return Checked(case, MENDED if _has_risen(case, measured) else LEVELLED, measured)


def _has_risen(case: Case, measured: Measured) -> bool:
    """Whether the telling's score is nearer to what it should have been than to what it was."""
    expected, told = case.scores.get(EXPECTED), case.scores.get(TOLD)
    if expected is None or told is None:
        return True
    now = measured.scores[TOLD]
    return abs(now - expected) <= abs(now - told) or (now - expected) * (expected - told) > 0
