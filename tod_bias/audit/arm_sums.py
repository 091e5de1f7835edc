"""Sums of a metric's statistics over the turns of each variant in each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tod_bias.audit.variant_index import VariantIndex
from tod_bias.statistics.arms import ArmDesign
from tod_bias.statistics.sums import sums_by


@dataclass(frozen=True)
class RepeatedSums:
    """Sums of repeated draws, if stages draw their outputs."""

    by_sample: np.ndarray
    """(samples, variants, 2, statistics): with no stage replaced, and with all."""
    first: np.ndarray
    """(dialogues, statistics) of the originals."""
    second: np.ndarray
    """(dialogues, statistics) of the originals drawn again."""


@dataclass(frozen=True)
class ArmSums:
    """Statistics of one axis and metric, summed over turns; everything that is estimated follows from these."""

    variants: VariantIndex
    """Variants of the dialogues."""
    arms: ArmDesign
    """Arms of the sums."""
    original: np.ndarray
    """(dialogues, statistics) of the original runs."""
    by_variant: np.ndarray
    """(variants, arms, statistics), arms in the order of :meth:`tod_bias.statistics.arms.ArmDesign.keys`."""
    placebo: np.ndarray
    """(placebo variants, arms, statistics)."""
    repeated: RepeatedSums | None = None
    """Sums over repeated draws, if stages draw their outputs."""
    references: np.ndarray | None = None
    """(reference variants, arms, statistics)."""

    def for_dialogues(self, numbers: np.ndarray) -> ArmSums:
        """Return the sums of some dialogues, in the order of their numbers; without references and repeats."""
        variants, placebo = self.variants.places(numbers)
        return ArmSums(
            self.variants.for_dialogues(numbers),
            self.arms,
            self.original[numbers],
            self.by_variant[variants],
            self.placebo[placebo],
        )

    @property
    def is_alike(self) -> bool:
        """True if no variant differs from its original while no stage is replaced."""
        alike = np.array_equal(self.by_variant[:, 0], self.original[self.variants.of])
        return alike and np.array_equal(self.placebo[:, 0], self.original[self.variants.placebo])

    @property
    def stages(self) -> tuple[str, ...]:
        """The system's."""
        return self.arms.stages

    @property
    def has_whole(self) -> bool:
        """True if the last arm is the twin of the whole system."""
        return self.by_variant.shape[1] > len(self.arms.arms)

    @property
    def rewritten(self) -> np.ndarray:
        """A dialogue's mean over its variants, (dialogues, arms, statistics), so that each dialogue weighs once."""
        return self.mean_of(self.by_variant, self.variants.of)

    def for_group(self, group: int) -> np.ndarray:
        """Return (dialogues, arms, statistics) of the variants for one group; the original if that is the dialogue's
        own group; 0 if there is none."""
        chosen = self.variants.target == group
        table = self.mean_of(self.by_variant[chosen], self.variants.of[chosen])
        return self._with_originals(table, self.variants.source == group)

    @cached_property
    def mean_placebo(self) -> np.ndarray:
        """A dialogue's placebo with no stage replaced and with all, (dialogues, 2, statistics)."""
        return self.mean_of(self.placebo[:, [0, -1]], self.variants.placebo)

    def for_reference(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A reference variant, (dialogues, arms, statistics), and which dialogues have it, (dialogues,)."""
        assert self.references is not None
        chosen = [place for place, (_, what) in enumerate(self.variants.references) if what == name]
        of = np.array([self.variants.references[place][0] for place in chosen], dtype=int)
        has = np.zeros(self.variants.dialogues, dtype=bool)
        has[of] = True
        return self.mean_of(self.references[chosen], of), has

    def mean_of(self, table: np.ndarray, of: np.ndarray) -> np.ndarray:
        """Return means of (variants, …) by dialogue, (dialogues, …); 0 for dialogues without variants.

        Args:
            table: (variants, …).
            of: (variants,) numbers of dialogues.
        """
        count = np.bincount(of, minlength=self.variants.dialogues)
        if len(of) == 0 or (count.max() <= 1):
            total = np.zeros((self.variants.dialogues, *table.shape[1:]))
            total[of] = table
            return total
        total = sums_by(of, table, self.variants.dialogues)
        return total / np.maximum(count, 1).reshape(-1, *[1] * (table.ndim - 1))

    def _with_originals(self, table: np.ndarray, mentions: np.ndarray) -> np.ndarray:
        table[mentions] = self.original[mentions][:, None]
        return table


def numbers_of(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """The place of each name among those known, (names,); -1 for one that is not."""
    place = {name: number for number, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], dtype=int)
