"""The JSON values of calls and results: what they may be, how they are written, and the strings inside of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, TypeVar

from tod_bias.io.documents import DEPTH

Read = TypeVar("Read")
API_NAME = "api_name"
"""The key that names the API in a call (ParlAI's ``STANDARD_API_NAME_SLOT``)."""


def _as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"expected JSON, got {type(value).__name__}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_as_dict)


def checked(slots: Any, what: str) -> None:
    """Raise if ``slots`` does not map names to JSON values.

    Raises:
        ValueError: it does not; names the place, ``call argument 'party' [2]: expected JSON, got set``.
    """
    if slots.__class__ is not dict and not isinstance(slots, Mapping):
        raise ValueError(f"{what}s: expected a mapping of names to JSON values, got {type(slots).__name__}")
    for name, value in slots.items():
        if value.__class__ is str and name.__class__ is str:  # nearly all of them
            continue
        try:
            problem = _problem({name: value})
        except RecursionError:
            problem = f" {name!r}: is nested too deeply"
        if problem:
            raise ValueError(f"{what}{problem}")


def _problem(value: Any, depth: int = 0) -> str:
    """Return the place in a value that is not JSON, and its kind; empty if the value is JSON."""
    if value is None or isinstance(value, (str, int)):
        return ""
    if isinstance(value, float):
        return "" if isfinite(value) else f": expected JSON, got {value}"
    if depth > DEPTH:
        raise RecursionError  # here, since somebody may have raised the interpreter's limit
    if isinstance(value, list):
        places = ((f" [{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, Mapping):
        if names := [name for name in value if not isinstance(name, str)]:
            return f" {names[0]!r}: expected text as a name, got {names[0]!r}"
        places = ((f" {name!r}", item) for name, item in value.items())
    else:
        return f": expected JSON, got {type(value).__name__}"
    for place, item in places:
        if item.__class__ is not str and (problem := _problem(item, depth + 1)):  # nearly all are texts
            return place + problem
    return ""


def read_each(what: str, records: Iterable[Any], read: Callable[[Any], Read]) -> list[Read]:
    """Apply ``read`` to every record.

    Raises:
        ValueError: as ``read`` does, with the number of the record before it: ``turn 3: …``.
    """
    values = []
    for number, record in enumerate(records, start=1):
        try:
            values.append(read(record))
        except ValueError as error:
            raise ValueError(f"{what} {number}: {error}") from error
    return values


def plain(value: Any) -> Any:
    """A copy of a JSON value in dicts and lists."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def strings(slots: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every string in a call or result, at any depth, with its innermost name; the API's is left out.

    Items of a list belong to the name of the list.
    """
    for name, value in slots.items():
        if name == API_NAME:
            continue
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, (list, Mapping)):
            yield from _strings(name, value)


def _strings(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        yield from strings(value)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(name, item)


def to_json(value: Any) -> str:
    """A JSON value as compact text, names sorted, so that equal values have equal texts.

    Raises:
        TypeError: it is no JSON.
    """
    return _ENCODER.encode(value)
