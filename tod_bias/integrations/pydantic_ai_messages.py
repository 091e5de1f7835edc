"""PydanticAI's messages as JSON: without what changes from run to run, and with instructions taken out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_CHANGING = {"timestamp", "run_id", "conversation_id", "usage", "metadata", "provider_response_id", "model_name"}


def stable(value: Any) -> Any:
    """Messages without what differs from run to run."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items() if key not in _CHANGING}
    return [stable(item) for item in value] if isinstance(value, list) else value


def _places(content: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Where instructions stand in messages."""
    parts = [part for message in content for part in message["parts"] if part["part_kind"] == "system-prompt"]
    messages = [message for message in content if message.get("instructions")]
    return [*((part, "content") for part in parts), *((message, "instructions") for message in messages)]


def taken_instructions(content: list[dict[str, Any]]) -> list[str]:
    """Take the instructions out of messages; their numbers stay."""
    texts = []
    for holder, key in _places(content):
        texts.append(holder[key])
        holder[key] = f"{len(texts)}"
    return texts


def with_instructions(content: list[dict[str, Any]], texts: list[str]) -> list[dict[str, Any]]:
    """The messages with their instructions."""
    content = json.loads(json.dumps(content))
    for (holder, key), text in zip(_places(content), texts, strict=True):
        holder[key] = text
    return content


def model_message(message: dict[str, Any], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A message of a chat as PydanticAI's."""
    text = message["content"]
    if message["role"] == "user":
        return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": text}]}
    if message["role"] == "tool":
        calls = {call["id"]: call["function"]["name"] for earlier in before for call in earlier.get("tool_calls", ())}
        identity = message["tool_call_id"]
        part = {"part_kind": "tool-return", "tool_name": calls[identity], "content": text, "tool_call_id": identity}
        return {"kind": "request", "parts": [part]}
    parts = [{"part_kind": "text", "content": text}] if text else []
    for call in message.get("tool_calls", ()):
        named = {"tool_name": call["function"]["name"], "args": call["function"]["arguments"]}
        parts.append({"part_kind": "tool-call", "tool_call_id": call["id"], **named})
    return {"kind": "response", "parts": parts}
