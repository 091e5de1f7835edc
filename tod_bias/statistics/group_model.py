"""Gaps between groups on the same units, with the terms that stand for the groups as a sample.

A unit (a dialogue) d has a value for each group h, and the terms that express the group in it. The model is

    z_dh = α_d + γ_h + β x_dh + Σ_t w_dt u_ht + ε_dh

with an effect α_d of every unit, γ_h of every group, β of being the original (x_dh = 1 where a unit is not rewritten),
random effects u_ht of the terms (weights w_dt, which sum to 1) and errors ε that may depend on each other within a
unit. Groups are compared within units, so a unit without some of the groups takes part with those that it has.

The variance of a contrast of the γ has two parts. That between units comes from the residuals of whole units, so it
takes any dependence between the groups of a unit into account. That between terms comes from the variance τ²_h of the
terms of each group, which is estimated from sums of residuals over terms (method of moments), and moderated towards
the mean over groups, as Smyth (2004) moderates variances of genes: few terms tell little about a variance, and the mean
counts for more, the more alike the groups' variances are. Degrees of freedom are Satterthwaite's (1946), from Kish's
effective number of terms less one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse, special

from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.crossed import effective_number
from tod_bias.statistics.distributions import inverse_trigamma
from tod_bias.statistics.needed import FEWEST, MANY_CLUSTERS
from tod_bias.statistics.term_families import Columns, FactorTerms, TermFamily, TermSet, families_of

CERTAIN = 0.8
"""Share of all degrees of freedom of the terms that a contrast has at the most: variances of groups that are estimated
on the same units, and are cut off at 0, hold less than all of them. In simulations with two groups of six terms the
size at .05 is .064 with 1 and .057 with 0.8."""
ORIGINALS = 10.0
"""Effective number of units that the effect of being the original needs; with fewer it is not estimated."""
_TINY = 1e-12
"""Absolute values below this are rounding noise."""


class GroupDesign:
    """Units with a value per group, and the terms that express the group in them.

    Args:
        has: (units, groups) bool.
        terms: of each group (units, terms) weights, which sum to 1 if the unit has the group; None if a group is not
            expressed by terms (a reference variant), so that nothing about it is sampled. On crossed axes: the terms of
            each factor, whose levels share them.
        is_original: (units, groups) bool, True for values of originals; None if there are none.
        clusters: further kinds of clusters of units.
    """

    def __init__(
        self,
        has: np.ndarray,
        terms: Sequence[sparse.csr_array | None] | Sequence[FactorTerms],
        is_original: np.ndarray | None = None,
        clusters: Sequence[Clusters] = (),
    ) -> None:
        self.has = has & (has.sum(axis=1) > 1)[:, None]
        """(units, groups): a unit with one group alone compares nothing."""
        self.units = max(1, int(self.has.any(axis=1).sum()))
        self.groups = has.shape[1]
        present = [kind.within(self.has.any(axis=1)) for kind in clusters]
        self.kinds = [kind for kind in present if 1 < len(kind.names) < kind.sizes.sum()]
        """Kinds of clusters of the units that take part; a kind without a pair of units in a cluster tells nothing."""
        self.clusters = [kind for kind in self.kinds if not kind.are_few]
        """Kinds whose variance is estimated."""
        self._number = np.maximum(self.has.sum(axis=1), 1)
        moments = np.diag(self.has.sum(axis=0).astype(float)) - (self.has / self._number[:, None]).T @ self.has
        # groups that are compared on no common unit leave the moments singular; the rest is estimated nevertheless
        self._inverse = np.linalg.pinv(moments, rcond=1e-10, hermitian=True)
        self._set_originals(is_original)
        self.families = families_of(self.has, terms)
        """The terms, in sets whose effects vary alike."""

    def _set_originals(self, is_original: np.ndarray | None) -> None:
        self.has_originals = False
        """True if the effect of being the original is estimated."""
        if is_original is None:
            return
        x = self._centred(np.where(self.has & is_original, 1.0, 0.0))
        slope = self._inverse @ x.sum(axis=0)
        residual = x - self.within(slope)
        by_unit = (residual**2).sum(axis=1)
        total = float(by_unit.sum())
        # no variation is left where every unit's original is of one group: then the effect is the group's own
        if total > 1e-9 * self.units and effective_number(by_unit) >= ORIGINALS:
            self.has_originals = True
            self._originals = effective_number(by_unit)
            self._x, self._slope, self._residual_x, self._total_x = x, slope, residual, total

    def _centred(self, table: np.ndarray) -> np.ndarray:
        """Return (units, groups) values less the unit's mean; 0 for groups that the unit lacks."""
        table = np.where(self.has, table, 0.0)
        return np.where(self.has, table - (table.sum(axis=1) / self._number)[:, None], 0.0)

    def centred(self, values: np.ndarray) -> np.ndarray:
        """Return (units, groups, events) values less the unit's mean and the effect of being the original."""
        has = self.has[:, :, None]
        table = np.where(has, values, 0.0)
        table = np.where(has, table - (table.sum(axis=1) / self._number[:, None])[:, None], 0.0)
        if self.has_originals:
            effect = np.einsum("ug,uge->e", self._residual_x, table) / self._total_x
            table = table - self._x[:, :, None] * effect
        return table

    def within(self, effects: np.ndarray) -> np.ndarray:
        """Return the effects (groups,) of groups within units, (units, groups)."""
        return self._centred(np.broadcast_to(effects, self.has.shape))

    def coefficients(self, contrast: np.ndarray) -> np.ndarray:
        """(units, groups): the weights with which values add up to the estimate of a contrast of groups."""
        columns = self.columns(contrast[None])
        return np.concatenate([columns(group) for group in range(self.groups)], axis=1)

    def columns(self, contrasts: np.ndarray) -> Columns:
        """The weights of several contrasts, (rows, groups), by group."""
        effects = self._inverse @ contrasts.T  # (groups, rows)
        mean = (self.has @ effects) / self._number[:, None]

        def column(group: int) -> np.ndarray:
            weights = np.where(self.has[:, [group]], effects[group] - mean, 0.0)
            if self.has_originals:
                weights -= np.outer(self._residual_x[:, group], contrasts @ self._slope / self._total_x)
            return weights

        return column

    def sets_of(self, group: int) -> list[TermSet]:
        """The terms that express a group: its own, or on crossed axes those of its level of each factor."""
        sets = [family.set(n) for family in self.families if family.is_main for n in family.sets_of(group)]
        return [some for some in sets if some is not None]

    @property
    def terms_by_group(self) -> list[sparse.csr_array | None] | None:
        """The (units, terms) weights of each group; None on crossed axes, whose groups share terms."""
        return list(self.families[0].terms) if len(self.families) == 1 else None

    def in_contrast(self, contrast: np.ndarray) -> list[TermSet | None]:
        """Return the terms of all groups, or levels, in a contrast; None for a group that is not expressed by terms."""
        return [
            family.set(int(n))
            for family in self.families
            for n in np.flatnonzero(np.abs(family.of_contrast(contrast)) > _TINY)
        ]

    def behind(self, contrast: np.ndarray) -> list[TermSet | None]:
        """Return the terms of the groups in a contrast; None for a group that is not expressed by terms."""
        sets = [family.set(n) for family in self.families for n in focal(family.of_contrast(contrast))]
        is_crossed = len(self.families) > 1
        return sets + [None for group in focal(contrast) if is_crossed and not self.sets_of(group)]

    def merged(self, table: np.ndarray, *, over_clusters: bool = True) -> np.ndarray:
        """Return (units, …) contributions with those of a randomisation unit in one row: of copies, and of a cluster.

        Signs are flipped by cluster (Canay, Romano and Shaikh 2017), of the kind with the fewest effective clusters.

        Args:
            table: (units, …).
            over_clusters: whether clusters are a sample, where they are enough.
        """
        for kind in self.kinds:
            table = kind.merged(table) if kind.are_copies else table
        sampled = self.sampled(over_clusters=over_clusters)
        return min(sampled, key=lambda kind: kind.effective).merged(table) if sampled else table

    @property
    def has_clusters(self) -> bool:
        """True if the variance between any clusters, other than copies of one unit, is estimated."""
        return not all(kind.are_copies for kind in self.clusters)

    @property
    def has_few_clusters(self) -> bool:
        """True if some kind of clusters, other than copies of one unit, is a sample of few."""
        return any(not kind.are_copies and kind.effective < MANY_CLUSTERS for kind in self.clusters)

    def sampled(self, *, over_clusters: bool) -> list[Clusters]:
        """Return the kinds of clusters whose variance is estimated; copies of a dialogue are never independent."""
        return [kind for kind in self.clusters if over_clusters or kind.are_copies]

    def fit(self, values: np.ndarray) -> GroupFit:
        """Estimate the model for (units, groups) values; values of groups that a unit lacks are ignored."""
        return GroupFit(self, values)


