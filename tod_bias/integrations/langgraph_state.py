"""States of LangGraph's graphs, and the updates that nodes return, as JSON and back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage, message_to_dict, messages_from_dict
from langgraph.types import Command, Send
from pydantic import BaseModel

from tod_bias.errors import StageError

BLOCKED = "blocked"
"""Under which the output of a node says why it blocks the run."""
_CHANGING = ("id", "response_metadata", "usage_metadata")
_classes: dict[str, type] = {}
"""Classes of the owner's objects in states, by their places."""


class BlockedError(Exception):
    """A node that is a stage blocks the run."""


def blocking() -> tuple[type[Exception], ...]:
    """What ends a run because a node blocks it: what a middleware of LangChain raises, and its like of a stage."""
    middleware = sys.modules.get("langchain.agents.middleware")
    return (BlockedError,) if middleware is None else (BlockedError, middleware.PIIDetectionError)


def encoded(value: Any, node: str) -> Any:
    """A state or an update as JSON, without random ids.

    Args:
        value: the state or update.
        node: whose it is.

    Raises:
        StageError: it holds what is no JSON.
    """
    if isinstance(value, RemoveMessage):
        raise StageError(f"node {node!r}: removes messages by their ids, which is not hosted; leave it out of stages")
    if isinstance(value, BaseMessage):
        made = message_to_dict(value)
        data = {key: item for key, item in made["data"].items() if key not in _CHANGING}
        return {"message": made["type"], "data": {**data, "additional_kwargs": {}}}
    if isinstance(value, Command):
        return {"command": [encoded(part, node) for part in (value.graph, value.update, value.goto)]}
    if isinstance(value, Send):
        return {"send": [value.node, encoded(value.arg, node)]}
    if isinstance(value, Mapping):
        return {str(key): encoded(item, node) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item, node) for item in value]
    if isinstance(value, BaseModel) or is_dataclass(value):
        return {"object": _class_name(value), "fields": encoded(_fields(value), node)}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise StageError(f"node {node!r}: its state or update holds a {type(value).__name__}, which is no JSON")


def _class_name(value: Any) -> str:
    """By which :func:`_class_of` finds the class of an object."""
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    _classes[name] = type(value)
    return name


def _class_of(name: str) -> type:
    """A class of pydantic or of data that is there already: nothing is imported for a name in a cache.

    Raises:
        StageError: it is not there.
    """
    module, _, path = name.partition(":")
    known: Any = _classes.get(name, sys.modules.get(module))
    if name not in _classes:
        for part in path.split("."):
            known = getattr(known, part, None)
    if isinstance(known, type) and (issubclass(known, BaseModel) or is_dataclass(known)):
        return known
    raise StageError(f"a cached state holds a {name!r:.100}, which is not there now; start in another folder")


def _fields(value: Any) -> dict[str, Any]:
    """What an object is made of."""
    names = value.model_fields_set if isinstance(value, BaseModel) else {each.name for each in fields(value)}
    return {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}


def _object(kind: type, values: Mapping[str, Any]) -> Any:
    """An object of such fields; its ``__init__`` and its checks are not run."""
    if issubclass(kind, BaseModel):
        return kind.model_construct(**values)
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def decoded(value: Any) -> Any:
    """The state or update that JSON stands for."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"message", "data"}:
        return messages_from_dict([{"type": value["message"], "data": value["data"]}])[0]
    if value.keys() == {"command"}:
        graph, update, goto = map(decoded, value["command"])
        return Command(graph=graph, update=update, goto=goto)
    if value.keys() == {"send"}:
        return Send(value["send"][0], decoded(value["send"][1]))
    if value.keys() == {"object", "fields"}:
        values = {key: decoded(item) for key, item in value["fields"].items()}
        return _object(_class_of(value["object"]), values)
    return {key: decoded(item) for key, item in value.items()}


def calls_in(value: Any) -> list[dict[str, Any]]:
    """The tool calls in an encoded update, in order."""
    if isinstance(value, list):
        return [call for item in value for call in calls_in(item)]
    if not isinstance(value, dict):
        return []
    return list(value.get("tool_calls") or ()) + [call for item in value.values() for call in calls_in(item)]
