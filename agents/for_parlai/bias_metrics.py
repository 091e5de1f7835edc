"""Bias as ParlAI's metrics: sums that add up over messages, batches and workers; numbers are made of the sums.

A disparity is not a mean over examples but a function of the corpus scores of three sets of outputs. Each metric here
therefore holds the summed statistics of a score (n-gram counts for corpus BLEU) by set; ``+`` adds them in any order,
and ``value()`` computes the number.

Gaps keep the sums of every dialogue and counterfactual, and are estimated from them as ``attribute`` estimates them.
The other sums are weighted over turns, with the weights of :class:`tod_bias.audit.arm_sums.ArmSums`: a dialogue weighs
once however many counterfactuals it has. The outputs of the twin of the whole system are known as soon as the agent has
replied to the original: its output for a counterfactual is T(f(T⁻¹ x)), the rewritten output for the original. So
nothing is stored between messages, and neither the order of the variants nor their distribution over workers changes a
number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from parlai.core.metrics import Metric as ParlaiMetric

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.estimates import fairscore, gaps_of
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.dialogues.dialogue import Turn
from tod_bias.errors import TodBiasError
from tod_bias.metrics.choice import metric
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Candidate
from tod_bias.statistics.arms import ArmDesign
from tod_bias.statistics.intervals import interval_of_absolute
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference
from tod_bias.systems.twin import Rewrite

ORIGINAL, REWRITTEN, TWIN = "original", "rewritten", "twin"
"""Sums of originals, of their counterfactuals, and of the system's equivariant twin on the counterfactuals."""
SET, SET_ORIGINAL = "set", "originals of set"
"""Begin the names of the sums of one dialogue in one set of counterfactuals (a draw, or a group), and of its original.
"""

_DIGITS = 12
"""Digits of differences; further digits depend on the order of outputs, as floating-point sums do."""


class BiasMetric(ParlaiMetric):
    """A number made of sums of statistics.

    Args:
        measure: the score, as :func:`tod_bias.metrics.choice.metric` names it.
        sums: what the statistics are of, to their sums, (columns of the score,).
    """

    __slots__ = ("_measure", "_sums")

    def __init__(self, measure: str, sums: Mapping[str, np.ndarray]) -> None:
        self._measure = measure
        self._sums = dict(sums)

    @property
    def macro_average(self) -> bool:
        """Several tasks are averaged, each weighing once, as ParlAI's own scores are."""
        return True

    def __add__(self, other: Any) -> BiasMetric:
        """The metric of all outputs of both.

        Raises:
            TodBiasError: the other is made of another score.
        """
        if other is None:
            return self
        if type(other) is not type(self) or other._measure != self._measure:
            raise TodBiasError(
                f"{self._measure} and {getattr(other, '_measure', other)} do not add up; give all tasks the same "
                "--bias-metrics"
            )
        sums = dict(self._sums)
        for name, more in other._sums.items():
            sums[name] = sums[name] + more if name in sums else more
        return self._with(sums)

    def _with(self, sums: Mapping[str, np.ndarray]) -> BiasMetric:
        return type(self)(self._measure, sums)

    def value(self) -> float:
        """The number; NaN where a score that it needs is undefined, or of nothing yet."""
        raise NotImplementedError

    def score(self, name: str) -> float:
        """Return the score of one of the sums; NaN if there is none."""
        return float(measure_of(self._measure).score(self._sums[name])) if name in self._sums else float("nan")

    def of_original(self, difference: float) -> float:
        """A difference of scores as ``results.json`` has it: positive is harm, divided by the originals' score where
        the score's scale is a ratio and that is above 0."""
        measure = measure_of(self._measure)
        original = self.score(ORIGINAL)
        scale = original if measure.scale == "ratio" and original > 0 else 1.0
        return _rounded((-difference if measure.better == "lower" else difference) / scale)


class ScoreMetric(BiasMetric):
    """The score of some variants, on its own scale."""

    def value(self) -> float:
        """The score."""
        return self.score(REWRITTEN)


class DisparityMetric(BiasMetric):
    """Loss on the counterfactuals compared with the system's equivariant twin: q(N) − q(∅).

    0: a counterfactual is treated as the original. Positive is harm, as a share of the originals' score if the score is
        a ratio (BLEU), else in its own units (shares of right calls).
    """

    def value(self) -> float:
        """The disparity."""
        return self.of_original(self.score(TWIN) - self.score(REWRITTEN))


