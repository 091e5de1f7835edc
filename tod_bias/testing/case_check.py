"""Cases run again on a system: those that are fixed, and those that remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tod_bias.audit.first_difference import first_difference
from tod_bias.audit.traces import rewritten_calls
from tod_bias.io.cache import Cache
from tod_bias.metrics.bleu import SentenceBleu
from tod_bias.metrics.events import Event, event_of
from tod_bias.metrics.events.facts import Facts
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import is_from_user, load_axis
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import CallOptions
from tod_bias.systems.execution import Execution, HistoryMode, Run
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.outputs import as_text
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageCall
from tod_bias.testing.cases import ORIGINAL, REWRITTEN, Case, axes_of_cases, rewrite_of

FIXED, REMAINS, LEVELLED, UNANSWERED = "fixed", "remains", "levelled down", "unanswered"
"""Outcomes of a case. Levelled down: all groups are served as badly as the harmed group was."""
CODES = {REMAINS: 1, LEVELLED: 1, UNANSWERED: 3, FIXED: 0}
"""Exit codes; 2 is for the user's mistakes."""
Standard = Literal["gold"]
"""Standards of quality beside the event: ``gold``, the recorded responses."""
_TOLERANCE = 0.01
"""Difference of two scores of a response that counts as none, in sentence BLEU."""
_CHUNK = 2000
"""Counterfactuals that are run together."""


@dataclass(frozen=True)
class CaseAnswer:
    """Act of a system in the marked turn of one variant."""

    facts: Facts
    response: str
    """With the rewrite."""
    rewritten_calls: tuple[StageCall, ...]
    """Calls as the counterfactual has them; those of the original are rewritten."""
    failure: str = ""


@dataclass(frozen=True)
class CheckedCase:
    """A case as a system serves it now."""

    case: Case
    state: str
    shown: Mapping[str, str]
    """Act of the system that shows the event, by variant; empty if a call had no output."""
    reason: str = ""
    """Reason for which the case has no response, or for which it is not fixed."""
    first_difference: Mapping[str, Any] | None = None
    """The first step that differs from the original's (:mod:`tod_bias.audit.traces`)."""

    @property
    def record(self) -> dict[str, Any]:
        """Return the case as JSON, with what the system does now under ``now``."""
        case = self.case
        facts = ("id", "axis", "source", "target", "term", "turn", "turns", "event", "what", "stage")
        return {
            **{name: getattr(case, name) for name in facts},
            "state": self.state,
            "reason": self.reason,
            "before": dict(case.shown),
            "now": dict(self.shown),
            "first_difference": self.first_difference,
            "earlier": case.earlier,
            "user": dict(case.user),
        }


@dataclass(frozen=True)
class CaseCheck:
    """Cases of a file, as a system serves them now."""

    checked: tuple[CheckedCase, ...]

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
        return {"schema": 4, "state": self.state, "cases": [checked.record for checked in self.checked]}


def user_axes(axes: Sequence[str]) -> dict[str, Axis]:
    """Load the users' axes for :func:`check_cases`; cases never import what they name.

    Args:
        axes: those with ``module:name`` and axis files are loaded; others are skipped.

    Raises:
        TodBiasError: an axis cannot be loaded.
    """
    loaded = [load_axis(axis) for axis in axes if is_from_user(axis)]
    return {axis.name: axis for axis in loaded}


def check_cases(
    cases: Sequence[Case],
    pipeline: Pipeline,
    *,
    references: Standard | None = None,
    axes: Mapping[str, Axis] | None = None,
    cache: Any = None,
    show_progress: bool = False,
) -> CaseCheck:
    """Run cases again.

    A case is fixed if its event no longer depends on the group: it happens, or not, in the original and in the
    counterfactual alike. If the event is worse for everybody, and happens in both, the case is levelled down. If a
    case is about the response as a whole, it is fixed if both responses say the same.

    Args:
        cases: of one file or several.
        pipeline: the system.
        references: ``gold`` if the recorded responses are a standard too: neither variant may then be further from its
            recorded response, by sentence BLEU, than when the case was written.
        axes: users' axes by name.
        cache: SQLite file of outputs.
        show_progress: on stderr.

    Raises:
        CaseError: a case is rewritten otherwise than when it was written.
        TodBiasError: an axis that cannot be loaded.
    """
    loaded = axes_of_cases(cases, axes)
    outputs = None if cache is None else Cache(cache)
    checked: dict[str, CheckedCase] = {}
    for history in dict.fromkeys(case.history for case in cases):
        chosen = [case for case in cases if case.history == history]
        for start in range(0, len(chosen), _CHUNK):
            some = chosen[start : start + _CHUNK]
            for case, (original, rewritten) in zip(
                some, _answers(some, pipeline, loaded, history, outputs, show_progress), strict=True
            ):
                checked[case.id] = _checked_case(case, original, rewritten, references)
    return CaseCheck(tuple(checked[case.id] for case in cases))


