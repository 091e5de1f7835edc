"""Claims: intervals and p-values over everything that a run or a comparison claims, and a verdict per axis and metric.

All gaps of groups and reference variants, of all axes and metrics, are one family: their intervals hold together, and a
p-value is below .05 exactly if its interval excludes 0 (:mod:`tod_bias.statistics.simultaneous`). If there is a
placebo, a claim also needs a gap beyond the placebo's effect, on the same side. These gaps beyond the placebo are a
second family. No correction over the two families is needed, because a claim needs both gaps to differ from 0. Pairs of
groups and effects of crossed axes are a third family. The placebo itself is in no family, because nothing is claimed of
it.

All changes between two runs are one family as well. A gap of 0 is fair, so *better* means nearer to 0, whatever the
sign. A claim of better needs two tests: one that the value changed, and one for the side of 0 on which its mean over
both runs is. Equivalence needs a test of its own, whose p-values have Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from tod_bias.results import (
    ALPHA,
    DIFFERENT,
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AxisResult,
    Estimate,
    Gap,
    Omnibus,
    Terms,
    Verdict,
)
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.distributions import normal_quantile, t_quantile
from tod_bias.statistics.exchanges import ExchangedRows
from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.group_model import GroupDesign, GroupFit, RowEstimates, stacked, with_floor
from tod_bias.statistics.intervals import finite
from tod_bias.statistics.needed import ENOUGH_FREEDOM, ENOUGH_TERMS
from tod_bias.statistics.power import (
    POWER,
    affected_within,
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
SUGGESTIVE = 0.15
"""p-value, over everything that is claimed, below which a number of dialogues that would prove an effect is given. In
simulations 82 of 100 audits of that many dialogues claim a planted effect, and none of 80 fair systems has a number."""
MOST_NEEDED = 1e6
"""Number of dialogues from which nobody would collect them."""


class Affected(NamedTuple):
    """Number of units that differ at all."""

    hits: float
    """Units that differ; a fraction if it is a forecast for units that are still to come."""
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
    exchanged: ExchangedRows | None = None
    """The groups of the rows under exchanges within dialogues, one event; None of other rows than gaps."""
    of_terms: ExchangedRows | None = None
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
    ) -> RowSet:
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
        if self.exchanged is None or math.isnan(p):
            return p
        if self.of_terms is not None and self.is_sparse:
            p = min(p, max(float(self.p[number]), family.of_terms(float(self.of_terms.z[number, 0]))))
        return max(p, family.exchanged(float(self.exchanged.z[number, 0])))

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
        if self.exchanged is None:
            return growth
        if self.of_terms is not None and self.is_sparse:
            terms = growth_of_sum(float(self.of_terms.z[number, 0]), family.critical_of_terms, spread)
            growth = min(growth, max(terms, self._growth_of_tests(number, family.alpha, of_dialogues)))
        return max(growth, growth_of_sum(float(self.exchanged.z[number, 0]), family.critical_exchange, spread))

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
        return [(int(some.hits), some.units) for some in affected] if self.is_sparse else None

    def detectable(self, number: int, family: Family) -> float:
        """Return the smallest value of a row that is found in four of five such runs; NaN if it is not known.

        Args:
            number: of the row.
            family: in which it is claimed.
        """
        error, freedom = float(self.rows.errors[number]), float(self.rows.freedom[number])
        if not self.is_sparse and error <= _TINY:
            return math.nan
        units = self.affected[number][0]
        sizes = units.most, units.most * self.effect

        def by_tests(level: float) -> float:
            return detectable_rate(error, freedom, level, units.units, *sizes)

        def by_exchanges(critical: float) -> float:
            return detectable_by_exchanges(error, critical, units.units, len(self.names), *sizes)

        smallest = by_tests(family.level)
        if self.exchanged is None:
            return smallest
        if self.of_terms is not None and self.is_sparse:
            rare = float(np.maximum(by_tests(family.alpha), by_exchanges(family.critical_of_terms)))
            if units.hits / units.units + rare / sizes[1] < SPARSE:  # the effect must leave the differences rare
                smallest = float(np.fmin(smallest, rare))
        return float(np.maximum(smallest, by_exchanges(family.critical_exchange)))

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


def blocks_of(sets: Sequence[RowSet | None], seed: int, further: Sequence[FlippedRows] = ()) -> list[TestedRows]:
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
    return max(affected_within(some.hits, some.units, alpha, some.largest, some.most) for some in affected)


def largest_share(fit: GroupFit, contrast: np.ndarray, weights: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Share of a contrast that each term of a group accounts for.

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
    # a term that every dialogue rests on leaves no dialogues without it: then all of the contrast goes with it
    rest = np.where(used < 1 - 1e-9, (total - parts) / np.maximum(1 - used, 1e-9), 0.0)
    return parts, 1 - rest / total


TESTS = "tests"
"""Nothing was tested: there are no permutations, or the metric needs a placebo and there is none."""
TERMS = "terms"
"""The gap holds for these terms, which are too few to generalise, or one of which carries most of it."""
OTHER_TERMS = "other terms"
"""The gap holds for these terms, but varies too much between them to generalise."""
NOT_BEYOND_PLACEBO = "placebo"
"""The gap is shown, but not beyond the placebo in the same dialogues; or nearly all dialogues are of one group, so that
a placebo is needed, and there is none."""
UNMEASURED = "nothing measured"
"""The run measures nothing here: :mod:`tod_bias.audit.checks`."""
OTHER_TESTS = "other tests"
"""The gap would be claimed if its axis and metric were the only ones."""
_Estimate = TypeVar("_Estimate", bound=Estimate)


@dataclass(frozen=True)
class AxisDraft:
    """Everything that was estimated of one axis and metric, and the rows that are still to be claimed."""

    result: AxisResult
    """Without gaps and verdict."""
    gaps: RowSet
    """Rows of groups, against the mean of groups."""
    references: RowSet
    """Rows of reference variants, against the mean of groups."""
    pairs: RowSet
    beyond: RowSet | None
    """The gaps of groups beyond the placebo's."""
    of_terms_only: RowSet
    """The gaps, with dialogues as the only sample."""
    beyond_of_terms_only: RowSet | None
    """The gaps beyond the placebo's, with dialogues as the only sample."""
    apart: RowSet
    """Rows of the smallest set of groups that explains a difference, each against the groups that do not differ."""
    apart_of_terms_only: RowSet
    """The same with dialogues as the only sample."""
    effects: RowSet
    """Rows of crossed axes, named ``factor/level``."""
    facts: Mapping[str, Terms]
    """Group to the terms behind its gap."""
    needs_placebo: bool = False
    """True if a gap cannot be separated from the effect of rewording without a placebo."""
    may_be_equal: bool = True
    """True if equivalence can be shown: some score is above 0."""
    is_tested: bool = True
    in_these_clusters: AxisDraft | None = None
    """The same with the clusters of dialogues as they are, not as a sample; None if no kind of clusters is a sample."""

    def may_speak(self, number: int) -> bool:
        """True if the terms behind a gap may represent its group."""
        return bool(self.gaps.over_terms[number]) and self.facts[self.gaps.names[number]].may_speak

    @property
    def distinct_pairs(self) -> RowSet | None:
        """The pairs if they are other hypotheses than the gaps: with two groups a pair is the gap, twice as large."""
        return self.pairs if len(self.gaps.names) > 2 else None

    @property
    def with_these_terms(self) -> AxisDraft:
        """The same with dialogues as the only sample."""
        return replace(self, gaps=self.of_terms_only, beyond=self.beyond_of_terms_only)

    def untested(self, *, unmeasured: str = "") -> AxisDraft:
        """Return the draft without tests; ``unmeasured`` is the reason if nothing is measured."""
        result = self.result.model_copy(update={"unmeasured": unmeasured or self.result.unmeasured})
        alike = self.in_these_clusters and self.in_these_clusters.untested(unmeasured=unmeasured)
        may_be_equal = self.may_be_equal and not unmeasured
        return replace(self, is_tested=False, result=result, may_be_equal=may_be_equal, in_these_clusters=alike)


