"""When two values are the same to a component, as a value that can be compared, hashed and named."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any


class Same:
    """Equal to itself only; keeps its object alive, so that no other takes its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __repr__(self) -> str:
        raise UnnameableError(type(self.value).__name__)


class UnnameableError(Exception):
    """A value holds an object that has no name outside of this process; its argument is the object's type."""


def is_text(value: Any) -> bool:
    """Whether a value is text and nothing more: a string, or one that is stored as a plain one (what T produced)."""
    return type(value) is str or (isinstance(value, str) and value.__reduce__()[0] is str)


def frozen(value: Any) -> Any:
    """A hashable value that is equal for equal values, and never for different ones.

    Where that cannot be known, a value is equal to itself only: a component is then asked more often, never too
    seldom. The representation of a frozen value is the same in every process, or raises :class:`UnnameableError`.
    """
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:  # its order may show in a prompt
        return "dict", *[
            (key if type(key) is str else frozen(key), item if type(item) is str else frozen(item))  # most are texts
            for key, item in value.items()
        ]
    if value is None:
        return ()
    if isinstance(value, Enum):
        return "enum", kind.__module__, kind.__qualname__, value.name
    if isinstance(value, str):
        return str(value) if is_text(value) else Same(value)
    if kind is bool or kind is int or kind is bytes:
        return kind.__name__, value
    if kind is float:
        return "float", repr(value)  # tells 0.0 from -0.0; nan is equal to nan
    if kind is list:
        return "list", *[item if type(item) is str else frozen(item) for item in value]
    if isinstance(value, tuple):
        named = (kind.__module__, kind.__qualname__) if hasattr(value, "_fields") else ()
        return "tuple", named, *map(frozen, value)
    if isinstance(value, Mapping):
        if getattr(value, "__dict__", None):
            return Same(value)
        return (
            "mapping",
            kind.__module__,
            kind.__qualname__,
            *[(frozen(key), frozen(item)) for key, item in value.items()],
        )
    if kind in (set, frozenset):
        try:
            return "set", *sorted(map(frozen, value), key=repr)
        except UnnameableError:
            return "set", frozenset(map(frozen, value))
    np = sys.modules.get("numpy")  # it need not be loaded to tell that a value is none of its
    if np is not None and (kind is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
        return "array" if kind is np.ndarray else "scalar", value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if getattr(value, "__dict__", {}).keys() - {field.name for field in dataclasses.fields(value)}:
            return Same(value)  # it holds more than its fields
        fields = tuple((field.name, frozen(getattr(value, field.name))) for field in dataclasses.fields(value))
        return "dataclass", kind.__module__, kind.__qualname__, *fields
    if kind is SimpleNamespace:
        return "namespace", *((name, frozen(item)) for name, item in vars(value).items())
    return Same(value)


def digest_of(value: Any) -> Any:
    """16 bytes that are the same for a frozen value in every process; the value itself where it has no name."""
    try:
        return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    except UnnameableError:
        return value
