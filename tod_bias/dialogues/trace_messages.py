"""Messages as the conventions for traces write them, as chats.

They are those of GenAI, OpenInference, OpenLLMetry, the AI SDK, Inspect and Bedrock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tod_bias.dialogues.dialogue import PART_TYPES
from tod_bias.dialogues.text import json_line
from tod_bias.documents import loads

_REDACTED = "__REDACTED__"
"""What OpenInference writes in place of a text that is hidden."""
_OPEN = 1_000
"""Calls that wait for their results at the most."""
_WORDS = 12
"""Words of an attribute's name that are told apart."""
_TEXTS = (*PART_TYPES, "input_text", "output_text")
_CALLS = ("tool_call", "tool_use", "toolUse", "tool-call")
_RESULTS = ("tool_call_response", "tool_result", "toolResult", "tool-result")
_SILENT = ("reasoning", "thinking", "reasoningContent", "cachePoint")
"""Parts that nobody says."""
_MEDIA = ("image", "image_url", "audio", "input_audio", "video", "document", "file", "data", "blob", "uri")
_BEDROCK = ("text", "toolUse", "toolResult", "reasoningContent", "image", "document", "video", "cachePoint")
"""The one field of a part without a type, which names its type."""
_TYPES = {*_TEXTS, *_CALLS, *_RESULTS, *_SILENT, *_MEDIA, *_BEDROCK}
_IDS, _NAMES = ("id", "toolUseId", "tool_use_id", "toolCallId"), ("name", "toolName")
_Call = tuple[str, str, Any]
"""Id, name, and arguments or the result."""


class NotRecordedError(ValueError):
    """A message has no content."""


def chat_of(messages: Iterable[Any]) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Messages of any of the conventions as OpenAI's, with ids of calls of their own; and what parts were left out.

    Returns:
        The chat, and how many parts of each type are no text, call or result.

    Raises:
        NotRecordedError: there is no message of a user, or a message has no content.
        ValueError: one is built otherwise than its convention says, or a result belongs to no call.
    """
    chat: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    open_calls: list[_Call] = []  # calls without a result, with their ids here
    for message in messages:
        role, text, calls, results = _parted(message, left_out)
        chat += [_answer(open_calls, result) for result in results]
        if calls:
            open_calls += _append_calls(chat, text, calls)
        elif text or not results:
            chat.append({"role": role, "content": text})
    said = [message["content"] for message in chat if message["role"] == "user"]
    if not said:
        raise NotRecordedError
    if left_out and not any(said):
        raise ValueError(f"no message of a user has a text; parts that are none: {counted(left_out)}")
    return chat, left_out


def _append_calls(chat: list[dict[str, Any]], text: str, calls: Sequence[_Call]) -> list[_Call]:
    """Add calls as one message to a chat; the calls with their ids there."""
    if chat and chat[-1]["role"] == "assistant" and "tool_calls" not in chat[-1]:
        text = chat.pop()["content"] + text  # some write the text of a call as a message before it
    made = [(identity, name, f"call_{len(chat)}_{n}") for n, (identity, name, _) in enumerate(calls)]
    functions = [{"name": name, "arguments": arguments} for _, name, arguments in calls]
    entries = [{"id": call[2], "function": function} for call, function in zip(made, functions, strict=True)]
    chat.append({"role": "assistant", "content": text, "tool_calls": entries})
    return made


def counted(parts: Mapping[str, int]) -> str:
    """Types of parts in words, the most frequent first."""
    return ", ".join(f"{number} {kind!r:.40}" for kind, number in Counter(parts).most_common())


def _answer(open_calls: list[_Call], result: _Call) -> dict[str, Any]:
    """The message of a tool's result, which answers the first call of its id, else of its name, else of all."""
    identity, name, content = result
    if len(open_calls) > _OPEN:
        raise ValueError(f"more than {_OPEN:,} calls have no result")
    for number, call in enumerate(open_calls):
        if identity == call[0] if identity and call[0] else name == call[1] or not name:
            return {"role": "tool", "tool_call_id": open_calls.pop(number)[2], "content": content}
    raise ValueError(f"the result of {name or identity or 'a tool'!r:.80} follows no call of it")