@dataclass(frozen=True)
class Further:
    """Hypotheses that are tested and not estimated in full, under sign flips."""

    gaps: Sequence[FlippedRows] = ()
    beyond: Sequence[FlippedRows] = ()
    """The same beyond the placebo's effect."""
    exchanged: Sequence[ExchangedRows] = ()
    """The gaps under exchanges of groups."""
    of_terms: Sequence[ExchangedRows] = ()
    """The gaps under exchanges of terms."""
    in_these_clusters: Further | None = None
    """The same with the clusters of dialogues as they are; None if no kind of clusters is a sample anyway."""


@dataclass(frozen=True)
class Families:
    """Rows that are claimed together."""

    gaps: Family
    beyond: Family
    pairs: Family
    of_terms_only: Family
    beyond_of_terms_only: Family

    @classmethod
    def of(cls, drafts: Sequence[AxisDraft], further: Further, alpha: float, seed: int) -> Families:
        """Make the families of all axes and metrics that are tested, with the hypotheses that were screened out."""
        tested = [draft for draft in drafts if draft.is_tested]

        def family(
            sets: Sequence[RowSet | None],
            more: Sequence[FlippedRows] = (),
            *exchanged: Sequence[ExchangedRows],
        ) -> Family:
            return Family(blocks_of(sets, seed, more), alpha, *exchanged)

        exchanged = [draft.gaps.exchanged for draft in tested if draft.gaps.exchanged is not None]
        exchanged += further.exchanged
        of_terms = [draft.gaps.of_terms for draft in tested if draft.gaps.of_terms is not None]
        of_terms += further.of_terms
        gaps = [rows for draft in tested for rows in (draft.gaps, draft.references)]
        return cls(
            family(gaps, further.gaps, exchanged, of_terms),
            family([draft.beyond for draft in tested], further.beyond),
            family([rows for draft in tested for rows in (draft.distinct_pairs, draft.effects)]),
            family([draft.of_terms_only for draft in tested], further.gaps, exchanged),
            family([draft.beyond_of_terms_only for draft in tested], further.beyond),
        )

    def of_pairs(self, draft: AxisDraft) -> Family:
        """Return the family of an axis's pairs: that of its gaps if a pair is the same hypothesis."""
        return self.gaps if draft.distinct_pairs is None else self.pairs

    @property
    def with_these_terms(self) -> Families:
        """The same with dialogues as the only sample."""
        return replace(self, gaps=self.of_terms_only, beyond=self.beyond_of_terms_only)