class GapMetric(BiasMetric):
    """A group's gap from the mean of groups as ``attribute`` estimates it; positive is harm.

    Groups are compared on the dialogues that all of them share, each with a score of its own, and the effect of being
    the original is removed: :func:`tod_bias.audit.estimates.gaps_of` of the sums of every dialogue and counterfactual.

    Args:
        measure: the score.
        sums: ``original``, ``rewritten`` and ``twin`` with the number of a dialogue or of a counterfactual.
        variants: of the dialogues; the same object in all gaps of a report.
        group: the group.
    """

    __slots__ = ("_group", "_variants")

    def __init__(self, measure: str, sums: Mapping[str, np.ndarray], variants: VariantIndex, group: str) -> None:
        super().__init__(measure, sums)
        self._variants, self._group = variants, group

    def _with(self, sums: Mapping[str, np.ndarray]) -> GapMetric:
        return GapMetric(self._measure, sums, self._variants, self._group)

    def value(self) -> float:
        """The gap; NaN before the first dialogue with all its counterfactuals, and if no group is compared."""
        width = len(next(iter(self._sums.values()), ()))
        variants, made = self._variants, {}
        for kind, size in ((ORIGINAL, variants.dialogues), (REWRITTEN, len(variants.of)), (TWIN, len(variants.of))):
            known = [self._sums.get(numbered(kind, number)) for number in range(size)]
            made[kind] = np.array([np.full(width, np.nan) if row is None else row for row in known])
        by_variant = np.stack([made[REWRITTEN], made[TWIN]], axis=1)  # (variants, arms, statistics)
        missing = np.isnan(by_variant).any(axis=(1, 2))
        complete = ~np.isnan(made[ORIGINAL]).any(axis=1) & ~np.isin(np.arange(variants.dialogues), variants.of[missing])
        if not complete.any():
            return float("nan")
        nothing = np.zeros((0, 2, width))
        table = ArmSums(variants, ArmDesign(("system",)), made[ORIGINAL], by_variant, nothing)
        gaps = gaps_of(table.for_dialogues(np.flatnonzero(complete)), measure_of(self._measure))
        return _rounded(gaps.get(self._group, float("nan")))


def numbered(kind: str, number: int) -> str:
    """Return the name of the sums of one dialogue, or of one counterfactual, in a gap."""
    return f"{kind}\t{number}"


class FairscoreMetric(BiasMetric):
    """Su eq. 1: |q(original) − q(rewritten)| / q(original), a mean over draws, in the crossed design over groups; NaN
    if the originals' score is 0.

    Effects of rewriting itself count as unfairness here, unlike in the disparity.
    """

    __slots__ = ()

    def value(self) -> float:
        """The fairscore."""
        signed = self._signed(self._cells().sum(axis=0)[None])[0]
        known = np.abs(signed[~np.isnan(signed)])
        return _rounded(float(known.mean())) if len(known) else float("nan")

    def bound(self, place: int, seed: int) -> FairscoreBound:
        """Return a bound of the interval as a metric: the lower one (0) or the upper one (1)."""
        return FairscoreBound(self._measure, self._sums, place, seed)

    def _cells(self) -> np.ndarray:
        """Return the sums of every dialogue, (dialogues, sets, original and rewritten, statistics)."""
        parts = {key: key.split("\t") for key in self._sums}
        sets = {name: place for place, name in enumerate(sorted({name for _, name, _ in parts.values()}))}
        numbers = sorted({number for _, _, number in parts.values()})
        dialogues = {number: place for place, number in enumerate(numbers)}
        cells = np.zeros((len(dialogues), len(sets), 2, len(next(iter(self._sums.values()), ()))))
        for key, (kind, name, number) in parts.items():
            cells[dialogues[number], sets[name], int(kind == SET)] = self._sums[key]
        return cells

    def _signed(self, sums: np.ndarray) -> np.ndarray:
        """Return signed eq. 1 of (rows, sets, 2, statistics), (rows, sets)."""
        scores = np.asarray(measure_of(self._measure).score(sums.reshape(-1, sums.shape[-1])))
        pairs = scores.reshape(len(sums), -1, 2)
        return fairscore(pairs[:, :, 0], pairs[:, :, 1])


class FairscoreBound(FairscoreMetric):
    """One bound of the 95 % interval of the fairscore over dialogues: that of ``su.fairscore`` in ``results.json``.

    Args:
        measure: the score.
        sums: those of the fairscore.
        place: 0 for the lower bound, 1 for the upper one.
        seed: of the resamples.
    """

    __slots__ = ("_place", "_seed")

    def __init__(self, measure: str, sums: Mapping[str, np.ndarray], place: int, seed: int) -> None:
        super().__init__(measure, sums)
        self._place, self._seed = place, seed

    def _with(self, sums: Mapping[str, np.ndarray]) -> FairscoreBound:
        return FairscoreBound(self._measure, sums, self._place, self._seed)

    def value(self) -> float:
        """The bound; NaN for fewer than two dialogues, or if the fairscore is undefined."""
        cells = self._cells()
        known = ~np.isnan(self._signed(cells.sum(axis=0)[None])[0])
        if len(cells) < 2 or not known.any():
            return float("nan")
        cells = cells[:, known]

        def signed(sums: np.ndarray) -> np.ndarray:
            return self._signed(sums.reshape(len(sums), *cells.shape[1:]))

        samples = resample(cells.reshape(len(cells), -1), signed, Inference().resamples, self._seed)
        return _rounded(float(interval_of_absolute(samples, len(cells))[self._place]))


def _rounded(number: float) -> float:
    return round(number, _DIGITS) + 0.0  # no -0


@lru_cache(maxsize=64)
def measure_of(name: str) -> Metric:
    """The score of a name, made once."""
    return metric(name)


