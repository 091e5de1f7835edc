"""Two runs on the same dialogues, as one table: how much a contrast, or a score, changes from one to the other.

A change is a difference of two estimates that rest on the same counterfactuals and terms, so whatever these have in
common falls out of it. Intervals leave out a word at a time in both runs together (and a cluster of any further kind;
the widest is given), or resample the dialogues of both together; tests exchange the two runs in all dialogues of a
cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tod_bias.audit.contrasts import Contrasts, ScoreDifference
from tod_bias.results import Change, Estimate, TermsOnly
from tod_bias.statistics.clusters import Clusters, Shared, Spread, at_least, spread
from tod_bias.statistics.flips import FlipTest, flip_test
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.needed import FEWEST
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference


class PairedContrasts:
    """AuditContrasts of two runs on the same dialogues.

    Values are, in this order: the changes of the chosen contrasts, their means over both runs (which tell on which side
    of 0 they are), and the changes of the chosen scores, on the metric's own scale. Every contrast is divided by the
    originals' score of its own run, as in that run's results.

    Args:
        before: of one run.
        after: of the other.
        contrasts: numbers of contrasts, in both.
        cells: numbers of cells whose scores are compared, in both.
    """

    def __init__(
        self,
        before: Contrasts,
        after: Contrasts,
        contrasts: Sequence[tuple[int, int]],
        cells: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._runs = before, after
        self._contrasts = [list(numbers) for numbers in zip(*contrasts, strict=True)] or [[], []]
        self._split = before.cells.shape[1]
        self.count = len(contrasts)
        """Of contrasts."""
        self.cells = np.concatenate([before.cells, after.cells], axis=1)
        """(dialogues, cells of both, statistics)."""
        moved = tuple((ScoreDifference(1.0, first, self._split + other),) for first, other in cells)
        self._scores = Contrasts(self.cells, moved, before.score, 1.0, is_ratio=False)
        self.before, self.after = (
            np.concatenate([block.estimates[numbers], block.scores()[[pair[side] for pair in cells]]])
            for side, (block, numbers) in enumerate(zip(self._runs, self._contrasts, strict=True))
        )
        """What changes, (contrasts + scores,), in each of the runs."""

    def values(self, sums: np.ndarray) -> np.ndarray:
        """Of (…, cells, statistics) sums, (…, values); NaN where a score is undefined."""
        before, after = (
            block.values(part)[..., numbers]
            for block, part, numbers in zip(
                self._runs, (sums[..., : self._split, :], sums[..., self._split :, :]), self._contrasts, strict=True
            )
        )
        values = [after - before, (before + after) / 2]
        if self._scores.contrasts:
            values.append(self._scores.values(sums))
        return np.concatenate(values, axis=-1)

    def parts(self, clusters: Clusters | None) -> np.ndarray:
        """What each cluster (None: each dialogue) adds to each value, (clusters, values); exchanging the runs in a
        cluster changes the sign of its part in a change."""
        before, after = (
            block.parts(clusters, numbers) for block, numbers in zip(self._runs, self._contrasts, strict=True)
        )
        scores = self._scores.parts(clusters, range(len(self._scores.contrasts)))
        return np.concatenate([after - before, (before + after) / 2, scores], axis=1)


class Evidence(NamedTuple):
    """One value's standard error and degrees of freedom, words as a sample or as they are."""

    error: float
    freedom: float


