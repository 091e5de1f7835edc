"""Estimates of one axis and metric: gaps of groups, their parts by stage, and the axis as a whole.

    q(original) − q(∅)  =  [q(original) − q(N)]  +  [q(N) − q(∅)]
    what eq. 1 sees        artefact                 disparity

Values are signed: positive if the rewritten dialogues are served worse. Claims are made of the gaps. The gap of a group
is how much worse it is served than the mean of all groups on the same dialogues
(:mod:`tod_bias.statistics.group_model`).

Su's numbers are the fairscore (eq. 1) and its attribution along one order. They are kept for comparison with the paper,
and no verdict depends on them. They take absolute values before differences, so arms with different signs give shares
that no component has, and noise counts as unfairness. There are two departures from the paper. The paper's total bar is
v({db}), here ``total``; its fairscore v(∅) is another number. The part that remains with every component replaced is
``residual`` here, while in the paper it belongs to the response model's share. Absolute values are averaged over draws,
as in the paper; in the crossed design they are averaged over groups, each with the dialogues that are rewritten for it.
Eq. 1 by source and target group is the paper's Fig. 5.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, combinations, permutations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.claimed_rows import ClaimedRows, are_enough
from tod_bias.audit.claims import APART, BEYOND, EFFECTS, GAPS, OF_THESE_TERMS, PAIRS, REFERENCES, Claims, smallest_set
from tod_bias.audit.contrasts import POOLED, UNATTRIBUTED, AuditContrasts, Contrasts, kinds_of_clusters, originals_of
from tod_bias.audit.orders import matters, with_orders
from tod_bias.audit.repair import repair_of
from tod_bias.audit.sampling import sampling_of
from tod_bias.audit.shares import PARTS, pairs_of
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.metrics.metric import Metric
from tod_bias.results import (
    AxisResult,
    BeyondPlacebo,
    Contribution,
    Estimate,
    Gap,
    Group,
    Su,
    Term,
    Terms,
    Widest,
    worst_score,
)
from tod_bias.statistics.arms import Arm, ArmDesign
from tod_bias.statistics.distributions import t_quantile
from tod_bias.statistics.exchanges import ExchangedRows
from tod_bias.statistics.group_model import GroupFit, RowEstimates, stacked
from tod_bias.statistics.intervals import finite, interval, interval_of_absolute
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.simultaneous import p_value
from tod_bias.statistics.term_exchanges import exchanged_terms


def fairscore(original: np.ndarray | float, rewritten: np.ndarray | float) -> np.ndarray:
    """Signed form of Su eq. 1: (BLEU(f(u), g) − BLEU(f(ũ), g̃)) / BLEU(f(u), g); eq. 1 is its absolute value.

    0: both are answered equally well. Positive: the rewritten dialogues are answered worse (1: BLEU falls to 0);
    negative: better, without a bound. NaN where the original BLEU is 0: undefined.
    """
    original, rewritten = np.asarray(original, dtype=float), np.asarray(rewritten, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(original > 0, (original - rewritten) / original, np.nan)


def contributions(value: Mapping[Arm, Any], orders: Iterable[Sequence[str]]) -> dict[str, Any]:
    """The mean drop of ``value`` as each component joins the set of swapped ones, over ``orders``.

    One order is Su's step-by-step attribution; all permutations give the Shapley value. In every order the
    contributions add up to ``value[∅] − value[all]``; a negative one is real (Su, "Negative API Attribution").

    Args:
        value: arm to a number, or to arrays of one shape (resamples).
        orders: each names every component once.
    """
    totals: dict[str, Any] = {}
    count = 0
    for order in orders:
        swapped: Arm = frozenset()
        for name in order:
            joined = swapped | {name}
            totals[name] = totals.get(name, 0.0) + (value[swapped] - value[joined])
            swapped = joined
        count += 1
    return {name: total / count for name, total in totals.items()}


def su_of(
    table: ArmSums, score: Callable[[np.ndarray], np.ndarray], order: Sequence[str], inference: Inference
) -> Su | None:
    """Su's fairscore and attribution with intervals over dialogues; None where eq. 1 is undefined (originals at 0).

    The attribution has no stages where not every beginning of the order is an arm, of systems of many stages.
    """
    variants = table.variants
    order, arms = _steps(table.arms, order)
    signed = _Eq1(table, score, _sets(variants), list(arms.values()), inference)
    if not len(signed.estimate):
        return None
    value = np.abs(signed.estimate).mean(axis=0)  # (arms,)
    # A resample that crosses 0 must count as less, not as more, so resamples keep the sign that the estimate has.
    signs = (np.where(signed.estimate < 0, -1.0, 1.0) * signed.samples).mean(axis=1)  # (resamples, arms)
    place = {arm: number for number, arm in enumerate(arms)}
    database = place.get(frozenset({"db"}))

    def absolute(arm: int) -> Estimate:
        bounds = interval_of_absolute(signed.samples[:, :, arm], variants.dialogues, inference.level)
        return Estimate(value=value[arm], ci=tuple(bounds))

    shares = contributions({arm: value[number] for arm, number in place.items()}, [order])
    resampled = contributions({arm: signs[:, number] for arm, number in place.items()}, [order])
    parts = {
        name: Estimate(value=shares[name], ci=tuple(interval(resampled[name], variants.dialogues, inference.level)))
        for name in order
    }
    return Su(
        fairscore=absolute(0),
        total=None if database is None else absolute(database),
        attribution={"order": list(order), **parts, "residual": absolute(place[frozenset(table.stages)])},
        pairs=_pairs(table, score, inference),
    )


def _steps(design: ArmDesign, order: Sequence[str]) -> tuple[Sequence[str], dict[Arm, int]]:
    """The order in which stages are swapped, empty where the arms between its steps are not run; and the arms that
    Su's numbers need, with their numbers."""
    steps = [frozenset(order[:size]) for size in range(len(order) + 1)]
    wanted = [*steps, *([frozenset({"db"})] if "db" in order else [])]
    known = {arm: number for arm in wanted if (number := design.number(arm)) is not None}
    return order if known.keys() >= set(steps) else (), known


