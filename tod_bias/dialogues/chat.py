"""Dialogues as chats: OpenAI's messages, read and written.

A turn begins with a ``user`` message, or with an ``assistant`` message if the turn before has a response. An
``assistant`` message with ``tool_calls`` adds a step per call, and its text belongs to the first step. An ``assistant``
message without calls is the response. A ``tool`` message holds the results of the call that it names: its content is
kept byte for byte, together with the rows that can be read in it. ``system`` messages belong to the dialogue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Content, Dialogue, Step, Turn, content_parts, flat_call
from tod_bias.dialogues.text import json_line
from tod_bias.dialogues.values import API_NAME, plain, read_each, to_json
from tod_bias.io.documents import loads
from tod_bias.io.files import write_lines

ROLES = ("system", "developer", "user", "assistant", "tool")
"""Roles that a message can have."""
CONTENT = "content"
"""Key of a result that is not a JSON object, such as a text."""
_MESSAGES = ("messages", "traj")
_FORMS = ("turns", *_MESSAGES)
_SHOWN = 20


def dialogue_of(record: Any, name: str = "") -> Dialogue:
    """The dialogue of a JSON value: our own form (it has ``turns``), a chat (``messages``), or a bare list of messages.

    τ-bench's ``traj`` is read like ``messages``, with ``task_id`` and ``trial`` as the id.

    Args:
        record: the JSON value.
        name: the id of a dialogue that has none.

    Raises:
        ValueError: the value has none of these forms; names the dialogue's id and the number of the message.
    """
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, Mapping):
        raise ValueError(f"a dialogue must be an object or a list of messages, got {type(record).__name__}")
    forms = _forms(record)
    if len(forms) > 1:
        raise ValueError(f"has both {forms[0]!r} and {forms[1]!r}; expected one of them")
    if "turns" in forms or ("turns" in record and not forms):
        return Dialogue.from_json(record)
    messages = record[forms[0]] if forms else None
    if messages is None:
        names = sorted(map(str, islice(record, _SHOWN)))
        fields = ", ".join([*names, "…"] if len(record) > _SHOWN else names) or "none"
        raise ValueError(f"expected a dialogue with a list of 'messages' (or 'traj', or 'turns'), got fields: {fields}")
    identity, domain = _id(record, name), record.get("domain") or ""
    if not isinstance(domain, str):
        raise ValueError(f"id {identity!r}: dialogue field 'domain' must be a str, got {domain!r}")
    try:
        return from_messages(messages, identity, domain)
    except ValueError as error:
        raise ValueError(f"id {identity!r}, {error}") from error


def _forms(record: Mapping[str, Any]) -> list[str]:
    """Keys that hold a dialogue; of empty lists only the first."""
    forms = [key for key in _FORMS if isinstance(record.get(key), list)]
    return [key for key in forms if record[key]] or forms[:1]


def passed_over(record: Any) -> list[str]:
    """Return the parts of a chat that are read differently or ignored, as phrases that continue with "in N dialogues".

    Args:
        record: what :func:`dialogue_of` has read.
    """
    notes = []
    if isinstance(record, Mapping):
        if record.get("choices"):  # a server's reply, kept beside what it was asked
            notes.append("an answer is under 'choices', which is not read; put it after the other messages")
        record = record[_forms(record)[0]]
    messages = [entry for entry in record if "role" in entry]  # turns have none
    if any(message["role"] in _SYSTEM for message in dropwhile(lambda entry: entry["role"] in _SYSTEM, messages)):
        notes.append("a system message comes after others; it is read as if it stood at the beginning")
    if any(message.get("name") and message["role"] in ("user", "assistant") for message in messages):
        notes.append("a message has a speaker's 'name', which is not read; put it into the text")
    return notes


_SYSTEM = ("system", "developer")
_IDS = ("id", "conversation_id", "dialogue_id")
"""Keys of a chat's id in logs."""