def judge(
    estimated: Sequence[AxisDraft],
    placebos: Sequence[AxisDraft],
    *,
    alpha: float,
    margin: float | None = None,
    seed: int = 0,
    further: Further = Further(),
) -> list[AxisResult]:
    """Give every row its interval and p-value, and every axis and metric its verdict and what limits it.

    Args:
        estimated: all axes and metrics that may claim something.
        placebos: those of the placebo.
        alpha: the family-wise error rate of everything that is claimed.
        margin: differences up to this are called equivalent, on the scale of each metric's gaps.
        seed: of the draws under the null hypothesis.
        further: hypotheses of the same families that are not estimated in full.

    Returns:
        The results of ``estimated``, then those of ``placebos``.
    """
    families = Families.of(estimated, further, alpha, seed)
    results = [_with_verdict(draft, families, alpha, margin) for draft in estimated]
    if any(draft.in_these_clusters for draft in estimated):
        within = [draft.in_these_clusters or draft for draft in estimated]
        families = Families.of(within, further.in_these_clusters or further, alpha, seed)
        results = [
            _of_clusters(result, _with_verdict(draft, families, alpha, margin)) if draft is not first else result
            for result, first, draft in zip(results, estimated, within, strict=True)
        ]
    for draft in placebos:
        results.append(_with_rows(draft, None).model_copy(update={"verdict": PLACEBO_VERDICT}))
    return results


