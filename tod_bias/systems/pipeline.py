"""A system: its stages by name, and the flow that calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tod_bias.errors import StageError
from tod_bias.metrics.grade import Grade
from tod_bias.systems.flow import REPLY, Flow, FlowProcess, FlowTurn, Process, StraightProcess
from tod_bias.systems.hosted import HostedFlow
from tod_bias.systems.saved_responses import SavedResponses
from tod_bias.systems.stage import FlowReply, Stage, StageCall, StageInput, as_stage, call_stage
from tod_bias.systems.twin import Rewrite, Twin

RESERVED = frozenset(
    [
        "order",
        "residual",
        "original",
        "axis",
        "dialogue",
        "turn",
        "draw",
        "source",
        "target",
        "word",
        "arm",
        "user",
        "reference",
        "steps",
        "unattributed",
        "whole_system",
        "facts",
    ]
)
"""Names that stages cannot have: results and their tables use them for something else."""
STANDARD = ("api_call", "db", "response")
"""Names of the stages of Su's pipeline, which models make."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Pipeline:
    """Stages by name, and the flow that calls them; without one, each is called once, in order.

    The output of the last stage called is the response, which is scored.
    """

    stages: Mapping[str, Any]
    """Name to :class:`~tod_bias.systems.stage.Stage` (a callable becomes one); without a flow, in order."""
    flow: Flow | HostedFlow | None = None
    """A generator function of the turn (:mod:`tod_bias.systems.flow`), or an agent that owns its loop."""
    concurrency: Mapping[str, int] = field(default_factory=dict)
    """Number of concurrent calls of a stage, one per thread, by name; the default 1 calls it in batches."""
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Name to the stages that contributions are shared out to together first (Owen values); a stage in none of them
    is its own group."""
    grades: Sequence[Grade] = ()
    """Judgements of whole dialogues, which are measured in every audit of the pipeline."""

    def _check_concurrency(self) -> None:
        for name, threads in self.concurrency.items():
            if name not in self.stages:
                raise StageError(f"concurrency of {name!r}: no such stage; there are {', '.join(self.stages)}")
            if type(threads) is not int or threads < 1:
                raise StageError(f"concurrency of {name!r}: expected a whole number above 0, got {threads!r}")

    def _check_groups(self) -> None:
        of: dict[str, str] = {}
        for group, members in self.groups.items():
            if not members or isinstance(members, str):
                raise StageError(f"group {group!r}: expected a list of stages, got {members!r}")
            for name in members:
                if name not in self.stages:
                    raise StageError(f"group {group!r}: no stage {name!r}; there are {', '.join(self.stages)}")
                if name in of:
                    raise StageError(f"stage {name!r}: is in the groups {of[name]!r} and {group!r}; it can be in one")
                of[name] = group

    def __post_init__(self) -> None:
        if not isinstance(self.stages, Mapping) or not self.stages:
            raise StageError("a pipeline needs at least one stage: Pipeline({'response': stage})")
        for name in self.stages:
            if not isinstance(name, str) or not name or "," in name or _CONTROL.search(name):
                raise StageError(f"stage name {name!r}: expected a non-empty string without a comma")
            if name in RESERVED:
                raise StageError(f"stage name {name!r}: is taken by a column of the results; choose another name")
        if not (self.flow is None or isinstance(self.flow, HostedFlow) or callable(self.flow)):
            raise StageError(f"flow: expected a generator function of the turn, got {type(self.flow).__name__}")
        self._check_concurrency()
        self._check_groups()
        object.__setattr__(self, "stages", {name: _stage(name, stage) for name, stage in self.stages.items()})
        object.__setattr__(self, "concurrency", dict(self.concurrency))
        object.__setattr__(self, "groups", {group: tuple(members) for group, members in self.groups.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """Stage names in order."""
        return tuple(self.stages)

    def start(self, turn: FlowTurn) -> Process:
        """The flow at the beginning of a turn."""
        if self.flow is None:
            return StraightProcess(self.names)
        if isinstance(self.flow, HostedFlow):
            return self.flow.start(turn, self.names)
        return FlowProcess(self.flow, turn, self.names)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[StageInput]:
        """Answer a batch of turns; returns the inputs with all calls added.

        For experiments and tests: :class:`tod_bias.systems.execution.Execution` runs whole dialogues in all arms.
        """
        if isinstance(self.flow, HostedFlow):  # an agent that waits for an output is alive
            return [after for item in inputs for after in self._after([item])]
        return self._after(inputs)

    def _after(self, inputs: Sequence[StageInput]) -> list[StageInput]:
        """Inputs with all calls added, those of one stage in one batch."""
        items = [replace(item, argument=None) for item in inputs]
        processes = [self.start(FlowTurn(item.user, item.history, item.system, item.task)) for item in items]
        while waiting := [number for number, process in enumerate(processes) if process.request is not None]:
            for name in self.names:
                mine = [n for n in waiting if (request := processes[n].request) is not None and request[0] == name]
                if not mine:
                    continue
                stage_inputs = [_with_argument(items[n], processes[n]) for n in mine]
                for n, stage_input, output in zip(
                    mine, stage_inputs, call_stage(name, self.stages[name], stage_inputs), strict=True
                ):
                    steps = (*stage_input.steps, StageCall(name, stage_input.argument, output))
                    outputs = {**{key: out for key, out in stage_input.outputs.items() if key != name}, name: output}
                    items[n] = replace(stage_input, outputs=outputs, steps=steps, argument=None)
                    processes[n].send(output)
                waiting = [n for n in waiting if n not in set(mine)]
        return [_with_reply(item, process) for item, process in zip(items, processes, strict=True)]

    def swap(self, names: Iterable[str]) -> Pipeline:
        """A copy in which the named stages are replaced by their twins; the others are reused.

        Raises:
            StageError: a name is not a stage of this pipeline.
        """
        chosen = set(names)
        if unknown := sorted(chosen - set(self.stages)):
            raise StageError(f"no stage {unknown[0]!r} in this pipeline; it has {', '.join(self.stages)}")
        swapped = {name: Twin(stage) if name in chosen else stage for name, stage in self.stages.items()}
        return Pipeline(swapped, self.flow, self.concurrency, self.groups)

    def under(self, rewrite: Rewrite) -> Pipeline:
        """A copy whose twins know T, to be called on rewritten inputs of one dialogue."""
        bound = {
            name: stage.under(rewrite) if isinstance(stage, Twin) else stage for name, stage in self.stages.items()
        }
        return Pipeline(bound, self.flow, self.concurrency, self.groups)


def _stage(name: str, stage: Any) -> Stage:
    if isinstance(stage, SavedResponses):
        raise StageError(
            f"stage {name!r}: SavedResponses are a whole system and no stage; call attribute(SavedResponses(path), …)"
        )
    try:
        return as_stage(stage)
    except StageError as error:
        raise StageError(f"stage {name!r}: {error}") from error


def _with_reply(item: StageInput, process: Process) -> StageInput:
    if process.reply is None:
        return item
    steps = (*item.steps, FlowReply(REPLY, None, process.reply))
    return replace(item, outputs={**item.outputs, REPLY: process.reply}, steps=steps)


def _with_argument(item: StageInput, process: Process) -> StageInput:
    argument: Any = process.request[1] if process.request else None
    return replace(item, argument=argument)