def _id(record: Mapping[str, Any], name: str) -> str:
    given = next((record[key] for key in _IDS if record.get(key) is not None), None)
    if given is None and "task_id" in record:
        given = "_".join(str(record[key]) for key in ("task_id", "trial") if key in record)
    if given is None:
        given = name
    if isinstance(given, bool) or not isinstance(given, (str, int)):
        raise ValueError(f"dialogue field 'id' must be a str, got {given!r}")
    return str(given)


def from_messages(messages: Sequence[Any], id: str, domain: str = "") -> Dialogue:
    """The dialogue that messages make.

    Raises:
        ValueError: a message cannot be read; names its number, from 1, and what is wrong.
    """
    chat = _Chat()
    read_each("message", messages, chat.add)
    turns = tuple(Turn(turn.user, steps=turn.steps, response=turn.response) for turn in chat.turns)
    return Dialogue(id, domain, turns, system="\n\n".join(chat.system))


@dataclass
class _OpenTurn:
    """A turn that is being read."""

    user: str
    steps: list[Step] = field(default_factory=list)
    response: str = ""


class _Chat:
    """State of reading a chat."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.turns: list[_OpenTurn] = []
        self._is_closed = True  # the last turn has its response
        self._unanswered: dict[str, tuple[_OpenTurn, int]] = {}  # id of a call without an answer -> its step
        self._answered: set[str] = set()

    def add(self, message: Any) -> None:
        """Take in the next message."""
        if not isinstance(message, Mapping):
            raise ValueError(f"expected an object with a role, got {type(message).__name__}")
        role, text = message.get("role"), _text(message.get("content"))
        if role in _SYSTEM:
            self.system += [text] if text else []
        elif role == "user":
            self._open(text)
        elif role == "assistant":
            self._assistant(message, text)
        elif role == "tool":
            self._tool(message, text)
        else:
            raise ValueError(f"unknown role {role!r}; expected one of {', '.join(ROLES)}")

    def _open(self, user: str) -> None:
        self.turns.append(_OpenTurn(user))
        self._is_closed = False

    def _assistant(self, message: Mapping[str, Any], text: str) -> None:
        if message.get("function_call"):
            raise ValueError("'function_call' is OpenAI's former form of a call; write it as 'tool_calls'")
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise ValueError(f"'tool_calls' must be a list, got {type(calls).__name__}")
        if self._is_closed:
            self._open("")
        turn = self.turns[-1]
        if not text and isinstance(refusal := message.get("refusal"), str):
            text = refusal  # OpenAI's place for it
        if not calls:
            turn.response = text
            self._is_closed = True
        for number, entry in enumerate(calls, start=1):
            try:
                name, call = _call(entry)
                if name in self._unanswered:
                    raise ValueError(f"the call before with the id {name!r} has no answer yet; ids must differ")
                step = Step(call, said=text if number == 1 else "")
            except ValueError as error:
                raise ValueError(f"tool call {number}: {error}") from error
            self._unanswered[name] = turn, len(turn.steps)
            turn.steps.append(step)

    def _tool(self, message: Mapping[str, Any], text: str) -> None:
        name = message.get("tool_call_id")
        if not isinstance(name, str):
            raise ValueError(f"a tool message needs the 'tool_call_id' that it answers, got {name!r}")
        if name not in self._unanswered:
            known = "has been answered already" if name in self._answered else "is the id of no tool call before it"
            raise ValueError(f"tool_call_id {name!r} {known}")
        turn, number = self._unanswered.pop(name)
        self._answered.add(name)
        content = message.get("content")
        content = content_parts(content) if isinstance(content, list) else text
        turn.steps[number] = answered_step(turn.steps[number], content)


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part[part["type"]] for part in content_parts(content))


def _call(entry: Any) -> tuple[str, dict[str, Any]]:
    """The id and the flat call of one entry of ``tool_calls``."""
    function = entry.get("function") if isinstance(entry, Mapping) else None
    if not isinstance(function, Mapping) or entry.get("type", "function") != "function":
        raise ValueError('expected {"id": …, "type": "function", "function": {"name": …, "arguments": …}}')
    for what, value in (("id", entry.get("id")), ("function name", function.get("name"))):
        if not isinstance(value, str):
            raise ValueError(f"expected a text as {what}, got {value!r}")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = loads(arguments)
        except ValueError as error:
            raise ValueError(f"arguments are no JSON object: {error}") from error
    if not isinstance(arguments, Mapping):
        raise ValueError(f"arguments are no JSON object but a {type(arguments).__name__}")
    name = function["name"]
    return entry["id"], flat_call(name, arguments) if name else dict(arguments)


def results_of(content: str) -> tuple[dict[str, Any], ...]:
    """The results in a tool's answer: a JSON object is one, a list of objects several, ``null`` and nothing none.

    Anything else is one result with a single field ``content``: a JSON list, number or truth value as such, all other
    text unchanged.
    """
    try:
        value = loads(content) if content else None
    except ValueError:
        value = content
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return tuple(row for row in value if row)
    if value is None:
        return ()
    return ({CONTENT: content if isinstance(value, str) else value},)


def answered_step(step: Step, content: Content) -> Step:
    """Return the step with a tool's answer: its content, and the results that can be read in it.

    Args:
        step: a step without results.
        content: of the tool's message.
    """
    text = content if isinstance(content, str) else _text(list(content))
    results = results_of(text)
    return replace(step, results=results, content=beside(results, content))


def beside(results: Sequence[Mapping[str, Any]], content: Content) -> Content | None:
    """Return a tool's content if its results do not represent it completely; otherwise None."""
    return None if results and content == tool_text(results) else content