class GroupFit:
    """The model, estimated.

    Args:
        design: of the values.
        values: (units, groups).
    """

    def __init__(self, design: GroupDesign, values: np.ndarray) -> None:
        self.design = design
        centred = design._centred(np.nan_to_num(values))
        self.values = np.where(design.has, np.nan_to_num(values), 0.0)
        self.effect_of_originals = 0.0
        """β."""
        if design.has_originals:
            self.effect_of_originals = float((design._residual_x * centred).sum()) / design._total_x
            centred = centred - self.effect_of_originals * design._x
        self.centred = centred
        """(units, groups) values less the mean of the unit, and less the effect of being the original."""
        self.effects = design._inverse @ centred.sum(axis=0)
        """(groups,) γ, identified only in contrasts."""
        self.residuals = centred - design.within(self.effects)
        self._parts = [family.part_of(self.residuals) for family in design.families]
        self._moderated = [_moderated(*some) for some in zip(design.families, self._parts, strict=True)]

    def rows(
        self, contrasts: np.ndarray, over_terms: np.ndarray | bool = True, *, over_clusters: bool = True
    ) -> RowEstimates:
        """Estimates of contrasts.

        Args:
            contrasts: (rows, groups), each summing to 0.
            over_terms: (rows,) bool, True if the terms are a sample; otherwise the row holds for these terms only.
            over_clusters: True if the clusters are a sample; otherwise the rows hold for these clusters only.
        """
        if not len(contrasts):
            return RowEstimates(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, 0)))
        over = np.broadcast_to(np.asarray(over_terms, dtype=bool), (len(contrasts),))
        columns, design = self.design.columns(contrasts), self.design
        values, influence = np.zeros(len(contrasts)), np.zeros((len(design.has), len(contrasts)))
        for group in range(design.groups):
            weights = columns(group)
            values += self.values[:, group] @ weights
            influence += self.residuals[:, [group]] * weights
        if design.has_originals:
            influence /= (1 - (design._residual_x**2).sum(axis=1) / design._total_x)[:, None]
        rows = self.estimated(values, influence, columns, over, over_clusters=over_clusters)
        if np.isnan(rows.errors).any():
            return rows
        return self._with_floor(self._with_unseen_originals(rows, contrasts), contrasts, over)

    def _with_unseen_originals(self, rows: RowEstimates, contrasts: np.ndarray) -> RowEstimates:
        """Add the error that one more deviating unit would make in the effect of being the original.

        If nearly all units are originals of one group, the effect is estimated from few units. Rare effects may occur
        in none of these, whose variance is then 0. One unit is added, as Agresti and Coull (1998) add some.
        """
        design, size = self.design, np.abs(self.values)
        if not design.has_originals or size.max(initial=0.0) < _TINY:
            return rows
        added = contrasts @ design._slope * (size**2).sum() / size.sum() / design._originals
        covariance = rows.covariance + np.outer(added, added)
        return RowEstimates(rows.values, np.sqrt(rows.errors**2 + added**2), rows.freedom, covariance)

    def _with_floor(self, rows: RowEstimates, contrasts: np.ndarray, over: np.ndarray) -> RowEstimates:
        """:func:`with_floor`, of dialogues and of the terms of the groups that a contrast is about."""
        units = np.full(len(contrasts), float(self.design.units))
        for number, contrast in enumerate(contrasts):
            sizes = [
                family.freedom[place] + 1
                for family in self.design.families
                for place in np.flatnonzero(np.abs(family.of_contrast(contrast)) > _TINY)
                if over[number] and family.terms[place] is not None
            ]
            units[number] = min([units[number], *sizes])
        return with_floor(rows, units)

    def estimated(
        self,
        values: np.ndarray,
        influence: np.ndarray,
        columns: Columns,
        over: np.ndarray,
        *,
        over_clusters: bool = True,
    ) -> RowEstimates:
        """Estimates whose values and influences are known, and whose terms vary as this model's do.

        Args:
            values: (rows,).
            influence: (units, rows), how far each unit moves each value, with mean 0.
            columns: of a group (units, rows) weights, with which effects of terms add up to the values.
            over: (rows,) bool, whether terms are a sample.
            over_clusters: whether clusters are a sample, where they are enough.
        """
        design = self.design
        correction = design.units / max(1, design.units - 1)
        covariance = correction * influence.T @ influence
        parts = _Parts(np.diag(covariance).copy())
        by_unit, is_crossed = np.zeros(influence.shape), len(design.families) > 1
        for h in range(design.groups):
            by_unit += columns(h) ** 2
            if is_crossed and not design.sets_of(h):
                parts.add_noise(((columns(h) * self.residuals[:, h : h + 1]) ** 2).sum(axis=0))
        for family, part, (variances, prior) in zip(design.families, self._parts, self._moderated, strict=True):
            between, takes_part = np.zeros((len(family.terms), len(values))), np.full(len(values), not is_crossed)
            for place, terms in enumerate(family.terms):
                if terms is None:
                    continue
                weights = family.column(columns, place)
                takes_part |= (np.abs(weights) > _TINY).any(axis=0)
                by_term = terms.T @ weights
                together = by_term.T @ by_term - (weights * family.squares[:, place : place + 1]).T @ weights
                together = variances[place] * np.where(np.outer(over, over), together, 0.0)
                covariance += together
                between[place] = np.maximum(np.diag(together), 0.0)
            parts.add_terms(family, prior, family.noise_of(part, columns), between, takes_part)
        for kind in design.sampled(over_clusters=over_clusters):
            covariance = parts.add_clusters(kind, influence, covariance)
        values = np.where(np.abs(values) < _TINY, 0.0, values)
        covariance = np.where(np.outer(_small(covariance), _small(covariance)), 0.0, covariance)
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if design.units < FEWEST:
            error = np.full(len(values), np.nan)
        return RowEstimates(values, error, parts.freedom(np.diag(covariance), _freedom(by_unit), over), covariance)