def _answers(
    cases: Sequence[Case],
    pipeline: Pipeline,
    axes: Mapping[str, Axis],
    history: HistoryMode,
    cache: Cache | None,
    show_progress: bool,
) -> list[tuple[CaseAnswer, CaseAnswer]]:
    """Return what a system does in the marked turn, for the original and for the counterfactual of each case."""
    runs = []
    for case in cases:
        rewrite = rewrite_of(case, axes[case.axis])
        original = Run(case.counterfactual.dialogue, only=len(case.counterfactual.dialogue.turns) - 1)
        runs += [original, replace(original, rewrite=rewrite, variant=f"{rewrite.axis}:{rewrite.target}")]
    options = CallOptions(max_failures=1.0, show_progress=show_progress)
    # Nothing is attributed, so no arm replaces single stages.
    arms = ArmDesign(tuple(pipeline.names), changing=())
    traces = Execution(pipeline, history, cache, options, arms=arms)(runs)
    last = [next(way for way in trace[-1] if 0 in way.arms) for trace in traces]
    answers = []
    for number, (run, way) in enumerate(zip(runs, last, strict=True)):
        restore = Restorer(run.rewrite, last[number - number % 2].calls)
        facts = Facts(facts_text(way.calls, way.failure, restore))
        of_pair = runs[number + 1 - number % 2].rewrite
        calls = way.calls
        if run.rewrite is None and of_pair is not None:
            calls = rewritten_calls(calls, of_pair)
        answers.append(CaseAnswer(facts, as_text(way.response) or "", calls, way.failure))
    return list(zip(answers[::2], answers[1::2], strict=True))


def _checked_case(case: Case, original: CaseAnswer, rewritten: CaseAnswer, references: Standard | None) -> CheckedCase:
    event = event_of(case.event) if case.event else None
    is_failure = event is not None and event.kind == "failed_turns"
    if not is_failure and (reason := original.failure or rewritten.failure):
        return CheckedCase(case, UNANSWERED, {}, reason)
    shown = {name: _shown(some, event) for name, some in ((ORIGINAL, original), (REWRITTEN, rewritten))}
    first = first_difference(original.rewritten_calls, rewritten.rewritten_calls)
    if _depends(event, original.facts, rewritten.facts):
        return CheckedCase(case, REMAINS, shown, first_difference=first)
    if event is not None and event.is_share_of_harm and event.reading(original.facts)[0]:
        return CheckedCase(case, LEVELLED, shown, "it happens for all groups now")
    if references and (reason := _further(case, original, rewritten)):
        return CheckedCase(case, LEVELLED, shown, reason)
    return CheckedCase(case, FIXED, shown)


def _depends(event: Event | None, original: Facts, rewritten: Facts) -> bool:
    """Return whether an event differs between two variants; of no event, whether their responses do."""
    if event is None:
        return original.response.split() != rewritten.response.split()
    return event.depends(original, rewritten)


def _shown(answer: CaseAnswer, event: Event | None) -> str:
    return (event.excerpt(answer.facts) if event is not None else "") or answer.response


def _further(case: Case, original: CaseAnswer, rewritten: CaseAnswer) -> str:
    """Return which variant is further from its recorded response than it was; empty if none is."""
    metric = SentenceBleu()
    for name, answer in ((ORIGINAL, original), (REWRITTEN, rewritten)):
        texts = [case.response[name], answer.response]
        before, now = metric.turn_scores(metric.of_texts(texts, [case.reference[name]] * 2))
        if now < before - _TOLERANCE:
            return f"the {name} is further from its recorded response: sentence BLEU {before:.2f} to {now:.2f}"
    return ""
