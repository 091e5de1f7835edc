"""The structure of outputs: mappings, lists, scalars, and the calls in them, in whatever form components write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tod_bias.dialogues.dialogue import arguments_of
from tod_bias.dialogues.values import API_NAME
from tod_bias.io.documents import loads
from tod_bias.systems.outputs import Lookup, as_text, parse_call

Call = tuple[str, Mapping[str, Any]]
"""Name and arguments."""
_TOOL_USE = "tool_use"
"""The type of a call in Anthropic's messages."""
_REPLY_MARKS = {
    "object": ("chat.completion", "response"),  # OpenAI's APIs
    "type": ("message", "function_call"),  # Anthropic's, items of openai-agents
    "kind": ("response",),  # PydanticAI's
}
"""Fields with values that only replies of models have."""
_WHOLE_REPLIES = ({"command"}, {"messages"}, {"content", "isError"}, {"content", "isError", "structuredContent"})
"""Fields of an output of a model's node in ``create_agent`` or of a graph, and of a tool of an MCP server."""
_PARTS = ("choices", "output", "parts", "command", "messages", "data", "message", "content", "tool_calls", "function")
"""Fields of replies that hold messages, texts or calls."""
_GIVEN = ("arguments", "args", "input")
"""Names of the field that holds a call's arguments."""


def structured(value: Any) -> Any:
    """Return a value as mapping, list, scalar or text.

    The content of a text that is JSON or a call is read, and so are the rows of a look-up, the fields of a dataclass, a
    named tuple or a pydantic model, and the text of a message without calls.
    """
    if isinstance(value, Lookup):
        return list(value.rows)
    if isinstance(value, str):
        try:
            return parse_call(value) if " = " in value else loads(value) if value[:1] in ("{", "[") else value
        except ValueError:
            return value
    if isinstance(value, Mapping) and value.keys() == {"content", "tool_calls"} and not value["tool_calls"]:
        return value["content"]
    if isinstance(value, Mapping) or value is None or isinstance(value, bool | int | float):
        return value
    if fields := _fields(value):
        return fields
    return list(value) if isinstance(value, list | tuple) else structured(as_text(value))


def _fields(value: Any) -> Mapping[str, Any]:
    """Return the fields of a dataclass, a named tuple or a pydantic model; empty for other values."""
    if isinstance(value, type):
        return {}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", ())):
        return dict(zip(names, value, strict=True))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    # the text of an object without a form of its own would be a place in memory
    fields = getattr(value, "__dict__", {}) if type(value).__repr__ is object.__repr__ else {}
    return {name: item for name, item in fields.items() if not name.startswith("_")}


def without_models(value: Any) -> Any:
    """Return a value with the fields of pydantic models in their place, at any depth of lists and mappings."""
    if isinstance(value, Mapping):
        return {name: without_models(item) for name, item in value.items()} if _holds_models(value) else value
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(without_models(item) for item in value) if _holds_models(value) else value
    return value.model_dump(mode="json") if _is_model(value) else value


def _holds_models(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_models, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_models, value))
    return _is_model(value)


def _is_model(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "model_dump", None))


def named_calls(value: Any) -> list[Call]:
    """Return the calls in a value, in the forms of chat APIs, frameworks and corpora; other values give none."""
    nested, value = getattr(value, "calls", None), structured(value)
    if isinstance(value, list):
        each = [named_calls(item) for item in value]
        return [call for calls in each for call in calls] if all(each) else []
    if isinstance(value, Mapping):
        if call := _named_call(value):
            return [call]
        nested = _holding_calls(value)
    return [call for part in nested for call in named_calls(part)] if isinstance(nested, list | tuple) else []


def _holding_calls(value: Mapping[str, Any]) -> Any:
    """Return what a message or a reply holds calls in; not a list if it holds none."""
    if isinstance(value.get("function"), Mapping):
        return [value["function"]]
    return (
        _messages_of_reply(value) or value.get("tool_calls") or value.get("calls") or _tool_uses(value.get("content"))
    )


def _messages_of_reply(value: Mapping[str, Any]) -> list[Any]:
    """Return the messages and calls in a reply of OpenAI's APIs, as a server or a proxy hands it on."""
    choices = value.get("choices")
    if isinstance(choices, list):
        return [choice.get("message") for choice in choices if isinstance(choice, Mapping)]
    output = value.get("output")
    return output if value.get("object") == "response" and isinstance(output, list) else []


def _named_call(value: Mapping[str, Any]) -> Call | None:
    """Return the call that a mapping is; None if it is none."""
    if API_NAME in value:
        return str(value[API_NAME]), arguments_of(value)
    name = value.get("name", value.get("tool_name"))
    given = ("arguments", "args", *(["input"] if value.get("type") == _TOOL_USE else []))
    arguments = next((value[key] for key in given if key in value), None)
    if not isinstance(name, str) or arguments is None:
        return None
    read = structured(arguments)
    return name, read if isinstance(read, Mapping) else {"arguments": read}


def _tool_uses(content: Any) -> list[Any]:
    """Return the calls among the blocks of a message of Anthropic's."""
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == _TOOL_USE]


def is_reply(value: Any) -> bool:
    """Return whether a value is the reply of a model or an MCP server, whose fields say nothing of its content."""
    if not isinstance(value, Mapping):
        return False
    if value.keys() in _WHOLE_REPLIES or _messages_of_reply(value):
        return True
    return any(value.get(name) in values for name, values in _REPLY_MARKS.items())


def said_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the texts and calls of a reply in their order: the name of a call, or empty for a text, and its content."""
    if isinstance(value, list):
        for item in value:
            yield from said_in(item)
        return
    if not isinstance(value, Mapping):
        return
    name = value.get("tool_name") or value.get("name")
    given = next((value[key] for key in _GIVEN if key in value), None)
    if name and given is not None:
        yield str(name), given
        return
    if isinstance(value.get("text"), str):
        yield "", value["text"]
    for key in _PARTS:
        part = value.get(key)
        if key == "content" and isinstance(part, str) and part:
            yield "", part
        yield from said_in(part)
