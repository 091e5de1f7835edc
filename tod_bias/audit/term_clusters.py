"""Which terms the claims of an axis rest on, and how many they amount to."""

from __future__ import annotations

import numpy as np

from tod_bias.audit.sums import VariantIndex
from tod_bias.statistics.clusters import Clusters, Shared
from tod_bias.statistics.crossed import effective_number

MOST = 0.5
"""Share of a group's counterfactuals above which one term stands for the group."""


def term_clusters_of(variants: VariantIndex) -> Clusters:
    """The term that stands for every dialogue."""
    return Clusters.of(variants.term)


def shared_terms(variants: VariantIndex) -> Shared | None:
    """Which dialogues share any term; None where every dialogue rests on its one term alone."""
    sets = _of_dialogues(variants)
    if all(len(names) == 1 for names in sets) and len({next(iter(names)) for names in sets}) == len(set(variants.term)):
        return None
    return Shared.of(sets)


def effective_terms_of(variants: VariantIndex) -> float:
    """Effective number of terms of the axis: (Σp)² / Σp² (Kish 1965), p the share of counterfactuals with a term.

    A term that stands in more than half of the counterfactuals of a group cannot be told from the group: then it is
    1 / p at the most.
    """
    weights = 1.0 / np.bincount(variants.of, minlength=variants.dialogues)
    kish = effective_number(_sums(variants, weights[variants.of]))
    return min(kish, *(_cap(variants, number) for number in range(len(variants.groups))))


def effective_terms_of_group(
    variants: VariantIndex, group: int, members: np.ndarray | None = None, compared: int | None = None
) -> float:
    """Effective terms that stand for one group, in its own dialogues and in those that are rewritten for it.

    Args:
        variants: which counterfactuals there are.
        group: its number.
        members: (dialogues,) bool, which dialogues count; by default all that have the group.
        compared: the group that it is compared with; by default all.
    """
    members = variants.has_group[:, group] if members is None else members
    originals = members & (variants.source == group)
    chosen = (variants.target == group) & members[variants.of]
    sums = _sums(variants, chosen) + np.bincount(variants.numbered.main[originals], minlength=variants.numbered.known)
    others = range(len(variants.groups)) if compared is None else (group, compared)
    return min(effective_number(sums), *(_cap(variants, number) for number in others))


def _cap(variants: VariantIndex, group: int) -> float:
    """How many terms a group can amount to where one of them stands in more than half of its counterfactuals."""
    chosen = variants.target == group
    largest = float(_sums(variants, chosen).max(initial=0.0)) / max(1, int(chosen.sum()))
    return 1 / largest if largest > MOST else np.inf


def _of_dialogues(variants: VariantIndex) -> list[frozenset[str]]:
    sets: list[set[str]] = [set() for _ in range(variants.dialogues)]
    for number, names in zip(variants.of, variants.terms, strict=True):
        sets[number] |= names
    return [frozenset(names) for names in sets]


def _sums(variants: VariantIndex, weights: np.ndarray) -> np.ndarray:
    """(terms,) what the counterfactuals that rest on each term weigh, of (counterfactuals,) weights."""
    terms = variants.numbered
    return np.bincount(terms.terms, weights[terms.variants], minlength=terms.known)
