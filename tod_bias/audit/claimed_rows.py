"""Rows: estimates of one axis and metric, each with the tests by which it is claimed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tod_bias.audit.affected import Affected, affected_of, counted, effect_of, exact_half
from tod_bias.results import Estimate
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.distributions import normal_quantile, t_quantile
from tod_bias.statistics.exchanges import ExchangedRows
from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.group_model import GroupDesign, GroupFit, RowEstimates, stacked, with_floor
from tod_bias.statistics.needed import ENOUGH_FREEDOM, ENOUGH_TERMS
from tod_bias.statistics.power import (
    POWER,
    detectable_by_exchanges,
    detectable_rate,
    equivalent_within,
    growth_of_sum,
)
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.simultaneous import BoundedRows, Family, JointRows, TestedRows, p_value
from tod_bias.statistics.term_families import TermSet

SPARSE = 0.5
"""Share of dialogues below which their differences are rare: what was not seen is then bounded exactly."""
_TINY = 1e-12


@dataclass(frozen=True)
class ClaimedRows:
    """Estimates of one axis and metric, each about some groups.

    Terms are a sample in a row whose groups have enough terms; other rows hold for the terms of this run only.
    """

    names: tuple[str, ...]
    """Names of the rows."""
    rows: RowEstimates
    over_terms: np.ndarray
    """(rows,) bool."""
    p: np.ndarray
    """(rows,) unadjusted p-values: the larger one of a t test over terms and of sign flips of dialogues, which are
    valid for rare differences. NaN if nothing is tested."""
    is_sparse: bool
    """True if few dialogues differ at all: bounds of unseen differences are then exact."""
    affected: tuple[tuple[Affected, ...], ...]
    """Number of dialogues that differ at all, and of terms of each group, by row."""
    flips: FlippedRows | None = None
    """The rows under sign flips; None if nothing is drawn."""
    effect: float = 1.0
    """Size of the effect of a dialogue that has one, as a share of the largest (:func:`effect_of`)."""
    bounded: np.ndarray | None = None
    """(rows,) p-values of t tests over clusters, which are adjusted by themselves; None if none are a sample. Flips of
    few clusters are exact for symmetric effects of clusters only: in a family of 60 rows, .08 of null samples with ten
    to sixteen clusters of skewed effects are claimed without these tests, .03 with them."""
    group_exchanges: ExchangedRows | None = None
    """The groups of the rows under exchanges within dialogues, one event; None of other rows than gaps."""
    term_exchanges: ExchangedRows | None = None
    """The same under exchanges of terms between groups; None if the rows are not about terms of groups of their own, or
    if clusters of dialogues are a sample, which exchanges ignore."""

    @classmethod
    def of(
        cls,
        fit: GroupFit,
        differs: np.ndarray,
        rows_by_name: Mapping[str, np.ndarray],
        inference: Inference,
        *,
        over: bool = True,
        over_clusters: bool = True,
        most: float = 1.0,
        joins: bool = True,
    ) -> ClaimedRows:
        """The rows of some contrasts.

        Args:
            fit: of the values.
            differs: (units,) whether the groups of a unit differ at all.
            rows_by_name: name to (groups,) contrast.
            inference: flips and seed of randomisation tests.
            over: whether terms may be a sample at all.
            over_clusters: whether clusters of dialogues may be a sample.
            most: the largest effect that a dialogue can have.
            joins: True if the rows are part of a family; others are only tested at its level.
        """
        contrasts = np.array([*rows_by_name.values()]).reshape(-1, fit.design.groups)
        design = fit.design
        about = [design.behind(contrast) for contrast in contrasts]
        enough = np.array([over and are_enough(design.in_contrast(contrast)) for contrast in contrasts], dtype=bool)
        rows = fit.rows(contrasts, enough, over_clusters=False)
        if (poor := enough & (rows.freedom < ENOUGH_FREEDOM)).any():
            enough = enough & ~poor
            rows = fit.rows(contrasts, enough, over_clusters=False)
        if over_clusters and design.clusters:
            rows = fit.rows(contrasts, enough)
        takes_part = design.has.any(axis=1)
        is_sparse = not takes_part.any() or bool(differs[takes_part].mean() < SPARSE)
        affected = tuple(
            affected_of(fit, contrast, differs, sets if full else (), most)
            for contrast, sets, full in zip(contrasts, about, enough, strict=True)
        )
        # Dialogues that do not differ have no sign: pseudo-values of a ratio are not 0 in them.
        adds = [(design.coefficients(contrast) * fit.values).sum(axis=1) * differs for contrast in contrasts]
        table = design.merged(np.array(adds).reshape(-1, len(differs)).T, over_clusters=over_clusters)
        flips = flipped_rows(table, inference, draws=joins)
        return cls(
            tuple(rows_by_name),
            rows,
            enough,
            _with_flips(_single_p(rows), flips, is_sparse=is_sparse),
            is_sparse,
            affected,
            flips,
            effect_of(fit, most),
            _single_p(rows) if over_clusters and design.has_few_clusters else None,
        )

    def adjusted(self, number: int, family: Family) -> float:
        """Return the p-value of a row in its family; NaN if it is not tested.

        The statistics of a t test and of flips are at most the root of the number of dialogues that differ. If few do,
        exchanges of terms may take their place in the family; then t test and flips only have to reject by themselves.
        """
        p = family.adjusted(float(self.p[number]))
        if self.bounded is not None:
            p = max(p, family.bounded(float(self.bounded[number])))
        if self.group_exchanges is None or math.isnan(p):
            return p
        if self.term_exchanges is not None and self.is_sparse:
            p = min(p, max(float(self.p[number]), family.under_term_exchanges(float(self.term_exchanges.z[number, 0]))))
        return max(p, family.under_group_exchanges(float(self.group_exchanges.z[number, 0])))

    def growth(self, number: int, family: Family, of_dialogues: float) -> float:
        """Return how many times as many dialogues would claim a row in four of five runs, if it is as it was seen.

        A claim takes sign flips of dialogues and exchanges of groups, whose z grow with the root of the dialogues, and
        a t test over terms, whose error falls to what the terms leave.

        Args:
            number: of the row.
            family: in which it is claimed.
            of_dialogues: standard error with these terms as they are.

        Returns:
            A factor; infinity if the terms leave too much.
        """
        if self.flips is None:
            return math.inf
        spread = float(self.flips.spread[number])
        growth = self._growth_of_tests(number, family.level, of_dialogues)
        if self.group_exchanges is None:
            return growth
        if self.term_exchanges is not None and self.is_sparse:
            terms = growth_of_sum(float(self.term_exchanges.z[number, 0]), family.critical_term_exchange, spread)
            growth = min(growth, max(terms, self._growth_of_tests(number, family.alpha, of_dialogues)))
        return max(
            growth, growth_of_sum(float(self.group_exchanges.z[number, 0]), family.critical_group_exchange, spread)
        )

    def _growth_of_tests(self, number: int, level: float, of_dialogues: float) -> float:
        """The same for flips and the t test alone, at a level of a single row."""
        assert self.flips is not None
        z, spread = normal_quantile(1 - max(float(self.flips.p[number]), 1e-300) / 2), float(self.flips.spread[number])
        of_flips = growth_of_sum(z, normal_quantile(1 - level / 2), spread)
        value, error = abs(float(self.rows.values[number])), float(self.rows.errors[number])
        within = min(error, of_dialogues)
        reach = float(t_quantile(1 - max(level, 1e-300) / 2, float(self.rows.freedom[number])))
        wanted = value / (reach + normal_quantile(POWER) * spread)
        left = wanted**2 - (error**2 - within**2)
        return max(of_flips, within**2 / left if left > 0 else math.inf)

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
        p = float("nan") if family is None else self.adjusted(number, family)
        half = math.nan
        if family is not None and known and not math.isnan(p):
            half = family.reach(freedom) * error
            if p >= family.alpha:
                half = max(half, abs(value))
            if self.is_sparse and error <= _TINY:  # nothing varied: a rate of up to 3 in n was not seen (rule of three)
                half = max(half, exact_half(self.affected[number][:1], family.level / 2))
        ci = None if family is None or math.isnan(half) else self._interval(number, half, p, family.alpha)
        return Estimate(
            value=value,
            se=error if known else None,
            df=freedom if known else None,
            ci=ci,
            p=None if math.isnan(p) else p,
            scope=None if self.over_terms[number] else "terms",
        )

    def _interval(self, number: int, half: float, p: float, alpha: float) -> tuple[float, float]:
        """Return the interval of a row.

        Args:
            number: of the row.
            half: length of either side.
            p: adjusted p-value. If exchanges of terms alone put it below the level, they exclude 0 and the other side,
                and bound nothing else: the end next to 0 is then that of the row alone.
            alpha: level.
        """
        value, error = float(self.rows.values[number]), float(self.rows.errors[number])
        ci = value - half, value + half
        if p >= alpha or half < abs(value):
            return ci
        near = value - math.copysign(float(t_quantile(1 - alpha / 2, float(self.rows.freedom[number]))) * error, value)
        return (near, ci[1]) if value > 0 else (ci[0], near)

    def affected_in(self, name: str) -> list[tuple[int, int]] | None:
        """How many dialogues differ, of all, and likewise terms; None where many do."""
        affected = self.affected[self.names.index(name)]
        return [(int(some.differing), some.total) for some in affected] if self.is_sparse else None

    def detectable(self, number: int, family: Family) -> float:
        """Return the smallest value of a row that is found in four of five such runs; NaN if it is not known.

        Args:
            number: of the row.
            family: in which it is claimed.
        """
        error, freedom = float(self.rows.errors[number]), float(self.rows.freedom[number])
        if not self.is_sparse and error <= _TINY:
            return math.nan
        dialogues = self.affected[number][0]
        sizes = dialogues.largest_possible, dialogues.largest_possible * self.effect

        def by_tests(level: float) -> float:
            return detectable_rate(error, freedom, level, dialogues.total, *sizes)

        def by_exchanges(critical: float) -> float:
            return detectable_by_exchanges(error, critical, dialogues.total, len(self.names), *sizes)

        smallest = by_tests(family.level)
        if self.group_exchanges is None:
            return smallest
        if self.term_exchanges is not None and self.is_sparse:
            rare = float(np.maximum(by_tests(family.alpha), by_exchanges(family.critical_term_exchange)))
            # the effect must leave the differences rare
            if dialogues.differing / dialogues.total + rare / sizes[1] < SPARSE:
                smallest = float(np.fmin(smallest, rare))
        return float(np.maximum(smallest, by_exchanges(family.critical_group_exchange)))

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
) -> ClaimedRows:
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
) -> ClaimedRows:
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
    rows = with_floor(rows, np.array([min((some.total for some in row), default=1) for row in affected]))
    is_sparse = any(row[0].differing < SPARSE * row[0].total for row in affected)
    flips = flipped_rows(adds, inference or Inference())
    return ClaimedRows(
        tuple(names), rows, over, _with_flips(_single_p(rows), flips, is_sparse=is_sparse), is_sparse, affected, flips
    )


def flipped_rows(adds: np.ndarray, inference: Inference, *, draws: bool = True) -> FlippedRows | None:
    """Test rows under flips of the signs of (dialogues, rows) contributions; None if nothing is tested.

    Args:
        adds: (dialogues, rows).
        inference: number and seed of flips.
        draws: False for rows that are part of no family, whose largest statistics are not needed.
    """
    if not inference.permutations:
        return None
    return FlippedRows.of(adds, inference.permutations if draws else 0, inference.seed)


def _with_flips(p: np.ndarray, flips: FlippedRows | None, *, is_sparse: bool) -> np.ndarray:
    """Return (rows,) the larger p-value of a t test and of sign flips.

    Without flips it is that of the t test, and NaN if few dialogues differ.
    """
    if flips is None:
        return np.full(len(p), np.nan) if is_sparse else p
    return np.fmax(np.where(np.isnan(p), 1.0, p), flips.p)


def blocks_of(sets: Sequence[ClaimedRows | None], seed: int, further: Sequence[FlippedRows] = ()) -> list[TestedRows]:
    """Return the blocks of a family of tests: sets of rows under sign flips together, each other set alone."""
    present = [rows for rows in sets if rows is not None and rows.names]
    flips = [*(rows.flips for rows in present if rows.flips is not None), *further]
    blocks: list[TestedRows] = [rows.block(seed) for rows in present if rows.flips is None]
    return [*blocks, FlippedRows.joined(flips)] if flips else blocks


def _single_p(rows: RowEstimates) -> np.ndarray:
    """(rows,) p-values of t tests."""
    return np.array([p_value(*row) for row in zip(rows.values, rows.errors, rows.freedom, strict=True)])


def are_enough(sets: Sequence[TermSet | None]) -> bool:
    """True if terms can represent their group; a reference variant needs none."""
    return all(some is None or some.freedom + 1 >= ENOUGH_TERMS - _TINY for some in sets)