def _with_verdict(draft: AxisDraft, families: Families, alpha: float, margin: float | None) -> AxisResult:
    result = _with_rows(draft, families if draft.is_tested else None)
    within = _within(draft, alpha)
    claims = _claims(draft, families)
    of_terms_only = _claims_of_terms_only(draft, families)
    verdict = _verdict_of(claims, of_terms_only, alpha, is_within=margin is not None and _is_within(within, margin))
    omnibus = Omnibus(p=min(claims.values(), default=None))
    if verdict == THESE_TERMS:
        omnibus = Omnibus(p=min(of_terms_only.values()), scope="terms")
    changed: dict[str, Any] = {
        "equivalent_within": within,
        "verdict": verdict,
        "omnibus": omnibus if claims or verdict == THESE_TERMS else None,
        **_detectable(draft, families),
    }
    if verdict == INCONCLUSIVE:
        changed["needed"] = _needed(draft, families, claims)
    changed |= _apart(draft, families, verdict, claims, of_terms_only)
    if verdict in (THESE_TERMS, INCONCLUSIVE):
        changed["limiting_factors"] = _limiting_factors(draft, families, alpha)
    if verdict == THESE_TERMS and draft.beyond_of_terms_only is not None:  # beside the gap of these terms
        beyond = draft.beyond_of_terms_only.estimates(families.beyond_of_terms_only)
        changed["groups"] = {
            name: group.model_copy(update={"beyond_placebo": beyond.get(name)}) for name, group in result.groups.items()
        }
    return result.model_copy(update=changed)


def _of_clusters(over: AxisResult, within: AxisResult) -> AxisResult:
    """Return what is claimed where clusters of dialogues are enough to be a sample.

    A difference that is shown in these clusters, but not over further ones, stays a claim about these clusters, and is
    marked so: few clusters would need a large effect. A difference over further clusters must hold in these as well, so
    that the errors of both families together are no more than those of one.

    Args:
        over: the result with the clusters as a sample.
        within: the result with the clusters as they are.
    """
    differences = (DISPARITY, THESE_TERMS)
    if within.verdict in differences and over.verdict != within.verdict:
        kinds = [name for name, number in within.clusters.items() if number > 1]
        return within.model_copy(update={"only_these_clusters": kinds})
    return within if over.verdict in differences and within.verdict not in differences else over


def _with_rows(draft: AxisDraft, families: Families | None) -> AxisResult:
    """Return the result with the estimates of its rows; without intervals if nothing is claimed."""
    gaps = draft.gaps.estimates(None if families is None else families.gaps)
    beyond = {} if draft.beyond is None else draft.beyond.estimates(None if families is None else families.beyond)
    references = draft.references.estimates(None if families is None else families.gaps)
    pairs = draft.pairs.estimates(None if families is None else families.of_pairs(draft))
    effects = draft.effects.estimates(None if families is None else families.pairs)
    of_terms_only = draft.of_terms_only.estimates(None if families is None else families.of_terms_only)
    result = draft.result
    changed: dict[str, Any] = {
        "groups": {
            name: group.model_copy(
                update={
                    "gap": gaps[name],
                    "beyond_placebo": beyond.get(name),
                    "terms_only": of_terms_only[name],
                    "affected": draft.gaps.affected_in(name),
                }
            )
            for name, group in result.groups.items()
        },
        "references": {
            name: group.model_copy(update={"gap": references[name]}) for name, group in result.references.items()
        },
        "pairs": _both_ways({name: _gap_of(gap, pairs[name]) for name, gap in result.pairs.items()}, result.groups),
        "effects": {
            factor: {level: _gap_of(gap, effects[f"{factor}/{level}"]) for level, gap in levels.items()}
            for factor, levels in result.effects.items()
        },
    }
    if result.widest is not None:
        forward = f"{result.widest.better}>{result.widest.worse}"
        gap = pairs[forward] if forward in pairs else negated(pairs[f"{result.widest.worse}>{result.widest.better}"])
        changed["widest"] = result.widest.model_copy(update={"gap": gap})
    return result.model_copy(update=changed)


