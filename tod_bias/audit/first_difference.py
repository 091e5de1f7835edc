"""First steps in which a turn differs from T of the original's: of one turn, and the most frequent ones.

The column ``first_difference`` has the first step in which a counterfactual's turn differs from T of the original's, as
JSON, for counterfactuals with no stage replaced::

    {"stage": "policy", "part": "output", "changes": [["find_hotels.limit", "3", "1"]]}

A change has three items: a place, the value there in T of the original, and the value in the counterfactual; null means
no value. The place is an argument of a call, a field of a row, or empty for a whole text. ``part`` is ``output`` if the
step's output differs, ``argument`` if the step was called with other arguments, and ``step`` if another step was taken.
The column is null if nothing differs. If outputs are drawn, each sample is compared with T of the original's sample of
the same number, so some differences are due to chance. If the history is free-running, a difference in one turn leads
to further differences in later turns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile, zip_longest
from typing import Any

from tod_bias.io.documents import loads
from tod_bias.results import TURNS, FirstDifference, RunError, TurnCount
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import StageCall
from tod_bias.systems.structured import Call, named_calls, structured

_LONGEST = 60
"""Characters of a text that are shown."""
_BEFORE = 15
"""Number of these characters before the first one that differs."""
_MOST_CHANGES = 8
"""Changes of one step that are kept."""
_MOST = 3
"""Differences of a group that results name."""
_MOSTLY = 0.8
"""Share of turns from which one replaced value is named together with its replacement."""
_WRAPPING = (
    "choices",
    "content",
    "data",
    "message",
    "messages",
    "output",
    "parts",
    "result",
    "structuredContent",
    "text",
)
"""Fields of replies, messages and results that say nothing about what they hold: no part of a place."""
Change = tuple[str, str | None, str | None]
"""A place, with its values in T of the original and in the counterfactual."""
Place = tuple[str, str, str]
"""Stage, part and place."""


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
    """Return the first difference of a row of ``turns.parquet``; None if there is none.

    Raises:
        RunError: the column holds something else.
    """
    if not isinstance(text, str):
        return None
    try:
        return checked(loads(text))
    except (ValueError, TypeError, LookupError):
        raise RunError(
            f"{TURNS}: {text!r:.60} is not what a run writes as first_difference; repeat the run's command"
        ) from None


def arrow(place: str, before: str | None, after: str | None) -> str:
    """Write a place with its two values: ``3 → 1``."""
    return " → ".join(ending(place, text) for text in (before, after))


def ending(place: str, text: str | None) -> str:
    """Write a value at a place, or a whole text in quotes if there is no place."""
    return "nothing" if text is None else text if place else f"“{text}”"


def at(place: str, change: str) -> str:
    """A place and what changes there."""
    if change == "differs":
        return f"another `{place}`" if place else "another text"
    if change == "various → nothing" and place:
        return f"leaves out `{place}`"
    return f"`{place}` {change}" if place else change


def first_difference(expected: Sequence[StageCall], calls: Sequence[StageCall]) -> dict[str, Any] | None:
    """Return the first step that differs, as in the column; None if none does.

    Args:
        expected: T of the steps of the original's turn.
        calls: the steps of the counterfactual's turn.
    """
    for before, after in zip_longest(expected, calls):
        if before is None or after is None or before.name != after.name:
            names = (None if step is None else step.name for step in (before, after))
            return {"stage": (after or before).name, "part": "step", "changes": [["stage called", *names]]}
        for part in ("argument", "output"):
            changes: dict[str, Change] = {}
            for change in _changes(getattr(before, part), getattr(after, part), ""):
                changes.setdefault(change[0], change)
            if changes:
                shown = list(map(list, changes.values()))[:_MOST_CHANGES]
                return {"stage": after.name, "part": part, "changes": shown}
    return None


def _changes(before: Any, after: Any, place: str) -> Iterator[Change]:
    """Find the places at which two values differ."""
    calls = named_calls(before), named_calls(after)
    if any(calls):
        yield from _changes_of_calls(*calls)
        return
    old, new = structured(before), structured(after)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(name), new.get(name), _within(place, str(name)))
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            are_messages = any(isinstance(item, Mapping) and "role" in item for item in (*old, *new))
            what = place or ("messages" if are_messages else "results")
            yield f"number of {what}", str(len(old)), str(len(new))
            return
        for left, right in zip(old, new, strict=True):
            yield from _changes(left, right, place)
    elif (written := _written(old)) != (other := _written(new)):
        yield place, *_excerpts(written, other)


def _within(place: str, name: str) -> str:
    """The place of a field."""
    return place if name in _WRAPPING else f"{place}.{name}" if place else name


def _changes_of_calls(before: Sequence[Call], after: Sequence[Call]) -> Iterator[Change]:
    ours, theirs = (" + ".join(name for name, _ in calls) or None for calls in (before, after))
    if ours != theirs:
        yield "call", ours, theirs
        return
    for (name, old), (_, new) in zip(before, after, strict=True):
        yield from _changes(old, new, name)


def _written(value: Any) -> str | None:
    """A value in one line; None for nothing."""
    if isinstance(value, Mapping | list):
        value = json.dumps(value, ensure_ascii=False, default=as_text) if value else None
    elif value is not None and not isinstance(value, str):
        value = json.dumps(value)
    return " ".join(value.split()) or None if value is not None else None


def _excerpts(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Return two texts, long ones shortened to the surroundings of the first difference."""
    # not strict: one text may be the beginning of the other
    pairs = zip(before or "", after or "", strict=False)
    start = max(0, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) - _BEFORE)
    if max(len(before or ""), len(after or "")) <= _LONGEST:
        start = 0
    return _excerpt(before, start), _excerpt(after, start)


