"""Rows of one axis and metric that are claimed together with others: estimates, and their terms and dialogues."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tod_bias.results import Estimate
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.group_model import GroupDesign, GroupFit, RowEstimates, stacked, with_floor
from tod_bias.statistics.needed import ENOUGH_FREEDOM, ENOUGH_TERMS
from tod_bias.statistics.power import affected_within, detectable, detectable_rate, equivalent_within
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.simultaneous import BoundedRows, Family, JointRows, TestedRows, p_value
from tod_bias.statistics.term_families import TermSet

SPARSE = 0.5
"""Share of dialogues below which their differences are rare: what was not seen is then bounded exactly."""
_TINY = 1e-12


class Affected(NamedTuple):
    """How many units differ at all."""

    hits: float
    """No whole number where units are still to come."""
    units: int
    largest: float = 1.0
    """The largest effect of a unit that was seen, at most ``most``."""
    most: float = 1.0
    """The largest effect that a unit can have on the row: the largest change of a score, times the largest coefficient
    of the contrast."""


@dataclass(frozen=True)
class RowSet:
    """Estimates of one axis and metric, each about some groups.

    Terms are a sample in a row whose groups have enough terms; other rows hold for the terms of this run only.
    """

    names: tuple[str, ...]
    """Of the rows."""
    rows: RowEstimates
    over_terms: np.ndarray
    """(rows,) bool."""
    p: np.ndarray
    """(rows,) unadjusted p-values: the larger one of a t test over terms and of sign flips of dialogues, which are
    valid for rare differences. NaN if nothing is tested."""
    is_sparse: bool
    """True if few dialogues differ at all: bounds of unseen differences are then exact."""
    affected: tuple[tuple[Affected, ...], ...]
    """For each row, how many dialogues differ at all, and how many terms of each group."""
    flips: FlippedRows | None = None
    """The rows under sign flips; None if nothing is drawn."""

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
        enough = np.array([over and are_enough(design.in_contrast(contrast)) for contrast in contrasts], dtype=bool)
        rows = fit.rows(contrasts, enough)
        if (poor := enough & (rows.freedom < ENOUGH_FREEDOM)).any():
            enough = enough & ~poor
            rows = fit.rows(contrasts, enough)
        takes_part = design.has.any(axis=1)
        is_sparse = not takes_part.any() or bool(differs[takes_part].mean() < SPARSE)
        affected = tuple(
            affected_of(fit, contrast, differs, sets if full else (), most)
            for contrast, sets, full in zip(contrasts, about, enough, strict=True)
        )
        # Dialogues that do not differ have no sign: pseudo-values of a ratio are not 0 in them.
        adds = [(design.coefficients(contrast) * fit.values).sum(axis=1) * differs for contrast in contrasts]
        table = np.array(adds).reshape(-1, len(differs)).T
        for kind in design.clusters:
            table = kind.merged(table) if kind.are_copies else table
        flips = flipped_rows(table, inference)
        return cls(
            tuple(rows_by_name),
            rows,
            enough,
            _with_flips(_single_p(rows), flips, is_sparse=is_sparse),
            is_sparse,
            affected,
            flips,
        )

    @property
    def is_tested(self) -> bool:
        """True if any row has a p-value."""
        return bool(np.isfinite(self.p).any())

    def block(self, seed: int) -> JointRows | BoundedRows:
        """Return what the rows add to a family of tests if no sign flips are known of them (:func:`blocks_of`)."""
        if np.isnan(self.rows.covariance).any():
            return BoundedRows(len(self.names) if self.is_tested else 0)
        return JointRows(self.rows.covariance, self.rows.freedom, seed)

    def estimates(self, family: Family | None) -> dict[str, Estimate]:
        """Return the rows, with simultaneous intervals and p-values if they belong to a family."""
        return {name: self._estimate(number, family) for number, name in enumerate(self.names)}

    def _estimate(self, number: int, family: Family | None) -> Estimate:
        value, error = float(self.rows.values[number]), float(self.rows.errors[number])
        freedom = float(self.rows.freedom[number])
        known = math.isfinite(error)
        p = float("nan") if family is None else family.adjusted(float(self.p[number]))
        half = math.nan
        if family is not None and known and not math.isnan(p):
            half = family.reach(freedom) * error
            if p >= family.alpha:
                half = max(half, abs(value))
            if self.is_sparse and error <= _TINY:  # nothing varied: a rate of up to 3 in n was not seen (rule of three)
                half = max(half, exact_half(self.affected[number][:1], family.level / 2))
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

    def detectable(self, number: int, alpha: float) -> float:
        """Return the smallest value of a row that is found in four of five such runs; NaN if it is not known.

        Args:
            number: of the row.
            alpha: level of the test of a single row, after adjustment for the others.
        """
        error, freedom = float(self.rows.errors[number]), float(self.rows.freedom[number])
        if not self.is_sparse:
            return detectable(error, freedom, alpha)
        units = self.affected[number][0]
        return detectable_rate(error, freedom, alpha, units.units, units.most)

    def within(self, alpha: float) -> float:
        """Return the smallest margin within which every row is shown to be; NaN if unknown."""
        margins = [self.within_of(number, alpha) for number in range(len(self.names))]
        return math.nan if not margins or any(map(math.isnan, margins)) else max(margins)

    def within_of(self, number: int, alpha: float) -> float:
        """Return the smallest margin within which one row is shown to be; NaN if it holds for these terms only."""
        value, error = float(self.rows.values[number]), float(self.rows.errors[number])
        if not self.over_terms[number] or not math.isfinite(error):
            return math.nan
        margin = equivalent_within(value, error, float(self.rows.freedom[number]), alpha)
        return max(margin, abs(value) + exact_half(self.affected[number], alpha)) if self.is_sparse else margin

    def equivalence_p(self, number: int, margin: float) -> float:
        """Return the smallest alpha at which one row is shown to be within a margin; 1 if it is not at .5."""
        low, high = 0.0, 0.5
        if not self.within_of(number, high) <= margin:
            return 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if self.within_of(number, middle) <= margin else (middle, high)
        return high


def of_dialogues(
    names: Sequence[str],
    values: np.ndarray,
    differs: np.ndarray,
    clusters: Sequence[Clusters] = (),
    most: float = 1.0,
    inference: Inference | None = None,
) -> RowSet:
    """Rows of means over dialogues, which are the sample.

    Args:
        names: of the rows.
        values: (dialogues, rows).
        differs: (dialogues,) bool, which add to any row.
        clusters: kinds of clusters of dialogues.
        most: the largest effect that a dialogue can have.
        inference: number and seed of sign flips; by default the usual ones.
    """
    number = len(values)
    design = GroupDesign(np.ones((number, 2), dtype=bool), [None, None], None, clusters)
    fit = design.fit(np.zeros((number, 2)))
    weights = np.full((number, 2), 1 / max(1, number))
    mean = values.mean(axis=0)
    over = np.ones(len(names), dtype=bool)
    rows = fit.estimated(mean, (values - mean) / max(1, number), stacked([weights] * len(names)), over)
    units = [[counted(differs, most=most)]] * len(names)
    return plain_rows(names, rows, over, units, values * differs[:, None], inference)


def plain_rows(
    names: Sequence[str],
    rows: RowEstimates,
    over: np.ndarray,
    units: Sequence[Sequence[Affected]],
    adds: np.ndarray,
    inference: Inference | None = None,
) -> RowSet:
    """Rows of estimates that are known.

    Args:
        names: of the rows.
        rows: their estimates.
        over: (rows,) bool, whether terms are a sample.
        units: of each row how many dialogues add to it, and how many terms.
        adds: (dialogues, rows), what each dialogue adds, whose signs are flipped.
        inference: number and seed of sign flips; by default the usual ones.
    """
    affected = tuple(map(tuple, units))
    rows = with_floor(rows, np.array([min((some.units for some in row), default=1) for row in affected]))
    is_sparse = any(row[0].hits < SPARSE * row[0].units for row in affected)
    flips = flipped_rows(adds, inference or Inference())
    return RowSet(
        tuple(names), rows, over, _with_flips(_single_p(rows), flips, is_sparse=is_sparse), is_sparse, affected, flips
    )


def flipped_rows(adds: np.ndarray, inference: Inference) -> FlippedRows | None:
    """Test rows under flips of the signs of (dialogues, rows) contributions; None if nothing is drawn."""
    return FlippedRows.of(adds, inference.permutations, inference.seed) if inference.permutations else None


def _with_flips(p: np.ndarray, flips: FlippedRows | None, *, is_sparse: bool) -> np.ndarray:
    """Return (rows,) the larger p-value of a t test and of sign flips.

    Without flips it is that of the t test, and NaN if few dialogues differ.
    """
    if flips is None:
        return np.full(len(p), np.nan) if is_sparse else p
    return np.fmax(np.where(np.isnan(p), 1.0, p), flips.p)


def blocks_of(sets: Sequence[RowSet | None], seed: int) -> list[TestedRows]:
    """Return the blocks of a family of tests: sets of rows under sign flips together, each other set alone."""
    present = [rows for rows in sets if rows is not None and rows.names]
    flips = [rows.flips for rows in present if rows.flips is not None]
    blocks: list[TestedRows] = [rows.block(seed) for rows in present if rows.flips is None]
    return [*blocks, FlippedRows.joined(flips)] if flips else blocks


def _single_p(rows: RowEstimates) -> np.ndarray:
    """(rows,) p-values of t tests."""
    return np.array([p_value(*row) for row in zip(rows.values, rows.errors, rows.freedom, strict=True)])


def are_enough(sets: Sequence[TermSet | None]) -> bool:
    """True if terms can represent their group; a reference variant needs none."""
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
    """How much larger than seen a mean may be, by whichever unit it may be more off."""
    return max(affected_within(some.hits, some.units, alpha, some.largest, some.most) for some in affected)


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
