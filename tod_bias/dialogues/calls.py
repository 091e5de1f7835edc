"""The calls in what a component put out, whatever form it writes them in, and schemas of the calls of dialogues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, flat_call
from tod_bias.dialogues.values import API_NAME
from tod_bias.io.documents import loads

MALFORMED = "malformed_arguments"
"""Only argument of a call whose arguments are not a JSON object; holds their text."""
_LISTS = ("calls", "tool_calls")
_NO_ATTRIBUTE = object()


def calls_of(output: Any) -> list[Mapping[str, Any]] | None:
    """Return the calls in an output, mappings with the API's name under ``api_name``; None if one is malformed.

    A call is such a mapping, or OpenAI's ``{"name": …, "arguments": …}`` with the arguments as a mapping or as its
    JSON, also as an entry of ``tool_calls`` (``{"type": "function", "function": {…}}``). Several calls are a list of
    these, a mapping that holds the list under ``calls`` or ``tool_calls``, or an object with the attribute ``calls``.
    None, ``""`` and empty containers are no calls; any other text is a malformed call.
    """
    if output is None or (isinstance(output, str) and not output):
        return []
    if isinstance(output, Mapping):
        return _of_mapping(output)
    if isinstance(output, (list, tuple)):
        parsed: list[Mapping[str, Any]] = []
        for item in output:
            calls = calls_of(item)
            if calls is None:
                return None
            parsed += calls
        return parsed
    several = getattr(output, "calls", _NO_ATTRIBUTE)
    return None if several is _NO_ATTRIBUTE or callable(several) else calls_of(several)


def _of_mapping(output: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    if API_NAME in output:
        return [output]
    for name in _LISTS:
        if isinstance(output.get(name, ""), (list, tuple, type(None))):
            return calls_of(output[name])
    function = output.get("function")
    if isinstance(function, Mapping) and "name" in function:
        return _of_function(function)
    if output.keys() == {"name", "arguments"}:
        return _of_function(output)
    return [output] if output else []


def _of_function(function: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    arguments = function.get("arguments") or {}
    try:
        if isinstance(arguments, str):
            arguments = loads(arguments)
        return [flat_call(function["name"], arguments)] if isinstance(arguments, Mapping) else None
    except ValueError:
        return None


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def called(dialogues: Iterable[Dialogue]) -> list[dict[str, Any]]:
    """Schemas of the calls in dialogues: every API's slots with the types they had; required is what every call has."""
    slots: dict[str, dict[str, set[str]]] = {}
    always: dict[str, set[str]] = {}
    for step in (step for dialogue in dialogues for turn in dialogue.turns for step in turn.steps if step.name):
        named = slots.setdefault(step.name, {})
        always[step.name] = always.get(step.name, set(step.arguments)) & set(step.arguments)
        for slot, value in step.arguments.items():
            kind = "string" if isinstance(value, str) else _TYPES.get(type(value), "null")
            named.setdefault(slot, set()).add(kind)
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"{name}.",
                "parameters": {
                    "type": "object",
                    "properties": {slot: {"type": _type(kinds)} for slot, kinds in named.items()},
                    "required": sorted(always[name]),
                },
            },
        }
        for name, named in sorted(slots.items())
    ]


def _type(kinds: set[str]) -> str | list[str]:
    return next(iter(kinds)) if len(kinds) == 1 else sorted(kinds)
