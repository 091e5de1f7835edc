"""Tools of a world as a stage, on the database that the earlier calls of the dialogue have changed."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import StageError, shortened
from tod_bias.systems.outputs import ERROR
from tod_bias.systems.stage import Stage, StageInput
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.world import identity

_REMEMBERED = 512
"""States that are in memory at once."""


class WorldTools(Stage):
    """Carries out calls of a world's tools.

    Every dialogue, counterfactual and arm has a database of its own. It is at the state that the calls before have
    made: those in the history and those of the turn. A state moves on with its dialogue; another course of the same
    dialogue begins anew and repeats the calls, because the tools are deterministic.

    Args:
        world: its name, ``bfcl:multi_turn_base``.
    """

    runs_tools = True

    def __init__(self, world: str) -> None:
        self.world = load_world(world)
        self.signature = identity(self, f"world tools: {self.world.signature}")
        self._states: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return one result per input.

        Raises:
            StageError: a dialogue belongs to no world.
        """
        with self._lock:
            return [self._output(item) for item in inputs]

    def outcome(self, output: Any) -> str:
        """``failed call`` or nothing, which the engine counts."""
        return "failed call" if isinstance(output, Mapping) and output.keys() == {ERROR} else ""

    def tool(self, item: StageInput, output: Any) -> str:
        """Return the tool that was called."""
        return item.tool

    def _output(self, item: StageInput) -> Any:
        if item.task is None:
            raise StageError(f"the tools of {self.world.name} need its dialogues: --world {self.world.name}")
        before = [call for turn in item.history for call in turn.calls]
        before += [call for step in item.steps if step.argument is not None for call in calls_of(step.argument) or ()]
        calls = calls_of(item.argument)
        if not calls or len(calls) != 1:
            return {ERROR: f"the call cannot be read: {shortened(str(item.argument), 200)}"}
        return self._result(item.task, [call for call in before if _is_whole(call)], calls[0])

    def _result(self, task: Task, before: Sequence[Mapping[str, Any]], call: Mapping[str, Any]) -> Any:
        if not _is_whole(call):
            return {ERROR: f"the arguments are no JSON object: {shortened(str(call[MALFORMED]), 200)}"}
        keys = (task.digest, *map(_key, before))
        state = self._states.pop(keys, None)
        if state is None:
            state = self.world.start(task)
            for earlier in before:
                self.world.call(state, earlier)
        result = self.world.call(state, call)
        self._states[(*keys, _key(call))] = state
        if len(self._states) > _REMEMBERED:
            self._states.popitem(last=False)
        return result


def _is_whole(call: Mapping[str, Any]) -> bool:
    return call.keys() != {API_NAME, MALFORMED}


def _key(call: Mapping[str, Any]) -> str:
    return json.dumps(dict(call), ensure_ascii=False)
