"""Running a pipeline on dialogues and their rewrites, with every set of stages swapped.

A *run* is one dialogue, original or under one rewrite; an *arm* is a run with a set S of stages swapped for their
twins. All arms of all runs go through the pipeline together, one stage after the other, so that a stage is called
with everything it will ever be asked, once for equal inputs.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.systems.outputs import Lookup
from tod_bias.systems.pipeline import Pipeline, Rewrite, Stage, StageInput, Twin, call_stage, unrewrite

log = logging.getLogger(__name__)

Arm = frozenset[str]
"""The stages that are swapped."""
Outputs = Mapping[str, Any]
"""Stage name to output, for one turn."""
HistoryMode = Literal["gold", "system"]
"""Whose turns make the history: the corpus's (teacher-forced, as in Su) or the system's own (free-running)."""
HISTORY_MODES: tuple[HistoryMode, ...] = ("gold", "system")


def all_arms(names: Sequence[str]) -> list[Arm]:
    """All 2ⁿ sets of stages, the smaller ones first."""
    return [frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)]


def arm_key(arm: Arm) -> str:
    """An arm in results: stage names, sorted, joined by a comma; ``""`` for no swap."""
    return ",".join(sorted(arm))


@dataclass(frozen=True)
class Run:
    """One dialogue under one rewrite, or as it is."""

    dialogue: Dialogue
    """The original dialogue."""
    rewrite: Rewrite | None = None
    """T; None for the original run."""

    @property
    def rewritten(self) -> Dialogue:
        """The dialogue that the pipeline sees."""
        return self.dialogue if self.rewrite is None else self.rewrite(self.dialogue)


Trace = dict[Arm, list[Outputs]]
"""What every stage put out: arm to one mapping a turn. The original run has only the arm without swaps."""


@dataclass
class _Item:
    """One turn of one run on its way through the pipeline; in free-running mode, of one run and arm."""

    run: int
    turn: int
    history: tuple[Turn, ...]
    user: str
    rewrite: Rewrite | None
    fixed: Arm | None  # the arm, where it is not all of them
    states: dict[Arm, dict[str, Any]] = field(default_factory=lambda: {frozenset(): {}})


@dataclass
class StageCost:
    """How much one stage was asked."""

    inputs: int = 0
    """Inputs, as if every arm were run on its own."""
    distinct: int = 0
    """Inputs it was called with."""


class Execution:
    """Runs of one pipeline.

    Args:
        pipeline: the system.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
    """

    def __init__(self, pipeline: Pipeline, history: HistoryMode = "gold") -> None:
        self.pipeline = pipeline
        self.history = history
        self.costs = {name: StageCost() for name in pipeline.names}
        self._memory: dict[str, dict[Any, Any]] = {name: {} for name in pipeline.names}

    def __call__(self, runs: Sequence[Run]) -> list[Trace]:
        """The traces of all runs, each with all arms."""
        arms = all_arms(self.pipeline.names)
        dialogues = [run.rewritten for run in runs]
        traces: list[Trace] = [
            {arm: [{}] * len(run.dialogue.turns) for arm in (arms if run.rewrite else arms[:1])} for run in runs
        ]
        for wave in self._waves(runs, dialogues, arms, traces):
            self._advance(wave)
            for item in wave:
                for arm, outputs in item.states.items():
                    traces[item.run][item.fixed if item.fixed is not None else arm][item.turn] = outputs
        return traces

    def _waves(
        self, runs: Sequence[Run], dialogues: Sequence[Dialogue], arms: Sequence[Arm], traces: Sequence[Trace]
    ) -> Iterator[list[_Item]]:
        """Turns that can be run together: all of them, or one of each run where it needs the answers before it."""
        if self.history == "gold":
            yield [
                _Item(number, turn, dialogue.turns[:turn], dialogue.turns[turn].user, run.rewrite, None)
                for number, (run, dialogue) in enumerate(zip(runs, dialogues, strict=True))
                for turn in range(len(dialogue.turns))
            ]
            return
        histories: dict[tuple[int, Arm], tuple[Turn, ...]] = {}
        for turn in range(max(len(dialogue.turns) for dialogue in dialogues)):
            wave = []
            for number, (run, dialogue) in enumerate(zip(runs, dialogues, strict=True)):
                if turn >= len(dialogue.turns):
                    continue
                for arm in traces[number]:
                    history = histories.get((number, arm), ())
                    if turn:
                        history = (*history, own_turn(dialogue.turns[turn - 1], traces[number][arm][turn - 1]))
                        histories[number, arm] = history
                    wave.append(_Item(number, turn, history, dialogue.turns[turn].user, run.rewrite, arm))
            yield wave

    def _advance(self, items: Sequence[_Item]) -> None:
        """Run every stage on every item, in all arms."""
        for name, stage in self.pipeline.stages.items():
            asked: list[tuple[_Item, Arm, bool]] = []
            inputs: list[StageInput] = []
            for item in items:
                for arm, outputs in item.states.items():
                    plain = StageInput(item.history, item.user, outputs, item.rewrite)
                    for swapped in self._choices(item, name):
                        asked.append((item, arm, swapped))
                        inputs.append(unrewrite(plain) if swapped else plain)
            log.info("stage %s: %d inputs", name, len(inputs))
            results = self._call(name, stage, inputs)
            states: dict[int, dict[Arm, dict[str, Any]]] = {id(item): {} for item in items}
            for (item, arm, swapped), output in zip(asked, results, strict=True):
                if swapped and item.rewrite is not None:
                    output = item.rewrite(output)
                outputs = {**item.states[arm], name: output}
                states[id(item)][arm | {name} if swapped else arm] = outputs
            for item in items:
                item.states = states[id(item)]
                if item.fixed is not None:
                    item.states = {frozenset(): outputs for outputs in item.states.values()}

    @staticmethod
    def _choices(item: _Item, name: str) -> tuple[bool, ...]:
        if item.rewrite is None:
            return (False,)
        return (False, True) if item.fixed is None else (name in item.fixed,)

    def _call(self, name: str, stage: Stage, inputs: Sequence[StageInput]) -> list[Any]:
        """The stage's outputs, equal inputs computed once."""
        if isinstance(stage, Twin):  # its input differs by rewrite, its stage's does not
            plain = self._call(name, stage.stage, [unrewrite(item) for item in inputs])
            pairs = zip(inputs, plain, strict=True)
            return [output if item.rewrite is None else item.rewrite(output) for item, output in pairs]
        memory = self._memory[name]
        keys = [_key(item) for item in inputs]
        new = {key: item for key, item in zip(keys, inputs, strict=True) if key not in memory}
        self.costs[name].inputs += len(inputs)
        self.costs[name].distinct += len(new)
        if new:
            memory.update(zip(new, call_stage(name, stage, list(new.values())), strict=True))
        return [memory[key] for key in keys]


