"""Terms whose effects vary alike: of the groups of an axis, or of the levels of one factor of crossed axes.

On a plain axis every group has terms of its own. On crossed axes (``gender×age``) a term stands in several groups: what
a system does with "wife" moves *woman×young* as it moves *woman×old*. There the terms of a level are one set, which
moves all groups of that level. Its effects are seen in what the level adds to the other factor's, so that the terms of
the two factors cannot be taken for each other. A term may also do otherwise beside one level of the other factor than
beside another; that is a further family, whose sets move one group each, and which is seen in the interaction alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

_TINY = 1e-12
"""Absolute values below this are rounding noise."""

Columns = Callable[[int], np.ndarray]
"""Function from a group to the weights of several rows, (units, rows)."""


class TermSet(NamedTuple):
    """Terms of a group, or of a level of crossed axes."""

    weights: sparse.csr_array
    """(units, terms), which sum to 1 where the unit has the group."""
    freedom: float
    """Effective number of terms less one."""


@dataclass(frozen=True)
class FactorTerms:
    """The terms of one factor of crossed axes."""

    level: np.ndarray
    """(groups,) number of the level that each group has; -1: of none (a reference variant)."""
    terms: Sequence[sparse.csr_array]
    """(units, terms) weights of each level, which sum to 1 if the unit has the level."""

    @property
    def members(self) -> np.ndarray:
        """(levels, groups): which groups have each level."""
        return np.asarray(self.level == np.arange(len(self.terms))[:, None])


def families_of(has: np.ndarray, terms: Sequence[sparse.csr_array | None] | Sequence[FactorTerms]) -> list[TermFamily]:
    """The families of terms of an axis.

    Args:
        has: (units, groups) bool.
        terms: of each group, or of each factor of crossed axes.
    """
    factors = [some for some in terms if isinstance(some, FactorTerms)]
    if not factors:
        return [TermFamily(has, [some for some in terms if not isinstance(some, FactorTerms)])]
    every = np.ones((1, has.shape[1]), dtype=bool)
    families = []
    for factor in factors:
        others = [other.members for other in factors if other is not factor]
        families.append(TermFamily(has, factor.terms, factor.members, np.concatenate([every, *others])))
    levels = np.concatenate([every, *(factor.members for factor in factors)])
    for factor in factors:
        groups = np.flatnonzero(factor.level >= 0)
        within = [factor.terms[level] for level in factor.level[groups]]
        single = np.eye(has.shape[1], dtype=bool)[groups]
        families.append(TermFamily(has, within, single, levels, portion=1 / len(factors)))
    return families


class TermFamily:
    """Sets of terms whose effects vary alike.

    Args:
        has: (units, groups) bool.
        terms: of each set (units, terms) weights; None if a group is not expressed by terms.
        members: (sets, groups) bool, whose values the terms of a set move; None: set and group are one.
        beside: (effects, groups) bool, other effects from which the family's are separated within units; None for the
            unit's mean alone.
        portion: of the variance between units, if several families are estimated from the same differences.
    """

    def __init__(
        self,
        has: np.ndarray,
        terms: Sequence[sparse.csr_array | None],
        members: np.ndarray | None = None,
        beside: np.ndarray | None = None,
        portion: float = 1.0,
    ) -> None:
        self._has, self._members, self._portion = has, members, portion
        self.is_main = portion == 1
        """True for the terms of whole groups or levels."""
        self.units = max(1, int(has.any(axis=1).sum()))
        self._share = has / np.maximum(has.sum(axis=1), 1)[:, None]
        has_set = has if members is None else (has.astype(int) @ members.T) > 0
        self.terms = [None if some is None else _masked(some, has_set[:, place]) for place, some in enumerate(terms)]
        size = [_Size(some, has_set[:, place]) for place, some in enumerate(self.terms)]
        self.freedom = np.array([some.freedom for some in size])
        """(sets,) effective number of terms less one."""
        self.scatter = np.stack([some.scatter for some in size], axis=1)
        """(units, sets) squared distance of a unit's weights from their mean."""
        self.squares = np.stack([some.squares for some in size], axis=1)
        """(units, sets) squared length of a unit's weights."""
        if members is not None and beside is not None:
            patterns, codes = np.unique(has, axis=0, return_inverse=True)
            self._codes = codes.ravel()
            self._projections = np.stack([_beyond(members * some, beside * some) for some in patterns])
            self._kernels = members @ self._projections @ members.T
        self._set_moments([some.mean for some in size])

    def _set_moments(self, means: Sequence[np.ndarray]) -> None:
        """Relate the variances of terms to the squared sums of residuals over terms."""
        number = len(self.terms)
        moments, of_units = np.zeros((2, number, number))
        for h, first in enumerate(self.terms):
            for k, second in enumerate(self.terms):
                if first is None or second is None:
                    continue
                weights = self._kernel(h, k)
                moments[h, k] = _overlap(first, second, weights, means[h])
                of_units[h, k] = float((weights**2 * self.scatter[:, h] * self.scatter[:, k]).sum())
        length = np.sqrt(np.maximum(np.diag(moments), _TINY))
        self.common = np.maximum(moments / np.outer(length, length), np.eye(number))
        """(sets, sets), 0 to 1: share of the sums that two sets of terms have in common; 1 if both have the same
        clusters of units, as with the words of one paradigm."""
        self.moments = (moments - of_units).sum(axis=1)
        """(sets,) what a variance of 1 of all terms adds to the squared sums over a set's terms."""
        if self._members is not None:  # what cannot be told apart from the effects beside it is not known
            self.freedom = np.where(self.moments > 1e-6 * self.units, self.freedom, 0.0)

    def _kernel(self, first: int, second: int) -> np.ndarray:
        """(units,) what an effect of the second set adds to what is seen of the first."""
        if self._members is None:
            return np.asarray(self._has[:, first] * ((first == second) - self._share[:, second]))
        return np.asarray(self._kernels[self._codes, first, second])

    def part_of(self, residuals: np.ndarray) -> np.ndarray:
        """(units, groups) the part of residuals in which the family's effects are seen."""
        if self._members is None:
            return residuals
        part = np.empty(residuals.shape)
        for code, projection in enumerate(self._projections):
            of_pattern = self._codes == code
            part[of_pattern] = residuals[of_pattern] @ projection
        return part

    def sums_of(self, part: np.ndarray) -> np.ndarray:
        """(units, sets) the sums over the groups of each set."""
        return part if self._members is None else part @ self._members.T

    def column(self, columns: Columns, place: int) -> np.ndarray:
        """(units, rows) the weights with which a set's effects add to rows."""
        if self._members is None:
            return columns(place)
        return np.asarray(sum(columns(int(group)) for group in np.flatnonzero(self._members[place])))

    def of_contrast(self, contrast: np.ndarray) -> np.ndarray:
        """(sets,) how much of a contrast of groups each set has."""
        return contrast if self._members is None else self._members @ contrast

    def sets_of(self, group: int) -> list[int]:
        """Return the sets of terms that affect a group."""
        return [group] if self._members is None else np.flatnonzero(self._members[:, group]).tolist()

    def set(self, place: int) -> TermSet | None:
        """Return a set of terms; None if no terms express its group."""
        weights = self.terms[place]
        return None if weights is None else TermSet(weights, float(self.freedom[place]))

    def noise_of(self, part: np.ndarray, columns: Columns) -> np.ndarray:
        """Return the variance of each row between units that each set of terms shows, (sets, rows)."""
        if self._members is None:
            weighted = (columns(place) * part[:, place : place + 1] for place in range(len(self.terms)))
            return np.stack([(some**2).sum(axis=0) for some in weighted])
        squares = np.stack([(self.column(columns, place) ** 2).sum(axis=0) for place in range(len(self.terms))])
        seen = np.asarray(sum(columns(group) * part[:, group : group + 1] for group in range(part.shape[1])))
        return self._portion * (seen**2).sum(axis=0) * squares / np.maximum(squares.sum(axis=0), 1e-300)


