"""Contrasts of scores: each dialogue's contribution to the harm of every group, by stage.

Here a contrast is a weighted sum of the scores of arms; :mod:`tod_bias.audit.estimates` has contrasts that weigh
groups. With q(S) the score of the counterfactuals when the stages in S are replaced by their twins, and N all of them,
q(N) − q(∅) is the disparity of the stages. A stage c has three parts of it: its share; the part that replacing it alone
removes, q({c}) − q(∅); and the part that remains when all others are replaced, q(N) − q(N∖{c}).

The share is the mean of q(S ∪ c) − q(S) over orders in which stages are replaced, S those before c: over all of them
(Shapley 1953), over those in which the stages of a group are neighbours (Owen 1977), or over some that are drawn
(Castro et al. 2009). The interaction of two stages is Grabisch and Roubens' (1999) index.

Ratios and corpus scores (BLEU) are not means over dialogues. They are decomposed by leaving out one dialogue at a time
(pseudo-values, Tukey 1958), so that the dialogues' values average to the score. A dialogue's variant for the group that
it mentions is the dialogue as it is: no rewrite, so all its arms are one.

If stages draw their outputs, there are two baselines in addition to the placebo: the originals run twice (A/A), and the
share of variance that is due to sampling. More samples reduce this share, and more dialogues reduce the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.checks import COPIES
from tod_bias.audit.orders import DrawnShares, drawn_weights
from tod_bias.audit.shares import (
    disparity_weights,
    group_weights,
    interaction_weights,
    pairs_of,
    stage_weights,
)
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.metrics.metric import Metric
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.group_model import GroupDesign
from tod_bias.statistics.resampling import BLOCK

POOLED = "disparity"
"""The contrast q(N) − q(∅)."""
UNATTRIBUTED = "unattributed"
"""The contrast of the whole system's twin with the arm in which all stages are replaced: what no stage accounts for."""


