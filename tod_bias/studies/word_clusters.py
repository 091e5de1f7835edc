"""Which words the claims of an axis rest on, and how many they amount to."""

from __future__ import annotations

import numpy as np

from tod_bias.statistics.clusters import Clusters
from tod_bias.studies.axis_table import Tellings


def words_of(told: Tellings) -> Clusters:
    """The word of every dialogue: that of its first telling."""
    labels: list[str | None] = [None] * told.dialogues
    for place in range(len(told.of) - 1, -1, -1):
        labels[told.of[place]] = told.words[place][0]
    return Clusters.of(labels)


def words_effective(told: Tellings) -> float:
    """Effective number of words that are rewritten, or of those that they become, whichever is fewer."""
    return min(words_of(told).effective, Clusters.of([target for _, target in told.words]).effective)


def words_of_group(told: Tellings, attribute: int, there: np.ndarray | None = None) -> float:
    """Effective words that stand for one attribute, in its own dialogues and in those that are told as it.

    Args:
        told: who is told as what.
        attribute: its number.
        there: (dialogues,) bool, which dialogues count; by default all that are told as it.
    """
    there = told.told_as[:, attribute] if there is None else there
    words = words_of(told)
    own = there & (told.source == attribute)
    labels = [words.names[code] for code in words.codes[own] if code >= 0]
    labels += [told.words[place][1] for place in np.flatnonzero((told.target == attribute) & there[told.of])]
    return min(Clusters.of(labels).effective, words.within(there).effective)