def _beyond(members: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Return the (groups, groups) projection on the part of the sets' effects beyond other effects."""
    both = _span(np.concatenate([beside, members]).astype(float))
    projection = both - _span(beside.astype(float))
    return np.where(np.abs(projection) < _TINY, 0.0, projection)


def _span(effects: np.ndarray) -> np.ndarray:
    """Projection on the span of (effects, groups)."""
    return np.asarray(np.linalg.pinv(effects, rcond=1e-10) @ effects)


class _Size:
    """Use of the terms of one set."""

    def __init__(self, terms: sparse.csr_array | None, has: np.ndarray) -> None:
        self.mean = np.zeros(0)
        self.squares = self.scatter = np.zeros(len(has))
        self.freedom = 0.0
        if terms is None:
            return
        number = max(1, int(has.sum()))
        sums = np.asarray(terms.sum(axis=0)).ravel()
        self.mean = sums / number
        self.squares = np.asarray(terms.multiply(terms).sum(axis=1)).ravel()
        distance = self.squares - 2 * (terms @ self.mean) + float(self.mean @ self.mean)
        self.scatter = np.where(has, distance, 0.0)
        self.freedom = max(0.0, number**2 / max(float(sums @ sums), _TINY) - 1)


def _masked(terms: sparse.csr_array, has: np.ndarray) -> sparse.csr_array:
    """The weights of the units that take part."""
    return sparse.csr_array(sparse.diags_array(has.astype(float)) @ terms)


def _overlap(first: sparse.csr_array, second: sparse.csr_array, weights: np.ndarray, mean: np.ndarray) -> float:
    """Return the squared sum, over pairs of terms, of the second set's contributions to the first set's sums."""
    table = (first.T @ sparse.diags_array(weights) @ second).tocoo()
    sums = weights @ second
    row, column = table.coords
    mixed = float((table.data * mean[row] * sums[column]).sum())
    return float((table.data**2).sum()) - 2 * mixed + float(mean @ mean) * float(sums @ sums)