def _sets(variants: VariantIndex) -> list[np.ndarray]:
    """Sets of variants that hold one per dialogue: the draws; where dialogues have several at once, the groups."""
    sets = []
    for draw in np.unique(variants.draw):
        chosen = np.flatnonzero(variants.draw == draw)
        cells = np.unique(np.stack([variants.of[chosen], variants.target[chosen]]), axis=1)
        is_crossed = len(np.unique(cells[0])) < cells.shape[1]
        targets = variants.target[chosen]
        sets += [chosen[targets == target] for target in np.unique(targets)] if is_crossed else [chosen]
    return sets


def _pairs(table: ArmSums, score: Callable[[np.ndarray], np.ndarray], inference: Inference) -> dict[str, Gap]:
    """Eq. 1 of the dialogues of one group that are rewritten for another, by ``source>target``."""
    variants, names = table.variants, table.variants.groups
    source = variants.source[variants.of]
    pairs = {}
    for first, second in permutations(range(len(names)), 2):
        is_pair = (source == first) & (variants.target == second)
        sets = [np.flatnonzero(is_pair & (variants.draw == draw)) for draw in np.unique(variants.draw[is_pair])]
        signed = _Eq1(table, score, sets, [0], inference)
        if len(signed.estimate):
            dialogues = len(np.unique(variants.of[is_pair]))
            pairs[f"{names[first]}>{names[second]}"] = Gap(
                value=np.abs(signed.estimate).mean(),
                ci=tuple(interval_of_absolute(signed.samples[:, :, 0], dialogues, inference.level)),
                dialogues=dialogues,
            )
    return pairs


class _Eq1:
    """Signed eq. 1 of sets of variants with one per dialogue, in some arms; sets in which it is undefined are left out.

    Args:
        table: the sums.
        score: (rows, statistics) to (rows,) scores.
        sets: numbers of variants.
        arms: numbers of arms.
        inference: resamples, seed.
    """

    def __init__(
        self,
        table: ArmSums,
        score: Callable[[np.ndarray], np.ndarray],
        sets: Sequence[np.ndarray],
        arms: Sequence[int],
        inference: Inference,
    ) -> None:
        self._score, self._cells = score, 1 + len(arms)
        of = table.variants.of
        taking_part = np.unique(np.concatenate([of[chosen] for chosen in sets])) if sets else np.zeros(0, dtype=int)
        columns = []
        for chosen in sets:
            has = np.zeros(table.variants.dialogues, dtype=bool)
            has[of[chosen]] = True
            rewritten = table.mean_of(table.by_variant[chosen][:, list(arms)], of[chosen])
            cells = np.concatenate([np.where(has[:, None], table.original, 0.0)[:, None], rewritten], axis=1)
            if not np.isnan(self._signed(cells.sum(axis=0).reshape(1, -1), len(cells[0, 0]))).any():
                columns.append(cells[taking_part])
        self.estimate = np.zeros((len(columns), len(arms)))
        """(sets, arms)."""
        self.samples = np.full((2, len(columns), len(arms)), np.nan)
        """(resamples, sets, arms); NaN if none are drawn."""
        if columns:
            statistics = columns[0].shape[2]
            flat = np.concatenate(columns, axis=1).reshape(len(taking_part), -1)

            def signed(sums: np.ndarray) -> np.ndarray:
                return self._signed(sums, statistics)

            self.estimate = signed(flat.sum(axis=0)[None])[0]
            if inference.resamples:
                self.samples = resample(flat, signed, inference.resamples, inference.seed)

    def _signed(self, sums: np.ndarray, statistics: int) -> np.ndarray:
        """(rows, sets × cells × statistics) to (rows, sets, arms)."""
        scores = self._score(sums.reshape(-1, statistics)).reshape(len(sums), -1, self._cells)
        return np.asarray(fairscore(scores[:, :, :1], scores[:, :, 1:]))


_TINY = 1e-12
"""Absolute values below this are rounding noise."""
TERMS_SHOWN = 12
"""Terms in a result, those that add most to the gap of their group."""


def single(rows: RowEstimates, number: int, level: float, *, scope: str | None = None) -> Estimate:
    """A row that is not claimed: its interval and p-value are its own."""
    value, error, freedom = (float(some[number]) for some in (rows.values, rows.errors, rows.freedom))
    value = 0.0 if abs(value) < _TINY else value
    if not math.isfinite(error) or freedom < 1:
        return Estimate(value=value, scope="terms" if scope else None)
    half = float(t_quantile((1 + level) / 2, freedom)) * error
    p = p_value(value, error, freedom)
    return Estimate(
        value=value,
        se=error,
        df=freedom,
        ci=(value - half, value + half),
        p=None if math.isnan(p) else p,
        scope="terms" if scope else None,
    )


