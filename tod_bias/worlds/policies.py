"""Policies in a world: the recorded right actions, a model behind a server, and a function of messages and tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tod_bias.dialogues.task import Task
from tod_bias.errors import StageError
from tod_bias.systems.chat.components import ToolCalls
from tod_bias.systems.chat.messages import output_of
from tod_bias.systems.flow import MOST_ROUNDS
from tod_bias.systems.outputs import ERROR
from tod_bias.systems.stage import Stage, StageInput, place_of
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.messages import message, messages_in, task_of
from tod_bias.worlds.world import identity

DONE = "Done."
"""Response of the gold policy, since worlds record calls and no words."""


GO_ON = "Please go on."
"""Response of the gold policy when the next recorded action is the user's."""
GAVE_UP = "Sorry, that did not work."
"""Response of the gold policy after a call that should not have failed."""


def _has_failed(result: Any) -> bool:
    return isinstance(result, Mapping) and result.keys() == {ERROR}


class GoldPolicy(Stage):
    """Replays the recorded right actions of a world, with a person's name as the dialogue has it.

    A call that fails ends the turn unless the recorded one fails as well: nobody goes on booking after the search for a
    flight has failed.

    Args:
        world: its name, ``bfcl:multi_turn_base``.
    """

    def __init__(self, world: str) -> None:
        self.world = load_world(world)
        self.signature = identity(self, f"recorded right actions: {self.world.signature}")

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return the calls of the turn, and a short answer after them."""
        return [self._output(item) for item in inputs]

    def _output(self, item: StageInput) -> dict[str, Any]:
        task, turn = task_of(item), len(item.history)
        calls = self.world.gold(task, turn)
        made = [step.output for step in item.steps if step.argument is not None]
        if len(made) >= len(calls):
            return message(self.world.words(task) or DONE)
        if made and _has_failed(made[-1]) and not _has_failed(self._recorded(task, turn, len(made))):
            return message(GAVE_UP)
        if self.world.by_user(task, len(made)):
            return message(GO_ON)
        # One call at a time, as each may fail; more only where the loop would end before the last one.
        size = 1 if self.world.has_user else 1 + len(calls) // (MOST_ROUNDS - 1)
        return message(calls=calls[len(made) : len(made) + size])

    def _recorded(self, task: Task, turn: int, count: int) -> Any:
        """Return the result of one of the recorded calls, on the world's own tools."""
        before = [call for earlier in range(turn) for call in self.world.gold(task, earlier)]
        state, result = self.world.start(task), None
        for call in (*before, *self.world.gold(task, turn)[:count]):
            result = self.world.call(state, call)
        return result


class ServedPolicy(ToolCalls):
    """A model behind a server with OpenAI's chat API, which is offered the tools that a task has in the turn.

    Args:
        world: its name, ``bfcl:multi_turn_base``.
        system: the system prompt; by default that of the world, if it has one.
        settings: fields of :class:`~tod_bias.systems.chat.settings.ChatSettings`.
    """

    def __init__(self, world: str, *, system: str = "", **settings: Any) -> None:
        self.world = load_world(world)
        super().__init__(system=system, tools=self.world.every_tool, **settings)

    def request(self, item: StageInput) -> dict[str, Any]:
        """Return the body of the request for one input."""
        body = super().request(item) | {"tools": self.world.tools(task_of(item), len(item.history))}
        return body | {"messages": messages_in(self.world, item, self.system)}


class FunctionPolicy(Stage):
    """A function of OpenAI's messages and tools that returns a text or an assistant's message.

    Args:
        world: its name, ``bfcl:multi_turn_base``.
        function: ``function(messages, tools)``.
    """

    def __init__(self, world: str, function: Callable[..., Any]) -> None:
        self.world = load_world(world)
        self.function = function

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return the function's message for each input.

        Raises:
            StageError: the function returned neither a text nor a message.
        """
        return [self._output(item) for item in inputs]

    def _output(self, item: StageInput) -> dict[str, Any]:
        messages = messages_in(self.world, item)
        return self._message(self._answer(messages, self.world.tools(task_of(item), len(item.history))))

    def _answer(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return self.function(messages, tools)

    def _message(self, given: Any) -> dict[str, Any]:
        if isinstance(given, str):
            return message(given)
        if isinstance(given, Mapping):
            return output_of({"choices": [{"message": dict(given)}]})
        raise StageError(
            f"policy {place_of(self.function)}: expected a text or an assistant's message, got {type(given).__name__}"
        )


class AgentPolicy(FunctionPolicy):
    """An agent with a loop of its own, which calls the world's tools through a function and returns its last text.

    A call ends the function, so that the world's tools carry it out as a stage of their own. The function is then
    called again, and its earlier calls return what they returned before. It has to make the same calls again: the
    temperature of its models is 0.

    Args:
        world: its name, ``bfcl:multi_turn_base``.
        function: ``function(messages, tools, call)``; ``messages`` end with the user's last one, and ``call(name,
            arguments)`` returns the result of a tool as the text that a model reads.
    """

    def _answer(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        end = max(number for number, said in enumerate(messages) if said["role"] == "user") + 1
        before = _Results(messages[end:], place_of(self.function))
        try:
            return self.function(messages[:end], tools, before.call)
        except _Called as waiting:
            entry = {"name": waiting.name, "arguments": json.dumps(waiting.arguments, ensure_ascii=False)}
            return {"content": None, "tool_calls": [{"id": "call", "type": "function", "function": entry}]}


class _Called(BaseException):
    """Ends an agent at a call; no Exception, which agents catch."""

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name, self.arguments = name, arguments


class _Results:
    """Results of the calls that an agent has made since the user's last message."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], place: str) -> None:
        self.place = place
        entries = [entry["function"] for message in messages for entry in message.get("tool_calls") or ()]
        contents = [str(message["content"]) for message in messages if message["role"] == "tool"]
        self.made = list(zip(entries, contents, strict=True))[::-1]

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, /) -> str:
        """Return the result of a tool.

        Raises:
            StageError: the agent has made another call before at this point.
            TypeError: the arguments are no mapping that JSON can hold.
        """
        arguments = json.loads(json.dumps(dict(arguments or {})))
        if not self.made:
            raise _Called(name, arguments)
        entry, content = self.made.pop()
        if (entry["name"], json.loads(entry["arguments"])) != (name, arguments):
            raise StageError(
                f"agent {self.place}: called {entry['name']} first and now {name}, or with other arguments; it has to "
                "repeat its calls: set the temperature of its models to 0, or give a function of messages and tools"
            )
        return content
