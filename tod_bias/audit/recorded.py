"""Runs of a system whose answers are recorded: the same arms, as far as they can be known.

The system as it is on a telling (∅) is what was recorded for it; the system blind to the rewrite (N) is what it
answered to the original, rewritten: T(f(x)). So the disparity is known. Which component it enters in is not: for that
a component would have to be asked what it was never asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tod_bias.errors import StageError
from tod_bias.results import AxisResult, Responses
from tod_bias.systems.component import Component
from tod_bias.systems.execution import Course, Run, Trace
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Asked
from tod_bias.systems.stages.recorded import Recorded, RecordedAnswers

SYSTEM = "system"
"""The name of the one component."""


def recorded_answers(pipeline: Pipeline) -> RecordedAnswers | None:
    """The recorded answers that stand for a system; None where it can be run."""
    stage = next(iter(pipeline.stages.values()))
    return stage if isinstance(stage, RecordedAnswers) else None


class RecordedExecution:
    """What :class:`~tod_bias.systems.execution.Execution` is for systems that can be run.

    Args:
        answers: what was recorded.
        max_failures: share of turns that may be without an answer.
    """

    is_sampled = False

    def __init__(self, answers: RecordedAnswers, max_failures: float) -> None:
        self._answers = answers
        self.lost: dict[int, str] = {}
        self.own: set[int] = set()
        self.pending: dict[str, dict[str, dict[str, Any]]] = {}
        self.components = {SYSTEM: Component(SYSTEM, answers, max_failures=max_failures)}
        self._max_failures = max_failures
        self._missing = ""
        self._wanted: set[tuple[str, str, int]] = set()
        self._lacking: set[tuple[str, str, int]] = set()

    def __call__(self, runs: Sequence[Run]) -> list[Trace | None]:
        """The traces of all runs; None for one with a turn that has no answer."""
        self.lost, self.own = {}, set()
        cost = self.components[SYSTEM].cost
        traces: list[Trace | None] = []
        for number, run in enumerate(runs):
            cost.asked += len(run.dialogue.turns) * (1 if run.rewrite is None else 2)
            trace = self._trace(run)
            if trace is None:
                self.lost[number] = self._missing
                if self._found(run, run.telling) is None:
                    self.own.add(number)
            traces.append(trace)
        return traces

    def _trace(self, run: Run) -> Trace | None:
        own, blind = self._found(run, run.telling), None
        if run.rewrite is not None:
            blind = self._found(run, run.base)
            if blind is not None:
                blind = [run.rewrite(steps) for steps in blind]
        if own is None or (blind is None and run.rewrite is not None):
            return None
        if blind is None:
            return [(Course((0,), steps),) for steps in own]
        return [(Course((0,), one), Course((1,), other)) for one, other in zip(own, blind, strict=True)]

    def _found(self, run: Run, telling: str) -> list[tuple[Asked, ...]] | None:
        """What was asked and answered in every turn; None where a turn is missing."""
        found = []
        told = run.rewritten if telling != run.base else run.dialogue
        for turn, said in enumerate(told.turns):
            key = run.dialogue.id, telling, turn
            answer = self._answers.answers.get(key)
            self._wanted.add(key)
            if answer is None:
                self._lacking.add(key)
                self._missing = self._missing or f"dialogue {key[0]!r}, turn {turn}, telling {telling!r}"
                continue
            if answer.user is not None and answer.user != said.user:
                raise StageError(
                    f"{self._answers.path}: turn {turn} of {key[0]!r} as {telling!r} answers {answer.user[:60]!r}, but "
                    f"here it is {str(said.user)[:60]!r}; use the same --corpus, --axes, --design, --seed and lexicons"
                )
            found.append(_steps_of(answer))
        cost = self.components[SYSTEM].cost
        cost.distinct, cost.failed = len(self._wanted), len(self._lacking)
        return found if len(found) == len(told.turns) else None

    def used(self) -> Responses:
        """How many answers there are, and how many belong to nothing that this run tells, the misspelt among them: by
        the reason, with the first of each."""
        told = {(name, telling) for name, telling, _ in self._wanted}
        names, tellings = {name for name, _ in told}, {telling for _, telling in told}
        found: dict[str, Any] = {}
        for name, telling, turn in self._answers.answers:
            if (name, telling, turn) in self._wanted:
                continue
            reason, first = "turn", f"turn {turn} of {name!r} as {telling!r}"
            if name not in names:
                reason, first = "dialogue", repr(name)
            elif telling not in tellings:
                reason, first = "variant", repr(telling)
            elif (name, telling) not in told:
                reason, first = "pair", f"{name!r} as {telling!r}"
            found.setdefault(reason, {"number": 0, "first": first})["number"] += 1
        return Responses(number=len(self._answers.answers), unused=found)

    def check(self) -> None:
        """See to it that not too many turns are without an answer.

        Raises:
            StageError: there are more than ``max_failures``.
        """
        cost = self.components[SYSTEM].cost
        if cost.failed > self._max_failures * cost.distinct:
            tellings, names = self._answers.tellings, {name for name, _, _ in self._answers.answers}
            if not names & {name for name, _, _ in self._wanted}:
                raise StageError(
                    f"{self._answers.path}: no answer has the id of a dialogue; the answers have {min(names)!r} …, the "
                    f"corpus has {min(self._wanted)[0]!r} …; 'id' is what perturb writes as 'original'"
                )
            shown = ", ".join(map(repr, tellings[:4])) + (", …" if len(tellings) > 4 else "")
            raise StageError(
                f"{self._answers.path}: {cost.failed} turns lack an answer (the first: {self._missing}), more than "
                f"--max-failures {self._max_failures:g} of {cost.distinct} turns; it has "
                f"{shown}{self._idle()}; write the tellings with tod-bias export and the same --corpus, --axes, "
                "--design and --seed"
            )

    def _idle(self) -> str:
        unused = self.used().unused
        first = next(iter(unused.values()), None)
        if first is None:
            return ""
        number = sum(int(one["number"]) for one in unused.values())
        counted = ", and turns count from 0" if min(turn for *_, turn in self._answers.answers) > 0 else ""
        return f"; {number} of its answers belong to nothing here (the first: {first['first']}){counted}"


def _steps_of(answer: Recorded) -> tuple[Asked, ...]:
    calls = tuple(Asked("tools", step.call, list(step.results)) for step in answer.steps if step.call)
    return (*calls, Asked(SYSTEM, None, answer.response))


def unattributed(row: AxisResult) -> AxisResult:
    """An axis and metric without what cannot be known of saved responses: contributions of stages, and Su's."""
    return row.model_copy(
        update={
            "contributions": {},
            "interactions": {},
            "su": None,
            "groups": {name: group.model_copy(update={"contributions": {}}) for name, group in row.groups.items()},
            "pairs": {name: pair.model_copy(update={"contributions": {}}) for name, pair in row.pairs.items()},
        }
    )