def mean_estimate(values: np.ndarray, level: float) -> Estimate:
    """The mean of (dialogues,) values, with dialogues as the sample."""
    number = len(values)
    if number < 2 or np.isnan(values).any():
        return Estimate(value=float(values.mean()) if number else None)
    error = float(values.std(ddof=1)) / math.sqrt(number)
    rows = RowEstimates(values.mean()[None], np.array([error]), np.array([number - 1.0]), np.array([[error**2]]))
    return single(rows, 0, level)


def shares_of(stages: Sequence[str]) -> dict[str, tuple[str]]:
    """Contrasts that are shares, each with the stage whose share it is."""
    return {f"{PARTS[0]} {stage}": (stage,) for stage in stages}


def sums_of_shares(arms: ArmDesign) -> dict[str, Sequence[str]]:
    """Contrasts that are shares, or sums of them, with the stages whose shares they are."""
    return {**shares_of(arms.stages), **{f"group {name}": members for name, members in arms.groups.items()}}


def _attributed(parts: Mapping[str, Estimate], arms: ArmDesign) -> dict[str, Any]:
    of_stages = {stage: {part: parts.get(f"{part} {stage}") for part in PARTS} for stage in arms.stages}
    groups = {name: parts[f"group {name}"] for name in arms.groups if f"group {name}" in parts}
    return {
        "contributions": {
            stage: Contribution(**some) for stage, some in of_stages.items() if some[PARTS[0]] is not None
        },
        "stage_groups": groups,
        "unattributed": parts.get(UNATTRIBUTED),
    }


class SharedWord(NamedTuple):
    """A word of several terms of a group."""

    word: str
    terms: int
    """Number of terms that contain the word."""


