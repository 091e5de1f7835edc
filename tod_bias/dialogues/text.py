r"""The text form of turns, as models read and write it.

It is the one of ParlAI's task-oriented dialogues, which is also what SimpleTOD-style models are trained on: four lines
a turn, ::

    USER: Is there a cheap place for my mom?
    APICALL: api_name = FindRestaurants ; price = cheap
    APIRESP: name = Luigi's ; price = cheap
    SYSTEM: How about Luigi's?

A turn of several steps has an ``APICALL:`` and an ``APIRESP:`` line for each, and what the system said with a call
stands in a ``SYSTEM:`` line before it. Values that are no strings are written as ``\#`` and JSON: ``seats = \#2``.

Reading a text back gives the same turns to the byte: the few characters that would be ambiguous are escaped with a
backslash, and ordinary text is written exactly as ParlAI writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tod_bias.dialogues.values import to_json
from tod_bias.documents import loads

USER, API_CALL, API_RESULT, SYSTEM = "USER:", "APICALL:", "APIRESP:", "SYSTEM:"
SILENCE = "__SILENCE__"
"""What ParlAI's tasks write where somebody says nothing."""

_JSON = "\\#"
_STANDALONE = re.compile(r"(?:(?<= )|^)([;|=])(?= |$)")
_SPECIAL = re.compile(r"[\\\n\r;|=]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"n": "\n", "r": "\r"}

Slots = Mapping[str, Any]
"""A call or a result."""


class StepLike(Protocol):
    """A call, its results and what was said with it (:class:`tod_bias.dialogues.dialogue.Step`)."""

    @property
    def call(self) -> Slots:
        """The call; empty for none."""

    @property
    def results(self) -> Sequence[Slots]:
        """All its results."""

    @property
    def said(self) -> str:
        """What was said with the call."""


def well_formed(text: str) -> str:
    """The text with U+FFFD for every lone surrogate, which no file, frame or tokenizer takes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def json_line(record: Any) -> str:
    """A record as one line of JSON; in ASCII where it holds a lone surrogate, which UTF-8 cannot hold."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return (json.dumps(record, allow_nan=False) if _SURROGATE.search(text) else text) + "\n"


def escape(text: str) -> str:
    """Write ``text`` so that it fits one line: backslash, line feed and carriage return become escapes."""
    if "\\" in text or "\n" in text or "\r" in text:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return text


def unescape(text: str) -> str:
    """Undo :func:`escape`; a backslash before any other character stands for that character."""
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: _UNESCAPED.get(match[1], match[1]), text)


def _escape_slot(text: str) -> str:
    if _SPECIAL.search(text) is None:  # nearly always
        return text
    return _STANDALONE.sub(r"\\\1", escape(text))


def _value_to_text(value: Any) -> str:
    return _escape_slot(value) if isinstance(value, str) else _JSON + _escape_slot(to_json(value))


def _value_from_text(text: str) -> Any:
    return loads(unescape(text[len(_JSON) :])) if text.startswith(_JSON) else unescape(text)


def slots_to_text(slots: Slots) -> str:
    """Write an API call or one API result as ``name = value ; name = value``, names sorted; ``""`` for none."""
    return " ; ".join(f"{_escape_slot(name)} = {_value_to_text(slots[name])}" for name in sorted(slots))


def slots_from_text(text: str) -> dict[str, Any]:
    """Read what :func:`slots_to_text` wrote.

    Raises:
        ValueError: ``text`` is not a list of ``name = value`` (a *malformed* call), or a name stands in it twice.
    """
    slots: dict[str, Any] = {}
    if not text:
        return slots
    for part in text.split(" ; "):
        name, separator, value = part.partition(" = ")
        if not separator:
            if not part.endswith(" ="):  # an empty value whose trailing space was stripped
                raise ValueError(f"expected 'name = value', got {part!r}")
            name = part[:-2]
        name = unescape(name)
        if name in slots:
            raise ValueError(f"slot {name!r} is given twice")
        slots[name] = _value_from_text(value)
    return slots


def results_to_text(results: Iterable[Slots]) -> str:
    """Write all results of a call, joined by ``|``; ``""`` for none."""
    return " | ".join(map(slots_to_text, results))


def step_lines(steps: Sequence[StepLike], *, all_results: bool = False) -> Iterator[str]:
    """The lines between ``USER:`` and the last ``SYSTEM:``; no step is one empty pair.

    Args:
        steps: a turn's, or the first of them.
        all_results: write all results of a call; else the first one, as a model reads it.
    """
    if not steps:
        yield f"{API_CALL} "
        yield f"{API_RESULT} "
    for step in steps:
        if step.said:
            yield f"{SYSTEM} {escape(step.said)}"
        yield f"{API_CALL} {slots_to_text(step.call)}"
        yield f"{API_RESULT} {results_to_text(step.results if all_results else step.results[:1])}"


def turn_to_text(user: str, steps: Sequence[StepLike], response: str, *, all_results: bool = False) -> str:
    """A turn's lines."""
    lines = step_lines(steps, all_results=all_results)
    return "\n".join([f"{USER} {escape(user)}", *lines, f"{SYSTEM} {escape(response)}"])


StepParts = tuple[dict[str, Any], list[dict[str, Any]], str]
"""A step's call, its results and what was said with it."""


def read_turns(text: str) -> Iterator[tuple[str, list[StepParts], str]]:
    """What :func:`turn_to_text` wrote with all results, turn by turn: the user's words, the steps, the response.

    Raises:
        ValueError: a line has the wrong prefix or a malformed call or result; names the line.
    """
    lines = _LineReader(text)
    while lines.are_left:
        user = unescape(lines.take(USER))
        steps = [_step(lines)]
        while lines.begin(API_CALL) or (lines.begin(SYSTEM) and lines.begin(API_CALL, ahead=1)):
            steps.append(_step(lines))
        yield user, steps, unescape(lines.take(SYSTEM))


def _step(lines: _LineReader) -> StepParts:
    is_said = lines.begin(SYSTEM) and lines.begin(API_CALL, ahead=1)
    said = unescape(lines.take(SYSTEM)) if is_said else ""
    call, result = lines.take(API_CALL), lines.take(API_RESULT)
    try:
        results = [slots_from_text(row) for row in result.split(" | ")] if result else []
        return slots_from_text(call), results, said
    except ValueError as error:
        raise ValueError(f"lines {lines.number - 1}-{lines.number}: {error}") from error


class _LineReader:
    """The lines of a text, taken one after the other."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n") if text else []
        self.number = 0
        """Of the line that was taken last, from 1."""

    @property
    def are_left(self) -> bool:
        return self.number < len(self._lines)

    def _line(self, ahead: int) -> str:
        return self._lines[self.number + ahead] if self.number + ahead < len(self._lines) else ""

    def begin(self, prefix: str, ahead: int = 0) -> bool:
        """Whether the next line, or one that comes later, has a prefix."""
        return self._line(ahead).startswith(prefix + " ")

    def take(self, prefix: str) -> str:
        """The next line without its prefix."""
        line = self._line(0)
        self.number += 1
        if not line.startswith(prefix + " "):
            raise ValueError(f"line {self.number}: expected '{prefix} …', got {line!r}")
        return line[len(prefix) + 1 :]
