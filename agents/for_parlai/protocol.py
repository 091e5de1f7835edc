"""The text protocol of ParlAI's task-oriented dialogues, without ParlAI.

A system teacher shows ``APIS: …`` once, then alternates ``USER: …``, which is answered by ``APICALL: …``, and
``APIRESP: …``, which is answered by ``SYSTEM: …``. Calls and results are written ``name = value ; name = value``, names
sorted, nothing escaped: the form of :mod:`tod_bias.dialogues.text` without its backslashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.text import API_CALL, API_RESULT, SYSTEM, USER, slots_from_text
from tod_bias.dialogues.values import to_json
from tod_bias.systems.outputs import Lookup

SCHEMAS, GOAL = "APIS:", "GOAL:"
DONE = "[DONE]"
"""User's message in the round that ParlAI adds at the end of every episode."""

_LINE = re.compile(
    f"({'|'.join((SCHEMAS, GOAL, USER, API_CALL, API_RESULT, SYSTEM))})(?: (.*))?",
    re.DOTALL,
)


def split_prefix(text: str) -> tuple[str | None, str]:
    """A line's prefix (``USER:``, None for plain text) and what follows it."""
    match = _LINE.fullmatch(text)
    return (match[1], match[2] or "") if match else (None, text)


def without_prefix(text: str, prefix: str) -> str:
    """Return ``text`` without ``prefix`` if it has the prefix."""
    actual, rest = split_prefix(text)
    return rest if actual == prefix else text


def value_to_parlai(value: Any) -> str:
    """Return a slot's value as text; JSON if it is a number, a list or a mapping."""
    if isinstance(value, str):
        return str(value)  # T's strings remember where they came from; ParlAI copies and stores plain ones
    try:
        return to_json(value)
    except TypeError:
        return str(value)


def slots_to_parlai(slots: Mapping[str, Any]) -> str:
    """A call or result as ParlAI writes it."""
    return " ; ".join(f"{name} = {value_to_parlai(value)}" for name, value in sorted(slots.items()))


def slots_from_parlai(text: str) -> Mapping[str, str] | str:
    """Return a call or result that ParlAI wrote; the text itself if it is malformed."""
    try:
        return slots_from_text(text.replace("\\", "\\\\"))
    except ValueError:
        return text


def output_of(text: str, prefix: str) -> Mapping[str, str] | str:
    """The output in an agent's reply to a request for a line with ``prefix``.

    A call or result is a mapping, the text itself where malformed; a response is its text.
    """
    content = without_prefix(text, prefix)
    return content if prefix == SYSTEM else slots_from_parlai(content.strip())


def parlai_text(output: Any) -> str:
    """A stage's output as ParlAI writes it; nothing as ``""``, several calls joined by ``|``."""
    if isinstance(output, Lookup):
        output = output.result
    if output is None:
        return ""
    if isinstance(output, Mapping):
        return slots_to_parlai(output)
    calls = None if isinstance(output, str) else calls_of(output)
    return str(output) if calls is None else " | ".join(map(slots_to_parlai, calls))