def with_floor(rows: RowEstimates, units: np.ndarray) -> RowEstimates:
    """Bound the error from below by the error that one deviating unit would make; all units may be equal to the last
    digit.

    Args:
        rows: some estimates.
        units: (rows,) number of dialogues of each row, or of terms if they are fewer.
    """
    least = np.abs(rows.values) / np.maximum(units, 1)
    constant = (rows.errors <= 1e-9 * np.abs(rows.values)) & (rows.values != 0)
    errors = np.where(constant, least, rows.errors)
    covariance = np.where(np.outer(constant, constant), np.outer(least, least) * np.eye(len(least)), rows.covariance)
    return RowEstimates(rows.values, errors, rows.freedom, covariance)


def _moderated(family: TermFamily, part: np.ndarray) -> tuple[np.ndarray, float]:
    """(sets,) variances τ² of the terms of a family, moderated, and the degrees of freedom of their mean in them.

    Args:
        family: of terms.
        part: (units, groups) the part of residuals in which it is seen.
    """
    seen = family.sums_of(part)
    sums = np.zeros(len(family.terms))
    for place, terms in enumerate(family.terms):
        if terms is not None:
            sums[place] = float(((terms.T @ seen[:, place]) ** 2).sum())
    noise = (seen**2 * family.scatter).sum(axis=0)
    is_known = (family.moments > 1e-6 * family.units) & (family.freedom > 0)
    single = np.where(is_known, (sums - noise) / np.where(is_known, family.moments, 1.0), 0.0)
    freedom = np.where(is_known, family.freedom, 0.0)
    mean = float((freedom * single).sum() / max(freedom.sum(), _TINY))
    prior = _prior(sums[is_known], (noise + family.moments * mean)[is_known], freedom[is_known])
    # A group whose own terms vary more than the others' keeps its variance: if one group of four to six terms alone
    # has quirks, .08 to .11 of null samples were claimed with the mean, .05 to .08 without.
    moderated = np.maximum(single, np.maximum(0.0, (prior * mean + freedom * single) / (prior + freedom)))
    return np.where([some is None for some in family.terms], 0.0, moderated), prior