class ChangeEstimates:
    """The values of a paired block, and how far other words and other dialogues would have moved them.

    Args:
        block: of two runs.
        members: (dialogues,) bool, which take part.
        dimensions: words, and other kinds of clusters; or dialogues in the place of words.
        inference: level, resamples, permutations, seed.
        tested: places of the values whose p-values will be asked for.
        shared: which dialogues share words, where they rest on several.
        effective: words.
    """

    def __init__(
        self,
        block: PairedContrasts,
        members: np.ndarray,
        dimensions: Sequence[Clusters],
        inference: Inference,
        *,
        tested: Sequence[int],
        shared: Shared | None = None,
        effective: float = math.inf,
    ) -> None:
        self.dialogues = int(members.sum())
        """How many take part."""
        self.count = block.count
        """Of contrasts; their changes come first, then their means over both runs, then changes of scores."""
        self.before, self.after = block.before, block.after
        totals = block.cells.sum(axis=0)
        self.estimates = block.values(totals)
        self.spreads: list[Spread] = []
        for clusters in dimensions:
            clusters_here = clusters.within(members)
            self.spreads.append(spread(clusters_here.sums(block.cells), totals, block.values, clusters_here.effective))
        self.shared_p: np.ndarray | None = None
        alone = block.parts(None)
        if shared is not None:
            error = shared.error(alone, members)
            self.spreads[0] = at_least(self.spreads[0], error, effective - 1)
            self.shared_p = self.spreads[0].p_values(self.estimates)
        self._samples: np.ndarray | None = None
        if inference.resamples:
            shape = (-1, *block.cells.shape[1:])
            flat = block.cells.reshape(len(block.cells), -1)
            self._samples = resample(
                flat, lambda sums: block.values(sums.reshape(shape)), inference.resamples, inference.seed
            )
        self._level = inference.level
        self._intervals = np.stack([spread.interval(self.estimates, self._level) for spread in self.spreads])
        self.tested = list(tested)
        """Places of the values that are tested."""
        self.parts = [block.parts(clusters)[:, self.tested] for clusters in dimensions] + [alone[:, self.tested]]
        """By kind of clusters, the last one dialogues: (clusters, values that are tested)."""

    def place_of_score(self, number: int) -> int:
        """Where the change of a score is among the values."""
        return 2 * self.count + number

    def estimate(self, place: int, p: float | None = None) -> Change:
        """A change with both intervals, and what changed."""
        entry = place if place < self.count else place - self.count
        bounds = self._intervals[:, :, place]
        widest = np.array([bounds[:, 0].min(), bounds[:, 1].max()])
        these = np.full(2, np.nan)
        if self._samples is not None and self.dialogues >= FEWEST:
            these = interval(self._samples[:, place], self.dialogues, self._level)
        return Change(
            before=self.before[entry],
            after=self.after[entry],
            change=Estimate(value=self.estimates[place], ci=tuple(widest), p=p, terms_only=TermsOnly(ci=tuple(these))),
        )

    def evidence(self, place: int) -> Evidence:
        """With words as a sample: the kind of clusters with the largest standard error; NaN where one has too few."""
        if any(spread.clusters < FEWEST or spread.freedom < 1 for spread in self.spreads):
            return Evidence(math.nan, 0.0)
        return Evidence(*max((float(spread.error[place]), spread.freedom) for spread in self.spreads))

    def evidence_these_words(self, place: int) -> Evidence:
        """With words as they are."""
        if self._samples is None or len(self._samples) < 2 or self.dialogues < FEWEST:
            return Evidence(math.nan, 0.0)
        return Evidence(float(np.nanstd(self._samples[:, place], ddof=1)), self.dialogues - 1)


class Tested(NamedTuple):
    """p-values of the tested values of one paired block, by place."""

    joint: dict[int, float]
    """For the whole family."""
    single: dict[int, float]
    """Each on its own."""


def tests_of(family: Sequence[ChangeEstimates], inference: Inference) -> tuple[list[Tested], list[Tested]]:
    """Of several paired blocks of the same dialogues: with words as a sample (the larger p-value over the kinds of
    clusters), and with words as they are."""
    kinds = len(family[0].parts)
    tests = [_flipped(family, kind, inference) for kind in range(kinds)]
    return _largest(tests[:-1], family), _largest(tests[-1:], family)


def _flipped(family: Sequence[ChangeEstimates], kind: int, inference: Inference) -> FlipTest:
    parts = np.concatenate([estimates.parts[kind] for estimates in family], axis=1)
    test = flip_test(parts, inference.permutations, inference.seed)
    if kind == len(family[0].parts) - 1:
        return test
    test = test.beyond(
        np.concatenate(
            [estimates.spreads[kind].p_values(estimates.estimates)[estimates.tested] for estimates in family]
        )
    )
    shared = [estimates.shared_p[estimates.tested] for estimates in family if estimates.shared_p is not None]
    return test.and_also(np.concatenate(shared).tolist()) if kind == 0 and len(shared) == len(family) else test


def _largest(tests: Sequence[FlipTest], family: Sequence[ChangeEstimates]) -> list[Tested]:
    joint = np.max([test.joint for test in tests], axis=0)
    single = np.max([test.p_values for test in tests], axis=0)
    tested = []
    at = 0
    for estimates in family:
        here = slice(at, at + len(estimates.tested))
        tested.append(
            Tested(
                dict(zip(estimates.tested, joint[here].tolist(), strict=True)),
                dict(zip(estimates.tested, single[here].tolist(), strict=True)),
            )
        )
        at += len(estimates.tested)
    return tested
