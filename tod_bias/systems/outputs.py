"""Outputs of stages, and their form as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.chat import CONTENT, results_of, tool_text
from tod_bias.dialogues.text import results_to_text, slots_from_text, slots_to_text, well_formed
from tod_bias.dialogues.values import API_NAME, checked


class Outcome(Enum):
    """Outcome of a look-up. A missing row, an empty result and a malformed call are different outcomes."""

    ROWS = "rows"
    EMPTY = "empty result"
    NO_ROW = "no such row"
    MALFORMED = "malformed call"
    NO_CALL = "no call"


@dataclass(frozen=True)
class Lookup:
    """Result of the database for one call."""

    outcome: Outcome
    rows: tuple[Mapping[str, Any], ...] = ()
    """Results in order; empty unless the outcome is ``ROWS``."""

    @property
    def problem(self) -> str:
        """Name of the problem, to be counted; empty if there was a row, or no call."""
        return "" if self.outcome in (Outcome.ROWS, Outcome.NO_CALL) else self.outcome.value

    @property
    def result(self) -> Mapping[str, Any]:
        """The first result, as ParlAI shows it to the response model; empty for none."""
        return self.rows[0] if self.rows else {}


ERROR = "error"
"""Only field of the value that replaces the output of a failed call."""
_MESSAGE = {"content", "tool_calls"}


def parse_call(text: str) -> Mapping[str, Any] | str:
    """Return a call's text as a mapping, or the text itself if it is malformed."""
    try:
        return slots_from_text(text)
    except ValueError:
        return text


def latest_calls(outputs: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The calls of the last output that has some; a mapping without a name, such as a result, is none."""
    for output in reversed(outputs):
        read = parse_call(output) if isinstance(output, str) else output
        if calls := [call for call in calls_of(read) or () if call.get(API_NAME)]:
            return calls
    return []


def as_text(output: Any) -> str:
    """A stage's output as models read it: mappings and lookups as ``name = value ; …``, nothing as ``""``.

    Several calls are joined by ``|``; what holds no JSON is written as Python writes it. The text is well formed: a
    lone surrogate becomes U+FFFD.
    """
    if isinstance(output, Lookup):
        output = output.result
    if output is None:
        return ""
    if isinstance(output, Mapping) and output.keys() == _MESSAGE and not output["tool_calls"]:
        output = output["content"]  # an assistant's message that calls nothing
    try:
        if isinstance(output, Mapping):
            return well_formed(slots_to_text(output))
        calls = None if isinstance(output, str) else calls_of(output)
        return well_formed(_text_of(output) if calls is None else results_to_text(calls))
    except TypeError:
        return well_formed(_text_of(output))


def _text_of(value: Any) -> str:
    """Return an object as Python writes it, without its place in memory, which differs between equal objects."""
    kind = type(value)
    is_bare = kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__
    return f"<{kind.__module__}.{kind.__qualname__}>" if is_bare else str(value)


def rows_of(output: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the results of a call: the rows of a look-up, one or several mappings; other JSON under ``content``.

    A text is read as a tool's message is (:func:`tod_bias.dialogues.chat.results_of`).
    """
    if isinstance(output, Lookup):
        return output.rows
    if isinstance(output, str):
        return results_of(well_formed(str(output)))
    if isinstance(output, Mapping):
        return (output,) if output else ()
    if isinstance(output, (list, tuple)):
        if all(isinstance(row, Mapping) for row in output):
            return tuple(row for row in output if row)
        try:
            checked({CONTENT: list(output)}, "result")
        except ValueError:
            return ({CONTENT: as_text(output)},)
        return ({CONTENT: list(output)},)
    if isinstance(output, (bool, int, float)):
        return ({CONTENT: output},)
    text = as_text(output)
    return ({CONTENT: text},) if text else ()


def tool_content(output: Any) -> str:
    """The output for a call, as the content of a tool's message: a text as it is, JSON as JSON.

    Rows that a look-up found are written as those of a corpus are; what is no JSON is written as models read it.
    """
    if isinstance(output, str):
        return str(output)
    if isinstance(output, Lookup):
        return tool_text(output.rows)
    try:
        return json.dumps(output, ensure_ascii=False, allow_nan=False, default=_as_json)
    except (TypeError, ValueError):
        return as_text(output)


def _as_json(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"expected JSON, got {type(value).__name__}")