def to_messages(dialogue: Dialogue, *, answered: bool = False) -> list[dict[str, Any]]:
    """Return the dialogue as OpenAI messages; :func:`from_messages` reads the same dialogue back.

    The ids of calls are ``call_{turn}_{step}``, from 0. A call without a name has the function name ``""``.

    Args:
        dialogue: the dialogue.
        answered: True to give a call without results a tool message, as servers require.
    """
    messages: list[dict[str, Any]] = []
    if dialogue.system:
        messages.append({"role": "system", "content": dialogue.system})
    is_closed = True
    for number, turn in enumerate(dialogue.turns):
        if turn.user or not (is_closed and (turn.steps or turn.response)):
            messages.append({"role": "user", "content": turn.user})
        for place, step in enumerate(turn.steps):
            messages += _step_messages(step, f"call_{number}_{place}", answered)
        if turn.response:
            messages.append({"role": "assistant", "content": turn.response})
        is_closed = bool(turn.response)
    return messages


def _step_messages(step: Step, name: str, answered: bool) -> list[dict[str, Any]]:
    is_named = isinstance(step.call.get(API_NAME), str) and step.name
    function = {"name": step.name, "arguments": _dumped(step.arguments)}
    if not is_named:
        function = {"name": "", "arguments": _dumped(step.call)}
    call = {"id": name, "type": "function", "function": function}
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": step.said or None, "tool_calls": [call]}]
    content: Any = step.content
    if content is None and (step.results or answered):
        content = tool_text(step.results)
    if content is not None:
        content = content if isinstance(content, str) else [dict(part) for part in content]
        messages.append({"role": "tool", "tool_call_id": name, "content": content})
    return messages


def tool_text(results: Sequence[Mapping[str, Any]]) -> str:
    """Rows that no tool has written, as a tool's answer that :func:`results_of` reads as these rows."""
    if not results:
        return "[]"
    if len(results) > 1:
        return _dumped(list(results))
    if results[0].keys() == {CONTENT}:
        value = results[0][CONTENT]
        text = value if isinstance(value, str) else _dumped(value)
        if to_json(list(results_of(text))) == to_json(list(results)):
            return text
    return _dumped(results[0])


def _dumped(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def write_chat(dialogues: Iterable[Dialogue], path: str | Path) -> None:
    """Write one chat a line, ``{"id": …, "domain": …, "messages": […]}``, UTF-8.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, (json_line({"id": d.id, "domain": d.domain, "messages": to_messages(d)}) for d in dialogues))
