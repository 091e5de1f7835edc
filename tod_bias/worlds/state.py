"""Databases as JSON whose keys are values, so that a rewrite changes a person's name wherever it is a key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_SMALL = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_ENTRIES = "entries"
"""Only key of a mapping that stands for another one, whose keys and values it lists in pairs."""


def opened(value: Any) -> Any:
    """Return a JSON value in which every mapping is replaced by the list of its keys and values."""
    if isinstance(value, Mapping):
        return {_ENTRIES: [[key, opened(item)] for key, item in value.items()]}
    return [opened(item) for item in value] if isinstance(value, list | tuple) else value


def closed(value: Any) -> Any:
    """Return the value of which :func:`opened` made this one, in new containers and plain strings."""
    if isinstance(value, Mapping):
        return {plain_text(key): closed(item) for key, item in value[_ENTRIES]}
    if isinstance(value, list | tuple):
        return [closed(item) for item in value]
    return plain_text(value)


def plain(value: Any) -> Any:
    """Return JSON in new containers and plain strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else plain_text(value)


def small_numbers(texts: Iterable[str]) -> list[str]:
    """Return the numbers of one or two digits in texts.

    As a part of a task they keep a rewrite of ages from taking a house's number for somebody's age.
    """
    return sorted({number for text in texts for number in _SMALL.findall(text)})


def plain_text(value: Any) -> Any:
    """Return a string without the memory of a rewrite; any other value as it is."""
    return str(value) if isinstance(value, str) else value
