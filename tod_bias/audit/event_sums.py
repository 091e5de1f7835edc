"""Sums of events over the turns of a run, by variant and arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tod_bias.audit.arm_sums import ArmSums, RepeatedSums
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.perturb.axis import Role
from tod_bias.statistics.arms import ArmDesign


def parts_of_sums(sums: RepeatedSums) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sums by sample, then those of the first and of the second draw of repeated originals."""
    return sums.by_sample, sums.first, sums.second


ROLES: tuple[Role, ...] = ("group", "reference", "placebo")
MOST_DOUBLES = 16_000_000
"""Sums of events that are kept in double precision."""


@dataclass(frozen=True)
class EventSums(Mapping[str, ArmSums]):
    """Sums of events; the table of each is made when it is asked for.

    The denominator of an event is the same for all variants and arms of a dialogue, so it is kept once.
    """

    variants: VariantIndex
    arms: ArmDesign
    places: Mapping[str, int]
    """Name of an event to its number."""
    original: np.ndarray
    """(dialogues, events, 2) of the original runs."""
    happened: Mapping[Role, np.ndarray]
    """Role to (variants, arms, events)."""

    def __getitem__(self, name: str) -> ArmSums:
        place = self.places[name]
        could = self.original[:, place, 1]
        tables = []
        for role, of in zip(ROLES, self._dialogues, strict=True):
            happened = self.happened[role][:, :, place].astype(float)
            tables.append(np.stack([happened, np.broadcast_to(could[of][:, None], happened.shape)], axis=-1))
        group, reference, placebo = tables
        # a view would keep the sums of all events in memory as long as one table is used
        return ArmSums(self.variants, self.arms, self.original[:, place].copy(), group, placebo, None, reference)

    @property
    def _dialogues(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        references = np.array([number for number, _ in self.variants.references], dtype=int)
        return self.variants.of, references, self.variants.placebo

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def only(self, names: Sequence[str]) -> EventSums:
        """Return the sums of some events."""
        chosen = [self.places[name] for name in names]
        return EventSums(
            self.variants,
            self.arms,
            {name: place for place, name in enumerate(names)},
            self.original[:, chosen],
            {role: some[:, :, chosen] for role, some in self.happened.items()},
        )

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (variants, events) with no stage replaced and with all, of the counterfactuals."""
        return self.happened["group"][:, 0], self.happened["group"][:, -1]

    def ends_of_placebo(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the same of the placebo."""
        return self.happened["placebo"][:, 0], self.happened["placebo"][:, -1]


class TablesWithEvents(Mapping[str, ArmSums]):
    """Tables of metrics, then of events."""

    def __init__(self, tables: Mapping[str, ArmSums], events: EventSums) -> None:
        self._tables = {name: tables[name] for name in tables}
        self.events = events

    def only(self, names: Sequence[str]) -> TablesWithEvents:
        """Return the tables of all metrics, and of some events."""
        return TablesWithEvents(self._tables, self.events.only(names))

    def __getitem__(self, name: str) -> ArmSums:
        return self._tables[name] if name in self._tables else self.events[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._tables, *self.events])

    def __len__(self) -> int:
        return len(self._tables) + len(self.events)
