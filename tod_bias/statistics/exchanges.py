"""Exchanges of groups within units: a test of effects that only one of several groups of a unit has.

Under the null hypothesis the values of a unit's groups may be exchanged. Sign flips ask for more: that a group's
difference from the mean of its unit is as likely to be positive as negative. That does not hold for an event that
happens in one of three groups at a time, as a group then lies above the mean once and below it twice. A group that has
such an event by chance in none of twenty units is nothing rare, (2/3)²⁰ times the number of groups and events, while
all twenty signs are equal.

Groups of a unit are exchanged by a shift along the unit's groups, alike for all events of a unit, so that the largest
statistic over groups and events has a known distribution (max-T of Westfall and Young 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Self

import numpy as np

from tod_bias.statistics.resampling import blocks

MOST_DRAWS = 2_000
"""Draws of shifts: enough for p-values down to .0005."""
_FEWEST_DRAWS = 500
_MOST_SHIFTS = 40_000_000
"""Shifts that are in memory at once; a run of more dialogues has fewer draws."""
_SLACK = 1e-9
"""Difference below which two statistics of the same numbers, summed in another order, are taken to be equal."""


@dataclass(frozen=True)
class ExchangedRows:
    """Groups under exchanges within units."""

    z: np.ndarray
    """(groups, …) |Σ x| / √(Σ variance of x under exchanges)."""
    largest: np.ndarray
    """(draws,) the largest z over all groups and events, draw by draw."""

    @classmethod
    def of(cls, values: np.ndarray, has: np.ndarray, draws: int, seed: int) -> Self | None:
        """Exchange the values of groups within units; None of two groups, whose exchanges are sign flips.

        Args:
            values: (units, groups, events), less the unit's mean; 0 for groups that a unit lacks.
            has: (units, groups) bool.
            draws: number of draws.
            seed: rows of as many units have the same shifts if their seed is the same, so that they can be joined.
        """
        units, groups, events = values.shape
        number = has.sum(axis=1)
        if draws < 1 or number.max(initial=0) < 3:
            return None
        draws = min(draws, MOST_DRAWS, max(_FEWEST_DRAWS, _MOST_SHIFTS // max(1, units)))
        variance = (values**2).sum(axis=1) / np.maximum(number, 1)[:, None]  # (units, events)
        scale = np.sqrt(np.einsum("ug,ue->ge", has.astype(float), variance))
        scale = np.where(scale > 0, scale, np.inf)
        z = np.abs(values.sum(axis=0)) / scale
        differs = np.flatnonzero((values != 0).any(axis=(1, 2)))
        shifts = _shifts(units, draws, lcm(*range(1, groups + 1)), seed)[:, differs] % np.maximum(number[differs], 1)
        moved = _moved(values[differs], has[differs])  # (shifts, units, groups × events)
        largest = np.zeros(draws)
        start = 0
        for rows in blocks(draws, max(1, len(differs) + groups * events)):
            part = shifts[start : start + rows]
            sums = np.zeros((rows, groups * events))
            for shift, table in enumerate(moved):
                sums += (part == shift).astype(table.dtype) @ table
            largest[start : start + rows] = (np.abs(sums) / scale.ravel()).max(axis=1, initial=0.0)
            start += rows
        return cls(z, largest)

    def row(self, place: Sequence[int]) -> np.ndarray:
        """Return the z of some groups of the first event."""
        return np.asarray(self.z[list(place), 0])


def share_of(rows: Sequence[ExchangedRows], z: float) -> float:
    """Return how often any row of several sets has a z as large if no groups differ; 0 if there is no set."""
    if not rows:
        return 0.0
    draws = min(len(some.largest) for some in rows)
    largest = np.maximum.reduce([some.largest[:draws] for some in rows])
    return float((1 + (largest >= z - _SLACK).sum()) / (draws + 1))


def critical_of(rows: Sequence[ExchangedRows], alpha: float) -> float:
    """Return the z that the largest one of several sets exceeds with probability ``alpha``; 0 if there is no set."""
    if not rows:
        return 0.0
    draws = min(len(some.largest) for some in rows)
    largest = np.maximum.reduce([some.largest[:draws] for some in rows])
    return float(np.quantile(largest, 1 - alpha, method="higher"))


def _moved(values: np.ndarray, has: np.ndarray) -> list[np.ndarray]:
    """Return (units, groups × events) values with the groups of each unit moved on by 0, 1, … places."""
    units, groups, events = values.shape
    order = np.argsort(~has, axis=1, kind="stable")  # the groups that a unit has come first
    number = np.maximum(has.sum(axis=1), 1)
    tables = []
    for shift in range(int(number.max(initial=1))):
        table = np.zeros(values.shape)
        for place in range(groups):
            inside = np.flatnonzero(place < number)
            target = order[inside, place]
            source = order[inside, (place + shift) % number[inside]]
            table[inside, target] = values[inside, source]
        tables.append(table.reshape(units, groups * events))
    return tables


@lru_cache(maxsize=4)
def _shifts(units: int, draws: int, cycle: int, seed: int) -> np.ndarray:
    """Return (draws, units) numbers from 0 to ``cycle`` − 1; a remainder by a number of groups is uniform too."""
    # Thirteen groups or more, as crossed axes have, need more than two bytes. Unsigned ones of eight are no option:
    # their remainder by a signed number is a float. No remainder is visibly uneven with a cycle that is cut there.
    kind = np.uint8 if cycle <= 1 << 8 else np.uint16 if cycle <= 1 << 16 else np.int64
    cycle = min(cycle, 1 << 62)
    return np.random.default_rng([seed, 1]).integers(0, cycle, (draws, units), dtype=kind)
