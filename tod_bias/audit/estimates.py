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
from typing import Any

import numpy as np

from tod_bias.audit.axis_table import AxisTable
from tod_bias.audit.blocks import Blocks
from tod_bias.audit.claims import AxisReport, Claim
from tod_bias.audit.contrasts import (
    Block,
    pairs_of,
)
from tod_bias.audit.estimated import Estimated, turned
from tod_bias.audit.repeats import sampling_of
from tod_bias.audit.su import su_of
from tod_bias.audit.word_clusters import shared_words, words_effective, words_of, words_of_group
from tod_bias.metrics.metric import Metric
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.distributions import normal_tail
from tod_bias.statistics.flips import FlipTest, flip_test
from tod_bias.statistics.needed import ENOUGH_WORDS, FEWEST
from tod_bias.statistics.power import detectable
from tod_bias.statistics.record import finite, finite_pair
from tod_bias.statistics.settings import Inference
from tod_bias.systems.execution import all_arms, arm_key

WORDS_SHOWN = 12
"""Words in the table of words, those with the largest parts."""
LEAST_LEFT = 0.1
"""What the originals must still score without a word, as a part of their whole score, for shares of it to be told."""


class AxisEstimate:
    """Estimates of one axis and metric.

    Args:
        table: of the axis and metric.
        metric: scores it.
        order: in which Su's attribution swaps the components.
        inference: levels, resamples, permutations.
        tests: how many axes and metrics are claimed in all, for the minimum detectable effect.
    """

    def __init__(
        self, table: AxisTable, metric: Metric, order: Sequence[str], inference: Inference, tests: int = 1
    ) -> None:
        self._table = table
        self._tellings = table.tellings
        self._metric = metric
        self._order = tuple(order)
        self._inference = inference
        self._alpha = (1 - inference.level) / max(1, tests)
        self._arms = all_arms(table.stages)
        self._words = words_of(self._tellings)
        self._shared = shared_words(self._tellings)
        self._effective = words_effective(self._tellings)
        self._dimensions = [self._words, *(Clusters.of(labels) for _, labels in self._tellings.clusters)]
        self._blocks = Blocks(table, metric)

    def report(self, advance: Callable[[], None] = lambda: None) -> AxisReport:
        """What ``results.json`` says, without what needs the other axes; ``advance`` is called for every pair."""
        told = self._tellings
        everyone = np.ones(told.dialogues, dtype=bool)
        whole = self._estimated(self._blocks.whole(), everyone, shares=True)
        record = self._record_of(whole)
        report = AxisReport(record, Claim(record["disparity"], words=self._effective))
        report.may_be_equal = all(len(kind.names) >= FEWEST for kind in self._dimensions) and (
            self._metric.scale == "difference" or self._blocks.is_ratio  # of a score of 0 nothing is known
        )
        named = list(zip(told.attributes, range(len(told.attributes)), strict=True))
        groups = {
            name: self._estimated(self._blocks.group(number), told.told_as[:, number])
            for name, number in named
            if told.told_as[:, number].any()
        }
        if len(groups) < 2:
            groups = {}
        family = [("", whole), *groups.items()]
        tests, above = self._tested([block for _, block in family])
        record["disparity"] |= self._evidence(tests, 0, whole)
        for number, (name, block) in enumerate(family):
            claim = report.disparity
            if name:
                claim = report.groups[name] = self._group_record(record, name, block)
            self._decide(claim, block, tests, above, number)
            report.bounds[name] = (block.estimates[0], *block.error_and_freedom(0), int(block.there.sum()))
        if groups:
            record["spread"] = {"value": finite(self._spread_of(groups))}
        self._pairs(report, record, advance)
        if len(told.factors) > 1:
            self._effects(report, record)
        if told.references:
            record["references"] = {
                name: self._reference_record(name) for name in dict.fromkeys(name for _, name in told.references)
            }
        record["words"] = self._word_table(whole)
        error = whole.error_of_dialogues(0)
        sampling = sampling_of(self._table, self._metric, self._blocks.is_ratio, self._inference, error)
        if sampling is not None:
            record["sampling"] = sampling
        su = su_of(self._table, self._metric.score, self._order, self._inference) if self._blocks.is_ratio else None
        if su is not None:
            record["su"] = su
        return report

    def _estimated(self, block: Block, there: np.ndarray, *, shares: bool = False) -> Estimated:
        both = [0, *([len(block.contrasts) - 1] if self._blocks.has_placebo else [])]
        tested = [*both, *(range(1, 1 + len(self._table.stages)) if shares else ())]
        return Estimated(
            block, there, self._dimensions, self._inference,
            shared=self._shared, effective=self._effective, tested=tested, both=both,
        )  # fmt: skip

    # tests ---------------------------------------------------------------------------------------------------------

    def _tested(self, blocks: Sequence[Estimated]) -> tuple[list[list[FlipTest]], list[list[FlipTest]]]:
        """The family's tests and those above the placebo: with words as a sample (a test a kind of clusters), and with
        words as they are."""
        return self._flips(blocks, 0), (self._flips(blocks, -1) if self._blocks.has_placebo else [[], []])

    def _flips(self, blocks: Sequence[Estimated], contrast: int) -> list[list[FlipTest]]:
        if not self._inference.permutations:
            return [[], []]

        chosen = [(block, 0 if contrast == 0 else block.above) for block in blocks]
        return [self._over_clusters(chosen), [self._flip_test(chosen, -1)]]

    def _over_clusters(self, chosen: Sequence[tuple[Estimated, int]]) -> list[FlipTest]:
        """Tests of contrasts, a test a kind of clusters: words first."""
        tests = []
        for kind in range(len(self._dimensions)):
            t_test = [block.spreads[kind].p_values(block.estimates)[number] for block, number in chosen]
            test = self._flip_test(chosen, kind).beyond(np.array(t_test))
            if kind == 0 and self._shared is not None:
                test = test.and_also([block.shared_p[number] for block, number in chosen])
            tests.append(test)
        return tests

    def _flip_test(self, chosen: Sequence[tuple[Estimated, int]], kind: int) -> FlipTest:
        parts = np.stack([block.parts(kind, number) for block, number in chosen], axis=1)
        return flip_test(parts, self._inference.permutations, self._inference.seed, self._alpha)

    def _decide(
        self,
        claim: Claim,
        block: Estimated,
        tests: Sequence[Sequence[FlipTest]],
        above: Sequence[Sequence[FlipTest]],
        number: int,
    ) -> None:
        """Two tests must reject, against no difference and against the placebo's; the larger p-value is the claim's.

        Both must reject on the same side: what is less than rewording does, or the other way round, is not above it.
        """
        claim.tested = bool(self._inference.permutations)
        if claim.tested:
            claim.p_bare, claim.p_bare_these_words = (_joint(some, number) for some in tests)
            sample, these = (_joint(some, number) for some in above)
            if self._blocks.has_placebo and block.estimates[0] * block.estimates[block.above] <= 0:
                sample = these = 1.0
            claim.p, claim.p_these_words = max(claim.p_bare, sample), max(claim.p_bare_these_words, these)

    def _evidence(self, tests: Sequence[Sequence[FlipTest]], number: int, whole: Estimated) -> dict[str, Any]:
        """The p-value of the disparity on its own, and the smallest that could have been found."""
        single = [float(test.p_values[number]) for test in tests[0]]
        critical = math.nan if self._shared is not None else _largest(test.critical for test in tests[0])
        contrasts = [0, *([whole.above] if self._blocks.has_placebo else [])]  # both must be found
        errors = [whole.error_and_freedom(number) for number in contrasts]
        return {
            "p_value": max(single) if single else None,
            "p_holm": None,
            "mde": finite(_largest(_detectable(*error, critical, self._alpha) for error in errors))
            if self._effective >= ENOUGH_WORDS
            else None,
            "standard_error": {
                "value": finite(_largest(error for error, _ in errors)),
                "these_words": finite(_largest(whole.error_of_dialogues(number) for number in contrasts)),
            },
        }

    # records -------------------------------------------------------------------------------------------------------

    def _record_of(self, whole: Estimated) -> dict[str, Any]:
        stages, told = self._table.stages, self._tellings
        scores = whole.scores
        shares = dict(zip(stages, range(1, 1 + len(stages)), strict=True))
        pairs = pairs_of(stages)
        at = 1 + len(stages)
        single = self._single_tests(whole, list(shares.values()))
        record: dict[str, Any] = {
            "scale": "ratio" if self._blocks.is_ratio else "difference",
            "original": {"value": finite(scores[0]), "ci": finite_pair(whole.score_bounds[0])},
            "rewritten": {"value": finite(scores[1]), "ci": finite_pair(whole.score_bounds[1])},
            "disparity": {
                **whole.estimate(0),
                "clusters": {
                    "dialogues": told.dialogues,
                    "words": len(self._words.names),
                    "words_effective": round(self._effective, 3),
                    **{name: len(set(labels)) for name, labels in told.clusters},
                },
                "equivalent_within": None,
            },
            "contributions": {
                name: {**whole.estimate(number), "p_value": single.get(number)} for name, number in shares.items()
            },
            "interactions": {"×".join(pair): whole.estimate(at + number) for number, pair in enumerate(pairs)},
            "artefact": whole.estimate(at + len(pairs)),
        }
        if self._blocks.has_placebo:
            above = self._single_tests(whole, [whole.above])
            record["above_placebo"] = {
                **whole.estimate(whole.above),
                "p_value": above.get(whole.above),
                "dialogues": int(told.has_placebo.sum()),
                "words_changed": {"axis": round(told.dose[0], 2), "placebo": round(told.dose[1], 2)},
            }
        record["groups"], record["pairs"] = {}, {}
        record["arms"] = {arm_key(arm): finite(scores[1 + number]) for number, arm in enumerate(self._arms)}
        return record

    def _single_tests(self, block: Estimated, chosen: Sequence[int]) -> dict[int, float]:
        """p-values of contrasts, each on its own."""
        if not self._inference.permutations:
            return {}
        tests = self._over_clusters([(block, number) for number in chosen])
        return {number: max(float(test.p_values[at]) for test in tests) for at, number in enumerate(chosen)}

    def _group_record(self, record: dict[str, Any], name: str, block: Estimated) -> Claim:
        stages = self._table.stages
        number = self._tellings.attributes.index(name)
        gap: dict[str, Any] = block.estimate(0) | {"p_holm": None}
        words = words_of_group(self._tellings, number)
        if self._blocks.has_placebo:
            gap["above_placebo"] = block.estimate(block.above)
        record["groups"][name] = {
            "score": {"value": finite(block.scores[1]), "ci": finite_pair(block.score_bounds[1])},
            "gap": gap,
            "contributions": {stage: block.estimate(1 + place) for place, stage in enumerate(stages)},
            "dialogues": int(block.there.sum()),
            "words_effective": round(words, 3),
        }
        return Claim(gap, words=words)

    def _reference_record(self, name: str) -> dict[str, Any]:
        """How a telling that is nobody's is served, against the mean over all groups; it claims nothing."""
        block = self._estimated(*self._blocks.reference(name))
        return {
            "score": {"value": finite(block.scores[1]), "ci": finite_pair(block.score_bounds[1])},
            "gap": block.estimate(0),
            "contributions": {stage: block.estimate(1 + at) for at, stage in enumerate(self._table.stages)},
            "dialogues": int(block.there.sum()),
        }

    def _effects(self, report: AxisReport, record: dict[str, Any]) -> None:
        """Of crossed attributes: the main effect of every level of a factor, and what is beyond the two.

        Only dialogues that are told as every combination of their levels count: with some left out, the mean of a row
        would be that of the cells that happen to be in it.
        """
        told = self._tellings
        levels = [tuple(name.split("×")) for name in told.attributes]
        whole = told.told_as_all_of(levels)
        numbers = {
            (factor, level): [number for number, one in enumerate(levels) if one[place] == level]
            for place, factor in enumerate(told.factors)
            for level in dict.fromkeys(one[place] for one in levels)
        }
        there = {key: whole & told.told_as_any(some) for key, some in numbers.items()}
        blocks = {key: self._blocks.level(some, there[key]) for key, some in numbers.items()}
        for number, one in enumerate(levels) if len(told.factors) == 2 else ():
            key = "interaction", told.attributes[number]
            there[key] = whole & told.told_as[:, number]
            first, second = (numbers[factor, level] for factor, level in zip(told.factors, one, strict=True))
            blocks[key] = self._blocks.beyond(number, first, second, there[key])
        estimated = {key: self._estimated(block, there[key]) for key, block in blocks.items() if there[key].any()}
        if not estimated:
            return
        tests, above = self._tested(list(estimated.values()))
        record["effects"] = {}
        for number, ((factor, level), block) in enumerate(estimated.items()):
            words = [words_of_group(told, at) for at in numbers.get((factor, level), range(len(levels)))]
            effect = {
                **block.estimate(0),
                "p_holm": None,
                "dialogues": int(block.there.sum()),
                "contributions": {stage: block.estimate(1 + at) for at, stage in enumerate(self._table.stages)},
            }
            record["effects"].setdefault(factor, {})[level] = effect
            claim = report.effects[f"{factor}: {level}"] = Claim(effect, words=min(words))
            self._decide(claim, block, tests, above, number)

    def _pairs(self, report: AxisReport, record: dict[str, Any], advance: Callable[[], None]) -> None:
        """Gaps between every two attributes, on the dialogues that are told as both."""
        told, stages = self._tellings, self._table.stages
        blocks: dict[tuple[str, str], Estimated] = {}
        for one, other in combinations(range(len(told.attributes)), 2):
            advance()
            there = told.told_as[:, one] & told.told_as[:, other]
            if there.any():
                names = told.attributes[one], told.attributes[other]
                blocks[names] = self._estimated(self._blocks.gap(other, one), there)  # told as the second: the target
        if not blocks:
            return
        tests, above = self._tested(list(blocks.values()))
        for number, ((first, second), block) in enumerate(blocks.items()):
            one, other = (told.attributes.index(name) for name in (first, second))
            effective = min(
                words_of_group(told, one, block.there, other), words_of_group(told, other, block.there, one)
            )
            pair = {
                **block.estimate(0),
                "p_holm": None,
                "dialogues": int(block.there.sum()),
                "contributions": {stage: block.estimate(1 + place) for place, stage in enumerate(stages)},
            }
            if self._blocks.has_placebo:
                pair["above_placebo"] = block.estimate(block.above)
            record["pairs"][f"{first}>{second}"] = pair
            record["pairs"][f"{second}>{first}"] = turned(pair)
            for name in (f"{first}>{second}", f"{second}>{first}"):
                report.pairs[name] = Claim(record["pairs"][name], words=effective)
                report.bounds[name] = (block.estimates[0], *block.error_and_freedom(0), int(block.there.sum()))
                self._decide(report.pairs[name], block, tests, above, number)

    def _spread_of(self, groups: Mapping[str, Estimated]) -> float:
        """Root mean square of the groups' gaps, less what noise adds to it; dialogues as weights."""
        weights = np.array([block.there.sum() for block in groups.values()], dtype=float)
        gaps = np.array([block.estimates[0] for block in groups.values()])
        errors = np.array([block.error_and_freedom(0)[0] for block in groups.values()])
        if np.isnan(errors).any():
            return math.nan
        return math.sqrt(max(0.0, float((weights * (gaps**2 - errors**2)).sum() / weights.sum())))

    # words ---------------------------------------------------------------------------------------------------------

    def _word_table(self, whole: Estimated) -> dict[str, Any]:
        """The words with the largest parts in the disparity, and what it would be without each.

        Null where the originals without it hardly score: shares of next to nothing say nothing.
        """
        parts = whole.of_words
        left_out = whole.spreads[0].left_out[:, 0] if len(self._words.names) else np.empty(0)
        if self._blocks.is_ratio:
            totals = self._table.original.sum(axis=0)
            rest = np.asarray(self._metric.score(totals - self._words.sums(self._table.original)), dtype=float)
            left_out = np.where(rest < LEAST_LEFT * float(self._metric.score(totals)), np.nan, left_out)
        ranked = sorted(range(len(parts)), key=lambda place: (-abs(parts[place]), self._words.names[place]))
        return {
            "number": len(parts),
            "effective": round(self._effective, 3),
            "strongest": [
                {
                    "word": self._words.names[place],
                    "dialogues": int(self._words.sizes[place]),
                    "part": finite(parts[place]),
                    "without": finite(left_out[place]),
                }
                for place in ranked[:WORDS_SHOWN]
            ],
        }


def _joint(tests: Sequence[FlipTest], number: int) -> float:
    return max((float(test.joint[number]) for test in tests), default=0.0)


def _largest(values: Iterable[float]) -> float:
    """The largest; NaN where one of them is, or there is none."""
    found = list(values)
    return math.nan if not found or any(map(math.isnan, found)) else max(found)


def _detectable(error: float, freedom: float, critical: float, alpha: float) -> float:
    level = 2 * float(normal_tail(critical)) if math.isfinite(critical) and critical > 0 else alpha
    return detectable(error, freedom, level)
