"""Sums of all chunks put together: the crossed table of every axis and metric, and the placebo as an axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tod_bias.audit.axis_table import AxisTable, Sampling, Tellings, numbers_of
from tod_bias.audit.turn_rows import Membership, Sums
from tod_bias.audit.workshop import AxisPart, ClusterOf
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO, Axis, Candidate, Edits, SelectedDialogue


class Gathered:
    """All tellings of one axis, gathered chunk by chunk.

    Args:
        perturber: of the axis.
        names: the system's components.
        kinds: further kinds of clusters.
    """

    def __init__(self, perturber: Axis, names: Sequence[str], kinds: Sequence[tuple[str, ClusterOf]] = ()) -> None:
        self._perturber = perturber
        self._names = tuple(names)
        self._kinds = tuple(kinds)
        self.parts: list[Sums] = []
        self._candidates: list[Sequence[Any]] = []
        self._placebo: list[str | None] = []
        self._doses: list[Edits] = []
        self._references: list[tuple[int, str]] = []
        self._members: list[Membership] = []

    def add(self, part: AxisPart, drawn: Sequence[SelectedDialogue]) -> None:
        """One chunk.

        Args:
            part: what came of it.
            drawn: its dialogues; those that ``part`` has lost are left out.
        """
        self.parts.append(part.sums)
        self._members += part.members
        self._candidates += [drawn[place][1] for place in part.kept]
        self._references += [(len(self._placebo) + place, target) for place, target in part.references]
        self._doses += part.doses
        self._placebo += part.placebo

    def tables(self, scored: Sequence[Metric]) -> dict[str, AxisTable]:
        """The crossed table of each metric, all of the same tellings."""
        tellings = self._tellings()
        return {one.name: self._table(one.name, tellings) for one in scored}

    def _table(self, name: str, tellings: Tellings) -> AxisTable:
        original, told, placebo, references = (
            np.concatenate([getattr(part, field)[name] for part in self.parts])
            for field in ("original", "told", "placebo", "references")
        )
        drawn = [part.drawn[name] for part in self.parts if name in part.drawn]
        sampling = None
        if drawn:
            sampling = Sampling(
                np.concatenate([one.told for one in drawn], axis=1),
                np.concatenate([one.once for one in drawn]),
                np.concatenate([one.again for one in drawn]),
            )
        return AxisTable(tellings, self._names, original, told, placebo, sampling, references)

    def _tellings(self) -> Tellings:
        told = tellings_of(self._perturber, self._candidates, self._members)
        return replace(
            told,
            placebo=np.flatnonzero([word is not None for word in self._placebo]),
            placebo_words=tuple(word for word in self._placebo if word is not None),
            references=tuple(self._references),
            clusters=tuple((name, tuple(member.kinds[name] for member in self._members)) for name, _ in self._kinds),
            dose=(
                sum(dose.wanted for dose in self._doses) / max(1, len(self._doses)),
                sum(dose.given for dose in self._doses) / max(1, len(self._doses)),
            ),
        )


def tellings_of(perturber: Axis, candidates: Sequence[Sequence[Candidate]], members: Sequence[Membership]) -> Tellings:
    """Who is told as what, and the words that it rests on; without placebo, references and further clusters.

    Args:
        perturber: of the axis.
        candidates: the tellings of each dialogue.
        members: the clusters of each.

    Raises:
        AxisError: a candidate's target is no attribute of the axis.
    """
    attributes = tuple(perturber.groups)
    every = [(number, draw, one) for number, some in enumerate(candidates) for draw, one in enumerate(some)]
    sources = [
        some[0].source if len({one.source for one in some}) == 1 else "" for some in candidates
    ]  # draws may be of several attributes, and then the dialogue is none's own telling
    crossed = is_crossed(candidates)
    unknown = {one.target for _, _, one in every} - set(attributes)
    if unknown:
        raise AxisError(
            f"axis {perturber.name}: a candidate's target is {sorted(unknown)[0]!r}, which is none of its "
            f"attributes ({', '.join(attributes)})"
        )
    return Tellings(
        attributes=attributes,
        source=numbers_of(sources, attributes),
        of=np.array([number for number, _, _ in every], dtype=int),
        target=numbers_of([one.target for _, _, one in every], attributes),
        draw=np.array([0 if crossed else draw for _, draw, _ in every], dtype=int),
        word=tuple(member.word for member in members),
        words=tuple(names for member in members for names in member.words),
        placebo=np.empty(0, dtype=int),
        placebo_words=(),
        factors=perturber.factors,
    )


def is_crossed(told: Iterable[Sequence[Candidate]]) -> bool:
    """Whether no dialogue is told twice as the same attribute; its tellings are then one draw.

    Args:
        told: the candidates of each dialogue.
    """
    return all(len({one.target for one in some}) == len(some) for some in told)


def floor_tables(
    tables: Mapping[str, Mapping[str, AxisTable]],
    drawn: Mapping[str, Sequence[SelectedDialogue]],
    scored: Sequence[Metric],
    kinds: Sequence[tuple[str, ClusterOf]],
) -> dict[str, AxisTable]:
    """The placebo as an axis of its own: its tellings in the dialogues of all axes, a dialogue's mean over them."""
    place: dict[int, int] = {}
    dialogues: list[Dialogue] = []
    of: list[int] = []
    rows: dict[str, list[np.ndarray]] = {one.name: [] for one in scored}
    originals: dict[str, list[np.ndarray]] = {one.name: [] for one in scored}
    words: list[str] = []
    first: list[str] = []
    stages: tuple[str, ...] = ()
    for axis, by_metric in tables.items():
        told = next(iter(by_metric.values())).tellings
        entries = drawn[axis]
        for number, word in zip(told.placebo, told.placebo_words, strict=True):
            dialogue = entries[number][0]
            if id(dialogue) not in place:  # with an introduction it is another dialogue of the same name
                place[id(dialogue)] = len(dialogues)
                dialogues.append(dialogue)
                first.append(word)
                for name, table in by_metric.items():
                    originals[name].append(table.original[number])
            of.append(place[id(dialogue)])
            words.append(word)
        for name, table in by_metric.items():
            rows[name].append(table.placebo)
            stages = table.stages
    if not dialogues:
        return {}
    count = len(of)
    floor = Tellings(
        attributes=("original", PLACEBO),
        source=np.zeros(len(dialogues), dtype=int),
        of=np.array(of, dtype=int),
        target=np.ones(count, dtype=int),
        draw=np.zeros(count, dtype=int),
        word=tuple(first),
        words=tuple(frozenset([word]) for word in words),
        placebo=np.empty(0, dtype=int),
        placebo_words=(),
        clusters=tuple((name, tuple(map(kind, dialogues))) for name, kind in kinds),
    )
    return {
        one.name: AxisTable(
            floor, stages, np.array(originals[one.name]), np.concatenate(rows[one.name]),
            np.empty((0, *rows[one.name][0].shape[1:])),
        )
        for one in scored
    }  # fmt: skip