def _parted(message: Any, left_out: Counter[str]) -> tuple[str, str, list[_Call], list[_Call]]:
    """Role, text, calls and results of a message of any of the conventions; adds the parts that are none of them."""
    message = _inner(message, "message")
    role, text, calls, results = str(message.get("role")), "", _called(message), []
    for part in _parts(message, role):
        kind = _kind(part)
        held = part[kind] if isinstance(part.get(kind), Mapping) else part
        if kind in _TEXTS:
            text += _recorded(part, "content", "text", kind)
        elif kind in _CALLS:
            calls.append(_call(held, held.get("arguments", held.get("input", held.get("args")))))
        elif kind in _RESULTS:
            results.append(_call(held, _result(held, left_out)))
        elif kind not in _SILENT:
            left_out[kind] += 1
    if role == "tool" and not results:
        name, error = message.get("name") or message.get("function"), message.get("error")  # error: of Inspect
        answer = text or (str(error.get("message") or "") if isinstance(error, Mapping) else "")
        return role, "", calls, [_call({"id": message.get("tool_call_id"), "name": name}, answer)]
    return role, text, calls, results


def _parts(message: Mapping[str, Any], role: str) -> list[Mapping[str, Any]]:
    """The parts of a message; a text is one, and so is what a tool returned otherwise."""
    parts = message.get("parts", message.get("contents", message.get("content")))
    if parts is None and role == "user":
        raise NotRecordedError
    if isinstance(parts, str) or (role == "tool" and parts is not None and not is_parts(parts)):
        return [{"type": "text", "text": parts}]
    return [_inner(part, "message_content") for part in listed(parts)]


def _kind(part: Mapping[str, Any]) -> str:
    """The type of a part; of Bedrock's, which say none, the name of their field."""
    return str(part.get("type") or part.get("kind") or next((name for name in _BEDROCK if name in part), ""))


def is_parts(value: Any) -> bool:
    """Whether a value is a list of parts of a message, and not what a tool returned."""
    try:
        kinds = [_kind(_inner(part, "message_content")) for part in listed(value)]
        return bool(kinds) and set(kinds) <= _TYPES
    except ValueError:
        return False


def _called(message: Mapping[str, Any]) -> list[_Call]:
    """The calls under ``tool_calls``."""
    calls = []
    for call in (_inner(opened(call), "tool_call") for call in listed(message.get("tool_calls"))):
        function = call.get("function")  # of Inspect the name alone
        of = function if isinstance(function, Mapping) else {"name": function, **call}
        calls.append(_call({**of, "id": call.get("id", of.get("id"))}, of.get("arguments", of.get("input"))))
    return calls


def _result(part: Mapping[str, Any], left_out: Counter[str]) -> str:
    """What a tool returned, which Bedrock and Anthropic write in parts."""
    output = part.get("output")
    if isinstance(output, Mapping) and "value" in output:  # of the AI SDK
        part = {"content": output["value"]} if output.get("type") == "content" else {"response": output["value"]}
    if not isinstance(part.get("content"), list):
        return _recorded(part, "response", "result", "content")
    text = ""
    for held in (_inner(held, "message_content") for held in part["content"]):
        if "text" in held or "json" in held:
            text += _recorded(held, "text", "json")
        else:
            left_out[_kind(held)] += 1
    return text


def _call(part: Mapping[str, Any], content: Any) -> _Call:
    identity, name = (next((part[place] for place in places if part.get(place)), "") for places in (_IDS, _NAMES))
    return str(identity), str(name), content


def _recorded(part: Mapping[str, Any], *places: str) -> str:
    """A part's content as a text.

    Raises:
        NotRecordedError: there is none.
    """
    content = next((part[place] for place in places if place in part), _REDACTED)
    if content == _REDACTED:
        raise NotRecordedError
    return content if isinstance(content, str) else json_line(content).rstrip("\n")


def _inner(item: Any, name: str) -> Mapping[str, Any]:
    """A message, part or call, which OpenInference wraps under a name."""
    if not isinstance(item, Mapping):
        raise ValueError(f"expected an object as message, part or call, got {type(item).__name__}")
    tree = nested(item)
    inner = tree.get(name)
    return inner if isinstance(inner, Mapping) else tree


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Names with dots as mappings inside of each other."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".", _WORDS)
        place: Any = tree
        for word in path:
            place = place.setdefault(word, {}) if isinstance(place, dict) else None
        if isinstance(place, dict) and not isinstance(place.get(last), dict):
            place[last] = value
    return tree


def opened(value: Any) -> Any:
    """The object or the list that a text holds as JSON; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return loads(value)
    except ValueError:
        return value


def listed(value: Any) -> list[Any]:
    """A list, which attributes also hold as JSON in a text, or under the names ``0``, ``1`` …"""
    if isinstance(value, str):
        try:
            value = loads(value)
        except ValueError as error:
            raise ValueError(f"messages are no JSON (was the attribute cut off?): {error}") from error
    if isinstance(value, Mapping) and all(name.isdecimal() and len(name) < 9 for name in value):
        value = [value[name] for name in sorted(value, key=int)]
    if value is not None and not isinstance(value, list):
        raise ValueError(f"expected a list of messages or their parts, got {type(value).__name__}")
    return value or []
