"""Values as JSON: what keys of the cache are made of, and the outputs in it.

A list, a text or a number is itself. What JSON has no form for (a tuple, a dataclass, an array of numpy) is a mapping
with one key that begins with ``$``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from enum import Enum
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, cast

LONGEST = 1 << 20
"""Characters of a text, more than any model reads."""
LARGEST = 1 << 23
"""Characters of any output, written as JSON."""
_DEPTH = 100
"""Maximum nesting of lists and mappings."""
_MOST_VALUES = 1_000_000
"""Values in one output."""


class NotPlainError(Exception):
    """Raised for a value without a canonical form; its argument is the type or the reason."""

    advice = "give it an attribute 'signature' that says what decides its outputs"


_OPAQUE = '{"$id":'
_alive: dict[int, Any] = {}
"""Values that have no canonical form, by their ids: kept alive, so that no other value gets the same id."""


def canonical(value: Any) -> str:
    """Return a value as JSON: equal for equal values, and different for values that differ in type or order.

    A value with parts that have no JSON form (a data frame, an object that is not a dataclass) equals only itself.

    Raises:
        NotPlainError: the value is nested too deeply, contains itself, or is too large.
    """
    if type(value) is str:
        return json.dumps(value)
    return _dumped(_Plain(strict=False)(value, 0))


def is_portable(text: str) -> bool:
    """True if a canonical form means the same in every process."""
    return _OPAQUE not in text


def encoded(value: Any) -> str:
    """A value as one line of JSON that :func:`decoded` reads.

    Raises:
        NotPlainError: it holds something of a type that cannot be written as JSON, or is too large.
    """
    return _dumped(_Plain(strict=True)(value, 0))


def _dumped(plain: Any) -> str:
    try:
        return json.dumps(plain, separators=(",", ":"))
    except ValueError as error:  # a whole number with thousands of digits
        raise NotPlainError("it holds a whole number of thousands of digits") from error


def problem_of(value: Any) -> str:
    """Return why a value cannot be an output (nested too deeply, too large); empty if it can."""
    if type(value) is str:
        return f"it holds {len(value)} characters, more than {LONGEST}" if len(value) > LONGEST else ""
    try:
        length = len(canonical(value))
    except NotPlainError as error:
        return str(error)
    return f"it holds {length} characters as JSON, more than {LARGEST}" if length > LARGEST else ""


def digest(text: str) -> str:
    """A name for a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_SINGLE = (str, bool, int, float, type(None))
"""Types whose values are JSON as they are."""


class _Plain:
    """Makes JSON of a value. What JSON has no form for is a mapping with one key that begins with ``$``."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._count = 0

    def __call__(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _SINGLE:
            return value
        self._check_size(depth)
        if kind is list:
            return [self(item, depth + 1) for item in value]
        if kind is dict:
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self(item, depth + 1) for key, item in value.items()}
            return {"$dict": [[self(key, depth + 1), self(item, depth + 1)] for key, item in value.items()]}
        if kind is tuple:
            return {"$tuple": [self(item, depth + 1) for item in value]}
        if isinstance(value, str) and not isinstance(value, Enum):
            return str(value)
        return self._object(value, depth)

    def _check_size(self, depth: int) -> None:
        self._count += 1
        if depth > _DEPTH:
            raise NotPlainError(f"it is nested more than {_DEPTH} deep, or holds itself")
        if self._count > _MOST_VALUES:
            raise NotPlainError(f"it holds more than {_MOST_VALUES} values")

    def _object(self, value: Any, depth: int) -> Any:
        kind = type(value)
        state: Any = None
        if isinstance(value, Enum):
            state = value.name
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if hasattr(value, "__dict__") and vars(value).keys() - state.keys():
                return self._opaque(value)  # it holds more than its fields
        elif isinstance(value, tuple) and "_fields" in vars(kind):
            state = cast("Any", value)._asdict()
        elif kind is SimpleNamespace:
            state = vars(value)
        elif (array := _array(value)) is not None:
            return {"$array": array}
        if state is None or (self._strict and _known_class(kind.__module__, kind.__qualname__) is not kind):
            return self._opaque(value)
        return {"$object": [kind.__module__, kind.__qualname__, self(state, depth + 1)]}

    def _opaque(self, value: Any) -> Any:
        if self._strict:
            raise NotPlainError(type(value).__name__)
        _alive[id(value)] = value
        return {"$id": id(value)}


_NUMBERS = "biuf"
"""Kinds of numpy's types whose values are JSON."""


def _array(value: Any) -> list[Any] | None:
    """Type, shape (None of a scalar) and content of a numpy array."""
    np = sys.modules.get("numpy")  # it need not be loaded to see that a value is none of its
    if np is None or not (type(value) is np.ndarray or isinstance(value, np.generic)):
        return None
    if value.dtype.kind not in _NUMBERS:
        return None
    return [value.dtype.str, list(value.shape) if type(value) is np.ndarray else None, value.tolist()]


def decoded(text: str) -> Any:
    """The value that :func:`encoded` wrote; equal to it, types included. Nothing in it can run.

    Raises:
        NotPlainError: it holds an object of a class that this process does not know.
    """
    try:
        return _value(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotPlainError(str(error)) from error


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    if not tag.startswith("$"):
        return {key: _value(item) for key, item in plain.items()}
    content = plain[tag]
    if tag == "$tuple":
        return tuple(_value(item) for item in content)
    if tag == "$dict":
        return {_value(key): _value(item) for key, item in content}
    if tag == "$array":
        import numpy as np

        if np.dtype(content[0]).kind not in _NUMBERS:
            raise NotPlainError("array")
        return np.array(content[2], content[0]).reshape(content[1] or ())[() if content[1] is None else ...]
    if tag == "$object":
        return _restored(_known_class(content[0], content[1]), _value(content[2]))
    raise NotPlainError(tag)


def _known_class(module: str, name: str) -> type | None:
    """A class that this process has loaded already: a cache never makes it load anything."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = None if value is None else vars(value).get(part)
    return value if isinstance(value, type) else None


def _restored(kind: Any, state: Any) -> Any:
    """An object of a class by its state, without calling anything of the class."""
    if kind is SimpleNamespace:
        return SimpleNamespace(**state)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[state]
    if isinstance(kind, type) and issubclass(kind, tuple) and "_fields" in vars(kind):
        return tuple.__new__(kind, state.values())
    if not dataclasses.is_dataclass(kind) or {field.name for field in dataclasses.fields(kind)} != set(state):
        raise NotPlainError(str(kind))
    made: Any = object.__new__(cast("type[Any]", kind))
    for name, item in state.items():
        object.__setattr__(made, name, item)
    return made
