"""Outputs of hosted agents' models and servers in readable form: their texts and calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tod_bias.dialogues.text import slots_from_text

_MARKS = {
    "object": ("chat.completion", "response"),  # OpenAI's APIs
    "type": ("message", "function_call"),  # Anthropic's, items of openai-agents
    "kind": ("response",),  # PydanticAI's
}
"""Fields with values that only replies have."""
_WHOLE = ({"command"}, {"content", "isError"}, {"content", "isError", "structuredContent"})
"""All fields of outputs of a model's node in ``create_agent`` and of a tool of an MCP server."""
_PARTS = ("choices", "output", "parts", "command", "messages", "data", "message", "content", "tool_calls", "function")
_GIVEN = ("arguments", "args", "input")


def texts_of_reply(text: str) -> str:
    """Return texts and calls of an output, joined by `` | ``; empty if the output is not a known reply, or is empty."""
    try:
        parts = [slots_from_text(part) for part in text.split(" | ")]
    except ValueError:
        return ""
    return " | ".join(said for part in parts for said in _said(part)) if all(map(_is_reply, parts)) else ""


def _is_reply(slots: Mapping[str, Any]) -> bool:
    return slots.keys() in _WHOLE or any(slots.get(name) in values for name, values in _MARKS.items())


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _said(item)
        return
    if not isinstance(value, Mapping):
        return
    name = value.get("tool_name") or value.get("name")
    given = next((value[key] for key in _GIVEN if key in value), None)
    if name and given is not None:
        yield f"{name}({given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})"
        return
    if isinstance(value.get("text"), str):
        yield value["text"]
    for key in _PARTS:
        part = value.get(key)
        if key == "content" and isinstance(part, str) and part:
            yield part
        yield from _said(part)
