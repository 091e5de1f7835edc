"""Events of a run: which differ between the variants of a dialogue, and how often each happens in every arm.

Candidates are chosen without looking at groups: the events that differ between variants of one dialogue in several
dialogues. How often an event differs says nothing about which group shows it, so the choice leaves the tests valid
(independent filtering, Bourgon et al. 2010). Events that differ in exactly the same variants are one hypothesis, which
has the name of the earliest component and, within it, of the most telling kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tod_bias.metrics.events import Event, kinds
from tod_bias.metrics.events.event import Cells, Presence, Reading
from tod_bias.metrics.events.facts import Facts
from tod_bias.metrics.events.fields import MOST_VALUES, HasValue
from tod_bias.metrics.events.texts import TextEvent
from tod_bias.results import TURNS, RunError
from tod_bias.statistics.arms import ORIGINAL_ARM

if TYPE_CHECKING:
    import pyarrow as pa

FACTS = "facts"
"""Column of what the components put out (:mod:`tod_bias.systems.facts`)."""
FEWEST_DIALOGUES = 3
"""Fewest dialogues in which an event must differ between variants to be measured."""
MOST_PHRASES = 120_000
"""Differing phrases per axis that are looked at, in the first turns that differ: some hundred turns of some
sentences each. A phrase that does not show in three of so many dialogues is too rare to be found."""
MOST_CELLS_OF_TABLE = 64_000_000
"""Sums of events that are kept in memory, over variants and arms; of a larger run fewer events are measured."""
MOST_WITH_OTHERS = 24
"""Hypotheses, those that differ in most dialogues, of which events of other components are looked at."""
MOST_OF_OTHERS = 6
"""Events of other components that are looked at for a hypothesis."""
MOST_EVENTS = 600
"""Hypotheses of a run: texts that are paraphrased at random have thousands of phrases that differ in few dialogues."""
_MODULUS = 1 << 64
_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class TablePart:
    """Rows of one axis that are next to each other in the table; they hold all variants of their dialogues."""

    cells: Cells
    dialogue: np.ndarray
    """(rows,) dialogue's id."""
    turn: np.ndarray
    """(rows,) number of the turn."""

    @classmethod
    def of(cls, table: pa.Table) -> TablePart:
        """Make a part of rows with the columns of :data:`PART_COLUMNS`.

        Raises:
            RunError: the column of facts cannot be read.
        """
        # variants and arms repeat facts, so each text is parsed once
        dictionary = table.column(FACTS).combine_chunks().dictionary_encode()
        texts = dictionary.dictionary.to_pylist()
        codes = dictionary.indices.to_numpy(zero_copy_only=False)
        is_empty = np.isnan(codes) if codes.dtype.kind == "f" else np.zeros(len(codes), dtype=bool)
        codes = np.where(is_empty, len(texts), np.nan_to_num(codes)).astype(int)
        try:
            facts = [Facts(str(text)) for text in (*texts, "")]
        except (ValueError, TypeError, LookupError) as error:
            raise RunError(f"{TURNS}: column {FACTS} cannot be read ({error}); repeat the run's command") from error
        dialogue = table.column("dialogue").to_numpy()
        turn = table.column("turn").to_numpy()
        numbers: dict[tuple[str, int], int] = {}
        cell = np.array([numbers.setdefault(key, len(numbers)) for key in zip(dialogue, turn, strict=True)], dtype=int)
        arm, role = (np.array(table.column(name).to_pylist(), dtype=object) for name in ("arm", "role"))
        is_system = ((arm == "") & (role == "group")) | (arm == ORIGINAL_ARM)
        return cls(Cells(facts, codes, cell, is_system.astype(bool), len(numbers)), dialogue, turn)


PART_COLUMNS = ("axis", "dialogue", "turn", "arm", "role", FACTS)


def parts_of(path: Path, axis: str) -> Iterator[tuple[TablePart, int]]:
    """Yield the parts of an axis, a row group of the file each, with their number of rows."""
    with pq.ParquetFile(path) as file:
        place = file.schema_arrow.names.index("axis")
        for number in range(file.num_row_groups):
            known = file.metadata.row_group(number).column(place).statistics
            if known is not None and known.has_min_max and not known.min <= axis <= known.max:
                continue
            rows = file.read_row_group(number, columns=list(PART_COLUMNS))
            rows = rows.filter(pc.equal(rows.column("axis"), axis))
            if len(rows):
                yield TablePart.of(rows), len(rows)