def _excerpt(text: str | None, start: int) -> str | None:
    if text is None:
        return None
    shown = f"{'…' if start else ''}{text[start:]}"
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def most_frequent(groups: Iterable[str], column: Iterable[str | None]) -> dict[str, list[FirstDifference]]:
    """Return each group's three first differences that are most frequent beyond their frequency in other groups.

    A difference names the group's value if half of these turns or more have it ("various → 1"), and the replaced value
    if that is mostly the same ("3 → 1"); otherwise only the place.

    Args:
        groups: of the counterfactuals' turns.
        column: ``first_difference`` of each.
    """
    turns: Counter[str] = Counter()
    places: dict[Place, dict[str, Counter[tuple[str | None, str | None]]]] = {}
    for group, text in zip(groups, column, strict=True):
        turns[group] += 1
        if isinstance(text, str):
            record = loads(text)
            for place, before, after in record["changes"]:
                by_group = places.setdefault((record["stage"], record["part"], place), {})
                by_group.setdefault(group, Counter())[before, after] += 1
    ranked: dict[str, list[FirstDifference]] = {}
    for group in turns:
        counted = [_counted(place, group, by_group, turns) for place, by_group in places.items() if group in by_group]
        counted = sorted(
            (difference for difference in counted if difference.excess > 0),
            key=lambda difference: (-difference.excess, -difference.turns),
        )
        if counted:  # what occurs once is said where nothing occurs twice
            ranked[group] = [difference for difference in counted[:_MOST] if difference.turns > 1] or counted[:1]
    return ranked


def _counted(
    place: Place, group: str, by_group: Mapping[str, Counter[tuple[str | None, str | None]]], turns: Mapping[str, int]
) -> FirstDifference:
    """Describe the difference at a place in the turns of a group, and its frequency in the other groups."""
    stage, part, where = place
    here = by_group[group]
    afters: Counter[str | None] = Counter()
    for (_, after), number in here.items():
        afters[after] += number
    value, of_value = afters.most_common(1)[0]
    pairs = {pair for seen in by_group.values() for pair in seen}
    pair = max((pair for pair in here if pair[1] == value), key=lambda pair: here[pair])
    if of_value < here.total() / 2:
        change, same = "differs", pairs
    elif here[pair] < _MOSTLY * of_value:
        change, same = f"various → {ending(where, value)}", {pair for pair in pairs if pair[1] == value}
    else:
        change, same = arrow(where, *pair), {pair}
    counts = {
        name: TurnCount(turns=sum(by_group.get(name, Counter())[pair] for pair in same), of=of)
        for name, of in turns.items()
    }
    here_of = counts.pop(group)
    return FirstDifference(
        stage=stage, part=part, place=where, change=change, turns=here_of.turns, of=here_of.of, others=counts
    )
