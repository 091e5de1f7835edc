"""Bounds on a server's reply: a number of calls and of characters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tod_bias.io.canonical import LONGEST
from tod_bias.systems.flow import MOST_CALLS

TOO_MANY = f"more than {MOST_CALLS} calls in one reply; none of them was made"
"""Stands for the arguments of the one call that is left of them."""
TOO_LONG = f"more than {LONGEST:,} characters in one reply; they were left out"
"""Stands for the text, or for the arguments of the one call that is left."""
PROBLEMS = {TOO_MANY: "too many calls", TOO_LONG: "text too long"}
"""Names of the problems in counts."""
_A_CALL = 64
"""Characters that a call takes in addition to its name and arguments."""
_LONGEST_NAME = 64
"""Characters of a function's name, as OpenAI allows."""
_USED = ("prompt_tokens", "completion_tokens")


def too_long() -> dict[str, Any]:
    """Return the reply that replaces one that is too large to be read."""
    return {"choices": [{"message": {"content": TOO_LONG}}]}


def message_of(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message of a chat completion, or a short message about its size if it is too large."""
    message: Mapping[str, Any] = reply["choices"][0]["message"]
    calls = message.get("tool_calls") or ()
    if len(calls) > MOST_CALLS:
        note = TOO_MANY
    elif _length(message) > LONGEST:
        note = TOO_LONG
    else:
        return message
    if not calls:
        return {"content": note}
    function = {"name": calls[0]["function"]["name"][:_LONGEST_NAME], "arguments": note}  # which is no JSON
    return {"content": None, "tool_calls": [{"id": "call_0", "type": "function", "function": function}]}


def bounded(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chat completion as it is kept: of a large one, the message and the tokens that were used."""
    message = message_of(reply)
    if message is reply["choices"][0]["message"] and len(json.dumps(reply)) <= LONGEST:
        return reply
    usage = reply.get("usage")
    counts = {name: usage[name] for name in _USED if name in usage} if isinstance(usage, Mapping) else {}
    read = {name: message[name] for name in ("content", "refusal", "tool_calls") if name in message}
    return {
        "choices": [{"message": read}],
        "usage": {name: count for name, count in counts.items() if isinstance(count, int)},
    }


def _length(message: Mapping[str, Any]) -> int:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    called = sum(len(function["name"]) + _written(function.get("arguments")) + _A_CALL for function in functions)
    return _written(message.get("content")) + _written(message.get("refusal")) + called


def _written(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0 if value is None else len(json.dumps(value))
