r"""The text form of turns, as models read and write it.

The form is that of ParlAI's task-oriented dialogues, on which SimpleTOD-style models are trained: four lines a turn, ::

    USER: Is there a cheap place for my mom?
    APICALL: api_name = FindRestaurants ; price = cheap
    APIRESP: name = Luigi's ; price = cheap
    SYSTEM: How about Luigi's?

A turn of several steps has an ``APICALL:`` and an ``APIRESP:`` line for each, and text of the system with a call is in
a ``SYSTEM:`` line before it. Other values than strings are written as ``\#`` and JSON: ``seats = \#2``.

No two turns have one text, and a call or result is read back to the byte: the few characters that would be ambiguous
are escaped with a backslash, and ordinary text is written exactly as ParlAI writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tod_bias.dialogues.values import to_json
from tod_bias.io.documents import loads

USER, API_CALL, API_RESULT, SYSTEM = "USER:", "APICALL:", "APIRESP:", "SYSTEM:"
SILENCE = "__SILENCE__"
"""Text of ParlAI's tasks for an empty utterance."""

_JSON = "\\#"
_STANDALONE = re.compile(r"(?:(?<= )|^)([;|=])(?= |$)")
_SPECIAL = re.compile(r"[\\\n\r;|=]")
_FEWEST_SPACES = 3
_ENDS = tuple(".?!…。？！।؟")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"n": "\n", "r": "\r"}

Slots = Mapping[str, Any]
"""A call or a result."""


def well_formed(text: str) -> str:
    """The text with U+FFFD for every lone surrogate, which no file, frame or tokenizer takes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def is_sentence(text: str) -> bool:
    """Return whether a text ends as a sentence does."""
    return text.rstrip().endswith(_ENDS)


def is_prose(text: str) -> bool:
    """Return whether a value is said to a person, as opposed to a name or a code: a sentence, or several words."""
    return text.count(" ") >= _FEWEST_SPACES or is_sentence(text)


def json_line(record: Any) -> str:
    """Return a record as one line of JSON, in ASCII if it has a lone surrogate, which UTF-8 cannot encode."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return (json.dumps(record, allow_nan=False) if _SURROGATE.search(text) else text) + "\n"


def escape(text: str) -> str:
    """Write ``text`` so that it fits one line: backslash, line feed and carriage return become escapes."""
    if "\\" in text or "\n" in text or "\r" in text:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return text


def unescape(text: str) -> str:
    """Undo :func:`escape`; a backslash before any other character represents that character."""
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
        ValueError: ``text`` is not a list of ``name = value`` (a *malformed* call), or a name occurs twice.
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


def first_change(text: str, other: str) -> int:
    """Return the place of the first character in which two texts differ; or the shorter's length."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), min(len(text), len(other)))


def window(text: str, place: int, most: int) -> str:
    """Return a part of a text that holds a place, with an ellipsis on each side that is cut, between words if possible.

    Args:
        text: to shorten.
        place: of a character; a third of the part is before it.
        most: characters of the part.
    """
    if len(text) <= most:
        return text
    start = max(0, min(place - most // 3, len(text) - most))
    end = start + most
    if start:
        space = text.find(" ", start, place)
        start = start + 1 if space < 0 else space + 1
    if end < len(text):
        space = text.rfind(" ", place + 1, end)
        end = end - 1 if space < 0 else space
        return f"{'…' if start else ''}{text[start:end]}…"
    return f"…{text[start:end]}"
