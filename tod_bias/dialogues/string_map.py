"""Changing every string inside a value, and changing it back."""

from __future__ import annotations

import dataclasses
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeVar

from tod_bias.dialogues.dialogue import Step
from tod_bias.dialogues.json_text import with_strings_changed
from tod_bias.dialogues.values import API_NAME

V = TypeVar("V")
_UNCHANGED = frozenset([bool, int, float, type(None)])
_API_NAMES = frozenset([API_NAME])
NAMES = _API_NAMES | {
    "name",
    "tool_name",
    "id",
    "call_id",
    "tool_call_id",
    "type",
    "part_kind",
    "kind",
    "role",
    "status",
    "finish_reason",
    "model",
    "model_name",
}
"""Keys of the calls and messages of agent frameworks whose values name things: OpenAI's chat and Responses APIs,
PydanticAI, LangChain."""
_OF_CALLS = frozenset(["tool_calls", "tool_call_id", "call_id", "tool_name", "part_kind"])
_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function"])


@cache
def _rewritten(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that are rewritten."""
    return tuple(
        member.name for member in dataclasses.fields(kind) if member.init and member.metadata.get("rewrite", True)
    )


def _is_of_framework(value: Mapping[Any, Any]) -> bool:
    """Return whether a mapping is a call or message of an agent framework: other mappings may have text as a type."""
    role, arguments = value.get("role"), value.get("arguments", value.get("args"))
    is_message = isinstance(role, str) and role in _ROLES and "content" in value
    is_call = isinstance(arguments, Mapping) or (isinstance(arguments, str) and arguments.lstrip().startswith("{"))
    return is_message or is_call or isinstance(value.get("function"), Mapping) or not _OF_CALLS.isdisjoint(value)


class StringMap(ABC):
    """Changes the strings inside a value, and changes them back.

    Text, mapping values, tuples, lists, dataclass fields and namespaces are followed, at any depth, and so are the
    strings inside a text that is JSON; its other bytes do not change. Names of things are never changed: mapping keys,
    the name of an API (under ``api_name``), names, ids, roles and types of calls and messages of agent frameworks
    (:data:`NAMES`), enum members, and dataclass fields whose metadata say ``rewrite=False`` (a dialogue's id).
    Everything else stays as it is, too.
    """

    def __init__(self) -> None:
        self._memo: dict[tuple[bool, int], tuple[Any, Any]] = {}  # (direction, id) -> (the object, its image)

    def __call__(self, value: V, /) -> V:
        """The value with every string changed."""
        return self._map(value, True)

    def inverse(self, value: V, /) -> V:
        """The value with every string changed back."""
        return self._map(value, False)

    @abstractmethod
    def _rewrite(self, text: str) -> str:
        """One text changed."""

    def _restore(self, text: str) -> str:
        """One text changed back."""
        raise NotImplementedError

    def _map(self, value: Any, forward: bool) -> Any:
        kind = value.__class__
        if kind is str or (isinstance(value, str) and not isinstance(value, Enum)):
            return self._rewrite(value) if forward else self._restore(value)
        if kind in _UNCHANGED:
            return value
        if kind is list:
            return [self._map(item, forward) for item in value]
        if kind is dict:
            return self._mapping(value, forward)
        if isinstance(value, Enum):
            return value
        if dataclasses.is_dataclass(value) or isinstance(value, tuple):
            return self._remembered(value, forward)
        return self._other(value, forward)

    def _other(self, value: Any, forward: bool) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, forward)
        if isinstance(value, SimpleNamespace):
            return type(value)(**self._map(vars(value), forward))
        return self._sequence(value, forward) if isinstance(value, list) else value

    def _mapping(self, value: Mapping[Any, Any], forward: bool) -> dict[Any, Any]:
        change = self._rewrite if forward else self._restore
        names = NAMES if _is_of_framework(value) else _API_NAMES
        return {
            key: item
            if item.__class__ in _UNCHANGED or (key.__class__ is str and key in names)
            else change(item)
            if item.__class__ is str
            else self._map(item, forward)
            for key, item in value.items()
        }

    def _sequence(self, value: Any, forward: bool) -> Any:
        """Return a tuple, or a list of the same class; a plain tuple without changes is returned itself."""
        items = [self._map(item, forward) for item in value]
        if value.__class__ is tuple and all(map(operator.is_, items, value)):
            return value
        return type(value)(*items) if is_named_tuple(value) else type(value)(items)

    def _remembered(self, value: Any, forward: bool) -> Any:
        """A tuple or dataclass, which is changed once; what it became changes back to the very same object."""
        key = (forward, id(value))
        if key in self._memo:
            return self._memo[key][1]
        image = value
        if value.__class__ is Step:
            image = value.mapped(lambda part: self._map(part, forward))
        elif isinstance(value, tuple):
            image = self._sequence(value, forward)
        elif not isinstance(value, type):
            fields = {name: self._map(getattr(value, name), forward) for name in _rewritten(value.__class__)}
            if any(item is not getattr(value, name) for name, item in fields.items()):
                image = dataclasses.replace(value, **fields)
        self._memo[key] = (value, image)
        if forward:
            self._memo[(False, id(image))] = (image, value)
        return image


class TextMap(StringMap):
    """Changes the strings inside a value by a function of one text.

    Args:
        change: of a text that is no JSON.
    """

    def __init__(self, change: Callable[[str], str]) -> None:
        super().__init__()
        self._change = change

    def _rewrite(self, text: str) -> str:
        inside = with_strings_changed(str(text), self._rewrite)
        return self._change(str(text)) if inside is None else inside


def is_named_tuple(value: object) -> bool:
    """True if a value is a named tuple, which is made from its fields one by one."""
    return isinstance(value, tuple) and hasattr(value, "_fields")
