"""What a component may put out, and what it must leave alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

from tod_bias.documents import DEPTH
from tod_bias.systems.sameness import frozen

LARGEST = 1_000_000
"""Values in one output, those counted that are shared as often as they are met."""
LONGEST = 1 << 20
"""Characters in the texts of one output: more than any model reads."""
LARGEST_ARRAY = 1 << 26
"""Bytes in the arrays of one output."""
MOST_CALLS = 128
"""Calls in one reply of a server, and in one turn of the shipped flow."""
_BITS = 14_000
"""Of a whole number: longer ones cannot be written down (Python's limit of 4300 digits)."""
_PLAIN = (float, bool, type(None))


def problem_of(output: Any) -> str:
    """What is wrong with an output, so that nobody can read it; empty where nothing is.

    It is nested too deeply (or holds itself), is too large, or cannot be shown as text.
    """
    if type(output) in _PLAIN:
        return ""
    if type(output) is str:
        return _too_long(len(output))
    try:
        return _walked(output)
    except RecursionError:
        return _DEEP


_DEEP = f"it is nested more than {DEPTH} deep, or holds itself"


def _too_long(length: int, size: int = 0) -> str:
    if length > LONGEST:
        return f"it holds texts of {length} characters, more than {LONGEST}"
    return f"it holds arrays of {size} bytes, more than {LARGEST_ARRAY}" if size > LARGEST_ARRAY else ""


def _walked(output: Any) -> str:
    level, length, bytes_, count = [output], 0, 0, 0
    for _ in range(DEPTH + 1):
        below: list[Any] = []
        for value in level:
            left = LARGEST - count - len(below) + 1  # what is shared is read no further
            kind = type(value)
            if kind in _PLAIN:
                continue
            if isinstance(value, int):
                if value.bit_length() > _BITS:
                    return "it holds a whole number of thousands of digits"
            elif isinstance(value, str | bytes):
                length += len(value)
            elif isinstance(value, Mapping):
                for pair in islice(value.items(), left):
                    below += pair
            elif isinstance(value, list | tuple | set | frozenset):
                below += islice(value, left)
            elif kind is SimpleNamespace:
                below += vars(value).values()
            elif dataclasses.is_dataclass(value) and not isinstance(value, type):
                below += [getattr(value, field.name) for field in dataclasses.fields(value)]
            elif isinstance(size := getattr(value, "nbytes", None), int):
                bytes_ += size
            else:
                length += len(str(value))
        if too_long := _too_long(length, bytes_):
            return too_long
        count += len(below)
        if count > LARGEST:
            return f"it holds more than {LARGEST} values"
        if not below:
            return ""
        level = below
    return _DEEP


def state_of(inputs: Sequence[Any]) -> list[Any]:
    """What a component must leave as it is, to be compared with what it was: outputs, arguments, calls and results."""
    inputs = [item for item in inputs if hasattr(item, "history")]
    turns = {id(turn): turn for item in inputs for turn in item.history if turn.steps}
    values = [frozen((item.outputs, item.argument)) for item in inputs if item.outputs or item.argument is not None]
    return [*values, *(repr(turn.steps) for turn in turns.values())]
