"""Numbers of dialogues and terms that differ at all, and the exact bounds that follow for rare differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tod_bias.statistics.group_model import GroupFit
from tod_bias.statistics.power import affected_within
from tod_bias.statistics.term_families import TermSet

_TINY = 1e-12


class Affected(NamedTuple):
    """Counts the dialogues or terms that differ at all, of those that take part."""

    differing: float
    """Units that differ; a fraction if it is a forecast for units that are still to come."""
    total: int
    """Units that take part."""
    largest_seen: float = 1.0
    """The largest effect of a unit that was seen, at most ``largest_possible``."""
    largest_possible: float = 1.0
    """The largest effect that a unit can have on the row: the largest change of a score, times the largest coefficient
    of the contrast."""


def effect_of(fit: GroupFit, most: float) -> float:
    """Return the size that an effect of a group on a dialogue would have, as a share of the largest possible one.

    The size is estimated from the differences y of two groups of a dialogue: E y² / E |y|, which is the largest effect
    if values are 0 or 1. What an effect adds to the variance is smaller where the values vary already: p (1 − p) grows
    by δ (1 − 2p − δ) where a share p becomes p + δ. So the size is multiplied by 1 − 2p = √(1 − 4 p (1 − p)), with
    the variance E y² / 2 between the groups of a dialogue for p (1 − p).

    Args:
        fit: of the values.
        most: the largest effect that a dialogue can have.
    """
    has, values = fit.design.has, fit.values
    pairs = squares = distances = 0.0
    for group in range(1, fit.design.groups):
        both = has[:, :group] & has[:, group, None]
        apart = np.abs(values[:, :group] - values[:, group, None])[both]
        pairs, squares, distances = (
            pairs + len(apart),
            squares + float((apart**2).sum()),
            distances + float(apart.sum()),
        )
    if distances <= _TINY:
        return 1.0
    size, variance = squares / distances / most, squares / pairs / 2 / most**2
    return min(1.0, size * math.sqrt(max(0.0, 1 - 4 * variance / size**2)))


def affected_of(
    fit: GroupFit, contrast: np.ndarray, differs: np.ndarray, sets: Sequence[TermSet | None], most: float = 1.0
) -> tuple[Affected, ...]:
    """Count the dialogues that differ at all, and the terms.

    Args:
        fit: of the values.
        contrast: (groups,) of the row.
        differs: (units,) whether the groups of a unit differ at all.
        sets: of terms that are a sample.
        most: the largest effect that a dialogue can have.
    """
    design = fit.design
    takes_part = design.has.any(axis=1)
    differs = differs & takes_part
    most = most * float(contrast[contrast > 0].sum())  # a dialogue's groups may differ by ``most`` at the most
    adds = (design.coefficients(contrast) * fit.values).sum(axis=1)
    counts = [counted(differs[takes_part], adds[takes_part], most)]
    for some in sets:
        if some is not None:
            counts.append(counted_terms(some, differs, some.weights.T @ adds, most))
    return tuple(counts)


def counted_terms(terms: TermSet, differs: np.ndarray, adds: np.ndarray | None = None, most: float = 1.0) -> Affected:
    """Count the terms that differ, among those that any dialogue has.

    Args:
        terms: a set of them.
        differs: (dialogues,) bool.
        adds: (terms,) contributions to a row; unknown by default.
        most: the largest effect that a unit can have.
    """
    used, hit = (np.asarray(some.sum(axis=0)).ravel() > 0 for some in (terms.weights, terms.weights[differs]))
    return counted(hit[used], None if adds is None else adds[used], most)


def counted(hit: np.ndarray, adds: np.ndarray | None = None, most: float = 1.0) -> Affected:
    """Count the units that differ.

    Args:
        hit: (units,) bool.
        adds: (units,) contributions to a row; unknown by default.
        most: the largest effect that a unit can have.
    """
    largest = most if adds is None else min(most, len(hit) * float(np.abs(adds).max(initial=0.0)))
    return Affected(int(hit.sum()), len(hit), largest, most)


def exact_half(affected: Sequence[Affected], alpha: float) -> float:
    """Return how far a mean may lie above its estimate; the larger of the bounds over dialogues and over terms."""
    return max(
        affected_within(some.differing, some.total, alpha, some.largest_seen, some.largest_possible)
        for some in affected
    )