class GroupRows:
    """The rows of the groups of one axis and metric, of an audit or of a change between two.

    Args:
        contrasts: what each dialogue has in every group.
        groups: how many of the contrasts' groups are groups of the axis; the others are reference variants.
        inference: level, flips, seed.
        over_clusters: True if clusters of dialogues are a sample, where they are enough.
        fits: contrast to the model of its values, if they are estimated already.
    """

    def __init__(
        self,
        contrasts: Contrasts,
        groups: int,
        inference: Inference,
        *,
        over_clusters: bool = True,
        fits: Mapping[str, GroupFit] | None = None,
    ) -> None:
        self.contrasts = contrasts
        self.inference = inference
        self.over_clusters = over_clusters
        self.fits = fits or {name: contrasts.design.fit(some) for name, some in contrasts.values.items()}
        self.fit = self.fits[POOLED]
        self.number = groups
        has = contrasts.with_references.has
        self.present = [group for group in range(groups) if has[:, group].any()]
        """Numbers of the groups that any dialogue has."""
        self.compared = self._compared()
        """Numbers of the groups whose mean the others are compared with."""
        self.references = [group for group in range(groups, len(contrasts.groups)) if has[:, group].any()]
        """Numbers of the reference variants that any dialogue has."""

    def _compared(self) -> list[int]:
        """Groups with enough terms: the quirks of a few terms would move the mean, and so the gaps of all groups."""
        design = self.contrasts.design
        enough = [group for group in self.present if are_enough(design.sets_of(group))]
        return enough if len(enough) > 1 else self.present

    @cached_property
    def reference_fits(self) -> dict[str, GroupFit]:
        """The model with reference variants as further groups."""
        return {name: self.contrasts.with_references.fit(some) for name, some in self.contrasts.values.items()}

    def contrast_of(self, weights: Mapping[int, float]) -> np.ndarray:
        """(groups,) of the weighted groups against the mean of the compared groups, if the weights do not sum to 0."""
        contrast = np.zeros(len(self.contrasts.groups))
        for group, weight in weights.items():
            contrast[group] += weight
        if self.compared:
            contrast[self.compared] -= sum(weights.values()) / len(self.compared)
        return contrast

    def set_of(self, rows: Mapping[str, np.ndarray], *, over: bool = True, joins: bool = True) -> ClaimedRows:
        """Rows of groups that are claimed; ``joins`` is False for rows that are part of no family."""
        return self._rows(self.fit, rows, over=over, joins=joins)

    def _rows(
        self, fit: GroupFit, rows: Mapping[str, np.ndarray], *, over: bool = True, joins: bool = True
    ) -> ClaimedRows:
        contrasts = self.contrasts
        return ClaimedRows.of(
            fit,
            contrasts.differs,
            rows,
            self.inference,
            over=over,
            over_clusters=self.over_clusters,
            most=contrasts.most,
            joins=joins,
        )

    @property
    def in_these_clusters(self) -> GroupRows | None:
        """The rows with the clusters of dialogues as they are; None if no kind of clusters is a sample anyway."""
        designs = [self.contrasts.design, self.contrasts.with_references]
        designs += [] if self.contrasts.beyond is None else [self.contrasts.beyond[0]]
        if not any(design.has_clusters for design in designs):
            return None
        return GroupRows(self.contrasts, self.number, self.inference, over_clusters=False, fits=self.fits)

    def reference_set(self) -> ClaimedRows:
        """The rows of the reference variants."""
        fit = self.reference_fits[POOLED]
        return self._rows(fit, self.reference_contrasts())

    def gap_contrasts(self) -> dict[str, np.ndarray]:
        """Group to its contrast with the mean of groups."""
        if len(self.present) < 2:
            return {}
        return {self.contrasts.groups[group]: self.contrast_of({group: 1.0}) for group in self.present}

    def reference_contrasts(self) -> dict[str, np.ndarray]:
        """Reference variant to its contrast with the mean of groups."""
        if not self.compared:
            return {}
        return {self.contrasts.groups[group]: self.contrast_of({group: 1.0}) for group in self.references}

    def apart_contrasts(self, apart: Sequence[str]) -> dict[str, np.ndarray]:
        """Group of a set to its contrast with the mean of the groups outside of the set."""
        names = [self.contrasts.groups[group] for group in self.present]
        rest = [group for group, name in zip(self.present, names, strict=True) if name not in apart]
        contrasts = {}
        for name in apart:
            contrast = np.zeros(len(self.contrasts.groups))
            contrast[rest] = -1 / max(1, len(rest))
            contrast[self.contrasts.groups.index(name)] = 1.0
            contrasts[name] = contrast
        return contrasts

    def differ(self, names: Sequence[str]) -> bool:
        """Return whether any of some groups is shown to differ from the others of them (Bonferroni over groups).

        Groups that are served alike in every dialogue do not differ. The effect of being the original, which is
        estimated from all groups, may move their rows apart if an event goes with the originals of another group.
        """
        if len(names) < 2 or self._are_alike(names):
            return False
        number = len(names) if len(names) > 2 else 1
        contrasts = {}
        for name in names[:number]:
            contrast = np.zeros(len(self.contrasts.groups))
            contrast[[self.contrasts.groups.index(other) for other in names]] = -1 / (len(names) - 1)
            contrast[self.contrasts.groups.index(name)] = 1.0
            contrasts[name] = contrast
        rows = self.set_of(contrasts, joins=False)
        return bool(np.nanmin(np.append(rows.p, 1.0)) * number < 1 - self.inference.level)

    def _are_alike(self, names: Sequence[str]) -> bool:
        """Return whether every dialogue has all of some groups, with the same value for each."""
        groups = [self.contrasts.groups.index(name) for name in names]
        has, values = (table[:, groups] for table in (self.contrasts.design.has, self.contrasts.values[POOLED]))
        takes_part = has.any(axis=1)
        # the scores of groups that are served alike may differ by rounding
        return bool(has[takes_part].all() and np.allclose(values[takes_part], values[takes_part, :1], atol=1e-9))

    def pair_contrasts(self) -> dict[str, np.ndarray]:
        """``source>target`` to the contrast of the target with the source, each pair once."""
        names = self.contrasts.groups
        return {
            f"{names[first]}>{names[second]}": self.contrast_of({second: 1.0, first: -1.0})
            for first, second in combinations(self.present, 2)
        }

    def beyond_set(self, *, over: bool = True) -> ClaimedRows | None:
        """The gaps beyond the placebo's, of the groups; None without a placebo.

        Args:
            over: whether terms may be a sample at all.
        """
        if self.contrasts.beyond is None or len(self.present) < 2:
            return None
        design, values = self.contrasts.beyond
        fit = design.fit(values)
        present = [group for group in self.present if design.has[:, group].any()]
        compared = [group for group in self.compared if group in present]
        if len(present) < 2 or not compared:
            return None
        contrasts = {}
        for group in present:
            contrast = np.zeros(self.number)
            contrast[compared] = -1 / len(compared)
            contrast[group] += 1
            contrasts[self.contrasts.groups[group]] = contrast
        return self._rows(fit, contrasts, over=over)

    def parts(
        self, contrasts: Mapping[str, np.ndarray], over: Mapping[str, bool], sums: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, Estimate]]:
        """Return the values of rows: name of a value to its estimate, without unknown ones.

        Args:
            contrasts: of the rows, (groups,) each; of groups alone, or of reference variants alone.
            over: True if terms are a sample in a row; otherwise it holds for these terms only.
            sums: names of the values, with the stages whose shares each sums; empty for other values.
        """
        table = np.array([*contrasts.values()]).reshape(len(contrasts), len(self.contrasts.groups))
        fits = self.reference_fits if np.abs(table[:, self.number :]).any() else self.fits
        are_samples = np.array([over[row] for row in contrasts], dtype=bool)
        estimates: dict[str, dict[str, Estimate]] = {row: {} for row in contrasts}
        for name, stages in sums.items():
            if name not in fits:
                continue
            rows = fits[name].rows(table, are_samples)
            for number, contrast in enumerate(table if stages and self.contrasts.drawn else ()):
                coefficients = fits[name].design.coefficients(contrast)
                drawn = [some.in_contrast(stages, coefficients) for some in self.contrasts.drawn]
                rows = with_orders(rows, number, drawn)
            for number, row in enumerate(contrasts):
                scope = None if over[row] else "terms"
                estimates[row][name] = single(rows, number, self.inference.level, scope=scope)
        return estimates

    def attributed(
        self, contrasts: Mapping[str, np.ndarray], over: Mapping[str, bool], arms: ArmDesign
    ) -> dict[str, dict[str, Any]]:
        """Split rows (:meth:`parts`) into the fields of :class:`~tod_bias.results.Attributed`."""
        others = [UNATTRIBUTED, *(f"{part} {stage}" for stage in arms.stages for part in PARTS[1:])]
        parts = self.parts(contrasts, over, {**sums_of_shares(arms), **dict.fromkeys(others, ())})
        return {row: _attributed(some, arms) for row, some in parts.items()}

    def whole_rows(
        self,
        values: Mapping[str, np.ndarray],
        is_original: np.ndarray,
        sums: Mapping[str, Sequence[str]] | None = None,
    ) -> tuple[RowEstimates, np.ndarray]:
        """Return means over dialogues, of all counterfactuals of a dialogue together.

        Args:
            values: name to (dialogues,); those of a contrast of the groups are under its name.
            is_original: (dialogues, groups) bool, the dialogue as it is.
            sums: of shares, name to the stages whose shares are summed in it.

        Returns:
            The rows, and (rows,) bool, True if the terms of the groups are a sample: if they are enough, and not in
            ``artefact``, which compares no groups.
        """
        design = self.contrasts.design
        rewritten = design.has & ~is_original
        rewritten[:, self.number :] = False
        every = np.stack(list(values.values()), axis=1)
        mean, number = every.mean(axis=0), len(every)
        weights = -1.0 * rewritten / np.maximum(rewritten.sum(axis=1), 1)[:, None] / number
        weights[is_original & design.has] = 1 / number
        enough = bool(self.compared) and all(are_enough(design.sets_of(group)) for group in self.compared)
        over = np.array([enough and name != "artefact" for name in values])
        influence = (every - mean) / number
        covariance = number / max(1, number - 1) * influence.T @ influence
        rows = [
            self.fits.get(name, self.fit).estimated(
                mean[place : place + 1], influence[:, place : place + 1], stacked([weights]), over[place : place + 1]
            )
            for place, name in enumerate(values)
        ]
        np.fill_diagonal(covariance, [float(row.covariance[0, 0]) for row in rows])
        errors = np.concatenate([row.errors for row in rows])
        freedom = np.concatenate([row.freedom for row in rows])
        estimates = RowEstimates(np.concatenate([row.values for row in rows]), errors, freedom, covariance)
        for place, name in enumerate(values):
            if stages := (sums or {}).get(name):
                estimates = with_orders(estimates, place, [some.in_whole(stages) for some in self.contrasts.drawn])
        return estimates, over

    def score(self, group: int, unit: float, *, over: bool) -> Estimate:
        """Return the score of a group, on the metric's own scale.

        Args:
            group: its number.
            unit: the score of a value of 1.
            over: True if its terms are a sample.
        """
        design = self.contrasts.with_references
        members = design.has[:, group]
        count = int(members.sum())
        values = self.contrasts.scores[:, group]
        mean = float(values[members].mean())
        influence = np.where(members, values - mean, 0.0) / count
        weights = np.zeros(design.has.shape)
        weights[members, group] = unit / count
        fit = self.fit if group < self.number else self.reference_fits[POOLED]
        rows = fit.estimated(np.array([mean]), influence[:, None], stacked([weights]), np.array([over]))
        return single(rows, 0, self.inference.level).model_copy(update={"p": None})