def _prior(sums: np.ndarray, expected: np.ndarray, freedom: np.ndarray) -> float:
    """Degrees of freedom of the mean over groups, which are higher if the groups' variances are more alike.

    Where variances are drawn from an inverse χ² distribution of d degrees of freedom, the logarithm of one that is
    estimated with f varies by ψ'(f/2) + ψ'(d/2) (Smyth 2004, section 6.2). One standard error is added to the variance
    beyond ψ'(f/2), because few groups carry little information about their likeness. The upper limit of d is the
    degrees of freedom of all groups but one.

    Args:
        sums: (groups,) squared sums over terms, to which
        expected: (groups,) belong, if all terms vary alike.
        freedom: (groups,) of their terms.
    """
    number = len(sums)
    if number < 2:
        return 1.0
    most = float(freedom.sum() * (number - 1) / number)
    if (expected <= 0).any():
        return max(1.0, most)
    half = freedom / 2
    logs = np.log(np.maximum(sums / expected, _TINY)) - special.digamma(half) + np.log(half)
    by_chance = special.polygamma(1, half)
    fourth = special.polygamma(3, half).mean() + 2 * by_chance.mean() ** 2 * number / (number - 1)
    beyond = logs.var(ddof=1) - by_chance.mean() + np.sqrt(fourth / number)
    return max(_TINY, min(most, 2 * inverse_trigamma(beyond))) if beyond > 0 else most


