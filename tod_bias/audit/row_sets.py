"""Rows of one axis and metric that are claimed together with those of others: estimates, and what each rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tod_bias.results import Estimate
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.group_model import GroupDesign, GroupFit, RowEstimates, stacked, with_floor
from tod_bias.statistics.needed import ENOUGH_FREEDOM, ENOUGH_TERMS
from tod_bias.statistics.permutation import sign_test
from tod_bias.statistics.power import affected_within, equivalent_within
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.simultaneous import BoundedRows, Family, JointRows, p_value
from tod_bias.statistics.term_families import TermSet

SPARSE = 0.5
"""Share of dialogues that have to differ between groups for t tests and intervals."""
_TINY = 1e-12


class Affected(NamedTuple):
    """How many units differ at all."""

    hits: float
    """No whole number where units are still to come."""
    units: int
    largest: float = 1.0
    """The largest effect of a unit that was seen, at most ``most``."""
    most: float = 1.0
    """The largest effect that a unit can have: 1, or the largest score that was seen."""

    @property
    def of_shares(self) -> Affected:
        """The same with effects of at most 1, by which gaps are tested."""
        return self._replace(largest=min(1.0, self.largest), most=1.0)


@dataclass(frozen=True)
class RowSet:
    """Estimates of one axis and metric, of which each is about some groups.

    Terms are a sample in a row whose groups have terms enough; the other rows are of the terms of this run only.
    """

    names: tuple[str, ...]
    """Of the rows."""
    rows: RowEstimates
    over_terms: np.ndarray
    """(rows,) bool."""
    p: np.ndarray
    """(rows,) p-values, each by itself; NaN where nothing is tested."""
    is_sparse: bool
    """Whether few dialogues differ at all: then a p-value is the largest of those of a t test, of a randomisation test
    and of the exact bound, and the interval is at least as wide as the exact bound."""
    hypotheses: int
    """How many of the rows say different things."""
    affected: tuple[tuple[Affected, ...], ...]
    """Of each row how many dialogues differ at all, and how many terms of each group."""
    smallest_p: float = 0.0
    """What no p-value of a randomisation test can be below: the units that differ at all are too few."""

    @classmethod
    def of(
        cls,
        fit: GroupFit,
        differs: np.ndarray,
        rows_by_name: Mapping[str, np.ndarray],
        inference: Inference,
        *,
        over: bool = True,
        most: float = 1.0,
    ) -> RowSet:
        """The rows of some contrasts.

        Args:
            fit: of the values.
            differs: (units,) whether the groups of a unit differ at all.
            rows_by_name: name to (groups,) contrast.
            inference: flips and seed of randomisation tests.
            over: whether terms may be a sample at all.
            most: the largest effect that a dialogue can have.
        """
        contrasts = np.array([*rows_by_name.values()]).reshape(-1, fit.design.groups)
        design = fit.design
        about = [design.behind(contrast) for contrast in contrasts]
        enough = np.array([over and are_enough(sets) for sets in about], dtype=bool)
        rows = fit.rows(contrasts, enough)
        if (poor := enough & (rows.freedom < ENOUGH_FREEDOM)).any():
            enough = enough & ~poor
            rows = fit.rows(contrasts, enough)
        takes_part = design.has.any(axis=1)
        is_sparse = not takes_part.any() or bool(differs[takes_part].mean() < SPARSE)
        p = _single_p(rows)
        affected = tuple(
            affected_of(fit, contrast, differs, sets if full else (), most)
            for contrast, sets, full in zip(contrasts, about, enough, strict=True)
        )
        if is_sparse:
            p = _randomised(fit, contrasts, about, enough, p, inference)
            p = np.maximum(p, _exact(rows, affected))
        same = len(contrasts) > 1 and bool(
            all(np.allclose(abs(contrast @ contrasts[0]), contrast @ contrast) for contrast in contrasts)
        )
        return cls(
            tuple(rows_by_name),
            rows,
            enough,
            p,
            is_sparse,
            1 if same else len(contrasts),
            affected,
            min(map(_smallest_p, affected), default=1.0) if is_sparse else 0.0,
        )

    def block(self, seed: int) -> JointRows | BoundedRows:
        """What the rows add to a family of tests."""
        if self.is_sparse or np.isnan(self.rows.covariance).any():
            return BoundedRows(self.hypotheses if np.isfinite(self.p).any() else 0, self.smallest_p)
        return JointRows(self.rows.covariance, self.rows.freedom, seed)

    def estimates(self, family: Family | None) -> dict[str, Estimate]:
        """The rows, with simultaneous intervals and p-values; without either where they belong to no family."""
        return {name: self._estimate(number, family) for number, name in enumerate(self.names)}

    def _estimate(self, number: int, family: Family | None) -> Estimate:
        value, error = float(self.rows.values[number]), float(self.rows.errors[number])
        freedom = float(self.rows.freedom[number])
        known = math.isfinite(error)
        p = float("nan") if family is None else family.adjusted(float(self.p[number]))
        half = math.nan
        if family is not None and known and not math.isnan(p):
            half = family.reach(freedom) * error
            if self.is_sparse:
                affected, level = self.affected[number], family.level / 2
                half = max(half, exact_half([some.of_shares for some in affected], level))
                if p >= family.alpha:
                    half = max(half, abs(value), exact_half(affected, level))
        return Estimate(
            value=value,
            se=error if known else None,
            df=freedom if known else None,
            ci=None if math.isnan(half) else (value - half, value + half),
            p=None if math.isnan(p) else p,
            scope=None if self.over_terms[number] else "terms",
        )

    def affected_in(self, name: str) -> list[tuple[int, int]] | None:
        """How many dialogues differ, of all, and likewise terms; None where many do."""
        affected = self.affected[self.names.index(name)]
        return [(int(some.hits), some.units) for some in affected] if self.is_sparse else None

    def within(self, alpha: float) -> float:
        """The smallest margin within which every row is shown to lie; NaN where it is not known."""
        margins = [self.within_of(number, alpha) for number in range(len(self.names))]
        return math.nan if not margins or any(map(math.isnan, margins)) else max(margins)

    def within_of(self, number: int, alpha: float) -> float:
        """The smallest margin within which one row is shown to lie; NaN where it is of these terms only."""
        value, error = float(self.rows.values[number]), float(self.rows.errors[number])
        if not self.over_terms[number] or not math.isfinite(error):
            return math.nan
        margin = equivalent_within(value, error, float(self.rows.freedom[number]), alpha)
        return max(margin, abs(value) + exact_half(self.affected[number], alpha)) if self.is_sparse else margin

    def equivalence_p(self, number: int, margin: float) -> float:
        """The smallest alpha at which one row is shown to lie within a margin; 1 where it is not at .5."""
        low, high = 0.0, 0.5
        if not self.within_of(number, high) <= margin:
            return 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if self.within_of(number, middle) <= margin else (middle, high)
        return high


def of_dialogues(
    names: Sequence[str], values: np.ndarray, differs: np.ndarray, clusters: Sequence[Clusters] = (), most: float = 1.0
) -> RowSet:
    """Rows of means over dialogues, which are the sample.

    Args:
        names: of the rows.
        values: (dialogues, rows).
        differs: (dialogues,) bool, which add to any row.
        clusters: kinds of clusters of dialogues.
        most: the largest effect that a dialogue can have.
    """
    number = len(values)
    design = GroupDesign(np.ones((number, 2), dtype=bool), [None, None], None, clusters)
    fit = design.fit(np.zeros((number, 2)))
    weights = np.full((number, 2), 1 / max(1, number))
    mean = values.mean(axis=0)
    over = np.ones(len(names), dtype=bool)
    rows = fit.estimated(mean, (values - mean) / max(1, number), stacked([weights] * len(names)), over)
    return plain_rows(names, rows, over, [[counted(differs, most=most)]] * len(names))


def plain_rows(
    names: Sequence[str], rows: RowEstimates, over: np.ndarray, units: Sequence[Sequence[Affected]]
) -> RowSet:
    """Rows without a randomisation test; where few units vary their intervals are exact.

    Args:
        names: of the rows.
        rows: their estimates.
        over: (rows,) bool, whether terms are a sample.
        units: of each row how many dialogues add to it, and how many terms.
    """
    affected = tuple(map(tuple, units))
    rows = with_floor(rows, np.array([min((some.units for some in row), default=1) for row in affected]))
    p = _single_p(rows)
    is_sparse = any(row[0].hits < SPARSE * row[0].units for row in affected)
    if is_sparse:
        p = np.fmax(p, _exact(rows, affected))
    return RowSet(tuple(names), rows, over, p, is_sparse, len(names), affected)


def _single_p(rows: RowEstimates) -> np.ndarray:
    """(rows,) p-values of t tests."""
    return np.array([p_value(*row) for row in zip(rows.values, rows.errors, rows.freedom, strict=True)])


def _exact(rows: RowEstimates, affected: Sequence[Sequence[Affected]]) -> np.ndarray:
    """(rows,) p-values of the exact bounds."""
    return np.array(
        [exact_p(value, [some.of_shares for some in units]) for value, units in zip(rows.values, affected, strict=True)]
    )


def are_enough(sets: Sequence[TermSet | None]) -> bool:
    """Whether terms can stand for what they express; a reference variant needs none."""
    return all(some is None or some.freedom + 1 >= ENOUGH_TERMS - _TINY for some in sets)


def affected_of(
    fit: GroupFit, contrast: np.ndarray, differs: np.ndarray, sets: Sequence[TermSet | None], most: float = 1.0
) -> tuple[Affected, ...]:
    """How many dialogues differ at all, and terms.

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
    adds = (design.coefficients(contrast) * fit.values).sum(axis=1)
    counts = [counted(differs[takes_part], adds[takes_part], most)]
    for some in sets:
        if some is not None:
            counts.append(counted_terms(some, differs, some.weights.T @ adds, most))
    return tuple(counts)