@dataclass
class _EventTally:
    """What is known of an event that differs, summed over turns."""

    stage: str
    place: float
    """Place among the steps of a turn at which it is read."""
    dialogues: dict[str, int] = field(default_factory=dict)
    """Axis to the number of dialogues in which it differs."""
    last: tuple[str, str] = ("", "")
    """Axis and dialogue that were counted last; a dialogue's turns follow each other."""
    pattern: int = 0
    """Hash of the variants that are not as most are; an opposite event has its negative."""
    happened: float = 0.0
    rows: int = 0

    def add(self, axis: str, dialogue: str, place: int, readings: Sequence[Reading]) -> None:
        if self.last != (axis, dialogue):
            self.last = (axis, dialogue)
            self.dialogues[axis] = self.dialogues.get(axis, 0) + 1
        values = [happened for happened, _ in readings]
        ordered = sorted(values)
        middle = (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2
        for number, value in enumerate(values):
            sign = (value > middle) - (value < middle)
            self.pattern += sign * ((place + (number + 1) * _STEP) * (2 * number + 3) % _MODULUS)
        self.happened += sum(values)
        self.rows += len(values)

    @property
    def most(self) -> int:
        """Number of dialogues on the axis on which it differs most often."""
        return max(self.dialogues.values(), default=0)

    @property
    def key(self) -> int:
        """Equal for events that differ in the same variants, whichever way."""
        pattern = self.pattern % _MODULUS
        return min(pattern, -pattern % _MODULUS)


@dataclass(frozen=True)
class Chosen:
    """Events that a run measures."""

    events: list[Event]
    """Those of each hypothesis that are measured, the hypotheses that differ in most dialogues first."""
    merged: Mapping[str, list[Event]]
    """Name of an event to the others that happen in the same variants."""
    of_others: Mapping[str, list[Event]] = field(default_factory=dict)
    """Name of an event to some of these, one of each other component and kind. One that does not go away with the
    component of the first is a second cause: whatever happens to all of a group happens in the same variants."""
    left_out: int = 0
    """Hypotheses that are not measured, because they are too many."""


class EventSearch:
    """Events that differ between the variants of dialogues."""

    def __init__(self) -> None:
        self._differing_events: dict[tuple[type[Event], tuple[str, ...]], _EventTally] = {}
        self._presence = Presence()
        self._phrases: dict[str, int] = {}
        """Axis to the differing phrases that were looked at."""

    def add(self, axis: str, part: TablePart) -> None:
        """Look at the turns of a part."""
        counts = np.bincount(part.cells.of_row[part.cells.is_system], minlength=len(part.cells.facts))
        for facts, turns in zip(part.cells.facts, counts.tolist(), strict=True):
            if turns:
                self._presence.add(facts, turns)
        for turn in _differing(part):
            with_texts = self._phrases.get(axis, 0) < MOST_PHRASES
            digest = blake2b(f"{axis}\x1f{turn.dialogue}\x1f{turn.turn}".encode(), digest_size=8).digest()
            place = int.from_bytes(digest)
            for kind in kinds().values():
                if issubclass(kind, TextEvent) and not with_texts:
                    continue
                for where, readings in kind.differing(turn.variants):
                    if issubclass(kind, TextEvent):
                        self._phrases[axis] = self._phrases.get(axis, 0) + 1
                    if kind is HasValue:
                        values = self._presence.values.setdefault(where[0], set())
                        if len(values) > MOST_VALUES:
                            continue
                        values.add(where[1])
                    tally = self._differing_events.get((kind, where))
                    if tally is None:
                        tally = self._differing_events[kind, where] = _EventTally(*_origin(kind(*where), turn.variants))
                    tally.add(axis, turn.dialogue, place, readings)

    def chosen(self, most: int = MOST_EVENTS) -> Chosen:
        """Return the events that differ in enough dialogues, one of each hypothesis.

        Args:
            most: hypotheses that are measured at the most; those that differ in fewest dialogues are left out, texts
                first.
        """
        by_pattern: dict[int, list[tuple[Event, _EventTally]]] = {}
        for (kind, where), tally in self._differing_events.items():
            share = tally.happened / max(1, tally.rows)
            if tally.most >= FEWEST_DIALOGUES and kind.fits(where, self._presence, share):
                event = kind(*where)
                event.stage = tally.stage
                by_pattern.setdefault(tally.key, []).append((event, tally))
        hypotheses = [sorted(alike, key=lambda pair: self._rank(*pair)) for alike in by_pattern.values()]
        hypotheses.sort(key=lambda alike: (alike[0][0].level == 1, -alike[0][1].most, alike[0][0].name))
        measured = sorted(hypotheses[:most], key=lambda alike: (-alike[0][1].most, alike[0][0].name))
        named = [[event for event, _ in alike] for alike in measured]
        return Chosen(
            [event for alike in named for event in _measured(alike)],
            {event.name: _without(alike, event) for alike in named for event in _measured(alike) if len(alike) > 1},
            {alike[0].name: some for alike in named[:MOST_WITH_OTHERS] if (some := _of_others(alike))},
            max(0, len(hypotheses) - most),
        )

    def _rank(self, event: Event, tally: _EventTally) -> tuple[Any, ...]:
        """Return the place of an event among those of one hypothesis: early components and telling kinds first."""
        is_usual = event.is_share and 2 * tally.happened > tally.rows
        return (
            event.is_any,
            event.level >= 3,
            tally.place,
            event.level,
            event.order,
            is_usual,
            -event.specificity,
            event.name,
        )


def _measured(alike: Sequence[Event]) -> list[Event]:
    """Return the events of one hypothesis that are measured: its name, and the first that is a harm if that is none.

    They differ in the same variants, and are one hypothesis, but may enter in different components: a flag that one
    component sets is its own, while the refusal that goes with it takes another component too.
    """
    harm = [] if alike[0].better != "neither" else [event for event in alike[1:] if event.better != "neither"]
    return [alike[0], *harm[:1]]


def _of_others(alike: Sequence[Event]) -> list[Event]:
    """Return the first fields, outcomes and phrases of each other component than the first event's."""
    firsts: dict[tuple[str, str], Event] = {}
    for event in alike:
        if event.stage not in ("", alike[0].stage) and event.level <= TextEvent.level and not event.is_any:
            firsts.setdefault((event.stage, event.kind), event)
    return list(firsts.values())[:MOST_OF_OTHERS]


def _without(events: Sequence[Event], event: Event) -> list[Event]:
    return [other for other in events if other is not event]


@dataclass(frozen=True)
class _Turn:
    """One turn whose variants differ."""

    dialogue: str
    turn: int
    variants: list[Facts]


def _differing(part: TablePart) -> Iterator[_Turn]:
    """Yield the turns in which the system's variants have different facts, in the order of the table."""
    cells = part.cells
    rows = np.flatnonzero(cells.is_system)
    # stable: the variants of a turn keep the order of the table, from which an event's pattern is hashed
    rows = rows[np.argsort(cells.cell[rows], kind="stable")]
    of, codes = cells.cell[rows], cells.of_row[rows]
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    if not len(starts):
        return
    lowest, highest = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
    ends = np.append(starts[1:], len(rows))
    for number in np.flatnonzero(lowest != highest).tolist():
        chosen = slice(starts[number], ends[number])
        row = rows[starts[number]]
        variants = [cells.facts[code] for code in codes[chosen]]
        yield _Turn(str(part.dialogue[row]), int(part.turn[row]), variants)


def _origin(event: Event, variants: Sequence[Facts]) -> tuple[str, float]:
    """Return the component that an event is read from, and its first place among the steps of a turn."""
    stage = next(filter(None, (event.stage_in(facts) for facts in variants)), "")
    return stage, min(event.place_in(facts) for facts in variants)


def most_events(variants: int, arms: int) -> int:
    """Return how many events of a run of this size are measured."""
    return max(24, min(MOST_EVENTS, MOST_CELLS_OF_TABLE // max(1, variants * arms)))
