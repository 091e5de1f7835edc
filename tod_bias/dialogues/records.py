"""Fields of a corpus' records, checked as they are read: what stands there instead is said in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tod_bias.dialogues.datapath import joined

Kind = TypeVar("Kind", str, list[Any], dict[str, Any])

_NAMES = {str: "text", list: "a list", dict: "a mapping", bool: "a truth value", int: "a number", float: "a number"}


def kind_of(value: Any) -> str:
    """What a JSON value is, in words: ``text``, ``a list``, ``null``."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def checked_as(value: Any, kind: type[Kind], what: str) -> Kind:
    """The value, if it is of a kind (``str``, ``list``, ``dict``).

    Args:
        value: of JSON.
        kind: that it must be of.
        what: names its place, for the message.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, kind):
        return value
    raise ValueError(f"{what}: expected {_NAMES[kind]}, got {kind_of(value)}")


def field(record: Any, name: str, kind: type[Kind], where: str = "") -> Kind:
    """A field of a record that must be there.

    Args:
        record: a mapping, or what stands in its place.
        name: of the field.
        kind: ``str``, ``list`` or ``dict``.
        where: names the record, for the message: ``utterance 3``.

    Raises:
        ValueError: the record is no mapping, has no such field, or holds something else there.
    """
    before = f"{where}: " if where else ""
    if not isinstance(record, Mapping):
        raise ValueError(f"{before}expected a mapping with {name!r}, got {kind_of(record)}")
    if name not in record:
        raise ValueError(f"{before}has no {name!r}")
    return checked_as(record[name], kind, f"{before}{name!r}")


def field_or(record: Any, name: str, default: Kind, where: str = "") -> Kind:
    """A field of a record that may be left out; where it is there it must be of the kind of ``default``.

    Raises:
        ValueError: as :func:`field`.
    """
    if isinstance(record, Mapping) and name not in record:
        return default
    return field(record, name, type(default), where)


def parlai_value(value: Any, what: str) -> str:
    """A slot's value as the text that ParlAI makes of it: lists sorted and joined, numbers as Python writes them.

    Raises:
        ValueError: it is null, for which ParlAI has no text.
    """
    if value is None:
        raise ValueError(f"{what}: expected a value, got null")
    return joined(value) if isinstance(value, (str, list)) else str(value)


def unlike(name: str, seen: dict[str, int]) -> str:
    """The name, with a number where it was seen before, so that ids stay unique: ``a``, ``a_2``, ``a_3``."""
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}_{seen[name]}"
