"""The crossed table of one axis and metric: dialogue × attribute × arm, summed over turns.

Group scores, gaps and the placebo's part are all read from it. A dialogue's own telling, that of the attribute it
mentions, is the dialogue as it is: no rewrite, so all its arms are one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tod_bias.statistics.sums import sums_by


class NumberedWords(NamedTuple):
    """The words that tellings rest on."""

    known: int
    """How many different ones there are."""
    own: np.ndarray
    """(dialogues,) the word that stands for each."""
    tellings: np.ndarray
    """(pairs,) numbers of tellings."""
    words: np.ndarray
    """(pairs,) a word on which each of those rests."""


@dataclass(frozen=True)
class Tellings:
    """Who is told as what in one axis; the same for every metric."""

    attributes: tuple[str, ...]
    """Of the axis."""
    source: np.ndarray
    """(dialogues,) number of the attribute that a dialogue mentions; -1: it tells of none of them."""
    of: np.ndarray
    """(tellings,) number of the dialogue."""
    target: np.ndarray
    """(tellings,) number of the attribute that it is told as."""
    draw: np.ndarray
    """(tellings,) number of the draw; 0 for all in the crossed design."""
    word: tuple[str, ...]
    """(dialogues,) the word that stands for each: its cluster."""
    words: tuple[frozenset[str], ...]
    """(tellings,) all words that each rests on, as clusters: what is rewritten, and what it becomes."""
    placebo: np.ndarray
    """(placebo tellings,) number of the dialogue."""
    placebo_words: tuple[str, ...]
    """A placebo telling each: the word that stands for what it changes."""
    factors: tuple[str, ...] = ()
    """What attributes joined by ``×`` are products of; nothing, or one, where they are none."""
    references: tuple[tuple[int, str], ...] = ()
    """Tellings that are nobody's: number of the dialogue, and what each is."""
    clusters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further clusters: a name, and a label for every dialogue."""
    dose: tuple[float, float] = (0.0, 0.0)
    """Words changed a dialogue where there is a placebo: by the axis, and by the placebo."""

    @property
    def dialogues(self) -> int:
        """How many there are."""
        return len(self.source)

    @cached_property
    def numbered(self) -> NumberedWords:
        """The words as numbers."""
        number: dict[str, int] = {}
        own = [number.setdefault(name, len(number)) for name in self.word]
        pairs = [
            (telling, number.setdefault(name, len(number)))
            for telling, names in enumerate(self.words)
            for name in sorted(names)
        ]
        tellings, words = np.array(pairs, dtype=int).reshape(-1, 2).T
        return NumberedWords(len(number), np.array(own, dtype=int), tellings, words)

    def of_dialogues(self, numbers: np.ndarray) -> Tellings:
        """Those of some dialogues, in the order of their numbers."""
        place = np.full(self.dialogues, -1)
        place[numbers] = np.arange(len(numbers))
        told, placebo = self.places(numbers)
        return replace(
            self,
            source=self.source[numbers],
            of=place[self.of[told]],
            target=self.target[told],
            draw=self.draw[told],
            word=tuple(self.word[number] for number in numbers),
            words=tuple(self.words[number] for number in told),
            placebo=place[self.placebo[placebo]],
            placebo_words=tuple(self.placebo_words[number] for number in placebo),
            references=(),
            clusters=tuple((name, tuple(labels[number] for number in numbers)) for name, labels in self.clusters),
        )

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the tellings and of the placebo tellings of some dialogues, in the order of their numbers."""
        place = np.full(self.dialogues, -1)
        place[numbers] = np.arange(len(numbers))
        found = []
        for of in (self.of, self.placebo):
            there = np.flatnonzero(place[of] >= 0)
            found.append(there[np.argsort(place[of[there]], kind="stable")])
        return found[0], found[1]

    @cached_property
    def told_as(self) -> np.ndarray:
        """(dialogues, attributes) bool: what each is told as, its own attribute included."""
        told = np.zeros((self.dialogues, len(self.attributes)), dtype=bool)
        told[self.of, self.target] = True
        own = self.source >= 0
        told[np.flatnonzero(own), self.source[own]] = True
        return told

    def told_as_any(self, attributes: Sequence[int]) -> np.ndarray:
        """(dialogues,) bool: whether each is told as one of some attributes."""
        return np.asarray(self.told_as[:, list(attributes)].any(axis=1))

    def told_as_all_of(self, levels: list[tuple[str, ...]]) -> np.ndarray:
        """(dialogues,) bool: whether each is told as every combination of the levels that it is told as, two of each
        factor at least.

        Args:
            levels: of each attribute, one a factor.
        """
        whole = np.zeros(self.dialogues, dtype=bool)
        patterns, of = np.unique(self.told_as, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            there = {levels[attribute] for attribute in np.flatnonzero(pattern)}
            sides = [{one[place] for one in there} for place in range(len(levels[0]))]
            complete = len(there) == math.prod(len(side) for side in sides) and min(map(len, sides)) > 1
            whole[of.ravel() == number] = complete
        return whole

    @cached_property
    def has_placebo(self) -> np.ndarray:
        """(dialogues,) bool."""
        has = np.zeros(self.dialogues, dtype=bool)
        has[self.placebo] = True
        return has


@dataclass(frozen=True)
class Sampling:
    """What is known of mere sampling, where components draw their answers."""

    told: np.ndarray
    """(samples, tellings, 2, statistics): without swaps, and with all components swapped."""
    once: np.ndarray
    """(dialogues, statistics) of the originals."""
    again: np.ndarray
    """(dialogues, statistics) of the originals drawn again."""


@dataclass(frozen=True)
class AxisTable:
    """Summed statistics of one axis and metric; everything reported about them follows from these."""

    tellings: Tellings
    """Who is told as what."""
    stages: tuple[str, ...]
    """The components."""
    original: np.ndarray
    """(dialogues, statistics) of the original runs."""
    told: np.ndarray
    """(tellings, arms, statistics), arms as :func:`tod_bias.systems.execution.all_arms` orders them."""
    placebo: np.ndarray
    """(placebo tellings, arms, statistics)."""
    sampling: Sampling | None = None
    """Where components draw their answers."""
    references: np.ndarray | None = None
    """(tellings that are nobody's, arms, statistics)."""

    def of_dialogues(self, numbers: np.ndarray) -> AxisTable:
        """That of some dialogues, in the order of their numbers; without references and sampling."""
        told, placebo = self.tellings.places(numbers)
        return AxisTable(
            self.tellings.of_dialogues(numbers),
            self.stages,
            self.original[numbers],
            self.told[told],
            self.placebo[placebo],
        )

    @property
    def rewritten(self) -> np.ndarray:
        """A dialogue's mean over its rewritten tellings, (dialogues, arms, statistics), so that each weighs once."""
        return self.mean_of(self.told, self.tellings.of)

    def told_as(self, attribute: int) -> np.ndarray:
        """As told as one attribute, (dialogues, arms, statistics); the original where that is its own; 0 if never."""
        chosen = self.tellings.target == attribute
        table = self.mean_of(self.told[chosen], self.tellings.of[chosen])
        return self._own(table, self.tellings.source == attribute)

    def mixture(self) -> np.ndarray:
        """A dialogue's mean over everything it is told as, its own attribute included, (dialogues, arms, n)."""
        total = np.zeros((self.tellings.dialogues, *self.told.shape[1:]))
        for attribute in range(len(self.tellings.attributes)):
            total += self.told_as(attribute)
        return total / np.maximum(self.tellings.told_as.sum(axis=1), 1)[:, None, None]

    def placebo_as(self, attribute: int) -> np.ndarray:
        """What :meth:`told_as` would be if every rewrite had been the placebo's, without swaps and with all swapped,
        (dialogues, 2, statistics)."""
        table = np.where(self.tellings.told_as[:, attribute, None, None], self.of_placebo, 0.0)
        return self._own(table, self.tellings.source == attribute)

    def placebo_mixture(self) -> np.ndarray:
        """What :meth:`mixture` would be if every rewrite had been the placebo's, (dialogues, 2, statistics)."""
        told = self.tellings.told_as.sum(axis=1)
        own = (self.tellings.source >= 0).astype(int)
        total = self.of_placebo * (told - own)[:, None, None] + self.original[:, None] * own[:, None, None]
        return total / np.maximum(told, 1)[:, None, None]

    @cached_property
    def of_placebo(self) -> np.ndarray:
        """A dialogue's placebo telling without swaps and with all swapped, (dialogues, 2, statistics)."""
        return self.mean_of(self.placebo[:, [0, -1]], self.tellings.placebo)

    def reference(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A telling that is nobody's, (dialogues, arms, statistics), and which dialogues are told so, (dialogues,)."""
        assert self.references is not None
        chosen = [place for place, (_, what) in enumerate(self.tellings.references) if what == name]
        of = np.array([self.tellings.references[place][0] for place in chosen], dtype=int)
        there = np.zeros(self.tellings.dialogues, dtype=bool)
        there[of] = True
        return self.mean_of(self.references[chosen], of), there

    def drawn(self, draw: int) -> np.ndarray:
        """One draw's tellings, (dialogues, arms, statistics); in the crossed design the mean over all."""
        chosen = self.tellings.draw == draw
        return self.mean_of(self.told[chosen], self.tellings.of[chosen])

    def mean_of(self, table: np.ndarray, of: np.ndarray) -> np.ndarray:
        """Means of (tellings, …) by dialogue, (dialogues, …); 0 where one has none.

        Args:
            table: (tellings, …).
            of: (tellings,) numbers of dialogues.
        """
        count = np.bincount(of, minlength=self.tellings.dialogues)
        if len(of) == 0 or (count.max() <= 1):
            total = np.zeros((self.tellings.dialogues, *table.shape[1:]))
            total[of] = table
            return total
        total = sums_by(of, table, self.tellings.dialogues)
        return total / np.maximum(count, 1).reshape(-1, *[1] * (table.ndim - 1))

    def _own(self, table: np.ndarray, own: np.ndarray) -> np.ndarray:
        table[own] = self.original[own][:, None]
        return table


def numbers_of(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """The place of each name among those known, (names,); -1 for one that is not."""
    place = {name: number for number, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], dtype=int)
