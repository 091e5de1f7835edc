"""A block of contrasts with its estimates, and how far other words and other dialogues would have moved them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from tod_bias.audit.contrasts import Contrasts
from tod_bias.results import Estimate, Gap, TermsOnly
from tod_bias.statistics.clusters import Clusters, Shared, Spread, at_least
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.needed import FEWEST
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference


class ContrastEstimates:
    """Estimates of a block, the spread over words and other clusters, and resamples over dialogues.

    Everything is computed at once and the block is let go, as blocks of large corpora are large.

    Args:
        block: contrasts; the first is the whole, the last the one with the placebo where there is one.
        members: (dialogues,) bool, which take part.
        dimensions: words, and other kinds of clusters.
        tested: contrasts whose p-values will be asked for, with words as a sample.
        both: those for which they will be with words as they are too.
        inference: level, resamples, seed.
        shared: which dialogues share words, where they rest on several.
        effective: words.
    """

    def __init__(
        self,
        block: Contrasts,
        members: np.ndarray,
        dimensions: Sequence[Clusters],
        inference: Inference,
        *,
        shared: Shared | None,
        effective: float,
        tested: Sequence[int],
        both: Sequence[int],
    ) -> None:
        self.members = members
        self.above = len(block.contrasts) - 1
        """The contrast with the placebo, where there is one."""
        self._level = inference.level
        self.estimates = block.estimates
        """(contrasts,)."""
        self.scores = block.scores()
        """(cells,), on the metric's own scale."""
        count = inference.resamples
        self._samples = block.resamples(count, inference.seed) if count else None
        self.score_bounds = [self._score_bounds(block.cells[members, cell], block, inference) for cell in (0, 1)]
        """Intervals of the scores of the originals and of the cell after them, over the dialogues that take part."""
        self.spreads: list[Spread] = [block.spread(clusters.within(members)) for clusters in dimensions]
        self.shared_p = np.empty(0)
        """(contrasts,), p-values of t tests that take dialogues which share any word as dependent; empty where each
        rests on one word."""
        if shared is not None:
            error = shared.error(block.parts(None, range(len(block.contrasts))), members)
            self.spreads[0] = at_least(self.spreads[0], error, effective - 1)
            self.shared_p = self.spreads[0].p_values(self.estimates)
        self._intervals = np.stack([spread.interval(self.estimates, self._level) for spread in self.spreads])
        kinds: list[Clusters | None] = [*dimensions, None]
        self._parts: list[dict[int, np.ndarray]] = []
        for clusters in kinds if inference.permutations else []:
            numbers = tested if clusters is not None else both
            self._parts.append(dict(zip(numbers, block.parts(clusters, numbers).T, strict=True)))
        self.of_words = block.parts(dimensions[0], [0])[:, 0]
        """(words,), what each adds to the first contrast."""

    def _score_bounds(self, cells: np.ndarray, block: Contrasts, inference: Inference) -> np.ndarray:
        if not inference.resamples or len(cells) < 2:
            return np.full(2, np.nan)
        scores = resample(cells, block.score, inference.resamples, inference.seed)
        return interval(scores, len(cells), inference.level)

    def parts(self, kind: int, number: int) -> np.ndarray:
        """What each cluster of a kind (-1: each dialogue) adds to a contrast, (clusters,)."""
        return self._parts[kind][number]

    def estimate(self, number: int, p: float | None = None) -> Estimate:
        """A contrast with its errors and both intervals.

        Args:
            number: of the contrast.
            p: its p-value.
        """
        bounds = self._intervals[:, :, number]  # (kinds, 2); NaN where a kind has too few clusters
        error, freedom = self.error_and_freedom(number)
        return Estimate(
            value=self.estimates[number],
            se=error,
            df=freedom if math.isfinite(error) else None,
            ci=(bounds[:, 0].min(), bounds[:, 1].max()),
            p=p,
            terms_only=TermsOnly(se=self.error_of_dialogues(number), ci=tuple(self._of_dialogues(number))),
        )

    def score(self, cell: int) -> Estimate:
        """The score of the originals (0) or of the cell after them (1), over the dialogues that take part."""
        return Estimate(value=self.scores[cell], ci=tuple(self.score_bounds[cell]))

    def _of_dialogues(self, number: int) -> np.ndarray:
        dialogues = int(self.members.sum())
        if self._samples is None or dialogues < FEWEST:
            return np.full(2, np.nan)
        return interval(self._samples[:, number], dialogues, self._level)

    def error_and_freedom(self, number: int) -> tuple[float, float]:
        """The largest standard error of a contrast over the kinds of clusters, with its degrees of freedom.

        NaN where a kind has too few clusters.
        """
        if any(spread.clusters < FEWEST or spread.freedom < 1 for spread in self.spreads):
            return math.nan, 0.0
        return max((float(spread.error[number]), spread.freedom) for spread in self.spreads)

    def error_of_dialogues(self, number: int) -> float:
        """The standard error of a contrast with words as they are; NaN without two resamples."""
        if self._samples is None or len(self._samples) < 2:
            return math.nan
        return float(np.nanstd(self._samples[:, number], ddof=1))


_Signed = TypeVar("_Signed", bound=Estimate)


def negated(estimate: _Signed) -> _Signed:
    """The same estimate with the other sign, as a gap is seen from the other group."""
    changed: dict[str, Any] = {"value": _less(estimate.value), "ci": _swapped(estimate.ci)}
    if estimate.terms_only is not None:
        changed["terms_only"] = estimate.terms_only.model_copy(update={"ci": _swapped(estimate.terms_only.ci)})
    if isinstance(estimate, Gap):
        changed["contributions"] = {
            name: part.model_copy(update={"shapley": negated(part.shapley)})
            for name, part in estimate.contributions.items()
        }
        if estimate.beyond_placebo is not None:
            changed["beyond_placebo"] = negated(estimate.beyond_placebo)
    return estimate.model_copy(update=changed)


def _less(value: float | None) -> float | None:
    return None if value is None else -value


def _swapped(ci: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if ci is None else (-ci[1], -ci[0])
