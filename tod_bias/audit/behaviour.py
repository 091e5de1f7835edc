"""Events of behaviour that a run measures, and the contribution of each turn.

Events are chosen without looking at groups: those that differ between variants of one dialogue in several dialogues.
How often an event differs says nothing about which group shows it, so the choice leaves the tests valid (independent
filtering, Bourgon et al. 2010).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.audit.turn_rows import ACTS, FAILURE, ORIGINAL, RESPONSE
from tod_bias.metrics.behaviour import (
    ANY,
    ASKS_BACK,
    CALLS,
    EMPTY,
    FAILED,
    FAILS,
    FOUND,
    MEAN,
    MISSING,
    NAMED,
    OF_ARGUMENTS,
    OF_RESPONSES,
    REFUSES,
    SILENT,
    VALUE,
    Behaviour,
    number_in,
)
from tod_bias.metrics.responses import Refusal
from tod_bias.results import FailedTurns, RunError
from tod_bias.systems.acts import Act, read_acts

COLUMNS = (ACTS, RESPONSE, FAILURE)
"""Columns of the table of turns that events are read from."""
FEWEST_DIALOGUES = 3
"""Fewest dialogues in which an event must differ between variants to be measured."""
MOST_EVENTS = 24
"""Events of a run, those that differ most often; more would widen the intervals of all and say little more."""
MOST_FORMS = 6
"""Most values of an argument that are counted one by one; an argument with more is not a choice from a list."""
_REASONS = 3
"""Reasons of failures that are kept."""
_NEEDS_ALL = (VALUE, MEAN, FOUND, NAMED)
"""Kinds that are compared in the turns in which every variant has a value: a call that is not made has none."""


class Behaviours:
    """The events in the turns of one axis.

    Args:
        rows: of all variants and arms, with the columns of :data:`COLUMNS` and ``dialogue``, ``turn``, ``arm`` and
            ``role``.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self._acts_of_row, texts = pd.factorize(rows[ACTS].fillna("").astype(object))
        try:
            self._acts = [read_acts(str(text)) for text in texts]
        except (ValueError, TypeError) as error:
            raise RunError(f"turns: column {ACTS} cannot be read ({error}); repeat the run's command") from error
        self._response_of_row, responses = pd.factorize(rows[RESPONSE].fillna("").astype(object))
        self._responses = [str(text) for text in responses]
        self._failed = rows[FAILURE].notna().to_numpy()
        place = rows["dialogue"].astype(str) + "\x1f" + rows["turn"].astype(str)
        self._cell, _ = pd.factorize(place)
        self._cells = int(self._cell.max(initial=-1)) + 1
        self._dialogue, _ = pd.factorize(rows["dialogue"].astype(object))
        arm, role = rows["arm"].astype(str).to_numpy(), rows["role"].astype(str).to_numpy()
        self._is_system = ((arm == "") & (role == "group")) | (arm == ORIGINAL)

    def columns(self, event: Behaviour) -> np.ndarray:
        """Return (rows, 2): what each turn adds to the event, and whether the event could show there."""
        happened, could = self._row_values(event)
        if event.kind in _NEEDS_ALL:
            everywhere = np.ones(self._cells)
            np.minimum.at(everywhere, self._cell, could)
        else:
            everywhere = np.zeros(self._cells)
            np.maximum.at(everywhere, self._cell, could)
        denominator = everywhere[self._cell]
        return np.stack([happened * denominator, denominator], axis=1)

    def _row_values(self, event: Behaviour) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows,) the contribution of each turn alone, and (rows,) whether the event could show in it."""
        if event.kind in OF_RESPONSES:
            return self._of_responses(event.kind)
        pairs = np.array([_of_acts(event, acts) for acts in self._acts], dtype=float).reshape(-1, 2)
        happened, could = pairs[self._acts_of_row].T
        return happened, could

    def _of_responses(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        every = np.ones(len(self._cell))
        if kind == FAILED:
            return self._failed.astype(float), every
        if kind == ASKS_BACK:
            acts = np.array([len(some) > 0 for some in self._acts], dtype=bool)[self._acts_of_row]
            asks = np.array(["?" in text for text in self._responses], dtype=bool)[self._response_of_row]
            return (asks & ~acts).astype(float), acts.astype(float) if acts.any() else every
        values: list[float]
        if kind == REFUSES:
            values = [bool(text.strip()) and self._refusal.matches(text) for text in self._responses]
        elif kind == SILENT:
            values = [not text.strip() for text in self._responses]
        else:
            values = [len(text.split()) for text in self._responses]
        return np.array(values, dtype=float)[self._response_of_row], every

    @cached_property
    def _refusal(self) -> Refusal:
        return Refusal()

    def differing(self) -> Counter[str]:
        """Return in how many dialogues each event differs between the variants, without looking at their groups."""
        counts: Counter[str] = Counter()
        for event in self._events():
            happened, could = self.columns(event).T
            chosen = self._is_system & (could > 0)
            low, high = np.full(self._cells, np.inf), np.full(self._cells, -np.inf)
            np.minimum.at(low, self._cell[chosen], happened[chosen])
            np.maximum.at(high, self._cell[chosen], happened[chosen])
            differs = (high > low + 1e-12)[self._cell] & chosen
            counts[event.name] = len(np.unique(self._dialogue[differs]))
        return counts

    def _events(self) -> Iterator[Behaviour]:
        """Yield every event that any turn could show."""
        for kind in OF_RESPONSES:
            yield Behaviour(kind)
        seen = set(self._acts_of_row[self._is_system].tolist())
        acts = [act for number in sorted(seen) for act in self._acts[number]]
        for tool, names in _arguments_by_tool(acts).items():
            yield from (Behaviour(kind, tool) for kind in (CALLS, FAILS, EMPTY, FOUND, NAMED))
            of_tool = [act.arguments for act in acts if tool in (ANY, act.tool)]
            for argument in names:
                yield from _of_argument(tool, argument, of_tool)


def _arguments_by_tool(acts: Sequence[Act]) -> dict[str, list[str]]:
    """Return every tool's arguments; those of several tools are also under :data:`ANY`."""
    arguments: dict[str, dict[str, None]] = {}
    for act in acts:
        arguments.setdefault(act.tool, {}).update(dict.fromkeys(act.arguments))
    by_tool = {tool: list(names) for tool, names in arguments.items()}
    if len(by_tool) < 2:
        return by_tool
    uses = Counter(argument for names in by_tool.values() for argument in names)
    return {ANY: [argument for argument, number in uses.items() if number > 1], **by_tool}


