"""Messages of a chat stage: the turn and its history as a request, and the reply as an output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.chat import to_messages, tool_text
from tod_bias.dialogues.dialogue import Dialogue, Turn, arguments_of, flat_call
from tod_bias.dialogues.text import well_formed
from tod_bias.dialogues.values import API_NAME, plain
from tod_bias.io.canonical import problem_of
from tod_bias.io.documents import loads
from tod_bias.systems.chat.replies import message_of
from tod_bias.systems.outputs import Lookup, tool_content
from tod_bias.systems.stage import StageCall, StageInput
from tod_bias.systems.turns import DB, TOOLS

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
Message = dict[str, Any]


RECORDED = "recorded"
"""The system prompt of a stage that takes the one of each recorded chat."""


def messages_of(item: StageInput, system: str = "") -> list[Message]:
    """Return a stage's input as messages: system, earlier turns, the user's words, calls and results of this turn.

    Every call has a result, which is empty if the call returned nothing, because servers refuse calls without results.
    The result of a call is the output of a stage called with it, byte for byte if it is a text. Otherwise it is the
    output of ``tools`` or ``db``, or the mapping, list or look-up of another stage that is called without an argument.
    Outputs of other stages (a router, the text of a guard) are not sent.

    Args:
        item: the input.
        system: the stage's system prompt, which replaces the dialogue's; ``recorded`` or empty for the dialogue's.
    """
    prompt = item.system if system in ("", RECORDED) else system
    turns = (*item.history, Turn(item.user))
    messages = to_messages(Dialogue("", "", turns, prompt), answered=True)
    if not item.user and (not messages or messages[-1]["role"] != "user"):
        messages.append({"role": "user", "content": ""})
    messages += _of_steps(item.steps, len(item.history))
    for message in messages:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            function["name"] = _NO_NAME.sub("_", function["name"]) or "call"
    return [_plain(message) for message in messages]


def _plain(message: Message) -> Message:
    """Return a message with plain strings; rewritten strings carry their origin."""
    return dict(loads(well_formed(json.dumps(plain(message), ensure_ascii=False))))


class _OpenCalls:
    """The messages of a turn, and the calls among them that have no result yet."""

    def __init__(self, turn: int) -> None:
        self.messages: list[Message] = []
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._turn, self._count = turn, 0

    def add(self, calls: Sequence[Mapping[str, Any]], said: str = "") -> None:
        """Add a message with calls; those before have no results."""
        self.close()
        entries = []
        for call in calls:
            name = f"call_{self._turn}_{self._count}"
            self._count += 1
            entries.append(_entry(name, call))
            self.calls.append((name, call))
        self.messages.append({"role": "assistant", "content": said or None, "tool_calls": entries})

    def place_of(self, call: Mapping[str, Any]) -> int:
        """Return the place of an open call that equals this one; add the call if there is no such place."""
        for place, (_, other) in enumerate(self.calls):
            if other == call:
                return place
        self.add([call])
        return len(self.calls) - 1

    def return_to(self, place: int, content: str) -> None:
        """Add the result of an open call."""
        name, _ = self.calls.pop(place)
        self.messages.append({"role": "tool", "tool_call_id": name, "content": content})

    def close(self) -> None:
        """Give the calls that are open an empty result each."""
        while self.calls:
            self.return_to(0, tool_text(()))


def _of_steps(steps: Sequence[StageCall], turn: int) -> list[Message]:
    turn_calls = _OpenCalls(turn)
    for step in steps:
        argument = named_calls(step.argument) if step.argument is not None else []
        if argument:
            turn_calls.return_to(turn_calls.place_of(argument[0]), tool_content(step.output))
        elif calls := named_calls(step.output):
            content = step.output.get("content") if isinstance(step.output, Mapping) else None
            turn_calls.add(calls, content if isinstance(content, str) else "")
        elif turn_calls.calls and step.argument is None and _is_result(step):
            _add_results(step, turn_calls)
    turn_calls.close()
    return turn_calls.messages


def _add_results(step: StageCall, turn_calls: _OpenCalls) -> None:
    """Several results of the tools belong to a call each, in order; any other result to the last call."""
    output, count = step.output, len(turn_calls.calls)
    if step.name == TOOLS and isinstance(output, list) and len(output) == count > 1:
        for result in output:
            turn_calls.return_to(0, tool_content(result))
        return
    last = turn_calls.calls.pop()
    turn_calls.close()
    turn_calls.calls.append(last)
    turn_calls.return_to(0, tool_content(output))


def _is_result(step: StageCall) -> bool:
    """True if a stage that was called without an argument returned the result of a call."""
    output = step.output
    if step.name == TOOLS or (step.name == DB and output is not None):
        return True
    if isinstance(output, Mapping):
        return output.keys() != {"content", "tool_calls"}
    return isinstance(output, (Lookup, list, tuple))


def named_calls(output: Any) -> list[Mapping[str, Any]]:
    """Return the calls in an output if each names its API; otherwise an empty list."""
    if isinstance(output, (str, Lookup)):
        return []
    calls = calls_of(output) or []
    return calls if all(isinstance(call.get(API_NAME), str) for call in calls) else []


def _entry(name: str, call: Mapping[str, Any]) -> Message:
    arguments = plain(arguments_of(call))
    text = json.dumps(arguments, ensure_ascii=False)  # malformed ones too, under their name: some servers read it
    return {"id": name, "type": "function", "function": {"name": str(call[API_NAME]), "arguments": text}}


def output_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion as a stage's output: ``{"content": text, "tool_calls": [call, …]}``.

    A call is a mapping with the function's name under ``api_name``. Arguments that are not a JSON object are kept
    unchanged under :data:`~tod_bias.dialogues.calls.MALFORMED`. Calls or texts beyond the limits of one reply are
    dropped, and a note replaces them.
    """
    message = message_of(reply)
    return {"content": text_of(message), "tool_calls": [_call(call) for call in message.get("tool_calls") or ()]}


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message: its content, or the words in which the model refused."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part["text"]) for part in content if isinstance(part.get("text"), str))
    refusal = message.get("refusal")
    return content or (refusal if isinstance(refusal, str) else "")


def _call(entry: Mapping[str, Any]) -> dict[str, Any]:
    name, given = entry["function"]["name"], entry["function"].get("arguments")
    arguments = given or {}
    try:
        if isinstance(arguments, str):
            arguments = loads(arguments)
        if isinstance(arguments, Mapping) and not problem_of(call := flat_call(name, arguments)):
            return call
    except ValueError:
        pass
    return {API_NAME: name, MALFORMED: given if isinstance(given, str) else json.dumps(given)}
