"""Which words the claims of an axis rest on, and how many they amount to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tod_bias.statistics.clusters import Clusters, Shared
from tod_bias.studies.axis_table import Tellings


def words_of(told: Tellings) -> Clusters:
    """The word that stands for every dialogue."""
    return Clusters.of(told.word)


def shared_words(told: Tellings) -> Shared | None:
    """Which dialogues share any word; None where every dialogue rests on its one word alone."""
    sets = _of_dialogues(told)
    if all(len(names) == 1 for names in sets) and len({next(iter(names)) for names in sets}) == len(set(told.word)):
        return None
    return Shared.of(sets)


def words_effective(told: Tellings) -> float:
    """Effective number of words of the axis: 1 / Σ p², with p the share of tellings that rest on a word.

    The quirks of words, each with the same variance, then add that variance / effective number to the mean. With one
    word a dialogue this is Kish's number; a word that stands in every dialogue makes it 1 at the most.
    """
    weights = 1.0 / np.bincount(told.of, minlength=told.dialogues)
    return _effective(zip(told.words, weights[told.of], strict=True), told.dialogues)


def words_of_group(told: Tellings, attribute: int, there: np.ndarray | None = None) -> float:
    """Effective words that stand for one attribute, in its own dialogues and in those that are told as it.

    Args:
        told: who is told as what.
        attribute: its number.
        there: (dialogues,) bool, which dialogues count; by default all that are told as it.
    """
    there = told.told_as[:, attribute] if there is None else there
    own = np.flatnonzero(there & (told.source == attribute))
    chosen = np.flatnonzero((told.target == attribute) & there[told.of])
    entries = [(frozenset([told.word[number]]), 1.0) for number in own]
    entries += [(told.words[place], 1.0) for place in chosen]
    return _effective(entries, max(1, len(entries)))


def _of_dialogues(told: Tellings) -> list[frozenset[str]]:
    sets: list[set[str]] = [set() for _ in range(told.dialogues)]
    for number, names in zip(told.of, told.words, strict=True):
        sets[number] |= names
    return [frozenset(names) for names in sets]


def _effective(entries: Iterable[tuple[frozenset[str], float]], total: float) -> float:
    shares: dict[str, float] = {}
    for names, weight in entries:
        for name in names:
            shares[name] = shares.get(name, 0.0) + float(weight) / total
    squares = sum(share**2 for share in shares.values())
    return 1 / squares if squares else 0.0
