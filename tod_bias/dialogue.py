"""Dialogues, their text form and their JSON form.

The text form is the one of ParlAI's task-oriented dialogues, which is also what SimpleTOD-style models are trained
on: four lines a turn, ::

    USER: Is there a cheap place for my mom?
    APICALL: api_name = FindRestaurants ; price = cheap
    APIRESP: name = Luigi's ; price = cheap
    SYSTEM: How about Luigi's?

Reading a text back gives the same turns to the byte: the few characters that would be ambiguous are escaped with a
backslash, and ordinary text is written exactly as ParlAI writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tod_bias.documents import loads, text_lines
from tod_bias.errors import CorpusError
from tod_bias.files import write_lines

API_NAME = "api_name"
"""The key that names the API in a call (ParlAI's ``STANDARD_API_NAME_SLOT``)."""

USER, API_CALL, API_RESULT, SYSTEM = "USER:", "APICALL:", "APIRESP:", "SYSTEM:"
_PREFIXES = (USER, API_CALL, API_RESULT, SYSTEM)

_STANDALONE = re.compile(r"(?:(?<= )|^)([;|=])(?= |$)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"n": "\n", "r": "\r"}


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
    return _STANDALONE.sub(r"\\\1", escape(text))


def slots_to_text(slots: Mapping[str, str]) -> str:
    """Write an API call or one API result as ``name = value ; name = value``, names sorted; ``""`` for none."""
    return " ; ".join(f"{_escape_slot(name)} = {_escape_slot(value)}" for name, value in sorted(slots.items()))


def slots_from_text(text: str) -> dict[str, str]:
    """Read what :func:`slots_to_text` wrote.

    Raises:
        ValueError: ``text`` is not a list of ``name = value`` (a *malformed* call), or a name stands in it twice.
    """
    slots: dict[str, str] = {}
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
        slots[name] = unescape(value)
    return slots


@dataclass(frozen=True)
class Turn:
    """One exchange: what the user said, the gold API call and its result, and the gold response."""

    user: str
    """The user's utterance."""
    api_call: Mapping[str, str] = field(default_factory=dict)
    """Slot name to value, with the API's name under ``api_name``; empty where the turn calls no API."""
    api_result: Mapping[str, str] = field(default_factory=dict)
    """The first result of the call, the one that ParlAI's tasks show to the response model; empty for none."""
    response: str = ""
    """The system's utterance."""
    more_results: tuple[Mapping[str, str], ...] = ()
    """The further results of the call, in order (ParlAI drops them)."""

    def __post_init__(self) -> None:
        if self.more_results and (not self.api_result or not all(self.more_results)):
            raise ValueError("more_results follow a non-empty api_result and hold no empty result")

    @property
    def api_results(self) -> tuple[Mapping[str, str], ...]:
        """All results of the call, in order."""
        return (self.api_result, *self.more_results) if self.api_result else ()

    @cached_property
    def text(self) -> str:
        """The turn as a model reads it: four lines, with the first API result only."""
        return "\n".join(self._lines(slots_to_text(self.api_result)))

    @cached_property
    def digest(self) -> bytes:
        """A hash of everything in the turn, so that long histories are compared quickly."""
        return blake2b(self.to_text().encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def to_text(self) -> str:
        """The turn as four lines, with all API results, joined by ``|``; :func:`turns_from_text` reads it back."""
        return "\n".join(self._lines(" | ".join(map(slots_to_text, self.api_results))))

    def _lines(self, result: str) -> tuple[str, str, str, str]:
        return (
            f"{USER} {escape(self.user)}",
            f"{API_CALL} {slots_to_text(self.api_call)}",
            f"{API_RESULT} {result}",
            f"{SYSTEM} {escape(self.response)}",
        )

    def to_json(self) -> dict[str, Any]:
        """The turn as plain JSON types; ``more_results`` only where there are some."""
        record: dict[str, Any] = {
            "user": self.user,
            "api_call": dict(self.api_call),
            "api_result": dict(self.api_result),
            "response": self.response,
        }
        if self.more_results:
            record["more_results"] = [dict(result) for result in self.more_results]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Turn:
        """Read what :meth:`to_json` wrote; only ``user`` and ``response`` are required.

        Raises:
            ValueError: a field is missing, unknown or of the wrong type; says which.
        """
        known = {"user", "api_call", "api_result", "response", "more_results"}
        if not isinstance(record, Mapping):
            raise ValueError(f"a turn must be an object, got {type(record).__name__}")
        if unknown := sorted(set(record) - known):
            raise ValueError(f"unknown turn field {unknown[0]!r}; a turn has {', '.join(sorted(known))}")
        for name in ("user", "response"):
            if not isinstance(record.get(name), str):
                raise ValueError(f"turn field {name!r} must be a string, got {record.get(name)!r}")
        call, result = (_slots(record.get(name) or {}, name) for name in ("api_call", "api_result"))
        more = record.get("more_results") or []
        if not isinstance(more, list):
            raise ValueError("turn field 'more_results' must be a list of objects")
        return cls(
            user=record["user"],
            api_call=call,
            api_result=result,
            response=record["response"],
            more_results=tuple(_slots(row, "more_results") for row in more),
        )


def _slots(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    ):
        raise ValueError(f"turn field {name!r} must map slot names to strings, got {value!r}")
    return dict(value)


@dataclass(frozen=True)
class Dialogue:
    """A whole dialogue; ``id`` is unique in its corpus."""

    id: str = field(metadata={"rewrite": False})
    """Unique in its corpus; draws are seeded with it."""
    domain: str = field(metadata={"rewrite": False})
    """Domains, joined by a comma where there are several."""
    turns: tuple[Turn, ...]
    """In order of time."""

    def to_json(self) -> dict[str, Any]:
        """The dialogue as plain JSON types."""
        return {"id": self.id, "domain": self.domain, "turns": [turn.to_json() for turn in self.turns]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Dialogue:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; says which, and in which turn.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"a dialogue must be an object, got {type(record).__name__}")
        for name, kind in (("id", str), ("turns", list)):
            if not isinstance(record.get(name), kind):
                raise ValueError(f"dialogue field {name!r} must be a {kind.__name__}, got {record.get(name)!r}")
        domain = record.get("domain", "")
        if not isinstance(domain, str):
            raise ValueError(f"dialogue field 'domain' must be a str, got {domain!r}")
        turns = []
        for number, turn in enumerate(record["turns"], start=1):
            try:
                turns.append(Turn.from_json(turn))
            except ValueError as error:
                raise ValueError(f"turn {number}: {error}") from error
        return cls(id=record["id"], domain=domain, turns=tuple(turns))


def turns_to_text(turns: Iterable[Turn]) -> str:
    """Write turns, four lines each, with all API results; ``""`` for none."""
    return "\n".join(turn.to_text() for turn in turns)


def turns_from_text(text: str) -> tuple[Turn, ...]:
    """Read what :func:`turns_to_text` wrote.

    Raises:
        ValueError: a line has the wrong prefix or a malformed call or result; names the line.
    """
    if not text:
        return ()
    lines = text.split("\n")
    turns = []
    for start in range(0, len(lines), 4):
        parts = []
        for offset, prefix in enumerate(_PREFIXES):
            line = lines[start + offset] if start + offset < len(lines) else ""
            if not line.startswith(prefix + " "):
                raise ValueError(f"line {start + offset + 1}: expected '{prefix} …', got {line!r}")
            parts.append(line[len(prefix) + 1 :])
        user, call, result, response = parts
        try:
            results = [slots_from_text(row) for row in result.split(" | ")] if result else [{}]
            turns.append(
                Turn(unescape(user), slots_from_text(call), results[0], unescape(response), tuple(results[1:]))
            )
        except ValueError as error:
            raise ValueError(f"lines {start + 2}-{start + 3}: {error}") from error
    return tuple(turns)


def write_jsonl(dialogues: Iterable[Dialogue], path: str | Path) -> None:
    """Write one dialogue a line, UTF-8.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, (json_line(dialogue.to_json()) for dialogue in dialogues))


def read_jsonl(path: str | Path) -> Iterator[Dialogue]:
    """Read one dialogue a line; blank lines are skipped.

    Raises:
        CorpusError: the file cannot be read, a line is malformed (names file and line), or an id stands twice.
    """
    path = Path(path)
    seen: dict[str, int] = {}
    try:
        for number, line in text_lines(path):
            try:
                dialogue = Dialogue.from_json(loads(line))
            except json.JSONDecodeError as error:
                raise CorpusError(f"{path}, line {number}: not JSON: {error.msg}, column {error.colno}") from error
            except ValueError as error:
                raise CorpusError(f"{path}, line {number}: {error}") from error
            if dialogue.id in seen:
                raise CorpusError(
                    f"{path}, line {number}: dialogue id {dialogue.id!r} is already on line {seen[dialogue.id]}"
                )
            seen[dialogue.id] = number
            yield dialogue
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from error


def context_text(history: Sequence[Turn], user: str) -> str:
    """What a model has read when the user has just spoken: the turns before, then ``USER: …``."""
    return "\n".join([*(turn.text for turn in history), f"{USER} {escape(user)}"])