def counted_terms(terms: TermSet, differs: np.ndarray, adds: np.ndarray | None = None, most: float = 1.0) -> Affected:
    """How many terms differ, of those that any dialogue has.

    Args:
        terms: a set of them.
        differs: (dialogues,) bool.
        adds: (terms,) what each adds to a row; by default it is not known.
        most: the largest effect that a unit can have.
    """
    used, hit = (np.asarray(some.sum(axis=0)).ravel() > 0 for some in (terms.weights, terms.weights[differs]))
    return counted(hit[used], None if adds is None else adds[used], most)


def counted(hit: np.ndarray, adds: np.ndarray | None = None, most: float = 1.0) -> Affected:
    """How many units differ, of which each adds something to a row.

    Args:
        hit: (units,) bool.
        adds: (units,); by default it is not known.
        most: the largest effect that a unit can have.
    """
    largest = most if adds is None else min(most, len(hit) * float(np.abs(adds).max(initial=0.0)))
    return Affected(int(hit.sum()), len(hit), largest, most)


def exact_half(affected: Sequence[Affected], alpha: float) -> float:
    """How much larger than seen a mean may be, by whichever unit it may be more off."""
    return max(affected_within(some.hits, some.units, alpha, some.largest, some.most) for some in affected)


def exact_p(value: float, affected: Sequence[Affected]) -> float:
    """The smallest alpha at which the exact bound around a value leaves out 0."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if exact_half(affected, middle / 2) < abs(value) else (middle, high)
    return high


def _smallest_p(affected: Sequence[Affected]) -> float:
    """The smallest p-value that changing the signs of the units that differ can give: of terms where they are known."""
    return float(max(min(1.0, 2.0 ** (1 - some.hits)) for some in affected[1:] or affected))


def _randomised(
    fit: GroupFit,
    contrasts: np.ndarray,
    about: Sequence[Sequence[TermSet | None]],
    over: np.ndarray,
    p: np.ndarray,
    inference: Inference,
) -> np.ndarray:
    """The larger of the p-values and of those of a test that changes the signs of what the terms of a group add.

    Under the null hypothesis what a term adds is as likely to be a harm as the opposite. With terms too few to be a
    sample, dialogues change their signs.
    """
    if not inference.permutations:
        return np.full(len(p), np.nan)
    result = np.where(np.isnan(p), 1.0, p)
    design = fit.design
    for number, contrast in enumerate(contrasts):
        adds = (design.coefficients(contrast) * fit.values).sum(axis=1)
        for some in about[number]:
            parts = adds if some is None or not over[number] else some.weights.T @ adds
            parts = parts[np.abs(parts) > _TINY]
            flipped = 1.0 if not len(parts) else _flipped(parts, inference)
            result[number] = max(result[number], flipped)
    return result


def _flipped(parts: np.ndarray, inference: Inference) -> float:
    return sign_test(parts, permutations=inference.permutations, seed=inference.seed).p_value


def largest_share(fit: GroupFit, contrast: np.ndarray, weights: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """How much of a contrast goes with each term of a group.

    Args:
        fit: of the values.
        contrast: (groups,).
        weights: (units, terms) of the terms.

    Returns:
        (terms,) what each adds, and (terms,) the share of the contrast that goes if the term is left out.
    """
    adds = (fit.design.coefficients(contrast) * fit.values).sum(axis=1)
    total = float(adds.sum())
    if abs(total) < _TINY:
        return np.zeros(0), np.zeros(0)
    parts = weights.T @ adds
    used = np.asarray(weights.sum(axis=0)).ravel() / max(1, fit.design.units)
    rest = np.where(used < 1 - 1e-9, (total - parts) / np.maximum(1 - used, 1e-9), 0.0)
    return parts, 1 - rest / total