def _gap_of(gap: Gap, estimate: Estimate) -> Gap:
    return gap.model_copy(update=dict(estimate))


def _both_ways(pairs: Mapping[str, Gap], groups: Iterable[str]) -> dict[str, Gap]:
    """Pairs as seen from either group."""
    both: dict[str, Gap] = {}
    for first, second in combinations(groups, 2):
        gap = pairs[f"{first}>{second}"]
        both[f"{first}>{second}"], both[f"{second}>{first}"] = gap, negated(gap)
    return both


def _claims(draft: AxisDraft, families: Families) -> dict[str, float]:
    """Return the p-value of each group that may be claimed."""
    if not draft.is_tested:
        return {}
    return {
        name: _claim(draft, number, _within_family(families.gaps), _within_family(families.beyond))
        for number, name in enumerate(draft.gaps.names)
        if draft.may_speak(number)
    }


_Adjusted = Callable[[RowSet, int], float]
"""Maps a set of rows and the number of one to the row's p-value over everything that is claimed."""


def _within_family(family: Family) -> _Adjusted:
    return lambda rows, number: rows.adjusted(number, family)


def _alone(rows: RowSet, number: int) -> float:
    return float(rows.p[number])


def _claim(draft: AxisDraft, number: int, adjusted: _Adjusted, beyond: _Adjusted | None) -> float:
    """Return the p-value of one group's claim: the larger one of its gap and of its gap beyond the placebo.

    A gap between three groups or more needs no placebo, unless nearly all originals are of one group: the other groups
    are rewritten as well.

    Args:
        draft: of its axis and metric.
        number: of its row.
        adjusted: of gaps.
        beyond: the same for gaps beyond the placebo; None to ignore the placebo.
    """
    p = adjusted(draft.gaps, number)
    name = draft.gaps.names[number]
    if beyond is not None and not draft.result.is_controlled:
        if draft.beyond is not None and name in draft.beyond.names:
            place = draft.beyond.names.index(name)
            same_side = draft.gaps.rows.values[number] * draft.beyond.rows.values[place] > 0
            p = max(p, beyond(draft.beyond, place) if same_side else 1.0)
        elif draft.needs_placebo:
            p = 1.0
    return 1.0 if np.isnan(p) else p


def _claims_of_terms_only(draft: AxisDraft, families: Families) -> dict[str, float]:
    """The same with dialogues as the only sample, of all groups."""
    if not draft.is_tested:
        return {}
    only, alike = draft.with_these_terms, families.with_these_terms
    return {
        name: _claim(only, number, _within_family(alike.gaps), _within_family(alike.beyond))
        for number, name in enumerate(only.gaps.names)
    }


def _is_within(within: float | None, margin: float) -> bool:
    return within is not None and within <= margin


def _verdict_of(
    claims: Mapping[str, float], of_terms_only: Mapping[str, float], alpha: float, *, is_within: bool
) -> Verdict:
    """Return the verdict of an axis and metric.

    Args:
        claims: group to the p-value of its claim.
        of_terms_only: the same with dialogues as the only sample.
        alpha: level of a claim.
        is_within: True if all gaps are shown to be within the margin that was asked for.
    """
    if is_within:
        return EQUIVALENT
    if any(p < alpha for p in claims.values()):
        return DISPARITY
    return THESE_TERMS if any(p < alpha for p in of_terms_only.values()) else INCONCLUSIVE


