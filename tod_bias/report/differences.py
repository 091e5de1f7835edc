"""First differences of turns in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tod_bias.audit.first_difference import arrow, at
from tod_bias.results import AxisResult, Estimate, FirstDifference

_SHOWN = 2
"""Changes of one turn that are named."""
_NAMED = 2
"""Groups that are named in comparison."""


def differences_of(axis_result: AxisResult, group: str) -> tuple[str, ...]:
    """Return the first differences in the turns as a group, with their frequency, compared with groups that are not
    claimed."""
    side = axis_result.claims.get(group, Estimate()).value or 0
    alike = {name for name, gap in axis_result.claims.items() if (gap.value or 0) * side > 0}
    return tuple(counted(some, group, alike) for some in axis_result.first_differences.get(group, ()))


def counted(difference: FirstDifference, group: str, alike: Collection[str] = ()) -> str:
    """Describe a difference and its frequency in the turns as the group and as others.

    Args:
        difference: of the group.
        group: its name.
        alike: groups that it is not compared with, unless there are no others.
    """
    words = _change(difference.stage, difference.part, difference.place, difference.change)
    text = f"{words} in {difference.turns:,} of {difference.of:,} turns as {group}"
    compared = [name for name in difference.others if name not in alike] or list(difference.others)
    if not compared:
        return text
    names = "other groups" if len(compared) == len(difference.others) else "groups without such a claim"
    number = difference.as_groups(compared)
    return (
        f"{text}, in {number.turns:,} of {number.of:,} as {' or '.join(compared) if len(compared) <= _NAMED else names}"
    )


def of_turn(record: Mapping[str, Any] | None) -> str:
    """Describe the first difference of one turn, as in the column ``first_difference``; empty if there is none."""
    if record is None:
        return ""
    changes = [(place, arrow(place, before, after)) for place, before, after in record["changes"]]
    words = [_change(record["stage"], record["part"], *changes[0]), *(at(*change) for change in changes[1:_SHOWN])]
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return f"{', '.join(words)}{more}"


def _change(stage: str, part: str, place: str, change: str) -> str:
    return f"`{stage}`{' called with' if part == 'argument' else ':'} {at(place, change)}"
