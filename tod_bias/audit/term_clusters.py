"""Which words the claims of an axis rest on, and how many they amount to."""

from __future__ import annotations

import numpy as np

from tod_bias.audit.sums import VariantIndex
from tod_bias.statistics.clusters import Clusters, Shared
from tod_bias.statistics.crossed import effective_number

MOST = 0.5
"""Share of a group's tellings above which one word stands for the group."""


def term_clusters_of(told: VariantIndex) -> Clusters:
    """The word that stands for every dialogue."""
    return Clusters.of(told.term)


def shared_terms(told: VariantIndex) -> Shared | None:
    """Which dialogues share any word; None where every dialogue rests on its one word alone."""
    sets = _of_dialogues(told)
    if all(len(names) == 1 for names in sets) and len({next(iter(names)) for names in sets}) == len(set(told.term)):
        return None
    return Shared.of(sets)


def effective_terms_of(told: VariantIndex) -> float:
    """Effective number of words of the axis: (Σp)² / Σp² (Kish 1965), p the share of tellings that rest on a word.

    A word that stands in more than half of the tellings of a group is that group, as nothing tells the two apart: then
    it is 1 / p at the most.
    """
    weights = 1.0 / np.bincount(told.of, minlength=told.dialogues)
    kish = effective_number(_sums(told, weights[told.of]))
    return min(kish, *(_cap(told, number) for number in range(len(told.groups))))


def effective_terms_of_group(
    told: VariantIndex, attribute: int, there: np.ndarray | None = None, compared: int | None = None
) -> float:
    """Effective words that stand for one attribute, in its own dialogues and in those that are told as it.

    Args:
        told: who is told as what.
        attribute: its number.
        there: (dialogues,) bool, which dialogues count; by default all that are told as it.
        compared: the attribute that it is compared with; by default all.
    """
    there = told.has_group[:, attribute] if there is None else there
    own = there & (told.source == attribute)
    chosen = (told.target == attribute) & there[told.of]
    sums = _sums(told, chosen) + np.bincount(told.numbered.main[own], minlength=told.numbered.known)
    others = range(len(told.groups)) if compared is None else (attribute, compared)
    return min(effective_number(sums), *(_cap(told, number) for number in others))


def _cap(told: VariantIndex, attribute: int) -> float:
    """How many words a group can amount to where one of them stands in more than half of its rewritten tellings."""
    chosen = told.target == attribute
    largest = float(_sums(told, chosen).max(initial=0.0)) / max(1, int(chosen.sum()))
    return 1 / largest if largest > MOST else np.inf


def _of_dialogues(told: VariantIndex) -> list[frozenset[str]]:
    sets: list[set[str]] = [set() for _ in range(told.dialogues)]
    for number, names in zip(told.of, told.terms, strict=True):
        sets[number] |= names
    return [frozenset(names) for names in sets]


def _sums(told: VariantIndex, weights: np.ndarray) -> np.ndarray:
    """(words,) what the tellings that rest on each word weigh, of (tellings,) weights."""
    words = told.numbered
    return np.bincount(words.terms, weights[words.variants], minlength=words.known)