def more_orders_matter(table: ArmSums, metric: Metric) -> bool:
    """True if the error of drawing orders of stages matters in any group's contributions by a metric."""
    contrasts = AuditContrasts(table, metric).contrasts()
    groups = GroupRows(contrasts, len(table.variants.groups), Inference())
    gaps, shares = groups.gap_contrasts(), shares_of(table.stages)
    parts = groups.parts(gaps, dict.fromkeys(gaps, True), shares)
    for row, contrast in gaps.items():
        gap = float(groups.fit.rows(contrast[None]).values[0])
        coefficients = groups.fit.design.coefficients(contrast)
        for name, part in parts[row].items():
            error = part.se or 0.0
            if any(matters(some.in_contrast(shares[name], coefficients), error, gap) for some in contrasts.drawn):
                return True
    return False


def gaps_of(table: ArmSums, metric: Metric) -> dict[str, float]:
    """Return the gap of every group against the mean of groups, as :class:`AxisEstimates` estimates it, without tests.

    Args:
        table: of one axis and metric.
        metric: scores it.
    """
    rows = GroupRows(AuditContrasts(table, metric).contrasts(), len(table.variants.groups), Inference())
    gaps = rows.gap_contrasts()
    if not gaps:
        return {}
    values = rows.fit.rows(np.stack([*gaps.values()])).values
    return dict(zip(gaps, values.tolist(), strict=True))


