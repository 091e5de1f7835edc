"""Saved responses in the place of a system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tod_bias.audit.checks import (
    SYSTEM,
)
from tod_bias.errors import StageError
from tod_bias.results import Attributed, AxisResult, Responses
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import StageCaller
from tod_bias.systems.execution import Run, Trace, TurnTrace
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageCall
from tod_bias.systems.stages.recorded import SavedResponses, SavedTurn

A = TypeVar("A", bound=Attributed)
FEW_MISSING = 0.01
"""Share of turns that may be without a saved response by default: their dialogues are left out."""


def saved_responses(pipeline: Pipeline) -> SavedResponses | None:
    """Return the saved responses of a system; None if the system can be run."""
    stage = next(iter(pipeline.stages.values()))
    return stage if isinstance(stage, SavedResponses) else None


class SavedExecution:
    """Counterpart of :class:`~tod_bias.systems.execution.Execution` for systems that cannot be run.

    Args:
        responses: the saved ones.
        max_failures: share of turns that may be without a response; None for :data:`FEW_MISSING`.
    """

    is_sampled = False
    whole_arm = None

    def __init__(self, responses: SavedResponses, max_failures: float | None) -> None:
        self._responses = responses
        self.lost: dict[int, str] = {}
        self.lost_unswapped: set[int] = set()
        self.parted: set[str] = set()
        self.arms = ArmDesign((SYSTEM,))
        self.callers = {SYSTEM: StageCaller(SYSTEM, responses)}
        self._max_failures = FEW_MISSING if max_failures is None else max_failures
        self._missing = ""
        self._wanted: set[tuple[str, str, int]] = set()
        self._lacking: set[tuple[str, str, int]] = set()

    def __call__(self, runs: Sequence[Run]) -> list[Trace | None]:
        """The traces of all runs; None for one with a turn that has no response."""
        self.lost, self.lost_unswapped = {}, set()
        cost = self.callers[SYSTEM].cost
        traces: list[Trace | None] = []
        for number, run in enumerate(runs):
            cost.calls += len(run.dialogue.turns) * (1 if run.rewrite is None else 2)
            trace = self._trace(run)
            if trace is None:
                self.lost[number] = self._missing
                if self._saved(run, run.variant) is None:
                    self.lost_unswapped.add(number)
            traces.append(trace)
        return traces

    def _trace(self, run: Run) -> Trace | None:
        saved, blind = self._saved(run, run.variant), None
        if run.rewrite is not None:
            blind = self._saved(run, run.base)
            if blind is not None:
                blind = [run.rewrite(steps) for steps in blind]
        if saved is None or (blind is None and run.rewrite is not None):
            return None
        if blind is None:
            return [(TurnTrace((0,), steps),) for steps in saved]
        return [(TurnTrace((0,), calls), TurnTrace((1,), of_twin)) for calls, of_twin in zip(saved, blind, strict=True)]

    def _saved(self, run: Run, variant: str) -> list[tuple[StageCall, ...]] | None:
        """The steps of every turn; None where a turn is missing."""
        calls = []
        dialogue = run.rewritten if variant != run.base else run.dialogue
        for number, turn in enumerate(dialogue.turns):
            key = run.dialogue.id, variant, number
            saved = self._responses.responses.get(key)
            self._wanted.add(key)
            if saved is None:
                self._lacking.add(key)
                self._missing = self._missing or f"dialogue {key[0]!r}, turn {number}, variant {variant!r}"
                continue
            if saved.user is not None and saved.user != turn.user:
                raise StageError(
                    f"{self._responses.path}: turn {number} of {key[0]!r} as {variant!r} is a response to "
                    f"{saved.user[:60]!r}, but here it is {str(turn.user)[:60]!r}; "
                    "use the same --corpus, --axes, --design, --seed and lexicons"
                )
            calls.append(_steps_of(saved))
        cost = self.callers[SYSTEM].cost
        cost.distinct, cost.failed = len(self._wanted), len(self._lacking)
        return calls if len(calls) == len(dialogue.turns) else None

    def used(self) -> Responses:
        """Count the responses, and by reason those that belong to nothing in this run, with the first of each."""
        known = {(name, variant) for name, variant, _ in self._wanted}
        names, variants = {name for name, _ in known}, {variant for _, variant in known}
        unused: dict[str, Any] = {}
        for name, variant, turn in self._responses.responses:
            if (name, variant, turn) in self._wanted:
                continue
            reason, first = "turn", f"turn {turn} of {name!r} as {variant!r}"
            if name not in names:
                reason, first = "dialogue", repr(name)
            elif variant not in variants:
                reason, first = "variant", repr(variant)
            elif (name, variant) not in known:
                reason, first = "pair", f"{name!r} as {variant!r}"
            unused.setdefault(reason, {"number": 0, "first": first})["number"] += 1
        saved = self._responses.responses.values()
        unchecked = sum(response.user is None for response in saved)
        return Responses(number=len(saved), unchecked=unchecked, unused=unused)

    def check(self) -> None:
        """Raise if too many turns have no response.

        Raises:
            StageError: there are more than ``max_failures``.
        """
        cost = self.callers[SYSTEM].cost
        if cost.failed > self._max_failures * cost.distinct:
            variants, names = self._responses.variants, {name for name, _, _ in self._responses.responses}
            if not names & {name for name, _, _ in self._wanted}:
                raise StageError(
                    f"{self._responses.path}: no response has the id of a dialogue; the responses have "
                    f"{min(names)!r} …, the corpus has {min(self._wanted)[0]!r} …; "
                    "'id' is what export writes as 'original'"
                )
            shown = ", ".join(map(repr, variants[:4])) + (", …" if len(variants) > 4 else "")
            raise StageError(
                f"{self._responses.path}: {cost.failed} turns lack a response (the first: {self._missing}), more than "
                f"--max-failures {self._max_failures:g} of {cost.distinct} turns; it has "
                f"{shown}{self._idle()}; write the counterfactuals with tod-bias export and the same --corpus, --axes, "
                "--design and --seed"
            )

    def _idle(self) -> str:
        unused = self.used().unused
        first = next(iter(unused.values()), None)
        if first is None:
            return ""
        number = sum(int(reason["number"]) for reason in unused.values())
        counted = ", and turns count from 0" if min(turn for *_, turn in self._responses.responses) > 0 else ""
        return f"; {number} of its responses belong to nothing here (the first: {first['first']}){counted}"


def _steps_of(saved: SavedTurn) -> tuple[StageCall, ...]:
    calls = tuple(StageCall("tools", step.call, list(step.results)) for step in saved.steps if step.call)
    return (*calls, StageCall(SYSTEM, None, saved.response))


def unattributed(row: AxisResult) -> AxisResult:
    """An axis and metric without what cannot be known of saved responses: the share of the system as a whole is
    attributed to no stage, and Su's numbers are left out."""

    def bare(part: A) -> A:
        whole = part.contributions.get(SYSTEM)
        return part.model_copy(update={"contributions": {}, "unattributed": whole and whole.shapley})

    groups, references = ({name: bare(part) for name, part in rows.items()} for rows in (row.groups, row.references))
    update = {"interactions": {}, "su": None, "groups": groups, "references": references}
    return bare(row).model_copy(update=update | {"widest": row.widest and bare(row.widest)})
