"""Bias as ParlAI's metrics: sums that add up over messages, batches and workers; numbers are made of the sums.

A disparity is no mean over examples: it is made of the corpus scores of three sets of outputs. So each metric here
carries the summed statistics of a score (of corpus BLEU the n-gram counts), by what they are of, ``+`` adds them, and
``value()`` makes the number. They add up in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from parlai.core.metrics import Metric as ParlaiMetric

from tod_bias.errors import TodBiasError
from tod_bias.metrics.choice import metric
from tod_bias.metrics.fairscore import fairscore
from tod_bias.metrics.metric import Metric

ORIGINAL, REWRITTEN, TWIN = "original", "rewritten", "twin"
"""Sums of originals, of their counterfactuals, and of the system's equivariant twin on the counterfactuals."""
MEAN_REWRITTEN, MEAN_TWIN = "mean rewritten", "mean twin"
"""Sums over all groups that a group's dialogues are rewritten for."""
DRAW = "draw "
"""Begins the names of the sums of one draw."""

_DIGITS = 12
"""Of differences: beyond them they depend on the order in which outputs came, as floating-point sums do."""


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
        return type(self)(self._measure, sums)

    def value(self) -> float:
        """The number; NaN where a score that it needs is undefined, or of nothing yet."""
        raise NotImplementedError

    def score(self, name: str) -> float:
        """The score of one of the sums; NaN where there is none."""
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
    """What the system loses on the counterfactuals against its equivariant twin: q(N) − q(∅).

    0: it treats a counterfactual as the original. Positive is harm; as a share of the originals' score where the
    score is a ratio (BLEU), else in its own units (shares of right calls).
    """

    def value(self) -> float:
        """The disparity."""
        return self.of_original(self.score(TWIN) - self.score(REWRITTEN))


class GapMetric(BiasMetric):
    """A group's disparity less the mean disparity of all groups on the same dialogues; positive is harm."""

    def value(self) -> float:
        """The gap."""
        group = self.score(TWIN) - self.score(REWRITTEN)
        return self.of_original(group - (self.score(MEAN_TWIN) - self.score(MEAN_REWRITTEN)))


class FairscoreMetric(BiasMetric):
    """Su eq. 1: |q(original) − q(rewritten)| / q(original), a mean over draws; NaN where the originals' score is 0.

    It takes what rewriting itself does to a score for unfairness; the disparity does not.
    """

    def value(self) -> float:
        """The fairscore."""
        draws = [self.score(name) for name in sorted(self._sums) if name.startswith(DRAW)]
        return (
            _rounded(float(np.abs(fairscore(self.score(ORIGINAL), np.array(draws))).mean())) if draws else float("nan")
        )


def _rounded(number: float) -> float:
    return round(number, _DIGITS) + 0.0  # no -0


@lru_cache(maxsize=64)
def measure_of(name: str) -> Metric:
    """The score of a name, made once."""
    return metric(name)