def own_turn(gold: Turn, outputs: Outputs) -> Turn:
    """The turn as the system made it; what no stage of that name made is taken from the corpus."""
    call = outputs.get("api_call", gold.api_call)
    result = outputs.get("db", gold.api_result)
    if isinstance(result, Lookup):
        result = result.result
    return Turn(
        user=gold.user,
        api_call=call if isinstance(call, Mapping) else {},
        api_result=result if isinstance(result, Mapping) else {},
        response=str(outputs.get("response", gold.response)),
    )


def _key(item: StageInput) -> Any:
    """What decides a stage's output. A rewrite counts with its kind: a stage is given it, though it should not look."""
    rewrite = item.rewrite
    kind = None if rewrite is None else (rewrite.axis, rewrite.source, rewrite.target)
    history = b"".join(turn.digest for turn in item.history)
    return kind, history, item.user, tuple((name, _frozen(output)) for name, output in item.outputs.items())


class _Same:
    """Equal to itself only; keeps its object alive, so that no other takes its identity."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value


def _frozen(value: Any) -> Any:
    """A hashable value that is equal for equal outputs, and never for different ones.

    Where that cannot be known, an output is equal to itself only: a stage is then asked more often, never too seldom.
    """
    kind = type(value)
    if kind in (str, int, bool, bytes, type(None)):
        return kind, value
    if kind is float:
        return kind, repr(value)  # tells 0.0 from -0.0; nan is equal to nan
    if isinstance(value, Lookup):
        return kind, value.outcome, _Same(value.rows)  # a database hands out the same rows again
    if kind in (list, tuple):
        return kind, tuple(map(_frozen, value))
    if kind is dict:  # its order may show in a prompt
        return kind, tuple((_frozen(key), _frozen(item)) for key, item in value.items())
    if kind in (set, frozenset):
        return kind, frozenset(map(_frozen, value))
    if kind is np.ndarray and not value.dtype.hasobject:
        return kind, value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, tuple(_frozen(getattr(value, field.name)) for field in dataclasses.fields(value))
    return _Same(value)
