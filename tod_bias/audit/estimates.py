"""Everything that is said of one axis and metric: the disparity, its parts, groups, gaps, words and the floor.

    q(original) − q(∅)  =  [q(original) − q(N)]  +  [q(N) − q(∅)]
    what eq. 1 sees        artefact                 disparity

Signed until the last line, positive where the rewritten dialogues are served worse. Intervals leave out a word at a
time (and a cluster of any further kind; the widest is given), those called ``ci_these_words`` resample dialogues with
words as they are. Tests exchange a component and its twin in all dialogues of a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from tod_bias.audit.claims import WHOLE, AxisDraft, Claim, Key
from tod_bias.audit.contrasts import (
    AuditContrasts,
    Contrasts,
    pairs_of,
)
from tod_bias.audit.estimated import ContrastEstimates, negated
from tod_bias.audit.sampling_noise import sampling_of
from tod_bias.audit.su import su_of
from tod_bias.audit.sums import ArmSums
from tod_bias.audit.term_clusters import effective_terms_of, effective_terms_of_group, shared_terms, term_clusters_of
from tod_bias.metrics.metric import Metric
from tod_bias.results import AxisResult, BeyondPlacebo, Contribution, Gap, Group, Term, Terms
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.distributions import normal_tail
from tod_bias.statistics.flips import FlipTest, flip_test
from tod_bias.statistics.needed import ENOUGH_WORDS, FEWEST
from tod_bias.statistics.power import detectable
from tod_bias.statistics.record import finite
from tod_bias.statistics.settings import Inference
from tod_bias.systems.execution import all_arms, arm_key

TERMS_SHOWN = 12
"""Terms in a result, those with the largest contributions."""
LEAST_LEFT = 0.1
"""What the originals must still score without a term, as a part of their whole score, for a share to be given."""


class AxisEstimates:
    """Estimates of one axis and metric.

    Args:
        table: of the axis and metric.
        metric: scores it.
        order: in which Su's attribution swaps the components.
        inference: levels, resamples, permutations.
        tests: how many axes and metrics are claimed in all, for the minimum detectable effect.
    """

    def __init__(
        self, table: ArmSums, metric: Metric, order: Sequence[str], inference: Inference, tests: int = 1
    ) -> None:
        self._table = table
        self._variants = table.variants
        self._metric = metric
        self._order = tuple(order)
        self._inference = inference
        self._alpha = (1 - inference.level) / max(1, tests)
        self._arms = all_arms(table.stages)
        self._words = term_clusters_of(self._variants)
        self._shared = shared_terms(self._variants)
        self._effective = effective_terms_of(self._variants)
        self._dimensions = [self._words, *(Clusters.of(labels) for _, labels in self._variants.clusters)]
        self._blocks = AuditContrasts(table, metric)

    def draft(self, advance: Callable[[], None] = lambda: None) -> AxisDraft:
        """Everything but what needs the other axes; ``advance`` is called for every pair."""
        table = self._variants
        everyone = np.ones(table.dialogues, dtype=bool)
        whole = self._estimated(self._blocks.whole(), everyone, shares=True)
        groups = {
            name: self._estimated(self._blocks.group(number), table.has_group[:, number])
            for number, name in enumerate(table.groups)
            if table.has_group[:, number].any()
        }
        if len(groups) < 2:
            groups = {}
        family: dict[Key, ContrastEstimates] = {WHOLE: whole}
        family |= {("groups", name): block for name, block in groups.items()}
        tests, beyond = self._tested(list(family.values()))
        terms: dict[Key, float] = {WHOLE: self._effective}
        terms |= {("groups", name): effective_terms_of_group(table, table.groups.index(name)) for name in groups}
        claims = {
            key: self._claim(block, tests, beyond, number, terms[key])
            for number, (key, block) in enumerate(family.items())
        }
        pairs, pair_claims, pair_bounds = self._pairs(advance)
        effects, effect_claims = self._effects() if len(table.factors) > 1 else ({}, {})
        result = self._result(whole, tests).model_copy(
            update={
                **self._detectable(tests, whole),
                "groups": {name: self._group(name, block, claims[("groups", name)]) for name, block in groups.items()},
                "spread": finite(self._spread_of(groups)) if groups else None,
                "pairs": pairs,
                "effects": effects,
                "references": {
                    name: self._reference(name) for name in dict.fromkeys(name for _, name in table.references)
                },
            }
        )
        return AxisDraft(
            result,
            claims | pair_claims | effect_claims,
            [*(_bounds(block) for block in family.values()), *pair_bounds],
            may_be_equal=all(len(kind.names) >= FEWEST for kind in self._dimensions)
            and (self._metric.scale == "difference" or self._blocks.is_ratio),  # of a score of 0 nothing is known
        )

    def _estimated(self, block: Contrasts, members: np.ndarray, *, shares: bool = False) -> ContrastEstimates:
        both = [0, *([len(block.contrasts) - 1] if self._blocks.has_placebo else [])]
        tested = [*both, *(range(1, 1 + len(self._table.stages)) if shares else ())]
        return ContrastEstimates(
            block,
            members,
            self._dimensions,
            self._inference,
            shared=self._shared,
            effective=self._effective,
            tested=tested,
            both=both,
        )

    # tests ---------------------------------------------------------------------------------------------------------

    def _tested(self, blocks: Sequence[ContrastEstimates]) -> tuple[list[list[FlipTest]], list[list[FlipTest]]]:
        """The family's tests and those above the placebo: with words as a sample (a test a kind of clusters), and with
        words as they are."""
        return self._flips(blocks, 0), (self._flips(blocks, -1) if self._blocks.has_placebo else [[], []])

    def _flips(self, blocks: Sequence[ContrastEstimates], contrast: int) -> list[list[FlipTest]]:
        if not self._inference.permutations:
            return [[], []]

        chosen = [(block, 0 if contrast == 0 else block.above) for block in blocks]
        return [self._over_clusters(chosen), [self._flip_test(chosen, -1)]]

    def _over_clusters(self, chosen: Sequence[tuple[ContrastEstimates, int]]) -> list[FlipTest]:
        """Tests of contrasts, a test a kind of clusters: words first."""
        tests = []
        for kind in range(len(self._dimensions)):
            t_test = [block.spreads[kind].p_values(block.estimates)[number] for block, number in chosen]
            test = self._flip_test(chosen, kind).beyond(np.array(t_test))
            if kind == 0 and self._shared is not None:
                test = test.and_also([block.shared_p[number] for block, number in chosen])
            tests.append(test)
        return tests

    def _flip_test(self, chosen: Sequence[tuple[ContrastEstimates, int]], kind: int) -> FlipTest:
        parts = np.stack([block.parts(kind, number) for block, number in chosen], axis=1)
        return flip_test(parts, self._inference.permutations, self._inference.seed, self._alpha)

    def _claim(
        self,
        block: ContrastEstimates,
        tests: Sequence[Sequence[FlipTest]],
        beyond: Sequence[Sequence[FlipTest]],
        number: int,
        terms: float,
    ) -> Claim:
        """Two tests must reject, against no difference and against the placebo's; the larger p-value is the claim's.

        Both must reject on the same side: what is less than rewording does, or the other way round, is not beyond it.
        """
        if not self._inference.permutations:
            return Claim(terms=terms, tested=False)
        bare, bare_terms_only = (_joint(some, number) for some in tests)
        sample, these = (_joint(some, number) for some in beyond)
        if self._blocks.has_placebo and block.estimates[0] * block.estimates[block.above] <= 0:
            sample = these = 1.0
        return Claim(max(bare, sample), max(bare_terms_only, these), bare, bare_terms_only, terms)

    def _detectable(self, tests: Sequence[Sequence[FlipTest]], whole: ContrastEstimates) -> dict[str, float | None]:
        """The smallest disparity that could have been found, and the standard errors that it is made of."""
        critical = math.nan if self._shared is not None else _largest(test.critical for test in tests[0])
        contrasts = [0, *([whole.above] if self._blocks.has_placebo else [])]  # both must be found
        errors = [whole.error_and_freedom(number) for number in contrasts]
        smallest = _largest(_detectable(*error, critical, self._alpha) for error in errors)
        return {
            "mde": finite(smallest) if self._effective >= ENOUGH_WORDS else None,
            "mde_se": finite(_largest(error for error, _ in errors)),
            "mde_se_terms_only": finite(_largest(whole.error_of_dialogues(number) for number in contrasts)),
        }

    # results -------------------------------------------------------------------------------------------------------

    def _result(self, whole: ContrastEstimates, tests: Sequence[Sequence[FlipTest]]) -> AxisResult:
        """Of the axis as a whole."""
        stages, table = self._table.stages, self._variants
        shares = dict(zip(stages, range(1, 1 + len(stages)), strict=True))
        pairs = pairs_of(stages)
        at = 1 + len(stages)
        single = self._single_tests(whole, list(shares.values()))
        p_values = [float(test.p_values[0]) for test in tests[0]]
        error = whole.error_of_dialogues(0)
        is_ratio = self._blocks.is_ratio
        return AxisResult(
            scale="ratio" if is_ratio else "difference",
            dialogues=table.dialogues,
            rests_on=Terms(number=len(self._words.names), effective=round(self._effective, 3)),
            clusters={name: len(set(labels)) for name, labels in table.clusters},
            original=whole.score(0),
            rewritten=whole.score(1),
            disparity=whole.estimate(0, max(p_values) if p_values else None),
            artefact=whole.estimate(at + len(pairs)),
            contributions={
                name: Contribution(shapley=whole.estimate(number, single.get(number)))
                for name, number in shares.items()
            },
            interactions={"×".join(pair): whole.estimate(at + number) for number, pair in enumerate(pairs)},
            beyond_placebo=self._beyond_placebo(whole),
            arms={arm_key(arm): finite(whole.scores[1 + number]) for number, arm in enumerate(self._arms)},
            terms=self._terms(whole),
            sampling=sampling_of(self._table, self._metric, is_ratio, self._inference, error),
            su=su_of(self._table, self._metric.score, self._order, self._inference) if is_ratio else None,
        )

    def _beyond_placebo(self, whole: ContrastEstimates) -> BeyondPlacebo | None:
        if not self._blocks.has_placebo:
            return None
        table = self._variants
        p_value = self._single_tests(whole, [whole.above]).get(whole.above)
        return BeyondPlacebo(
            **dict(whole.estimate(whole.above, p_value)),
            dialogues=int(table.has_placebo.sum()),
            edits={"axis": round(table.edits[0], 2), "placebo": round(table.edits[1], 2)},
        )

    def _single_tests(self, block: ContrastEstimates, chosen: Sequence[int]) -> dict[int, float]:
        """p-values of contrasts, each on its own."""
        if not self._inference.permutations:
            return {}
        tests = self._over_clusters([(block, number) for number in chosen])
        return {number: max(float(test.p_values[at]) for test in tests) for at, number in enumerate(chosen)}

    def _contributions(self, block: ContrastEstimates) -> dict[str, Contribution]:
        return {
            stage: Contribution(shapley=block.estimate(1 + place)) for place, stage in enumerate(self._table.stages)
        }

    def _group(self, name: str, block: ContrastEstimates, claim: Claim) -> Group:
        return Group(
            dialogues=int(block.members.sum()),
            terms=Terms(effective=round(claim.terms, 3)),
            score=block.score(1),
            gap=block.estimate(0),
            beyond_placebo=block.estimate(block.above) if self._blocks.has_placebo else None,
            contributions=self._contributions(block),
        )

    def _reference(self, name: str) -> Group:
        """How a reference variant is served, against the mean over all groups; it claims nothing."""
        block = self._estimated(*self._blocks.reference(name))
        return Group(
            dialogues=int(block.members.sum()),
            score=block.score(1),
            gap=block.estimate(0),
            contributions=self._contributions(block),
        )

    def _gap(self, block: ContrastEstimates, *, beyond_placebo: bool) -> Gap:
        return Gap(
            **dict(block.estimate(0)),
            dialogues=int(block.members.sum()),
            contributions=self._contributions(block),
            beyond_placebo=block.estimate(block.above) if beyond_placebo and self._blocks.has_placebo else None,
        )

    def _effects(self) -> tuple[dict[str, dict[str, Gap]], dict[Key, Claim]]:
        """Of crossed axes: the main effect of every level of a factor, and what is beyond the two.

        Only dialogues with a variant for every combination of their levels count: with some left out, the mean of a row
        would be that of the cells that happen to be in it.
        """
        table = self._variants
        levels = [tuple(name.split("×")) for name in table.groups]
        whole = table.has_all_combinations(levels)
        numbers = {
            (factor, level): [number for number, name in enumerate(levels) if name[place] == level]
            for place, factor in enumerate(table.factors)
            for level in dict.fromkeys(name[place] for name in levels)
        }
        members = {key: whole & table.has_any(some) for key, some in numbers.items()}
        blocks = {key: self._blocks.level(some, members[key]) for key, some in numbers.items()}
        for number, name in enumerate(levels) if len(table.factors) == 2 else ():
            key = "interaction", table.groups[number]
            members[key] = whole & table.has_group[:, number]
            first, second = (numbers[factor, level] for factor, level in zip(table.factors, name, strict=True))
            blocks[key] = self._blocks.beyond(number, first, second, members[key])
        estimated = {key: self._estimated(block, members[key]) for key, block in blocks.items() if members[key].any()}
        if not estimated:
            return {}, {}
        tests, beyond = self._tested(list(estimated.values()))
        effects: dict[str, dict[str, Gap]] = {}
        claims: dict[Key, Claim] = {}
        for number, ((factor, level), block) in enumerate(estimated.items()):
            terms = [effective_terms_of_group(table, at) for at in numbers.get((factor, level), range(len(levels)))]
            effects.setdefault(factor, {})[level] = self._gap(block, beyond_placebo=False)
            claims["effects", factor, level] = self._claim(block, tests, beyond, number, min(terms))
        return effects, claims

    def _pairs(
        self, advance: Callable[[], None]
    ) -> tuple[dict[str, Gap], dict[Key, Claim], list[tuple[float, float, float, int]]]:
        """Gaps between every two groups, on the dialogues with variants for both."""
        table = self._variants
        blocks: dict[tuple[int, int], ContrastEstimates] = {}
        for first, second in combinations(range(len(table.groups)), 2):
            advance()
            members = table.has_group[:, first] & table.has_group[:, second]
            if members.any():
                blocks[first, second] = self._estimated(self._blocks.gap(second, first), members)
        if not blocks:
            return {}, {}, []
        tests, beyond = self._tested(list(blocks.values()))
        gaps: dict[str, Gap] = {}
        claims: dict[Key, Claim] = {}
        for number, ((first, second), block) in enumerate(blocks.items()):
            terms = min(
                effective_terms_of_group(table, first, block.members, second),
                effective_terms_of_group(table, second, block.members, first),
            )
            source, target = table.groups[first], table.groups[second]
            gap = self._gap(block, beyond_placebo=True)
            claim = self._claim(block, tests, beyond, number, terms)
            for name, value in ((f"{source}>{target}", gap), (f"{target}>{source}", negated(gap))):
                gaps[name], claims["pairs", name] = value, claim
        return gaps, claims, [_bounds(block) for block in blocks.values()]

    def _spread_of(self, groups: Mapping[str, ContrastEstimates]) -> float:
        """Root mean square of the groups' gaps, less what noise adds to it; dialogues as weights."""
        weights = np.array([block.members.sum() for block in groups.values()], dtype=float)
        gaps = np.array([block.estimates[0] for block in groups.values()])
        errors = np.array([block.error_and_freedom(0)[0] for block in groups.values()])
        if np.isnan(errors).any():
            return math.nan
        return math.sqrt(max(0.0, float((weights * (gaps**2 - errors**2)).sum() / weights.sum())))

    # terms ---------------------------------------------------------------------------------------------------------

    def _terms(self, whole: ContrastEstimates) -> list[Term]:
        """The terms with the largest contributions to the disparity, and what it would be without each.

        None where the originals without it hardly score: shares of next to nothing say nothing.
        """
        parts = whole.of_words
        left_out = whole.spreads[0].left_out[:, 0] if len(self._words.names) else np.empty(0)
        if self._blocks.is_ratio:
            totals = self._table.original.sum(axis=0)
            rest = np.asarray(self._metric.score(totals - self._words.sums(self._table.original)), dtype=float)
            left_out = np.where(rest < LEAST_LEFT * float(self._metric.score(totals)), np.nan, left_out)
        ranked = sorted(range(len(parts)), key=lambda place: (-abs(parts[place]), self._words.names[place]))
        return [
            Term(
                term=self._words.names[place],
                dialogues=int(self._words.sizes[place]),
                contribution=parts[place],
                without=left_out[place],
            )
            for place in ranked[:TERMS_SHOWN]
        ]


def _bounds(block: ContrastEstimates) -> tuple[float, float, float, int]:
    return (float(block.estimates[0]), *block.error_and_freedom(0), int(block.members.sum()))


def _joint(tests: Sequence[FlipTest], number: int) -> float:
    return max((float(test.joint[number]) for test in tests), default=0.0)


def _largest(values: Iterable[float]) -> float:
    """The largest; NaN where one of them is, or there is none."""
    numbers = list(values)
    return math.nan if not numbers or any(map(math.isnan, numbers)) else max(numbers)


def _detectable(error: float, freedom: float, critical: float, alpha: float) -> float:
    level = 2 * float(normal_tail(critical)) if math.isfinite(critical) and critical > 0 else alpha
    return detectable(error, freedom, level)