class AxisEstimates:
    """Estimates of one axis and metric.

    Args:
        table: of the axis and metric.
        metric: scores it.
        order: in which Su's attribution replaces the stages.
        inference: levels, resamples, permutations.
    """

    def __init__(self, table: ArmSums, metric: Metric, order: Sequence[str], inference: Inference) -> None:
        self._table = table
        self._variants = table.variants
        self._metric = metric
        self._order = tuple(order)
        self._inference = inference
        self._maker = AuditContrasts(table, metric)
        self._contrasts = self._maker.contrasts()
        self._groups = GroupRows(self._contrasts, len(self._variants.groups), inference)

    def claims(self, advance: Callable[[], None] = lambda: None) -> Claims:
        """Everything but what needs the other axes; ``advance`` is called for every pair."""
        rows = self._groups
        gap_contrasts, pair_contrasts = rows.gap_contrasts(), rows.pair_contrasts()
        effects = self._effect_contrasts()
        sets = self._sets(rows, effects)
        gaps, pairs, references = sets[GAPS], sets[PAIRS], sets[REFERENCES]
        for _ in pair_contrasts:
            advance()
        smallest = self._smallest(gaps)
        apart = rows.apart_contrasts(self._named(smallest, gaps))
        reference_contrasts = rows.reference_contrasts()
        facts = {name: self._facts(name, gap_contrasts[name]) for name in gaps.names}
        generalizes = {n: bool(gaps.over_terms[place]) and facts[n].generalizes for place, n in enumerate(gaps.names)}
        are_samples = dict(zip(references.names, references.over_terms.tolist(), strict=True))
        result = self._result().model_copy(
            update={
                "groups": {
                    name: self._group(name, parts, over=generalizes[name], facts=facts[name])
                    for name, parts in rows.attributed(gap_contrasts, generalizes, self._table.arms).items()
                },
                "references": {
                    name: self._group(name, parts, over=False)
                    for name, parts in rows.attributed(reference_contrasts, are_samples, self._table.arms).items()
                },
                "pairs": {name: self._pair(contrast) for name, contrast in pair_contrasts.items()},
                "effects": self._effects(effects),
                "widest": self._widest(pairs, pair_contrasts),
                "smallest": smallest,
                "spread": self._spread(gaps),
                "needs_placebo": self._needs_placebo(),
                "is_controlled": len(self._groups.present) > 2 and not self._needs_placebo(),
                "largest_effect": self._contrasts.most,
                "terms": self._terms(gap_contrasts),
            }
        )
        claims = Claims(
            result,
            sets | self._apart(rows, apart, gaps),
            facts=facts,
            needs_placebo=self._needs_placebo(),
            may_be_equal=self._may_be_equal(),
            better=self._metric.better,
        )
        alike = rows.in_these_clusters
        if alike is None:
            return claims
        sets = self._sets(alike, effects)
        within = replace(claims, rows=sets | self._apart(alike, apart, sets[GAPS]))
        return replace(claims, in_these_clusters=within)

    def _exchanged(self, rows: GroupRows) -> ExchangedRows | None:
        """Return the groups under exchanges within dialogues, in the order of the rows of gaps."""
        design, present = rows.fit.design, rows.present
        values = rows.fit.centred * self._contrasts.differs[:, None]
        values = design.merged(values, over_clusters=False)[:, present, None]
        draws = self._inference.permutations if len(present) > 1 else 0
        return ExchangedRows.of(values, design.has[:, present], draws, self._inference.seed)

    def _exchanged_terms(self, rows: GroupRows) -> ExchangedRows | None:
        """Return the groups under exchanges of terms, in the order of the rows of gaps; None if clusters are a sample,
        which exchanges of terms ignore."""
        design, present = rows.fit.design, rows.present
        terms = design.terms_by_group
        if len(present) < 2 or terms is None or (rows.over_clusters and design.has_clusters):
            return None
        values = (rows.fit.values * self._contrasts.differs[:, None])[:, present, None]
        by_group = [terms[group] for group in present]
        inference = self._inference
        return exchanged_terms(values, design.has[:, present], by_group, inference.permutations, inference.seed)

    def _apart(self, rows: GroupRows, contrasts: Mapping[str, np.ndarray], gaps: ClaimedRows) -> dict[str, ClaimedRows]:
        """Return the rows of the groups that a finding names, by kind; exchanges tell of them what they tell of their
        gaps from the mean of groups."""
        places = [gaps.names.index(name) for name in contrasts]
        group_exchanges, term_exchanges = (
            None if some is None else replace(some, z=some.z[places])
            for some in (gaps.group_exchanges, gaps.term_exchanges)
        )
        apart = rows.set_of(contrasts, joins=False)
        return {
            APART: replace(apart, group_exchanges=group_exchanges, term_exchanges=term_exchanges),
            APART + OF_THESE_TERMS: rows.set_of(contrasts, over=False, joins=False),
        }

    def _sets(self, rows: GroupRows, effects: Mapping[tuple[str, str], np.ndarray]) -> dict[str, ClaimedRows]:
        """Return the rows of all groups, by kind."""
        group_exchanges, term_exchanges = self._exchanged(rows), self._exchanged_terms(rows)
        known = {
            GAPS: replace(
                rows.set_of(rows.gap_contrasts()), group_exchanges=group_exchanges, term_exchanges=term_exchanges
            ),
            REFERENCES: rows.reference_set(),
            PAIRS: rows.set_of(rows.pair_contrasts()),
            GAPS + OF_THESE_TERMS: replace(
                rows.set_of(rows.gap_contrasts(), over=False), group_exchanges=group_exchanges
            ),
            EFFECTS: rows.set_of({f"{factor}/{level}": some for (factor, level), some in effects.items()}),
        }
        beyond = {BEYOND: rows.beyond_set(), BEYOND + OF_THESE_TERMS: rows.beyond_set(over=False)}
        return known | {kind: some for kind, some in beyond.items() if some is not None}

    def _smallest(self, gaps: ClaimedRows) -> list[str]:
        """Return the smallest set of groups that explains the difference between all groups.

        Of two groups, it is the one that is served worse, or the one for which the event happens more often.
        """
        size_of = dict(zip(gaps.names, gaps.rows.values.tolist(), strict=True))
        if len(size_of) == 2:
            side = -1.0 if self._metric.better == "neither" else 1.0
            return [max(size_of, key=lambda name: side * size_of[name])]
        return smallest_set(gaps.names, [*size_of.values()], self._groups.differ)

    def _named(self, smallest: Sequence[str], gaps: ClaimedRows) -> list[str]:
        """Return the groups that a finding names: the smallest set, or the others if it is served better than they."""
        size_of = dict(zip(gaps.names, gaps.rows.values.tolist(), strict=True))
        rest = [name for name in gaps.names if name not in smallest]
        is_better = self._metric.better != "neither" and sum(size_of[name] for name in smallest) < 0
        return rest if is_better and len(rest) > 1 else list(smallest)

    def _may_be_equal(self) -> bool:
        """True if equivalence can be shown: some score could fall, and some group is served."""
        levels = self._maker.levels
        worst = worst_score(self._metric)
        nobody = worst is not None and all((some == worst).all() for some in levels.values())
        return (self._metric.scale == "difference" or self._maker.scale.is_ratio) and not nobody

    def _needs_placebo(self) -> bool:
        """True if a group's gap cannot be separated from being the original: nearly all dialogues are of one group."""
        return bool((self._variants.source >= 0).any()) and not self._contrasts.design.has_originals

    def _facts(self, name: str, contrast: np.ndarray) -> Terms:
        group = self._variants.groups.index(name)
        design = self._contrasts.design
        words, groups = self._words
        facts = []
        for terms, of_terms in zip(design.sets_of(group), words[group], strict=True):
            _, shares = largest_share(self._groups.fit, contrast, terms.weights)
            shared = _shared_word(terms.weights, of_terms, groups)
            facts.append(
                Terms(
                    number=int((_used(terms.weights) > 0).sum()),
                    effective=round(terms.freedom + 1, 3),
                    largest_share=finite(float(shares.max()) if len(shares) else math.nan),
                    shared_word=None if shared is None else shared.word,
                    sharing=0 if shared is None else shared.terms,
                )
            )
        fewest = min(facts, key=lambda some: some.effective or 0.0)
        largest = max((some.largest_share for some in facts if some.largest_share is not None), default=None)
        return fewest.model_copy(update={"largest_share": largest})

    @cached_property
    def _names_of_terms(self) -> list[list[tuple[str, ...]]]:
        """Names of the terms of each group; on crossed axes of its level of each factor."""
        return [self._variants.names_of(group) for group in range(len(self._variants.groups))]

    @cached_property
    def _words(self) -> tuple[list[list[list[frozenset[str]]]], Counter[str]]:
        """Words of each term of each group, and the number of groups whose terms contain each word."""
        words = [
            [[frozenset(re.findall(r"\w+", term.lower())) for term in terms] for terms in sets]
            for sets in self._names_of_terms
        ]
        return words, Counter(word for sets in words for word in frozenset[str]().union(*chain.from_iterable(sets)))

    def _group(self, name: str, parts: Mapping[str, Any], *, over: bool, facts: Terms | None = None) -> Group:
        rows, design = self._groups, self._contrasts.with_references
        group = self._contrasts.groups.index(name)
        made = Group(
            dialogues=int(design.has[:, group].sum()),
            terms=facts,
            counts=self._counts(group, design.has[:, group]),
            score=rows.score(group, self._maker.scale.original, over=over),
            **parts,
        )
        if group >= len(self._variants.groups):
            return made
        repair = repair_of(self._contrasts, self._variants.source, group, made.main_stages)
        return made.model_copy(update={"repair": repair})

    def _counts(self, group: int, members: np.ndarray) -> tuple[float, float] | None:
        """Return how often an event happened as a group, and in how many turns of some dialogues it could."""
        if not self._metric.equal_denominators or group >= len(self._variants.groups):
            return None
        happened, could = self._table.for_group(group)[members][:, 0].sum(axis=0)
        return round(float(happened), 3), round(float(could), 3)

    def _pair(self, contrast: np.ndarray) -> Gap:
        design = self._contrasts.design
        members = design.has[:, np.flatnonzero(contrast)].all(axis=1)
        return Gap(dialogues=int(members.sum()))

    def _widest(self, pairs: ClaimedRows, contrasts: Mapping[str, np.ndarray]) -> Widest | None:
        """The two groups that are furthest apart."""
        if not pairs.names or np.isnan(pairs.rows.values).all():
            return None
        distances = np.nan_to_num(np.abs(pairs.rows.values), nan=-1.0)
        number = int(np.argmax(distances >= distances.max() * (1 - 1e-9)))  # the first of those that are as far
        names = [self._variants.groups[group] for group in self._groups.present]
        source, target = [*combinations(names, 2)][number]
        contrast = contrasts[pairs.names[number]]
        if pairs.rows.values[number] < 0:
            source, target, contrast = target, source, -contrast
        over = bool(pairs.over_terms[number])
        parts = self._groups.attributed({"": contrast}, {"": over}, self._table.arms)[""]
        return Widest(worse=target, better=source, gap=Estimate(), **parts)

    def _effect_contrasts(self) -> dict[tuple[str, str], np.ndarray]:
        """Return, for crossed axes, the main effect of every level of a factor, and the gap of a group beyond its two
        levels.

        Empty unless every dialogue has every combination of levels: the mean of a level would be that of the
        combinations that happen to be in it.
        """
        table, rows = self._variants, self._groups
        has = self._contrasts.design.has[:, rows.present]
        levels = {group: table.levels[group] for group in rows.present}
        grid = math.prod(len(set(level)) for level in zip(*levels.values(), strict=True))
        if len(table.factors) < 2 or len(levels) < grid or not has[has.any(axis=1)].all():
            return {}
        effects: dict[tuple[str, str], np.ndarray] = {}
        for place, factor in enumerate(table.factors):
            for level in dict.fromkeys(some[place] for some in levels.values()):
                of_level = [group for group, some in levels.items() if some[place] == level]
                effects[factor, level] = rows.contrast_of({group: 1 / len(of_level) for group in of_level})
        for group, some in levels.items() if len(table.factors) == 2 else ():
            gap = rows.contrast_of({group: 1.0})
            parts = [effects[factor, level] for factor, level in zip(table.factors, some, strict=True)]
            effects["interaction", table.groups[group]] = gap - sum(parts)
        return effects

    def _effects(self, contrasts: Mapping[tuple[str, str], np.ndarray]) -> dict[str, dict[str, Gap]]:
        named: dict[str, dict[str, Gap]] = {}
        for (factor, level), contrast in contrasts.items():
            named.setdefault(factor, {})[level] = self._pair(contrast)
        return named

    def _spread(self, gaps: ClaimedRows) -> float | None:
        """Root mean square of the groups' gaps, less what noise adds to it."""
        if not gaps.names or np.isnan(gaps.rows.errors).any():
            return None
        squares = gaps.rows.values**2 - gaps.rows.errors**2
        return math.sqrt(max(0.0, float(squares.mean())))

    # the axis as a whole -------------------------------------------------------------------------------------------

    def _result(self) -> AxisResult:
        stages, table = self._table.stages, self._variants
        whole, level = self._maker.whole, self._inference.level
        pairs = ["×".join(pair) for pair in pairs_of(self._table.arms)]
        estimates = dict(zip([*whole], self._whole_estimates(whole), strict=True))
        arms = np.asarray(self._metric.score(self._table.rewritten.sum(axis=0)), dtype=float)
        levels = {
            name: mean_estimate(some, level).model_copy(update={"p": None}) for name, some in self._maker.levels.items()
        }
        is_ratio = self._maker.scale.is_ratio
        error = whole[POOLED].std(ddof=1) / math.sqrt(table.dialogues) if table.dialogues > 1 else math.nan
        return AxisResult(
            scale="ratio" if is_ratio else "difference",
            dialogues=int(self._contrasts.design.has.any(axis=1).sum()) or table.dialogues,
            clusters={name: len(set(labels)) for name, labels in table.clusters},
            effective_clusters=self._effective_clusters(),
            **levels,
            disparity=estimates[POOLED],
            artefact=estimates["artefact"],
            contributions={
                stage: Contribution(**{part: estimates[f"{part} {stage}"] for part in PARTS}) for stage in stages
            },
            stage_groups={name: estimates[f"group {name}"] for name in self._table.arms.groups},
            unattributed=estimates.get(UNATTRIBUTED),
            interactions={name: estimates[name] for name in pairs},
            beyond_placebo=self._beyond_placebo(),
            arms=dict(zip(self._table.arms.keys(whole=self._table.has_whole), map(finite, arms), strict=True)),
            sampling=sampling_of(self._table, self._metric, self._maker.scale, self._inference, error),
            su=su_of(self._table, self._metric.score, self._order, self._inference) if is_ratio else None,
        )

    def _effective_clusters(self) -> dict[str, float]:
        """Return the effective number of each kind of clusters of the dialogues that are compared."""
        takes_part = self._contrasts.design.has.any(axis=1)
        kinds = dict(zip((name for name, _ in self._variants.clusters), kinds_of_clusters(self._variants), strict=True))
        return {name: round(kind.within(takes_part).effective, 3) for name, kind in kinds.items()}

    def _whole_estimates(self, values: Mapping[str, np.ndarray]) -> list[Estimate]:
        is_original = originals_of(self._variants, self._contrasts.design.groups)
        rows, over = self._groups.whole_rows(values, is_original, sums_of_shares(self._table.arms))
        scope = None if over.any() else "terms"
        return [single(rows, number, self._inference.level, scope=scope) for number in range(len(values))]

    def _beyond_placebo(self) -> BeyondPlacebo | None:
        values = self._maker.beyond_placebo
        if values is None:
            return None
        edits = self._variants.edits
        return BeyondPlacebo(
            **dict(mean_estimate(values, self._inference.level)),
            dialogues=len(values),
            edits={"axis": round(edits[0], 2), "placebo": round(edits[1], 2)},
        )

    def _terms(self, contrasts: Mapping[str, np.ndarray]) -> list[Term]:
        """The terms that add most to the gap of their group, the largest first."""
        known: list[Term] = []
        for group, name in enumerate(self._variants.groups):
            if name not in contrasts:
                continue
            for terms, names in zip(self._contrasts.design.sets_of(group), self._names_of_terms[group], strict=True):
                parts, shares = largest_share(self._groups.fit, contrasts[name], terms.weights)
                used = _used(terms.weights).tolist() if len(parts) else []
                known += [
                    Term(
                        term=names[number],
                        group=name,
                        dialogues=int(dialogues),
                        contribution=float(parts[number]),
                        share=finite(float(shares[number])),
                    )
                    for number, dialogues in enumerate(used)
                    if dialogues
                ]
        return sorted(known, key=lambda term: (-round(abs(term.contribution or 0.0), 9), term.term))[:TERMS_SHOWN]


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


def _shared_word(weights: sparse.csr_array, words: Sequence[frozenset[str]], groups: Counter[str]) -> SharedWord | None:
    """Find a word that several terms of this group contain, no other group's terms contain, and that half of its
    dialogues contain.

    Args:
        weights: (dialogues, terms) of a group.
        words: of each of its terms.
        groups: number of groups whose terms contain each word.
    """
    has = weights > 0
    holding: dict[str, list[int]] = {}
    for number in np.flatnonzero(_used(weights)).tolist():
        for word in words[number]:
            if groups[word] == 1:
                holding.setdefault(word, []).append(number)
    dialogues = {word: int((has[:, terms].sum(axis=1) > 0).sum()) for word, terms in holding.items() if len(terms) > 1}
    word = max(dialogues, key=lambda word: (dialogues[word], word), default="")
    if not word or 2 * dialogues[word] < int((has.sum(axis=1) > 0).sum()):
        return None
    return SharedWord(word, len(holding[word]))


def _used(weights: sparse.csr_array) -> np.ndarray:
    """Return (terms,) the number of dialogues of each term."""
    return np.asarray((weights > 0).sum(axis=0)).ravel()