def _apart(
    draft: AxisDraft,
    families: Families,
    verdict: Verdict,
    claims: Mapping[str, float],
    of_terms_only: Mapping[str, float],
) -> dict[str, Any]:
    """Return the groups that a finding names, each against those that do not differ, with the p-value of its claim.

    A difference names at least one group whose claim is shown. If the smallest set has none, which can happen with rare
    events, it is the group whose own gap is claimed with the smallest p-value.

    Returns:
        The fields ``apart`` and, if it is not that of the draft, ``smallest``.
    """
    rows, gaps, family, known = draft.apart, draft.gaps, families.gaps, {**of_terms_only, **claims}
    if verdict == THESE_TERMS:
        rows, gaps, family = draft.apart_of_terms_only, draft.of_terms_only, families.of_terms_only
        known = {**of_terms_only}
    estimates = rows.estimates(family if draft.is_tested else None)
    apart = {name: _with_claim(some, known.get(name, 1.0)) for name, some in estimates.items()}
    if verdict not in DIFFERENT or not apart or any(some.is_shown for some in apart.values()):
        return {"apart": apart}
    p_of = of_terms_only if verdict == THESE_TERMS else claims
    name = min(p_of, key=lambda name: p_of[name])
    of_group = _with_claim(_from_others(gaps.estimates(family)[name], name, draft.gaps), p_of[name])
    return {"apart": {name: of_group}, "smallest": [name]}


def _from_others(gap: Estimate, name: str, gaps: RowSet) -> Estimate:
    """Return a group's difference from the mean of the other groups, which its gap from the mean of all is a part of.

    Args:
        gap: from the mean of the groups that are compared: those with enough terms, or all of them.
        name: of the group.
        gaps: of all groups.
    """
    enough = [other for other, is_enough in zip(gaps.names, gaps.over_terms, strict=True) if is_enough]
    compared = enough if len(enough) > 1 else [*gaps.names]
    factor = len(compared) / (len(compared) - 1) if name in compared else 1.0
    changed: dict[str, Any] = {
        "value": None if gap.value is None else gap.value * factor,
        "se": None if gap.se is None else gap.se * factor,
        "ci": None if gap.ci is None else (gap.ci[0] * factor, gap.ci[1] * factor),
    }
    return gap.model_copy(update=changed)


def _with_claim(estimate: Estimate, p: float) -> Estimate:
    """Return an estimate with the p-value of its claim, if that is larger; the interval reaches 0 where it is not."""
    if estimate.p is None or estimate.ci is None or estimate.value is None or p <= estimate.p:
        return estimate
    least = abs(estimate.value) if p >= ALPHA else 0.0
    low, high = max(estimate.value - estimate.ci[0], least), max(estimate.ci[1] - estimate.value, least)
    return estimate.model_copy(update={"p": p, "ci": (estimate.value - low, estimate.value + high)})


def _limiting_factors(draft: AxisDraft, families: Families, alpha: float) -> list[str]:
    """Return the conditions that each alone keep an axis from a disparity, everything else unchanged."""
    if draft.result.unmeasured:
        return [UNMEASURED]
    if not draft.is_tested or not any(np.isfinite(draft.gaps.p)):
        return [TESTS]
    only, alike = draft.with_these_terms, families.with_these_terms

    def any_row(rows: AxisDraft, over: Families, chosen: bool, *, bare: bool = False, alone: bool = False) -> bool:
        gaps, beyond = (_alone,) * 2 if alone else map(_within_family, (over.gaps, over.beyond))
        return any(
            _claim(rows, number, gaps, None if bare else beyond) < alpha
            for number in range(len(rows.gaps.names))
            if draft.may_speak(number) is chosen
        )

    parts = {
        TERMS: any_row(only, alike, chosen=False),
        OTHER_TERMS: any_row(only, alike, chosen=True),
        NOT_BEYOND_PLACEBO: any_row(draft, families, chosen=True, bare=True),
        OTHER_TESTS: any_row(draft, families, chosen=True, alone=True),
    }
    if not any(parts.values()) and any_row(only, alike, chosen=False, bare=True):
        return [TERMS, NOT_BEYOND_PLACEBO]
    return [name for name, holds in parts.items() if holds]


def _within(draft: AxisDraft, alpha: float) -> float | None:
    """Return the smallest margin within which all gaps are shown to be; because all must be, none is adjusted.

    A gap that cannot be separated from the effect of rewording must be within it also beyond the placebo's.
    """
    if not draft.may_be_equal or len(draft.gaps.names) < 2 or (draft.needs_placebo and draft.beyond is None):
        return None
    every = [draft.gaps, draft.pairs, *([draft.beyond] if draft.needs_placebo and draft.beyond else [])]
    margins = [rows.within(alpha) for rows in every if rows.names]
    return None if any(np.isnan(margins)) else finite(max(margins))