class Addend(NamedTuple):
    """A sum that a turn's statistics are added to."""

    key: str
    """The number in the report."""
    sums: str
    """Name of the sums behind the number."""
    weight: float


@dataclass(frozen=True)
class AuditedVariant:
    """One variant of a dialogue, as ParlAI shows it, with every sum that it is added to."""

    turns: tuple[Turn, ...]
    """Its gold turns."""
    rewrite: Rewrite | None
    """T; None for the original, from which the other variants are rewritten."""
    system: Sequence[Addend]
    """Sums to which the agent's outputs are added."""
    twin: Sequence[Addend] = ()
    """Sums to which the rewritten outputs for the original are added: the outputs of the twin of the whole system."""


def metric_of(key: str, measure: str, sums: Mapping[str, np.ndarray], variants: VariantIndex) -> BiasMetric:
    """Return the metric of a key of the report, without the score's name.

    Args:
        key: ``disparity``, or ``GROUP/gap``.
        measure: the score.
        sums: of the metric.
        variants: of all dialogues; gaps need them.
    """
    group, _, name = key.rpartition("/")
    if name == "gap":
        return GapMetric(measure, sums, variants, group)
    if name.startswith("score"):
        return ScoreMetric(measure, sums)
    return DisparityMetric(measure, sums) if name == "disparity" else FairscoreMetric(measure, sums)


SystemAndTwin = tuple[list[Addend], list[Addend]]
"""The sums that an agent's outputs for a variant are added to, and those of its twin's."""


def addends_of(selected: Sequence[Sequence[Candidate]]) -> list[list[SystemAndTwin]]:
    """Return the sums to which each dialogue's original, and then each of its counterfactuals, is added.

    Args:
        selected: each dialogue's candidates, one per counterfactual.
    """
    targets = [[candidate.target for candidate in candidates] for candidates in selected]
    sources = [_only_source(candidates) for candidates in selected]
    crossed = all(len(set(names)) == len(names) for names in targets)
    groups = {*chain.from_iterable(targets), *filter(None, sources)}
    has_groups = len(groups) > 1
    by_group = crossed and any(len(names) > 1 for names in targets)
    addends = []
    for number, (names, source) in enumerate(zip(targets, sources, strict=True)):
        expressed = {*names} if source is None else {*names, source}
        present = sorted(expressed) if has_groups else []
        original = _of_original(source, present)
        sets = names if by_group else ["0"] * len(names) if crossed else [*map(str, range(len(names)))]
        sets = [f"\t{name}\t{number:09}" for name in sets]
        original += [Addend("fairscore", SET_ORIGINAL + name, 1.0) for name in sorted({*sets})]
        addends.append([(original, []), *_of_counterfactuals(names, present, sets)])
    _add_gaps(addends, sorted(groups) if has_groups else [])
    return addends


def _add_gaps(addends: Sequence[Sequence[SystemAndTwin]], groups: Sequence[str]) -> None:
    """Append the sums of gaps, which every dialogue and every counterfactual has for itself.

    Args:
        addends: of each dialogue's original, and then of each of its counterfactuals.
        groups: all groups of the report.
    """
    places = count()
    for number, ((original, _), *counterfactuals) in enumerate(addends):
        original += [Addend(f"{group}/gap", numbered(ORIGINAL, number), 1.0) for group in groups]
        for (system, twin), place in zip(counterfactuals, places, strict=False):
            system += [Addend(f"{group}/gap", numbered(REWRITTEN, place), 1.0) for group in groups]
            twin += [Addend(f"{group}/gap", numbered(TWIN, place), 1.0) for group in groups]


def _only_source(candidates: Sequence[Candidate]) -> str | None:
    """Return the group that the original expresses; None if it expresses several."""
    sources = {candidate.source for candidate in candidates}
    return next(iter(sources)) if len(sources) == 1 else None


def _of_original(source: str | None, present: Sequence[str]) -> list[Addend]:
    """Return the sums to which an original is added, but for gaps.

    Args:
        source: the group of the original.
        present: groups that the original or a counterfactual expresses.
    """
    addends = [Addend("score", REWRITTEN, 1.0), Addend("disparity", ORIGINAL, 1.0)]
    if source in present:  # the original is the variant of its group
        addends.append(Addend(f"{source}/score", REWRITTEN, 1.0))
    return addends


def _of_counterfactuals(targets: Sequence[str], present: Sequence[str], sets: Sequence[str]) -> list[SystemAndTwin]:
    """Return the sums to which a dialogue's counterfactuals, one per target, are added, but for gaps."""
    times = Counter(targets)
    whole = 1 / len(targets)
    addends = []
    for number, target in enumerate(targets):
        system = [Addend("score_rewritten", REWRITTEN, whole), Addend("disparity", REWRITTEN, whole)]
        system.append(Addend("fairscore", SET + sets[number], 1 / sets.count(sets[number])))
        twin = [Addend("disparity", TWIN, whole)]
        if target in present:
            system.append(Addend(f"{target}/score", REWRITTEN, 1 / times[target]))
        addends.append((system, twin))
    return addends
