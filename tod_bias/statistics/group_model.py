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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.needed import FEWEST

PRIOR = 4.0
"""Degrees of freedom of the mean over groups, towards which the variance of a group's terms is moderated, at the least:
:func:`_prior`."""
CERTAIN = 0.8
"""Share of all degrees of freedom of the terms that a contrast has at the most: variances of groups that are estimated
on the same units, and are cut off at 0, hold less than all of them. In simulations with two groups of six terms the
size at .05 is .064 with 1 and .057 with 0.8."""
ORIGINALS = 10.0
"""Effective number of units that the effect of being the original has to rest on; with fewer it is not estimated."""
_TINY = 1e-12
"""What is smaller is rounding noise."""


Columns = Callable[[int], np.ndarray]
"""Of a group the weights of several rows, (units, rows)."""


class GroupDesign:
    """Which units have a value for which groups, and which terms express the group there.

    Args:
        has: (units, groups) bool.
        terms: of each group (units, terms) weights, which sum to 1 where the unit has the group; None where a group is
            not expressed by terms (a reference variant), so that nothing about it is sampled.
        is_original: (units, groups) bool, what was not rewritten; None where nothing was.
        clusters: further kinds of clusters of units.
    """

    def __init__(
        self,
        has: np.ndarray,
        terms: Sequence[sparse.csr_array | None],
        is_original: np.ndarray | None = None,
        clusters: Sequence[Clusters] = (),
    ) -> None:
        self.has = has & (has.sum(axis=1) > 1)[:, None]
        """(units, groups): a unit with one group alone compares nothing."""
        self.units = max(1, int(self.has.any(axis=1).sum()))
        self.groups = has.shape[1]
        self.clusters = [kind.within(self.has.any(axis=1)) for kind in clusters]
        self._number = np.maximum(self.has.sum(axis=1), 1)
        self._terms = [None if some is None else _masked(some, self.has[:, h]) for h, some in enumerate(terms)]
        moments = np.diag(self.has.sum(axis=0).astype(float)) - (self.has / self._number[:, None]).T @ self.has
        self._inverse = np.linalg.pinv(moments, rcond=1e-10, hermitian=True)
        self._set_originals(is_original)
        self._set_moments()

    def _set_originals(self, is_original: np.ndarray | None) -> None:
        self.has_originals = False
        """Whether the effect of being the original is estimated."""
        if is_original is None:
            return
        x = self._centred(np.where(self.has & is_original, 1.0, 0.0))
        slope = self._inverse @ x.sum(axis=0)
        residual = x - self.within(slope)
        by_unit = (residual**2).sum(axis=1)
        total = float(by_unit.sum())
        if total > 1e-9 * self.units and total**2 / float((by_unit**2).sum()) >= ORIGINALS:
            self.has_originals = True
            self._x, self._slope, self._residual_x, self._total_x = x, slope, residual, total

    def _set_moments(self) -> None:
        """What the variances of terms make of the squared sums of residuals over terms."""
        share = self.has / self._number[:, None]
        size = [_Size(some, self.has[:, h]) for h, some in enumerate(self._terms)]
        self.freedom = np.array([some.freedom for some in size])
        """(groups,) effective number of terms less one."""
        self.scatter = np.stack([some.scatter for some in size], axis=1)
        """(units, groups) squared distance of a unit's weights from their mean."""
        self._squares = np.stack([some.squares for some in size], axis=1)
        moments, of_units = np.zeros((2, self.groups, self.groups))
        for h in range(self.groups):
            for k in range(self.groups):
                first, second = self._terms[h], self._terms[k]
                if first is None or second is None:
                    continue
                weights = self.has[:, h] * ((h == k) - share[:, k])
                moments[h, k] = _overlap(first, second, weights, size[h].mean)
                of_units[h, k] = float((weights**2 * self.scatter[:, h] * self.scatter[:, k]).sum())
        length = np.sqrt(np.maximum(np.diag(moments), _TINY))
        self.common = np.maximum(moments / np.outer(length, length), np.eye(self.groups))
        """(groups, groups), 0 to 1: how much the variances of two groups' terms rest on the same sums; wholly where
        both have the same clusters of units, as the words of one paradigm make them."""
        self._moments = (moments - of_units).sum(axis=1)

    def _centred(self, table: np.ndarray) -> np.ndarray:
        """(units, groups) values less the mean of those that the unit has; 0 where it has none."""
        table = np.where(self.has, table, 0.0)
        return np.where(self.has, table - (table.sum(axis=1) / self._number)[:, None], 0.0)

    def within(self, effects: np.ndarray) -> np.ndarray:
        """What effects (groups,) of groups are within units, (units, groups)."""
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

    def terms_of(self, group: int) -> sparse.csr_array | None:
        """(units, terms) weights of the terms of a group."""
        return self._terms[group]

    def fit(self, values: np.ndarray) -> GroupFit:
        """Estimate the model for (units, groups) values; what stands where a unit has no group is not read."""
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
        self.effects = design._inverse @ centred.sum(axis=0)
        """(groups,) γ, of which only contrasts are known."""
        self.residuals = centred - design.within(self.effects)
        self.variances, self.prior = self._moderated()
        """(groups,) τ² of the terms, moderated, and the degrees of freedom of the mean over groups in them."""

    def _moderated(self) -> tuple[np.ndarray, float]:
        design = self.design
        sums = np.zeros(design.groups)
        for h in range(design.groups):
            terms = design.terms_of(h)
            if terms is not None:
                sums[h] = float(((terms.T @ self.residuals[:, h]) ** 2).sum())
        noise = (self.residuals**2 * design.scatter).sum(axis=0)
        is_known = (design._moments > 1e-6 * design.units) & (design.freedom > 0)
        single = np.where(is_known, (sums - noise) / np.where(is_known, design._moments, 1.0), 0.0)
        freedom = np.where(is_known, design.freedom, 0.0)
        mean = float((freedom * single).sum() / max(freedom.sum(), _TINY))
        prior = _prior(sums[is_known], (noise + design._moments * mean)[is_known], freedom[is_known])
        moderated = np.maximum(0.0, (prior * mean + freedom * single) / (prior + freedom))
        return np.where([design.terms_of(h) is None for h in range(design.groups)], 0.0, moderated), prior

    def rows(self, contrasts: np.ndarray, over_terms: np.ndarray | bool = True) -> RowEstimates:
        """Estimates of contrasts.

        Args:
            contrasts: (rows, groups), each summing to 0.
            over_terms: (rows,) bool, whether the terms are a sample; where not, the row is of these terms only.
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
        rows = self.estimated(values, influence, columns, over)
        return rows if np.isnan(rows.errors).any() else self._with_floor(rows, contrasts, over)

    def _with_floor(self, rows: RowEstimates, contrasts: np.ndarray, over: np.ndarray) -> RowEstimates:
        """:func:`with_floor`, of dialogues and of the terms of the groups that a contrast is about."""
        units = np.full(len(contrasts), float(self.design.units))
        for number, contrast in enumerate(contrasts):
            sizes = [
                self.design.freedom[h] + 1
                for h in np.flatnonzero(np.abs(contrast) > _TINY)
                if over[number] and self.design.terms_of(int(h)) is not None
            ]
            units[number] = min([units[number], *sizes])
        return with_floor(rows, units)

    def estimated(self, values: np.ndarray, influence: np.ndarray, columns: Columns, over: np.ndarray) -> RowEstimates:
        """Estimates whose values and influences are known, and whose terms vary as this model's do.

        Args:
            values: (rows,).
            influence: (units, rows), how far each unit moves each value, with mean 0.
            columns: of a group (units, rows) weights, with which effects of terms add up to the values.
            over: (rows,) bool, whether terms are a sample.
        """
        design = self.design
        correction = design.units / max(1, design.units - 1)
        covariance = correction * influence.T @ influence
        parts = _Parts(np.diag(covariance).copy(), design.common, self.prior)
        by_unit = np.zeros(influence.shape)
        for h in range(design.groups):
            terms, weights = design.terms_of(h), columns(h)
            by_unit += weights**2
            noise = ((weights * self.residuals[:, h : h + 1]) ** 2).sum(axis=0)
            if terms is None:
                parts.add_noise(noise)
                continue
            by_term = terms.T @ weights
            together = by_term.T @ by_term - (weights * design._squares[:, h : h + 1]).T @ weights
            together = self.variances[h] * np.where(np.outer(over, over), together, 0.0)
            covariance += together
            parts.add_terms(noise, np.maximum(np.diag(together), 0.0), h, float(design.freedom[h]))
        for kind in design.clusters:
            covariance = parts.add_clusters(kind, influence, covariance)
        values = np.where(np.abs(values) < _TINY, 0.0, values)
        covariance = np.where(np.outer(_small(covariance), _small(covariance)), 0.0, covariance)
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if design.units < FEWEST:
            error = np.full(len(values), np.nan)
        return RowEstimates(values, error, parts.freedom(np.diag(covariance), _freedom(by_unit), over), covariance)


def with_floor(rows: RowEstimates, units: np.ndarray) -> RowEstimates:
    """Where all units show the same to the last digit, the error is what one that does not would make.

    Args:
        rows: some estimates.
        units: (rows,), how many dialogues, or terms if they are fewer, each rests on.
    """
    least = np.abs(rows.values) / np.maximum(units, 1)
    constant = (rows.errors <= 1e-9 * np.abs(rows.values)) & (rows.values != 0)
    errors = np.where(constant, least, rows.errors)
    covariance = np.where(np.outer(constant, constant), np.outer(least, least) * np.eye(len(least)), rows.covariance)
    return RowEstimates(rows.values, errors, rows.freedom, covariance)


def _prior(sums: np.ndarray, expected: np.ndarray, freedom: np.ndarray) -> float:
    """Degrees of freedom of the mean over groups: the more alike the groups' variances are, the more.

    Where variances are drawn from an inverse χ² distribution of d degrees of freedom, those estimated with f vary by
    2/f + (1 + 2/f) 2/(d - 4) of their squared mean. What they vary by beyond 2/f is taken with one standard error on
    top of it, and d is f or :data:`PRIOR` per further group at the most, as few terms or groups tell little about how
    alike variances are.

    Args:
        sums: (groups,) squared sums over terms, to which
        expected: (groups,) belong, if all terms vary alike.
        freedom: (groups,) of their terms.
    """
    if len(sums) < 2 or (expected <= 0).any():
        return PRIOR
    f = float(freedom.mean())
    most = max(PRIOR, min(PRIOR * (len(sums) - 1), f))
    error = np.sqrt((8 + 48 / f) / len(sums)) / f
    beyond = ((sums / expected - 1) ** 2 - 2 / freedom).mean() + error
    return float(min(most, PRIOR + 2 * (1 + 2 / f) / beyond)) if beyond > 0 else most


@dataclass(frozen=True)
class RowEstimates:
    """Estimates of several contrasts."""

    values: np.ndarray
    """(rows,)."""
    errors: np.ndarray
    """(rows,) standard errors; NaN where there are too few units or clusters."""
    freedom: np.ndarray
    """(rows,) degrees of freedom."""
    covariance: np.ndarray
    """(rows, rows)."""


class _Parts:
    """The parts of the variances of rows, with their degrees of freedom."""

    def __init__(self, between_units: np.ndarray, common: np.ndarray, prior: float) -> None:
        self._units, self._prior = between_units, prior
        self._noise = np.zeros(len(between_units))
        self._common = common
        self._noise_of, self._between, self._freedom_of_terms = np.zeros((3, len(between_units), len(common)))
        self._clusters: list[tuple[np.ndarray, float]] = []

    def add_noise(self, noise: np.ndarray) -> None:
        """Errors of a group without terms."""
        self._noise += noise

    def add_terms(self, noise: np.ndarray, between_terms: np.ndarray, group: int, freedom: float) -> None:
        """A group's errors, the variance between its terms, and its degrees of freedom, which count in all rows, as its
        variance takes part in the mean over groups."""
        self._noise += noise
        self._noise_of[:, group], self._between[:, group] = noise, between_terms
        self._freedom_of_terms[:, group] = freedom

    def add_clusters(self, kind: Clusters, influence: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """The covariance with that between clusters of units, where these vary more than their units do (CV3)."""
        number = len(kind.names)
        share = kind.sizes / max(1, kind.sizes.sum())
        sums = kind.sums(influence) / (1 - share)[:, None]
        sums = sums - sums.mean(axis=0)
        between = (number - 1) / number * (sums**2).sum(axis=0)
        more = np.maximum(between - self._units, 0.0)
        self._clusters.append((np.where(more > 0, between, 0.0), kind.effective - 1))
        scale = np.sqrt(1 + more / np.maximum(np.diag(covariance), _TINY))
        return covariance * np.outer(scale, scale)

    def freedom(self, variance: np.ndarray, of_units: np.ndarray, over: np.ndarray) -> np.ndarray:
        """Satterthwaite's degrees of freedom of each row, (rows,), from those of the variances between units."""
        bottom = self._units**2 / of_units
        most = np.full(len(variance), np.inf)
        noise = self._noise_of * (self._units / np.maximum(self._noise, _TINY))[:, None]
        by_terms = self._together((noise + self._between) / np.sqrt(self._prior + self._freedom_of_terms))
        number = self._freedom_of_terms.sum(axis=1)
        total = number**2 / np.maximum(self._together(np.sqrt(self._freedom_of_terms)), _TINY)
        bottom = np.where(over, np.maximum(bottom, by_terms), bottom)
        most = np.where(over & (total > 0), CERTAIN * total, most)
        for between_clusters, of_clusters in self._clusters:
            bottom = bottom + between_clusters**2 / max(of_clusters, 1.0)
        most = np.minimum(most, of_units)
        return np.where(variance > 0, np.minimum(variance**2 / np.where(bottom > 0, bottom, 1.0), most), most)

    def _together(self, parts: np.ndarray) -> np.ndarray:
        """(rows,) sums of products of (rows, groups) parts, as far as they rest on the same sums."""
        return np.asarray(((parts @ self._common) * parts).sum(axis=1))


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


class _Size:
    """How the terms of one group are used."""

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
    """The squared sum over pairs of terms of what the second group's add to the sums over the first's."""
    table = (first.T @ sparse.diags_array(weights) @ second).tocoo()
    sums = weights @ second
    row, column = table.coords
    mixed = float((table.data * mean[row] * sums[column]).sum())
    return float((table.data**2).sum()) - 2 * mixed + float(mean @ mean) * float(sums @ sums)