def _detectable(draft: AxisDraft, families: Families) -> dict[str, float | None]:
    """Return the smallest difference between a group and all others that would be claimed in four of five such runs.

    The value is the median over groups with enough terms. If a claim takes the placebo, the difference must be found
    beyond it as well.
    """
    nothing: dict[str, float | None] = {"mde": None, "mde_se": None, "mde_se_terms_only": None}
    if not draft.is_tested:
        return nothing
    sizes = []
    beyond = None if draft.result.is_controlled else draft.beyond
    for rows, family in ((draft.gaps, families.gaps), (beyond, families.beyond)):
        if rows is None:
            continue
        chosen = np.flatnonzero(rows.over_terms)
        errors = rows.rows.errors[chosen]
        if not len(chosen) or np.isnan(errors).any():
            return nothing
        apart = len(draft.facts) / max(1, len(draft.facts) - 1)  # one group apart by 1 has a gap of 1 − 1/G
        of_dialogues = np.sqrt(draft.of_terms_only.rows.covariance.diagonal()[chosen])
        smallest = [rows.detectable(int(number), family) for number in chosen]
        sizes.append(tuple(float(np.median(some)) * apart for some in (smallest, errors, of_dialogues)))
    largest = max(sizes)
    return dict(zip(nothing, map(finite, largest), strict=True))


def _needed(draft: AxisDraft, families: Families, claims: Mapping[str, float]) -> dict[str, int]:
    """Return how many dialogues would claim the gap of each group that is suggestive, if it is as it was seen.

    Args:
        draft: of its axis and metric.
        families: in which it is claimed.
        claims: group to the p-value of its claim.
    """
    needed = {}
    beyond = None if draft.result.is_controlled else draft.beyond
    for number, name in enumerate(draft.gaps.names):
        if claims.get(name, 1.0) >= SUGGESTIVE:
            continue
        growths = []
        for rows, only, family in (
            (draft.gaps, draft.of_terms_only, families.gaps),
            (beyond, draft.beyond_of_terms_only, families.beyond),
        ):
            if rows is None or only is None or name not in rows.names:
                continue
            place = rows.names.index(name)
            growths.append(rows.growth(place, family, float(only.rows.errors[place])))
        dialogues = draft.gaps.affected[number][0].units
        if math.isfinite(growth := max(growths)) and growth * dialogues < MOST_NEEDED:
            needed[name] = math.ceil(growth * dialogues)
    return needed


def smallest_set(names: Sequence[str], gaps: Sequence[float], differ: Callable[[Sequence[str]], bool]) -> list[str]:
    """Return the smallest set of groups without which no difference is left among the others.

    This is closed testing over subsets of groups (Marcus, Peritz and Gabriel 1976). Of several sets of a size, the one
    that is farthest from the others is returned.

    Args:
        names: of the groups.
        gaps: of each, from the mean of groups.
        differ: returns whether some groups, two or more, are shown to differ among themselves.
    """
    size_of = dict(zip(names, gaps, strict=True))

    def distance(chosen: Sequence[str]) -> float:
        rest = [size_of[name] for name in names if name not in chosen]
        return abs(sum(size_of[name] for name in chosen) / len(chosen) - sum(rest) / len(rest))

    for size in range(1, len(names)):
        sets = [list(some) for some in combinations(names, size)]
        left = [some for some in sets if not differ([name for name in names if name not in some])]
        if left:
            return max(left, key=lambda some: (round(distance(some), 9), sum(size_of[name] for name in some)))
    return []


def negated(estimate: _Estimate) -> _Estimate:
    """The same estimate with the other sign, as a gap is seen from the other group."""
    changed: dict[str, Any] = {
        "value": None if estimate.value is None else -estimate.value,
        "ci": None if estimate.ci is None else (-estimate.ci[1], -estimate.ci[0]),
    }
    return estimate.model_copy(update=changed)
