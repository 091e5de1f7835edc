"""What components put out, as text that is kept on disk, and back. Nothing in it can run.

Plain JSON values stand as they are; everything else is a mapping with one key that begins with ``$``.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from enum import Enum
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tod_bias.systems.sameness import is_text


class NotKeptError(Exception):
    """A value cannot be written down, or what was written cannot be read; its argument is the type."""


def encoded(value: Any) -> str:
    """A value as one line of JSON.

    Raises:
        NotKeptError: it holds something of a type that cannot be written down.
    """
    try:
        return json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise NotKeptError(type(value).__name__) from error


def decoded(text: str) -> Any:
    """The value that :func:`encoded` wrote; equal to it, types included.

    Raises:
        NotKeptError: it holds an object of a class that this process does not know.
    """
    try:
        return _value(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotKeptError(str(error)) from error


def _plain(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, Enum):
        return {"$enum": [*_name(kind), value.name]}
    if value is None or kind is bool or kind is int:
        return value
    if is_text(value):
        return str(value)
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return {"$named": [*_name(kind), [_plain(item) for item in value]]}
        if kind is not tuple:
            raise NotKeptError(kind.__name__)
        return {"$tuple": [_plain(item) for item in value]}
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"$dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    if kind in (set, frozenset):
        return {f"${kind.__name__}": [_plain(item) for item in value]}
    if (
        (kind is np.ndarray or isinstance(value, np.generic))
        and value.dtype.names is None
        and not value.dtype.hasobject
    ):
        array = np.asarray(value)
        shape = list(array.shape) if kind is np.ndarray else None
        return {"$array": [array.dtype.str, shape, base64.b64encode(array.tobytes()).decode()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if set(getattr(value, "__dict__", ())) - set(fields):  # attributes that are no fields would be lost
            raise NotKeptError(kind.__name__)
        return {"$dataclass": [*_name(kind), fields]}
    if kind is SimpleNamespace:
        return {"$namespace": {name: _plain(item) for name, item in vars(value).items()}}
    raise NotKeptError(kind.__name__)


def _name(kind: type) -> tuple[str, str]:
    """Where a class is found again.

    Raises:
        NotKeptError: nowhere: it was made in a function, say.
    """
    try:
        if _known(kind.__module__, kind.__qualname__) is kind:
            return kind.__module__, kind.__qualname__
    except KeyError:
        pass
    raise NotKeptError(kind.__name__)


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        ((tag, content),) = plain.items()
        if tag.startswith("$"):
            return _READERS[tag](content)
    return {key: _value(item) for key, item in plain.items()}


def _known(module: str, name: str) -> Any:
    """A class that this process has loaded already: what is kept never makes it load anything."""
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = vars(found)[part]
    if not isinstance(found, type):
        raise NotKeptError(name)
    return found


def _enum(content: Any) -> Any:
    kind = _known(content[0], content[1])
    if not issubclass(kind, Enum):
        raise NotKeptError(content[1])
    return kind[content[2]]


def _named(content: Any) -> Any:
    kind = _known(content[0], content[1])
    if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise NotKeptError(content[1])
    return tuple.__new__(kind, [_value(item) for item in content[2]])


def _dataclass(content: Any) -> Any:
    kind = _known(content[0], content[1])
    if not dataclasses.is_dataclass(kind) or {field.name for field in dataclasses.fields(kind)} != set(content[2]):
        raise NotKeptError(content[1])
    made: Any = object.__new__(cast("type[Any]", kind))
    for name, item in content[2].items():
        object.__setattr__(made, name, _value(item))
    return made


def _array(content: Any) -> Any:
    kind = np.dtype(content[0])
    if kind.hasobject:
        raise NotKeptError("array of objects")
    flat = np.frombuffer(base64.b64decode(content[2]), dtype=kind).copy()
    return flat[0] if content[1] is None else flat.reshape(content[1])


_READERS: dict[str, Any] = {
    "$enum": _enum,
    "$float": float,
    "$named": _named,
    "$tuple": lambda content: tuple(_value(item) for item in content),
    "$dict": lambda content: {_value(key): _value(item) for key, item in content},
    "$bytes": base64.b64decode,
    "$set": lambda content: {_value(item) for item in content},
    "$frozenset": lambda content: frozenset(_value(item) for item in content),
    "$array": _array,
    "$dataclass": _dataclass,
    "$namespace": lambda content: SimpleNamespace(**{name: _value(item) for name, item in content.items()}),
}
