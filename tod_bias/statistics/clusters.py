"""Clusters: units that share something, such as a domain, and so err together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tod_bias.statistics.crossed import effective_number
from tod_bias.statistics.needed import FEWEST_CLUSTERS
from tod_bias.statistics.sums import sums_by


@dataclass(frozen=True)
class Clusters:
    """Assignment of units to clusters."""

    codes: np.ndarray
    """(units,) numbers from 0; -1 for units that belong to none and count nowhere."""
    names: tuple[str, ...]
    """Names of the clusters."""
    are_copies: bool = False
    """True if the units of a cluster are copies of one; a cluster is then one unit of a randomisation test."""

    @classmethod
    def of(cls, labels: Sequence[str | None], *, are_copies: bool = False) -> Clusters:
        """Return clusters of equal labels; None belongs to none."""
        names = tuple(sorted({label for label in labels if label is not None}))
        number = {name: place for place, name in enumerate(names)}
        return cls(np.array([-1 if label is None else number[label] for label in labels], dtype=int), names, are_copies)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Units a cluster, (clusters,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))

    @property
    def effective(self) -> float:
        """Effective number of clusters: as many of equal size weigh as much."""
        return effective_number(self.sizes)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance between clusters: the effective number less one, at least 1."""
        return max(1.0, self.effective - 1)

    @property
    def are_few(self) -> bool:
        """True if the clusters are so few that what holds for them need not hold for others."""
        return self.effective < FEWEST_CLUSTERS

    def within(self, chosen: np.ndarray) -> Clusters:
        """The clusters of some of the units only, (units,) bool; the others belong to none, empty clusters go."""
        codes = np.where(chosen, self.codes, -1)
        present = np.unique(codes[codes >= 0])
        renumbered = np.full(len(self.names) + 1, -1)
        renumbered[present] = np.arange(len(present))
        return Clusters(renumbered[codes], tuple(self.names[place] for place in present), self.are_copies)

    def merged(self, table: np.ndarray) -> np.ndarray:
        """Return (units, …) with the sum over each cluster in place of its first unit, and 0 in place of the others."""
        merged = np.where((self.codes < 0).reshape(-1, *[1] * (table.ndim - 1)), table, 0.0)
        codes, first = np.unique(self.codes, return_index=True)
        merged[first[codes >= 0]] = self.sums(table)[codes[codes >= 0]]
        return merged

    def sums(self, table: np.ndarray) -> np.ndarray:
        """Sums of (units, …) over the units of each cluster, (clusters, …)."""
        is_member = self.codes >= 0
        return sums_by(self.codes[is_member], table[is_member], len(self.names))
