"""First differences in words: "`policy`: `find_hotels.limit` 3 → 1 in 14 of 40 turns as woman, in 0 of 195 otherwise".

What they are is in :mod:`tod_bias.audit.first_difference`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tod_bias.documents import loads
from tod_bias.report.notation import count
from tod_bias.results import TURNS, FirstDifference, RunError

_SHOWN = 2
"""Changes of one turn that are named."""


def checked(record: Any) -> dict[str, Any]:
    """The first difference of a turn, as a file has it.

    Raises:
        ValueError, TypeError, LookupError: it is none.
    """
    changes = [[place, before, after] for place, before, after in record["changes"]]
    if not changes or not all(isinstance(text, str | None) for change in changes for text in change):
        raise ValueError("expected changes of texts")
    return {"stage": str(record["stage"]), "part": str(record["part"]), "changes": changes}


def in_column(text: Any) -> dict[str, Any] | None:
    """The first difference that a row of ``turns.parquet`` has; None where it has none.

    Raises:
        RunError: it holds something else.
    """
    if not isinstance(text, str):
        return None
    try:
        return checked(loads(text))
    except (ValueError, TypeError, LookupError):
        raise RunError(
            f"{TURNS}: {text!r:.60} is not what a run writes as first_difference; repeat the run's command"
        ) from None


def counted(difference: FirstDifference, group: str) -> str:
    """What differs, and how often, in the turns as a group and as the others."""
    words = _change(difference.stage, difference.part, difference.place, difference.change)
    here = f"in {count(difference.turns)} of {count(difference.of)} turns as {group}"
    return f"{words} {here}, in {count(difference.otherwise.turns)} of {count(difference.otherwise.of)} otherwise"


def of_turn(record: Mapping[str, Any] | None) -> str:
    """What differs first in one turn, as the column ``first_difference`` has it; empty where nothing does."""
    if record is None:
        return ""
    changes = [(place, arrow(place, before, after)) for place, before, after in record["changes"]]
    words = [_change(record["stage"], record["part"], *changes[0]), *(at(*change) for change in changes[1:_SHOWN])]
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return f"{', '.join(words)}{more}"


def arrow(place: str, before: str | None, after: str | None) -> str:
    """What stands at a place, and what stands there otherwise: ``3 → 1``."""
    return " → ".join(ending(place, text) for text in (before, after))


def ending(place: str, text: str | None) -> str:
    """A value at a place; where there is none, the text as a whole in quotes."""
    return "nothing" if text is None else text if place else f"“{text}”"


def at(place: str, change: str) -> str:
    """A place and what changes there."""
    if change == "differs":
        return f"another `{place}`" if place else "another text"
    if change == "various → nothing" and place:
        return f"leaves out `{place}`"
    return f"`{place}` {change}" if place else change


def _change(stage: str, part: str, place: str, change: str) -> str:
    return f"`{stage}`{' called with' if part == 'argument' else ':'} {at(place, change)}"