def pseudo_values(sums: np.ndarray, metric: Metric) -> np.ndarray:
    """Return (dialogues, cells) values whose mean over dialogues is the score.

    Args:
        sums: (dialogues, cells, statistics).
        metric: scores them; a dialogue without which the metric has no value gets the score itself.
    """
    number = len(sums)
    totals = sums.sum(axis=0)
    score = np.asarray(metric.score(totals), dtype=float)
    values = np.empty(sums.shape[:2])
    rows = max(1, BLOCK // max(1, int(np.prod(sums.shape[1:]))))
    for start in range(0, number, rows):
        values[start : start + rows] = metric.score(totals - sums[start : start + rows])
    values = np.where(np.isnan(values), score, values)
    return np.asarray(score - (number - 1) * (values - values.mean(axis=0)))


@dataclass(frozen=True)
class ScoreScale:
    """Conversion of scores into values that are positive if a group is served worse."""

    sign: float
    """1 where a higher score is better, -1 where a lower one is."""
    original: float
    """Divisor of values: the originals' score for a ratio, else 1."""
    is_ratio: bool

    @classmethod
    def of(cls, table: ArmSums, metric: Metric) -> ScoreScale:
        """Make the scale of an axis and metric; if the originals' score is 0, values are differences."""
        original = float(metric.score(table.original.sum(axis=0)))
        is_ratio = metric.scale == "ratio" and original > 0
        return cls(-1.0 if metric.better == "lower" else 1.0, original if is_ratio else 1.0, is_ratio)

    def values(self, scores: np.ndarray) -> np.ndarray:
        """Differences of scores as values."""
        return self.sign * scores / self.original


@dataclass(frozen=True)
class Contrasts:
    """Values of each dialogue in every group, for one axis and metric, or for a change between two runs."""

    design: GroupDesign
    """Which dialogues have which groups, and by which terms."""
    with_references: GroupDesign
    """The same with the reference variants as further groups."""
    groups: tuple[str, ...]
    """Names of the groups, then of the reference variants."""
    values: Mapping[str, np.ndarray]
    """Contrast to (dialogues, groups) values."""
    scores: np.ndarray
    """(dialogues, groups), on the metric's own scale with no stage replaced."""
    ends: np.ndarray
    """(dialogues, groups, 2, statistics), the sums with no stage replaced and with all."""
    differs: np.ndarray
    """(dialogues,) whether any group of a dialogue is served otherwise than by the twin; of a change, otherwise than in
    the other run."""
    largest_score: float
    """The largest effect that a dialogue can have on a score (:func:`largest_effect`)."""
    most: float
    """The largest effect that a dialogue can have on a value."""
    beyond: tuple[GroupDesign, np.ndarray] | None = None
    """(dialogues, groups) of the disparity beyond the placebo's, with its design; None without a placebo."""
    drawn: tuple[DrawnShares, ...] = ()
    """The stages' shares by pair of orders, of each run whose orders are drawn."""

    def less(self, other: Contrasts) -> Contrasts:
        """The change from another run on the same counterfactuals, in the contrasts that both have."""
        return self._combined(other, 1.0, -1.0, (self.ends != other.ends).any(axis=(1, 2, 3)))

    def mean_with(self, other: Contrasts) -> Contrasts:
        """The mean of both runs."""
        return self._combined(other, 0.5, 0.5, self.differs | other.differs)

    def _combined(self, other: Contrasts, weight: float, others: float, differs: np.ndarray) -> Contrasts:
        values = {
            name: weight * value + others * other.values[name]
            for name, value in self.values.items()
            if name in other.values
        }
        return replace(
            self,
            values=values,
            scores=weight * self.scores + others * other.scores,
            differs=differs,
            largest_score=max(self.largest_score, other.largest_score),
            most=max(self.most, other.most),
            beyond=None,
            drawn=(*(some.times(weight) for some in self.drawn), *(some.times(others) for some in other.drawn)),
        )


def largest_effect(metric: Metric, *sums: np.ndarray) -> float:
    """Return the largest effect of a dialogue: 1, or the largest score of an observed dialogue.

    Shares and qualities are in 0–1; other counts (results, points of a hundred) may fall to 0. For a ratio the effect
    is 1: the whole of the originals' score.

    Args:
        metric: scores dialogues.
        sums: (dialogues, statistics) of some.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # of dialogues without a scored turn
        scores = [np.asarray(metric.score(some), dtype=float).ravel() for some in sums]
    seen = np.concatenate([np.zeros(1), *scores])
    return max(1.0, float(np.ptp(seen[np.isfinite(seen)])))


def kinds_of_clusters(variants: VariantIndex) -> list[Clusters]:
    """Return the further kinds of clusters of dialogues."""
    return [Clusters.of(labels, are_copies=name == COPIES) for name, labels in variants.clusters]


def originals_of(variants: VariantIndex, columns: int) -> np.ndarray:
    """Return (dialogues, columns) bool: the dialogue as it is."""
    is_original = np.zeros((variants.dialogues, columns), dtype=bool)
    mentions = np.flatnonzero(variants.source >= 0)
    is_original[mentions, variants.source[mentions]] = True
    return is_original


def group_design(variants: VariantIndex, has: np.ndarray, kinds: Sequence[Clusters]) -> GroupDesign:
    """Return the design of (dialogues, groups); metrics that score the same dialogues share one."""
    designs, key = variants.designs, has.tobytes()
    if key not in designs:
        columns = has.shape[1]
        designs[key] = GroupDesign(has, variants.weights_of_terms(columns), originals_of(variants, columns), kinds)
    return designs[key]


class AuditContrasts:
    """Makes the contrasts of one axis and metric from the arms' sums.

    Groups are compared on the dialogues that all of them share. Where these are fewer than half (draws, or fewer
    variants than groups), every dialogue takes part with the groups that it has.

    Args:
        table: of the axis and metric.
        metric: scores it.
    """

    def __init__(self, table: ArmSums, metric: Metric) -> None:
        self._table = table
        self._variants = table.variants
        self._metric = metric
        self.scale = ScoreScale.of(table, metric)

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """Contrast to (arms,) weights."""
        design = self._table.arms
        weights = {POOLED: disparity_weights(design)}
        for stage in design.stages:
            weights |= {f"{part} {stage}": some for part, some in stage_weights(stage, design).items()}
        weights |= {f"group {name}": group_weights(members, design) for name, members in design.groups.items()}
        if self._table.has_whole:
            weights = {name: np.append(some, 0.0) for name, some in weights.items()}
            unattributed = np.zeros(len(weights[POOLED]))
            unattributed[-1], unattributed[-2] = 1.0, -1.0
            weights[UNATTRIBUTED] = unattributed
            weights[POOLED] = weights[POOLED] + unattributed
        return weights

    @cached_property
    def _drawn_weights(self) -> dict[str, np.ndarray]:
        """Stage to (pairs, arms) weights, where orders are drawn."""
        weights = drawn_weights(self._table.arms)
        return {stage: np.pad(some, ((0, 0), (0, int(self._table.has_whole)))) for stage, some in weights.items()}

    @cached_property
    def shared(self) -> np.ndarray:
        """(dialogues,) bool, which take part."""
        has = self._variants.has_group
        has = has[:, has.any(axis=0)]
        counts = np.ones(len(has), dtype=bool)
        if self._metric.equal_denominators:  # in the other dialogues no variant could show the event
            counts = self._table.original[:, -1] > 0
        complete = has.all(axis=1) & counts
        return np.asarray(complete if 2 * complete.sum() >= counts.sum() else (has.sum(axis=1) > 1) & counts)

    @cached_property
    def _arms(self) -> np.ndarray:
        """(dialogues, arms) values of all counterfactuals of a dialogue together."""
        return pseudo_values(self._table.rewritten, self._metric)

    @cached_property
    def whole(self) -> dict[str, np.ndarray]:
        """Contrast to (dialogues,) values: of all counterfactuals of a dialogue together, with ``artefact`` and the
        interactions."""
        design = self._table.arms
        original = pseudo_values(self._table.original[:, None], self._metric)[:, 0]
        arms = self._arms
        pairs = {"×".join(pair): interaction_weights(*pair, design) for pair in pairs_of(design)}
        if self._table.has_whole:
            pairs = {name: np.append(some, 0.0) for name, some in pairs.items()}
        values = {name: self.scale.values(arms @ weights) for name, weights in (self.weights | pairs).items()}
        return {**values, "artefact": self.scale.values(original - arms[:, -1])}

    @cached_property
    def levels(self) -> dict[str, np.ndarray]:
        """``original`` and ``rewritten`` to (dialogues,) scores on the metric's own scale, with no stage replaced."""
        both = np.stack([self._table.original, self._table.rewritten[:, 0]], axis=1)
        values = pseudo_values(both, self._metric)
        return {"original": values[:, 0], "rewritten": values[:, 1]}

    @cached_property
    def beyond_placebo(self) -> np.ndarray | None:
        """(dialogues with a placebo,): the disparity less that of the placebo in the same dialogues."""
        members = self._variants.has_placebo
        if not members.any():
            return None
        ends = np.concatenate([self._table.rewritten[members][:, [0, -1]], self._table.mean_placebo[members]], axis=1)
        values = pseudo_values(ends, self._metric)
        return self.scale.values(values @ np.array([-1.0, 1.0, 1.0, -1.0]))

    def contrasts(self) -> Contrasts:
        """The contrasts of all groups and reference variants."""
        variants, shared = self._variants, self.shared
        references = list(dict.fromkeys(name for _, name in variants.references))
        names = [*variants.groups, *references]
        has = np.zeros((variants.dialogues, len(names)), dtype=bool)
        values = {name: np.zeros(has.shape) for name in self.weights}
        drawn = {stage: np.zeros((len(some), *has.shape)) for stage, some in self._drawn_weights.items()}
        scores = np.zeros(has.shape)
        ends = np.zeros((*has.shape, 2, self._table.original.shape[1]))
        for place, name in enumerate(names):
            sums, members = self._sums(place, name)
            members &= shared
            if not members.any():
                continue
            arms = pseudo_values(sums[members], self._metric)
            if np.isnan(arms).any():
                continue
            has[members, place] = True
            scores[members, place] = arms[:, 0]
            ends[members, place] = sums[members][:, [0, -1]]
            for contrast, weights in self.weights.items():
                values[contrast][members, place] = self.scale.values(arms @ weights)
            for stage, by_pair in self._drawn_weights.items():
                drawn[stage][:, members, place] = self.scale.values(by_pair @ arms.T)
        kinds = kinds_of_clusters(variants)
        of_groups = has & (np.arange(len(names)) < len(variants.groups))
        full = group_design(variants, has, kinds)
        design = group_design(variants, of_groups, kinds) if references else full
        beyond = self._beyond(has, values[POOLED], kinds)
        largest_score = largest_effect(self._metric, self._table.original, ends[has][:, 0])
        return Contrasts(
            design=design,
            with_references=full,
            groups=tuple(names),
            values=values,
            scores=scores,
            ends=ends,
            differs=(ends[:, :, 0] != ends[:, :, 1]).any(axis=(1, 2)),
            largest_score=largest_score,
            most=1.0 if self.scale.is_ratio else largest_score,
            beyond=beyond,
            drawn=self._drawn_shares(drawn),
        )

    def _drawn_shares(self, by_group: Mapping[str, np.ndarray]) -> tuple[DrawnShares, ...]:
        if not by_group:
            return ()
        mean = self._arms.mean(axis=0)
        whole = {stage: self.scale.values(weights @ mean) for stage, weights in self._drawn_weights.items()}
        return (DrawnShares(by_group, whole),)

    def _sums(self, place: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        variants = self._variants
        if place < len(variants.groups):
            # has_group is cached for all metrics, and callers write into what they get
            return self._table.for_group(place), variants.has_group[:, place].copy()
        return self._table.for_reference(name)

    def _beyond(
        self, has: np.ndarray, values: np.ndarray, kinds: Sequence[Clusters]
    ) -> tuple[GroupDesign, np.ndarray] | None:
        """Return the disparity of every group minus the placebo's effect, in the dialogues with a placebo."""
        variants = self._variants
        members = variants.has_placebo & self.shared
        if not members.any():
            return None
        groups = len(variants.groups)
        has = has[:, :groups] & members[:, None]
        placebo = np.zeros(has.shape)
        ends = pseudo_values(self._table.mean_placebo[members], self._metric)
        placebo[members] = self.scale.values(ends[:, 1] - ends[:, 0])[:, None]
        placebo[originals_of(variants, groups)] = 0.0
        return GroupDesign(has, variants.weights_of_terms(groups), None, kinds), np.where(
            has, values[:, :groups] - placebo, 0.0
        )
