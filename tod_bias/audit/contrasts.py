"""Contrasts of scores: each dialogue's contribution to the harm of every group, by stage.

Every contrast is a weighted sum of the arms' scores. With q(S) the score of the counterfactuals when the stages in S
are replaced by their twins, and N all of them, q(N) − q(∅) is the disparity of the stages. A stage c has three parts of
it: its share; the part that replacing it alone removes, q({c}) − q(∅); and the part that remains when all others are
replaced, q(N) − q(N∖{c}).

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

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, product
from math import comb, factorial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from tod_bias.audit.checks import COPIES
from tod_bias.metrics.metric import Metric
from tod_bias.results import ALPHA, Noise, Repair, Sampling
from tod_bias.statistics.arms import Arm, ArmDesign, subsets
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.distributions import t_quantile
from tod_bias.statistics.group_model import GroupDesign, RowEstimates
from tod_bias.statistics.intervals import t_interval
from tod_bias.statistics.resampling import BLOCK
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by
from tod_bias.statistics.term_families import FactorTerms

if TYPE_CHECKING:
    from tod_bias.statistics.group_model import GroupDesign


PARTS = ("shapley", "replaced_alone", "left_alone")
"""The three parts of a stage."""


def disparity_weights(design: ArmDesign) -> np.ndarray:
    """(arms,) of q(N) − q(∅)."""
    weights = np.zeros(len(design.arms))
    weights[-1], weights[0] = 1.0, -1.0
    return weights


def _step(weights: np.ndarray, design: ArmDesign, before: Arm, stage: str, weight: float) -> None:
    """Add what replacing a stage changes where some are replaced before it."""
    first, second = design.number(before), design.number(before | {stage})
    assert first is not None
    assert second is not None  # the design has the arms of its own shares
    weights[second] += weight
    weights[first] -= weight


def shapley_weights(stage: str, design: ArmDesign) -> np.ndarray:
    """(arms,) of a stage's share: Shapley's, Owen's where stages are in groups, its estimate where orders are drawn.

    Exact, with g groups and k stages in the stage's own: over all sets H of h other groups and T of t other stages of
    its group, h! (g − h − 1)! / g! · t! (k − t − 1)! / k! of q(H ∪ T ∪ c) − q(H ∪ T).
    """
    if design.pairs:
        return np.asarray(order_weights(stage, design).mean(axis=0))
    weights = np.zeros(len(design.arms))
    number = next((number for number, group in enumerate(design.players) if stage in group), None)
    if number is None:
        return weights  # its twin changes nothing
    others = [*design.players[:number], *design.players[number + 1 :]]
    members = tuple(name for name in design.players[number] if name != stage)
    for whole, part in product(subsets(others), subsets(members)):
        weight = _share(len(whole), len(others)) * _share(len(part), len(members))
        _step(weights, design, frozenset(part).union(*whole), stage, weight)
    return weights


def _share(before: int, others: int) -> float:
    """Return the share of all orders of a player and the others in which exactly these others are first."""
    return factorial(before) * factorial(others - before) / factorial(others + 1)


def order_weights(stage: str, design: ArmDesign) -> np.ndarray:
    """(pairs, arms) of a stage's share in every antithetic pair of the orders that are drawn."""
    weights = np.zeros((design.pairs, len(design.arms)))
    for number, order in enumerate(design.orders):
        _step(weights[number // 2], design, frozenset(order[: order.index(stage)]), stage, 0.5)
    return weights


def stage_weights(stage: str, design: ArmDesign) -> dict[str, np.ndarray]:
    """The three parts of a stage, (arms,) each."""
    alone, left = np.zeros(len(design.arms)), np.zeros(len(design.arms))
    _step(alone, design, frozenset(), stage, 1.0)
    _step(left, design, frozenset(design.stages) - {stage}, stage, 1.0)
    return dict(zip(PARTS, (shapley_weights(stage, design), alone, left), strict=True))


def interaction_weights(first: str, second: str, design: ArmDesign) -> np.ndarray:
    """(arms,) of the Shapley interaction index with its sign turned: what replacing each alone changes, less what both
    change.

    Positive: replacing either is enough for part of the disparity, which takes both stages (AND). Negative: part of it
    goes only when both are replaced, as either stage suffices for it (OR).
    """
    (players,) = design.players
    others = [stage for stage in players if stage not in (first, second)]
    weights = np.zeros(len(design.arms))
    for before in map(frozenset, subsets(others)):
        weight = 1 / comb(len(others), len(before)) / (len(others) + 1)
        _step(weights, design, before, first, weight)
        _step(weights, design, before | {second}, first, -weight)
    return weights


def pairs_of(design: ArmDesign) -> list[tuple[str, str]]:
    """Return the pairs of stages whose interaction is known: both change something, and all their sets are arms."""
    if design.pairs or len(design.players) != 1:
        return []
    return list(combinations(design.players[0], 2))


def group_weights(members: Sequence[str], design: ArmDesign) -> np.ndarray:
    """(arms,) of the share of a group of stages, the sum of theirs."""
    return np.asarray(sum(shapley_weights(stage, design) for stage in members))


class TermsByFactor(NamedTuple):
    """The terms that express the levels of one factor of crossed axes."""

    source: tuple[frozenset[str], ...]
    """(dialogues,) those of each dialogue's own level."""
    target: tuple[frozenset[str], ...]
    """(variants,) those of the level that each is rewritten for."""


def terms_by_factor(
    of: Sequence[int], factors: Sequence[Sequence[tuple[Iterable[str], Iterable[str]]]], dialogues: int
) -> tuple[TermsByFactor, ...]:
    """The terms of each factor of crossed axes, where all variants know them.

    Args:
        of: (variants,) number of the dialogue.
        factors: of each variant, by factor, the terms of the dialogue's own level and of the one it is rewritten for.
        dialogues: their number.
    """
    by_factor = []
    for place in range(min(map(len, factors), default=0)):
        source: list[set[str]] = [set() for _ in range(dialogues)]
        for number, some in zip(of, factors, strict=True):
            source[number].update(map(str, some[place][0]))
        target = tuple(frozenset(map(str, some[place][1])) for some in factors)
        by_factor.append(TermsByFactor(tuple(map(frozenset, source)), target))
    return tuple(by_factor)


@dataclass(frozen=True)
class VariantIndex:
    """Variants of the dialogues along one axis; the same for every metric."""

    groups: tuple[str, ...]
    """Groups of the axis."""
    source: np.ndarray
    """(dialogues,) number of the group that a dialogue mentions; -1: of none of them."""
    of: np.ndarray
    """(variants,) number of the dialogue."""
    target: np.ndarray
    """(variants,) number of the group that it is rewritten for."""
    draw: np.ndarray
    """(variants,) number of the draw; 0 for all in the crossed design."""
    source_terms: tuple[frozenset[str], ...]
    """(dialogues,) the terms that express each dialogue's own group."""
    terms: tuple[frozenset[str], ...]
    """(variants,) the terms that express the group that each is rewritten for."""
    placebo: np.ndarray
    """(placebo variants,) number of the dialogue."""
    placebo_terms: tuple[str, ...]
    """(placebo variants,) the term of each change."""
    factors: tuple[str, ...] = ()
    """Factors of groups joined by ``×``; at most one for plain groups."""
    by_factor: tuple[TermsByFactor, ...] = ()
    """Terms of each factor, if groups of a factor share terms; empty if every group has separate terms."""
    references: tuple[tuple[int, str], ...] = ()
    """Reference variants: number of the dialogue, and what each is."""
    clusters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further clusters: a name, and a label for every dialogue."""
    edits: tuple[float, float] = (0.0, 0.0)
    """Words changed per dialogue if there is a placebo: by the axis, and by the placebo."""

    @property
    def dialogues(self) -> int:
        """Number of dialogues."""
        return len(self.source)

    def for_dialogues(self, numbers: np.ndarray) -> VariantIndex:
        """Return the variants of some dialogues, in the order of their numbers."""
        place = np.full(self.dialogues, -1)
        place[numbers] = np.arange(len(numbers))
        variants, placebo = self.places(numbers)
        return replace(
            self,
            source=self.source[numbers],
            of=place[self.of[variants]],
            target=self.target[variants],
            draw=self.draw[variants],
            source_terms=tuple(self.source_terms[number] for number in numbers),
            terms=tuple(self.terms[number] for number in variants),
            placebo=place[self.placebo[placebo]],
            placebo_terms=tuple(self.placebo_terms[number] for number in placebo),
            by_factor=tuple(
                TermsByFactor(
                    tuple(some.source[number] for number in numbers), tuple(some.target[number] for number in variants)
                )
                for some in self.by_factor
            ),
            references=(),
            clusters=tuple((name, tuple(labels[number] for number in numbers)) for name, labels in self.clusters),
        )

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the variants and of the placebo variants of some dialogues, in the order of their numbers."""
        place = np.full(self.dialogues, -1)
        place[numbers] = np.arange(len(numbers))
        sorted_places = []
        for of in (self.of, self.placebo):
            chosen = np.flatnonzero(place[of] >= 0)
            sorted_places.append(chosen[np.argsort(place[of[chosen]], kind="stable")])
        return sorted_places[0], sorted_places[1]

    @cached_property
    def has_group(self) -> np.ndarray:
        """(dialogues, groups) bool: for which groups each has a variant; its own group's is the dialogue as it is."""
        has = np.zeros((self.dialogues, len(self.groups)), dtype=bool)
        has[self.of, self.target] = True
        mentions = self.source >= 0
        has[np.flatnonzero(mentions), self.source[mentions]] = True
        return has

    def terms_of(self, group: int) -> tuple[sparse.csr_array, tuple[str, ...]]:
        """Return the terms that express a group: (dialogues, terms) weights, and the terms.

        The weights of a dialogue with the group sum to 1: over its variants for it, and over the terms of each.
        """
        return self._weights_of(self.target == group, self.source == group, self.terms, self.source_terms)

    def _weights_of(
        self,
        is_target: np.ndarray,
        is_source: np.ndarray,
        terms: Sequence[frozenset[str]],
        source_terms: Sequence[frozenset[str]],
    ) -> tuple[sparse.csr_array, tuple[str, ...]]:
        sets = [(self.of[number], terms[number]) for number in np.flatnonzero(is_target).tolist()]
        sets += [(dialogue, source_terms[dialogue]) for dialogue in np.flatnonzero(is_source).tolist()]
        of = np.array([dialogue for dialogue, _ in sets], dtype=int)
        share = 1.0 / np.maximum(np.bincount(of, minlength=self.dialogues), 1)
        numbers: dict[str, int] = {}
        cells = [
            (dialogue, numbers.setdefault(term, len(numbers)), share[dialogue] / len(terms or ("",)))
            for dialogue, terms in sets
            for term in sorted(terms or ("",))
        ]
        row, column, weight = (np.array(some) for some in zip(*cells, strict=True)) if cells else ([], [], [])
        shape = (self.dialogues, max(1, len(numbers)))
        return sparse.csr_array(sparse.coo_array((weight, (row, column)), shape=shape)), tuple(numbers)

    @cached_property
    def levels(self) -> list[tuple[str, ...]]:
        """Level of every factor for each group; the group itself on an axis that is not crossed."""
        widths = [1 + factor.count("×") for factor in self.factors] or [1]
        levels = []
        for group in self.groups:
            parts = group.split("×") if len(self.factors) > 1 else [group]
            ends = np.cumsum([0, *widths])
            levels.append(tuple("×".join(parts[start:end]) for start, end in pairwise(ends)))
        return levels

    @cached_property
    def level_terms(self) -> list[tuple[np.ndarray, list[tuple[sparse.csr_array, tuple[str, ...]]]]]:
        """Terms of each factor with separate terms per level: (groups,) number of the level, and for each level the
        result of :meth:`terms_of`."""
        factors = []
        for place, terms in enumerate(self.by_factor):
            names = list(dict.fromkeys(levels[place] for levels in self.levels))
            level = np.array([names.index(levels[place]) for levels in self.levels], dtype=int)
            has_source = self.source >= 0
            factors.append(
                (
                    level,
                    [
                        self._weights_of(
                            level[self.target] == number,
                            has_source & (level[self.source] == number),
                            terms.target,
                            terms.source,
                        )
                        for number in range(len(names))
                    ],
                )
            )
        return factors

    @property
    def sets(self) -> list[sparse.csr_array]:
        """(dialogues, terms) weights of every set of terms: of each group, or of each level of each factor."""
        if not self.by_factor:
            return [self.terms_of(group)[0] for group in range(len(self.groups))]
        return [weights for _, levels in self.level_terms for weights, _ in levels]

    def names_of(self, group: int) -> list[tuple[str, ...]]:
        """The terms that express a group: its own, or on crossed axes those of its level of each factor."""
        if not self.by_factor:
            return [self.terms_of(group)[1]]
        return [levels[number[group]][1] for number, levels in self.level_terms]

    def weights_of_terms(self, columns: int) -> list[sparse.csr_array | None] | list[FactorTerms]:
        """Return the terms for a :class:`~tod_bias.statistics.group_model.GroupDesign` of the groups, and of further
        columns without terms."""
        further = columns - len(self.groups)
        if not self.by_factor:
            return [*self.sets, *[None] * further]
        return [
            FactorTerms(np.append(number, np.full(further, -1)), [weights for weights, _ in levels])
            for number, levels in self.level_terms
        ]

    @cached_property
    def designs(self) -> dict[bytes, GroupDesign]:
        """Cache of designs by the dialogues' groups."""
        return {}

    @cached_property
    def has_placebo(self) -> np.ndarray:
        """(dialogues,) bool."""
        has = np.zeros(self.dialogues, dtype=bool)
        has[self.placebo] = True
        return has


@dataclass(frozen=True)
class RepeatedSums:
    """Sums of repeated draws, if stages draw their outputs."""

    by_sample: np.ndarray
    """(samples, variants, 2, statistics): with no stage replaced, and with all."""
    first: np.ndarray
    """(dialogues, statistics) of the originals."""
    second: np.ndarray
    """(dialogues, statistics) of the originals drawn again."""


@dataclass(frozen=True)
class ArmSums:
    """Statistics of one axis and metric, summed over turns; everything that is estimated follows from these."""

    variants: VariantIndex
    """Variants of the dialogues."""
    arms: ArmDesign
    """Arms of the sums."""
    original: np.ndarray
    """(dialogues, statistics) of the original runs."""
    by_variant: np.ndarray
    """(variants, arms, statistics), arms in the order of :meth:`tod_bias.statistics.arms.ArmDesign.keys`."""
    placebo: np.ndarray
    """(placebo variants, arms, statistics)."""
    repeated: RepeatedSums | None = None
    """Sums over repeated draws, if stages draw their outputs."""
    references: np.ndarray | None = None
    """(reference variants, arms, statistics)."""

    def for_dialogues(self, numbers: np.ndarray) -> ArmSums:
        """Return the sums of some dialogues, in the order of their numbers; without references and repeats."""
        variants, placebo = self.variants.places(numbers)
        return ArmSums(
            self.variants.for_dialogues(numbers),
            self.arms,
            self.original[numbers],
            self.by_variant[variants],
            self.placebo[placebo],
        )

    @property
    def is_alike(self) -> bool:
        """True if no variant differs from its original while no stage is replaced."""
        alike = np.array_equal(self.by_variant[:, 0], self.original[self.variants.of])
        return alike and np.array_equal(self.placebo[:, 0], self.original[self.variants.placebo])

    @property
    def stages(self) -> tuple[str, ...]:
        """The system's."""
        return self.arms.stages

    @property
    def has_whole(self) -> bool:
        """True if the last arm is the twin of the whole system."""
        return self.by_variant.shape[1] > len(self.arms.arms)

    @property
    def rewritten(self) -> np.ndarray:
        """A dialogue's mean over its variants, (dialogues, arms, statistics), so that each dialogue weighs once."""
        return self.mean_of(self.by_variant, self.variants.of)

    def for_group(self, group: int) -> np.ndarray:
        """Return (dialogues, arms, statistics) of the variants for one group; the original if that is the dialogue's
        own group; 0 if there is none."""
        chosen = self.variants.target == group
        table = self.mean_of(self.by_variant[chosen], self.variants.of[chosen])
        return self._with_originals(table, self.variants.source == group)

    @cached_property
    def mean_placebo(self) -> np.ndarray:
        """A dialogue's placebo with no stage replaced and with all, (dialogues, 2, statistics)."""
        return self.mean_of(self.placebo[:, [0, -1]], self.variants.placebo)

    def for_reference(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A reference variant, (dialogues, arms, statistics), and which dialogues have it, (dialogues,)."""
        assert self.references is not None
        chosen = [place for place, (_, what) in enumerate(self.variants.references) if what == name]
        of = np.array([self.variants.references[place][0] for place in chosen], dtype=int)
        has = np.zeros(self.variants.dialogues, dtype=bool)
        has[of] = True
        return self.mean_of(self.references[chosen], of), has

    def mean_of(self, table: np.ndarray, of: np.ndarray) -> np.ndarray:
        """Return means of (variants, …) by dialogue, (dialogues, …); 0 for dialogues without variants.

        Args:
            table: (variants, …).
            of: (variants,) numbers of dialogues.
        """
        count = np.bincount(of, minlength=self.variants.dialogues)
        if len(of) == 0 or (count.max() <= 1):
            total = np.zeros((self.variants.dialogues, *table.shape[1:]))
            total[of] = table
            return total
        total = sums_by(of, table, self.variants.dialogues)
        return total / np.maximum(count, 1).reshape(-1, *[1] * (table.ndim - 1))

    def _with_originals(self, table: np.ndarray, mentions: np.ndarray) -> np.ndarray:
        table[mentions] = self.original[mentions][:, None]
        return table


def numbers_of(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """The place of each name among those known, (names,); -1 for one that is not."""
    place = {name: number for number, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], dtype=int)


MATTERS = 0.1
"""Share of a contribution's variance from which the error of drawing orders matters, ..."""
_NOTHING = 1e-20
"""Variances that rounding makes."""
SMALL = 0.02
"""Largest standard error, as a share of the gap, at which no more orders are drawn."""


@dataclass(frozen=True)
class DrawnShares:
    """Values of the stages' shares in each pair of orders, in one run."""

    by_group: Mapping[str, np.ndarray]
    """Stage to (pairs, dialogues, groups)."""
    whole: Mapping[str, np.ndarray]
    """Stage to (pairs,), of all counterfactuals of a dialogue together."""

    def times(self, factor: float) -> DrawnShares:
        """The same of shares that are multiplied."""
        return replace(
            self,
            by_group={stage: factor * some for stage, some in self.by_group.items()},
            whole={stage: factor * some for stage, some in self.whole.items()},
        )

    def in_contrast(self, stages: Sequence[str], coefficients: np.ndarray) -> np.ndarray:
        """(pairs,) of the sum of some stages' shares of a contrast of groups.

        Args:
            stages: whose shares are summed.
            coefficients: (dialogues, groups) of the contrast.
        """
        return np.asarray(sum(np.tensordot(self.by_group[stage], coefficients, axes=2) for stage in stages))

    def in_whole(self, stages: Sequence[str]) -> np.ndarray:
        """(pairs,) of the sum of some stages' shares of all counterfactuals together."""
        return np.asarray(sum(self.whole[stage] for stage in stages))


def drawn_weights(design: ArmDesign) -> dict[str, np.ndarray]:
    """Stage to (pairs, arms); nothing where no orders are drawn."""
    return {stage: order_weights(stage, design) for stage in design.stages} if design.pairs else {}


def variance_of(values: np.ndarray) -> float:
    """Return the variance of the mean of (pairs,) values."""
    return float(values.var(ddof=1)) / len(values)


def with_orders(rows: RowEstimates, number: int, drawn: Sequence[np.ndarray]) -> RowEstimates:
    """Return estimates, one of which includes the error of drawn orders.

    Args:
        rows: the estimates.
        number: of the row.
        drawn: (pairs,) values of its share, for each run in it.
    """
    variances = [variance_of(values) for values in drawn]
    added = sum(variances)
    if added < _NOTHING:
        return rows
    of_data = float(rows.errors[number]) ** 2
    parts = [(of_data, float(rows.freedom[number]))]
    parts += [(some, len(values) - 1.0) for some, values in zip(variances, drawn, strict=True)]
    errors, freedom, covariance = rows.errors.copy(), rows.freedom.copy(), rows.covariance.copy()
    errors[number] = np.sqrt(of_data + added)
    freedom[number] = (of_data + added) ** 2 / sum(some**2 / of for some, of in parts if some and of)
    covariance[number, number] += added
    return RowEstimates(rows.values, errors, freedom, covariance)


def matters(drawn: np.ndarray, error: float, whole: float) -> bool:
    """True if more orders would make a share more precise.

    Args:
        drawn: (pairs,) its values.
        error: its standard error, including that of drawn orders.
        whole: the gap.
    """
    variance = variance_of(drawn)
    return variance > MATTERS * error**2 and np.sqrt(variance) > SMALL * abs(whole)


DISPARITY = "disparity"
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


class Contrasts:
    """Values of each dialogue in every group, for one axis and metric, or for a change between two runs.

    Args:
        designs: which dialogues have which groups, and by which terms: of the groups alone, and with the reference
            variants as further groups.
        groups: names of the groups, then of the reference variants.
        values: contrast to (dialogues, groups) values.
        scores: (dialogues, groups), on the metric's own scale with no stage replaced.
        ends: (dialogues, groups, 2, statistics), the sums with no stage replaced and with all.
        beyond: (dialogues, groups) of the disparity beyond the placebo's; None without a placebo.
        drawn: the stages' shares by pair of orders, of each run whose orders are drawn.
    """

    def __init__(
        self,
        designs: tuple[GroupDesign, GroupDesign],
        groups: Sequence[str],
        values: Mapping[str, np.ndarray],
        scores: np.ndarray,
        ends: np.ndarray,
        beyond: tuple[GroupDesign, np.ndarray] | None = None,
        drawn: Sequence[DrawnShares] = (),
    ) -> None:
        self.design, self.with_references = designs
        self.groups = tuple(groups)
        self.values = values
        self.scores = scores
        self._ends = ends
        self.beyond = beyond
        self.drawn = tuple(drawn)
        self.largest_score, self.most = 1.0, 1.0
        """The largest effect that a dialogue can have (:func:`largest_effect`): on a score, and on a value."""
        self.differs = (ends[:, :, 0] != ends[:, :, 1]).any(axis=(1, 2))
        """(dialogues,) whether any group of a dialogue is served otherwise than by the twin."""

    def less(self, other: Contrasts) -> Contrasts:
        """The change from another run on the same counterfactuals, in the contrasts that both have."""
        change = self._combined(other, 1.0, -1.0)
        change.differs = (self._ends != other._ends).any(axis=(1, 2, 3))
        return change

    def mean_with(self, other: Contrasts) -> Contrasts:
        """The mean of both runs."""
        return self._combined(other, 0.5, 0.5)

    def _combined(self, other: Contrasts, weight: float, others: float) -> Contrasts:
        designs = self.design, self.with_references
        values = {
            name: weight * value + others * other.values[name]
            for name, value in self.values.items()
            if name in other.values
        }
        scores = weight * self.scores + others * other.scores
        drawn = [*(some.times(weight) for some in self.drawn), *(some.times(others) for some in other.drawn)]
        mean = Contrasts(designs, self.groups, values, scores, self._ends, drawn=drawn)
        mean.differs = self.differs | other.differs
        mean.largest_score = max(self.largest_score, other.largest_score)
        mean.most = max(self.most, other.most)
        return mean


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
        weights = {DISPARITY: disparity_weights(design)}
        for stage in design.stages:
            weights |= {f"{part} {stage}": some for part, some in stage_weights(stage, design).items()}
        weights |= {f"group {name}": group_weights(members, design) for name, members in design.groups.items()}
        if self._table.has_whole:
            weights = {name: np.append(some, 0.0) for name, some in weights.items()}
            unattributed = np.zeros(len(weights[DISPARITY]))
            unattributed[-1], unattributed[-2] = 1.0, -1.0
            weights[UNATTRIBUTED] = unattributed
            weights[DISPARITY] = weights[DISPARITY] + unattributed
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
        full = self._design(has, kinds)
        design = self._design(of_groups, kinds) if references else full
        beyond = self._beyond(has, values[DISPARITY], kinds)
        made = Contrasts((design, full), names, values, scores, ends, beyond, self._drawn_shares(drawn))
        made.largest_score = largest_effect(self._metric, self._table.original, ends[has][:, 0])
        made.most = 1.0 if self.scale.is_ratio else made.largest_score
        return made

    def _design(self, has: np.ndarray, kinds: Sequence[Clusters]) -> GroupDesign:
        """Return the design of (dialogues, groups); metrics that score the same dialogues share one."""
        return group_design(self._variants, has, kinds)

    def _drawn_shares(self, by_group: Mapping[str, np.ndarray]) -> list[DrawnShares]:
        if not by_group:
            return []
        mean = self._arms.mean(axis=0)
        whole = {stage: self.scale.values(weights @ mean) for stage, weights in self._drawn_weights.items()}
        return [DrawnShares(by_group, whole)]

    def _sums(self, place: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        variants = self._variants
        if place < len(variants.groups):
            return self._table.for_group(place), variants.has_group[:, place].copy()
        return self._table.for_reference(name)

    def originals(self, columns: int) -> np.ndarray:
        """(dialogues, columns) bool: the dialogue as it is."""
        return originals_of(self._variants, columns)

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
        placebo[self.originals(groups)] = 0.0
        return GroupDesign(has, variants.weights_of_terms(groups), None, kinds), np.where(
            has, values[:, :groups] - placebo, 0.0
        )


_FEWEST = 6
"""Dialogues of other groups from which the two are told apart."""
_SMALL = 0.25
"""Largest share of the gap that may remain if one stage suffices, or disappear if one does not."""


def repair_of(contrasts: Contrasts, source: np.ndarray, group: int, stages: Sequence[str]) -> Repair:
    """Return whether repairing one of some stages closes a group's gap, or only repairing all of them does.

    Args:
        contrasts: of one axis and metric.
        source: (dialogues,) number of the group that the original expresses; negative for none.
        group: number of the group with a gap.
        stages: those with the largest shares of the gap.

    Returns:
        ``either``, ``all``, or nothing if neither is shown.
    """
    has = contrasts.design.has
    members = has[:, group] & (source != group)
    if len(stages) < 2 or members.sum() < _FEWEST:
        return ""
    whole = _gap(contrasts, DISPARITY, members, group).mean()
    if not whole:
        return ""
    removed = [_gap(contrasts, f"replaced_alone {stage}", members, group) / whole for stage in stages]
    left = [_gap(contrasts, f"left_alone {stage}", members, group) / whole for stage in stages]
    excess = [_lower(some - other) for some, other in zip(removed, left, strict=True)]
    if min(excess) > 0 and all(some.mean() <= _SMALL for some in left):
        return "either"
    missing = [_lower(other - some) for some, other in zip(removed, left, strict=True)]
    return "all" if min(missing) > 0 and all(some.mean() <= _SMALL for some in removed) else ""


def _gap(contrasts: Contrasts, name: str, members: np.ndarray, group: int) -> np.ndarray:
    """(members,) of a group against the mean of the other groups of the same dialogue."""
    values, has = contrasts.values[name][members], contrasts.design.has[members].astype(float)
    has[:, group] = 0.0
    return np.asarray(values[:, group] - (values * has).sum(axis=1) / np.maximum(has.sum(axis=1), 1.0))


def _lower(values: np.ndarray) -> float:
    """Return the lower end of the interval of a mean, with dialogues as the sample."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - float(t_quantile(1 - ALPHA / 2, len(values) - 1)) * error


_NO_NOISE = 1e-20
"""A variance that is rounding noise."""


def sampling_of(
    table: ArmSums, metric: Metric, scale: ScoreScale, inference: Inference, error: float
) -> Sampling | None:
    """Compare the originals with themselves, and return how much of the variance is due to drawing outputs.

    The noise compares half of the draws of the originals with the other half. None if nothing is drawn. The share is
    null without variance, and, with one sample, for disagreement with the twin, because its A/A run shows how often two
    draws differ but not how that varies.

    Args:
        table: of one axis and metric.
        metric: the metric.
        scale: of the values.
        inference: with the level.
        error: standard error of the disparity with words as they are.
    """
    drawn = table.repeated
    if drawn is None:
        return None
    draws = scale.values(pseudo_values(np.stack([drawn.first, drawn.second], axis=1), metric))
    pair = draws[:, 0] - draws[:, 1]
    bounds = t_interval(pair, inference.level) if len(pair) > 1 else (math.nan, math.nan)
    samples = len(drawn.by_sample)
    variance = math.nan
    if samples > 1:
        variance = _within(table, metric, scale)
    elif not metric.counterfactual:
        # The originals' draws differ as two variants' do; all counterfactuals of a dialogue share one of the two.
        counterfactuals = np.maximum(np.bincount(table.variants.of, minlength=table.variants.dialogues), 1)
        variance = float((pair**2 * (1 + 1 / counterfactuals) / 2).sum()) / len(pair) ** 2
    share = variance / error**2 if error**2 > _NO_NOISE else math.nan
    return Sampling(
        samples=samples,
        noise=Noise(value=float(pair.mean()), ci=tuple(bounds), draws=2 * max(1, samples // 2)),
        share_of_variance=None if math.isnan(share) else min(1.0, share),
    )


def _within(table: ArmSums, metric: Metric, scale: ScoreScale) -> float:
    """Return the variance of the disparity's mean over samples that is due to the draws alone.

    Each dialogue has a disparity in every sample; the variance of these over samples, divided by their number, is
    averaged as dialogues are.
    """
    drawn, variants = table.repeated, table.variants
    assert drawn is not None
    by_sample = np.stack([pseudo_values(table.mean_of(sample, variants.of), metric) for sample in drawn.by_sample])
    disparity = scale.values(by_sample[:, :, 1] - by_sample[:, :, 0])  # (samples, dialogues)
    return float((disparity.var(axis=0, ddof=1) / len(disparity)).sum()) / disparity.shape[1] ** 2
