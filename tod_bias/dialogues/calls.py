"""Calls, in the forms in which components put them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def calls_of(output: Any) -> list[Mapping[str, Any]] | None:
    """The calls in what a component put out; None where it is malformed."""
    if output is None or output == "":
        return []
    found = getattr(output, "calls", output)
    if isinstance(found, Mapping):
        return [found] if found else []
    if isinstance(found, (list, tuple)) and all(isinstance(call, Mapping) for call in found):
        return list(found)
    return None