@dataclass(frozen=True)
class RowEstimates:
    """Estimates of several contrasts."""

    values: np.ndarray
    """(rows,)."""
    errors: np.ndarray
    """(rows,) standard errors; NaN with too few units or clusters."""
    freedom: np.ndarray
    """(rows,) degrees of freedom."""
    covariance: np.ndarray
    """(rows, rows)."""


class _Parts:
    """The parts of the variances of rows, with their degrees of freedom."""

    def __init__(self, between_units: np.ndarray) -> None:
        self._units = between_units
        self._noise = np.zeros(len(between_units))
        self._families: list[_FamilyPart] = []
        self._clusters: list[tuple[np.ndarray, float]] = []

    def add_noise(self, noise: np.ndarray) -> None:
        """Errors of a group without terms."""
        self._noise += noise

    def add_terms(
        self, family: TermFamily, prior: float, noise: np.ndarray, between: np.ndarray, takes_part: np.ndarray
    ) -> None:
        """The errors, (sets, rows), of the sets of a family, the variances between their terms, and (rows,) whether any
        moves a row. Their degrees of freedom count in all rows, as each variance takes part in the mean over sets."""
        for some in noise:
            self._noise += some
        has_terms = np.array([terms is not None for terms in family.terms])
        noise, freedom = noise * has_terms[:, None], family.freedom * has_terms
        self._families.append(_FamilyPart(noise.T, between.T, freedom, family.common, prior, takes_part))

    def add_clusters(self, kind: Clusters, influence: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """The covariance with that between clusters of units (CV3, the jackknife: MacKinnon, Nielsen and Webb 2023).

        The variance is never below that between units. Its degrees of freedom are always those of the clusters: to
        take those of the units where the clusters seem to vary no more would be a pretest.
        """
        number = len(kind.names)
        share = kind.sizes / max(1, kind.sizes.sum())
        sums = kind.sums(influence) / (1 - share)[:, None]
        sums = sums - sums.mean(axis=0)
        between = (number - 1) / number * (sums**2).sum(axis=0)
        more = np.maximum(between - self._units, 0.0)
        self._clusters.append((self._units + more, kind.freedom))
        scale = np.sqrt(1 + more / np.maximum(np.diag(covariance), _TINY))
        return covariance * np.outer(scale, scale)

    def freedom(self, variance: np.ndarray, of_units: np.ndarray, over: np.ndarray) -> np.ndarray:
        """Satterthwaite's degrees of freedom of each row, (rows,), from those of the variances between units."""
        bottom = self._units**2 / of_units
        most = np.full(len(variance), np.inf)
        by_terms = np.zeros(len(variance))
        for part in self._families:
            by_terms += part.doubt((self._units / np.maximum(self._noise, _TINY))[:, None])
            total = part.total
            most = np.where(over & part.takes_part & (total > 0), np.minimum(most, CERTAIN * total), most)
        bottom = np.where(over, np.maximum(bottom, by_terms), bottom)
        for between_clusters, of_clusters in self._clusters:
            bottom = bottom + between_clusters**2 / max(of_clusters, 1.0)
        most = np.minimum(most, of_units)
        freedom = np.where(variance > 0, np.minimum(variance**2 / np.where(bottom > 0, bottom, 1.0), most), most)
        return np.maximum(freedom, 1.0)  # two clusters tell little, and a t distribution needs one degree


class _FamilyPart(NamedTuple):
    """Part of a family of terms in the variances of rows."""

    noise: np.ndarray
    """(rows, sets) errors."""
    between: np.ndarray
    """(rows, sets) variance between terms."""
    freedom: np.ndarray
    """(sets,)."""
    common: np.ndarray
    """(sets, sets)."""
    prior: float
    """Degrees of freedom of the mean over sets."""
    takes_part: np.ndarray
    """(rows,) whether the terms move a row."""

    def doubt(self, scale: np.ndarray) -> np.ndarray:
        """(rows,) squared variances by their degrees of freedom, with the errors times (rows, 1)."""
        return self._together((self.noise * scale + self.between) / np.sqrt(self.prior + self.freedom))

    @property
    def total(self) -> float:
        """Sum of all degrees of freedom."""
        return float(self.freedom.sum() ** 2 / max(self._together(np.sqrt(self.freedom)[None])[0], _TINY))

    def _together(self, parts: np.ndarray) -> np.ndarray:
        """Return (rows,) sums of products of (rows, sets) parts, weighted by the share of common sums."""
        return np.asarray(((parts @ self.common) * parts).sum(axis=1))


def focal(contrast: np.ndarray) -> list[int]:
    """The groups, or sets of terms, that a contrast is about: with more than half of its largest coefficient."""
    size = np.abs(contrast)
    return [int(group) for group in np.flatnonzero(size > size.max() / 2 + _TINY)]


def _small(covariance: np.ndarray) -> np.ndarray:
    """(rows,) whether a standard error is rounding noise."""
    return np.asarray(np.diag(covariance) < _TINY**2)


def _freedom(by_unit: np.ndarray) -> np.ndarray:
    """Degrees of freedom of the variances between units, (rows,): their effective number by (units, rows) squared
    weights, less one."""
    return np.asarray(np.maximum(1.0, by_unit.sum(axis=0) ** 2 / np.maximum((by_unit**2).sum(axis=0), 1e-300) - 1))


def stacked(weights: Sequence[np.ndarray]) -> Columns:
    """(units, groups) weights of each row, by group."""
    return lambda group: np.stack([some[:, group] for some in weights], axis=1)
