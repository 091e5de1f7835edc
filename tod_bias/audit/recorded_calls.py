"""How often a served system would be called, and with how much text, if it did what was recorded; nothing is called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tod_bias.dialogues.chat import tool_text
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.systems.flow import FlowTurn
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import RemoteStage, Stage, StageCall, StageInput, TurnInput, innermost
from tod_bias.systems.turns import DB

CHARACTERS_PER_TOKEN = 4
"""Rough number of characters per token in English; the tokenizer of a served model is unknown."""


@dataclass
class StageTraffic:
    """The different calls of one stage that no stage before it made already."""

    calls: int = 0
    read: int = 0
    """Characters of all requests: messages and tools."""
    written: int = 0
    """Characters of all recorded outputs."""


@dataclass
class RecordedCalls:
    """Counts the calls of dialogues as they were recorded."""

    pipeline: Pipeline
    turns: set[str] = field(default_factory=set)
    """Distinct turns, with their history."""
    calls_of_tools: int = 0
    """Calls that the dialogues hold."""
    by_stage: dict[str, StageTraffic] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, dialogue: Dialogue) -> None:
        """Count those of one dialogue.

        Raises:
            StageError: the flow cannot take what was recorded for an output of a stage.
        """
        for number, turn in enumerate(dialogue.turns):
            self.turns.add(TurnInput(dialogue.turns[:number], turn.user, dialogue.system).key(None))
            self.calls_of_tools += len(turn.calls)
            for name, item, output in _calls(self.pipeline, turn, dialogue.turns[:number], dialogue.system):
                self._add_call(name, innermost(self.pipeline.stages[name]), item, output)

    def different_calls(self, name: str, turns: int) -> float:
        """Return how many calls a stage gets in a number of distinct turns.

        A model with tools but without recorded calls is assumed to call one tool in every turn.
        """
        uses_tools = self.pipeline.flow is not None and bool(innermost(self.pipeline.stages[name]).tools)
        rounds = 2 if uses_tools and not self.calls_of_tools else 1
        return rounds * turns * self.by_stage.get(name, StageTraffic()).calls / max(1, len(self.turns))

    def tokens(self, name: str, calls: float) -> tuple[int, int]:
        """Estimate how many tokens a served model reads and writes in a number of calls."""
        traffic = self.by_stage.get(name, StageTraffic())
        scale = calls / (CHARACTERS_PER_TOKEN * max(1, traffic.calls))
        return round(traffic.read * scale), round(traffic.written * scale)

    def _add_call(self, name: str, stage: Stage, item: StageInput, output: Any) -> None:
        body: dict[str, Any] = {}
        if isinstance(stage, RemoteStage):
            body = stage.request(item)
            key = stage.key(body)  # an answer often repeats the last request of the policy
        else:
            key = f"{name} {TurnInput.of(item).key(item.argument)}"
        if key in self._seen:
            return
        self._seen.add(key)
        traffic = self.by_stage.setdefault(name, StageTraffic())
        traffic.calls += 1
        if body:
            traffic.read += len(json.dumps([body.get("messages"), body.get("tools")], ensure_ascii=False))
            traffic.written += len(json.dumps(output, ensure_ascii=False))


def _calls(
    pipeline: Pipeline, turn: Turn, history: tuple[Turn, ...], system: str
) -> Iterator[tuple[str, StageInput, Any]]:
    """Yield the calls of one turn: stage, input, and the recorded output."""
    process = pipeline.start(FlowTurn(turn.user, history, system))
    steps: tuple[StageCall, ...] = ()
    to_call = [step for step in turn.steps if step.call]
    returned = [step.content if step.content is not None else tool_text(step.results) for step in to_call]
    while process.request is not None:
        name, argument = process.request
        stage = innermost(pipeline.stages[name])
        output: Any = turn.response
        if argument is not None:
            output = returned.pop(0) if returned else None
        elif stage.runs_tools or name == DB:
            output = list(returned)
        elif stage.tools:
            now = to_call if pipeline.flow is None else to_call[:1]
            to_call = to_call[len(now) :]
            calls = [dict(step.call) for step in now]
            is_chat = isinstance(stage, RemoteStage)
            output = {"content": "" if now else turn.response, "tool_calls": calls} if is_chat else calls
        yield name, StageInput(history, turn.user, {s.name: s.output for s in steps}, steps, argument, system), output
        steps = (*steps, StageCall(name, argument, output))
        process.send(output)
