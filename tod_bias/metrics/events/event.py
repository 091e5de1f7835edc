"""Events: something that a person could observe in what a component puts out, compared over the variants of a dialogue.

An event has a denominator that is the same for all groups: the turns in which at least one variant of the dialogue
could show it, or, for an event that needs a value from everybody, the turns in which every variant has one. So "9 of 19
bookings as woman, 0 of 19 as man" counts the same 19 turns.

A kind of events is a class in a file of this folder, and no other code lists kinds.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tod_bias.errors import TodBiasError
from tod_bias.metrics.events.facts import Facts
from tod_bias.metrics.metric import Better, Metric, Scale, ScoredTurn, ratio

Reading = tuple[float, float]
"""Contribution of a turn to an event (0 or 1, or a number), and 1 if the event could show in the turn."""
GENERIC = 4
"""Level of kinds from which they say little about what happens."""
NOTHING: Reading = (0.0, 0.0)


class Presence:
    """How often fields occur in the outputs of a run, and the values of those that may be a choice from a list."""

    def __init__(self) -> None:
        self.fields: Counter[str] = Counter()
        """Path to the number of turns that have a value there."""
        self.objects: Counter[str] = Counter()
        """Path of a mapping to the number of turns that have one."""
        self.tools: set[str] = set()
        """Roots of the arguments and results of tools."""
        self.values: dict[str, set[str]] = {}
        """Path to the different values there, in turns that differ; not all of many."""

    def add(self, facts: Facts, turns: int) -> None:
        """Count some turns with the same facts."""
        for path in facts.fields:
            self.fields[path] += turns
        for path in facts.objects:
            self.objects[path] += turns
        self.tools |= facts.roots_of_tools


@dataclass(frozen=True)
class Cells:
    """Rows of the table of turns by the turn of the corpus that they are variants of."""

    facts: Sequence[Facts]
    """Distinct facts."""
    of_row: np.ndarray
    """(rows,) number of the facts of each row."""
    cell: np.ndarray
    """(rows,) number of the turn of each row."""
    is_system: np.ndarray
    """(rows,) bool: the original or a counterfactual, with no stage replaced."""
    number: int
    """Number of turns."""


class Event(Metric):
    """One event: the share of turns in which it happens, or the mean of a number.

    A derived class states ``kind`` and the attributes below, and has :meth:`shown`, :meth:`reading`, ``label`` and
    ``unit``.

    Args:
        place: what the event is about, a text each: a path, a tool, a value, a phrase.
    """

    kind: ClassVar[str]
    """First part of the event's name."""
    level: ClassVar[int] = 0
    """Rank among kinds, the most telling first: 0 fields, numbers and outcomes; 1 phrases; 2 deviations; 3 calls; 4
    words."""
    order: ClassVar[int] = 0
    """Rank among kinds of one level."""
    is_of_turn: ClassVar[bool] = False
    """True for an act of the system as a whole, such as a refusal, whichever stage puts it out."""
    better: Better = "neither"
    range: tuple[float, float] | None = (0.0, 1.0)
    needs_all: ClassVar[bool] = False
    """True if the event is compared in the turns in which every variant has a value."""
    scale: Scale = "difference"
    signature = "of the turns in which any variant of the dialogue could show it"
    equal_denominators = True
    stage: str = ""
    """Component whose output the event is read from; known once the event was found in a run."""

    def __init__(self, *place: str) -> None:
        self.place = place
        self.name = self.name_of(*place)
        self.columns = (f"{self.name} happened", f"{self.name} could")

    @property
    def is_generic(self) -> bool:
        """True if the event says little about what happens, as all metrics do that are no events."""
        return self.level >= GENERIC

    @classmethod
    def name_of(cls, *place: str) -> str:
        """Return the name of an event: kind and place."""
        return f"{cls.kind}:{place[0]}" if place else cls.kind

    @classmethod
    def parsed(cls, place: str) -> Self | None:
        """Return the event whose name has this after its kind; None if it is none."""
        return cls(place) if place else None

    @classmethod
    @abstractmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the places of the events that a turn shows, with what the turn adds to each."""

    @abstractmethod
    def reading(self, facts: Facts) -> Reading:
        """Return what a turn adds to the event, and 1 if the event could show in it."""

    def stage_in(self, facts: Facts) -> str:
        """Return the component whose output the event is read from."""
        return facts.stage(self.place[0] if self.place else "")

    def place_in(self, facts: Facts) -> float:
        """Return the place among the steps of a turn at which the event is read; infinity for the response."""
        return facts.place(self.place[0] if self.place else "")

    def excerpt(self, facts: Facts) -> str:
        """Return what a turn shows of the event, in a few words; empty to show the response."""
        return ""

    def name_in(self, excerpt: str) -> str:
        """Return the name with which an excerpt begins, of a field or a tool; empty for a text."""
        return ""

    @property
    def is_any(self) -> bool:
        """True for an event of all tools together."""
        return bool(self.place) and re.match(r"\*(?!\w)", self.place[0]) is not None

    @classmethod
    def fits(cls, place: tuple[str, ...], presence: Presence, share: float) -> bool:
        """Return whether an event is worth measuring, by what a run holds; groups are not looked at.

        Args:
            place: of the event.
            presence: of all fields.
            share: of the variants, in turns that differ, in which the event happens.
        """
        return True

    @property
    def specificity(self) -> int:
        """Rank among events of a kind that happen in the same turns; the highest is named."""
        return 0

    @classmethod
    def differing(cls, variants: Sequence[Facts]) -> Iterator[tuple[tuple[str, ...], list[Reading]]]:
        """Yield the events of this kind that differ between the variants of one turn, with all readings.

        Args:
            variants: facts of each, the original first.
        """
        readings = [dict(cls.shown(facts)) for facts in {id(facts): facts for facts in variants}.values()]
        if len(readings) < 2:
            return
        alike = set(readings[0].items()).intersection(*(some.items() for some in readings[1:]))
        places = dict.fromkeys(
            place for some in readings for place, value in some.items() if (place, value) not in alike
        )
        for place in places:
            event = cls(*place)
            values = [event.reading(facts) for facts in variants]
            if cls.is_different(values):
                yield place, values

    @classmethod
    def is_different(cls, readings: Sequence[Reading]) -> bool:
        """Return whether the variants of one turn differ in an event that they could show."""
        could = [possible for _, possible in readings]
        is_possible = min(could) if cls.needs_all else max(could)
        return bool(is_possible) and len({happened for happened, _ in readings}) > 1

    def depends(self, original: Facts, variant: Facts) -> bool:
        """Return whether a turn and its variant differ in the event."""
        return self.is_different([self.reading(original), self.reading(variant)])

    def sums(self, cells: Cells) -> np.ndarray:
        """Return (rows, 2): what each turn adds to the event, and whether the event could show there."""
        readings = np.array([self.reading(facts) for facts in cells.facts], dtype=float).reshape(-1, 2)
        happened, could = readings[cells.of_row].T
        if self.needs_all:
            everywhere = np.ones(cells.number)
            np.minimum.at(everywhere, cells.cell, could)
        else:
            everywhere = np.zeros(cells.number)
            np.maximum.at(everywhere, cells.cell, could)
        denominator = everywhere[cells.cell]
        return np.stack([happened * denominator, denominator], axis=1)

    @property
    def is_share(self) -> bool:
        """True if the score is a share of turns; False for the mean of a number."""
        return self.range == (0.0, 1.0)

    @property
    def is_share_of_harm(self) -> bool:
        """True for a share of turns for which less is better."""
        return self.is_share and self.better == "lower"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Raise TodBiasError: an event is counted over all variants of a dialogue, not turn by turn."""
        raise TodBiasError(f"metric {self.name!r} compares the variants of a dialogue; use it with attribute")

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Return the first sum by the second; NaN if that is 0."""
        return ratio(sums[..., 0], sums[..., 1])


def number_in(value: object) -> float | None:
    """Return the number that a value is, or that its text is; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e300 else None