def _of_argument(tool: str, argument: str, calls: Iterable[Mapping[str, Any]]) -> Iterator[Behaviour]:
    yield Behaviour(MISSING, tool, argument)
    values = list(dict.fromkeys(str(call[argument]) for call in calls if argument in call))
    if all(number_in(value) is not None for value in values):
        yield Behaviour(MEAN, tool, argument)
    elif len(values) <= MOST_FORMS:
        for value in values:
            yield Behaviour(VALUE, tool, argument, value)


def _of_acts(event: Behaviour, acts: tuple[Act, ...]) -> tuple[float, float]:
    """Return what a turn with these calls adds to an event of a tool, and whether the event could show in it."""
    calls = [act for act in acts if event.tool in (ANY, act.tool)]
    if event.kind in OF_ARGUMENTS:
        return _of_arguments(event, calls)
    happened = {
        CALLS: bool(calls),
        FAILS: any(act.failure for act in calls),
        EMPTY: bool(calls) and not any(act.found or act.failure for act in calls),
        FOUND: sum(act.found for act in calls),
        NAMED: sum(act.named for act in calls),
    }[event.kind]
    return happened, any(act.found for act in calls) if event.kind == NAMED else bool(calls)


def _of_arguments(event: Behaviour, calls: Sequence[Act]) -> tuple[float, float]:
    """Return the same of an event of an argument."""
    given = [act.arguments[event.argument] for act in calls if event.argument in act.arguments]
    if event.kind == MISSING:
        return bool(calls) and len(given) < len(calls), bool(given)
    if event.kind == VALUE:
        return event.value in map(str, given), bool(given)
    numbers = [number for value in given if (number := number_in(value)) is not None]
    return (sum(numbers) / len(numbers), True) if numbers else (0.0, False)


def chosen_events(differing: Iterable[Mapping[str, int]]) -> list[Behaviour]:
    """Return the events that a run measures, those that differ in most dialogues first.

    Args:
        differing: of each axis, event to the number of dialogues in which it differs between variants.
    """
    most: Counter[str] = Counter()
    for counts in differing:
        for name, number in counts.items():
            most[name] = max(most[name], number)
    names = sorted((name for name, number in most.items() if number >= FEWEST_DIALOGUES), key=lambda n: (-most[n], n))
    events = (Behaviour.of(name) for name in names[:MOST_EVENTS])
    return [event for event in events if event is not None]


def failed_turns(rows: pd.DataFrame) -> dict[str, FailedTurns]:
    """Return how many turns of the unchanged system had a failed call, by group.

    Args:
        rows: of one axis, as :class:`Behaviours` takes them, with ``group`` and ``source``.

    Returns:
        ``original`` and the groups, each with the most frequent reasons. An original also counts as a turn of its
        group.
    """
    arm, role = rows["arm"].astype(str), rows["role"].astype(str)
    found: dict[str, FailedTurns] = {}
    originals, variants = rows[arm == ORIGINAL], rows[(arm == "") & (role == "group")]
    own = dict(zip(variants["dialogue"], variants["source"].astype(str), strict=True))
    group = pd.concat([originals["dialogue"].map(own).astype(str), variants["group"].astype(str)])
    of_groups = pd.concat([originals, variants]).groupby(group)
    for name, part in [(ORIGINAL, originals), *of_groups]:
        if name == "nan":  # without any variant
            continue
        reasons = [
            failure if isinstance(failure, str) else next((act.failure for act in read_acts(text) if act.failure), "")
            for failure, text in zip(part[FAILURE], part[ACTS].fillna(""), strict=True)
        ]
        counted = Counter(reason for reason in reasons if reason)
        found[str(name)] = FailedTurns(turns=counted.total(), of=len(part), reasons=dict(counted.most_common(_REASONS)))
    return found
