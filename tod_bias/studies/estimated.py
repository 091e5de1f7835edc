"""A block of contrasts with its estimates, and how far other words and other dialogues would have moved them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tod_bias.statistics.clusters import FEWEST, Clusters, Spread
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.record import finite, finite_pair
from tod_bias.statistics.settings import Inference
from tod_bias.studies.contrasts import Block


class Estimated:
    """A block with its estimates, the spread over words and other clusters, and resamples over dialogues."""

    main = 0

    def __init__(self, block: Block, there: np.ndarray, dimensions: Sequence[Clusters], inference: Inference) -> None:
        self.block = block
        self.there = there
        """(dialogues,) bool: who takes part."""
        self.above = len(block.contrasts) - 1
        """The contrast with the placebo, where there is one."""
        self._level = inference.level
        self.estimates = block.estimates
        count = inference.resamples
        self._samples = block.resamples(count, inference.seed) if count else None
        self.spreads: list[Spread] = [block.spread(clusters.within(there)) for clusters in dimensions]
        self._intervals = np.stack([one.interval(self.estimates, self._level) for one in self.spreads])

    def estimate(self, number: int) -> dict[str, Any]:
        """A contrast with both intervals."""
        bounds = self._intervals[:, :, number]  # (kinds, 2)
        widest = np.array([bounds[:, 0].min(), bounds[:, 1].max()])  # NaN where a kind has too few clusters
        return {
            "value": finite(self.estimates[number]),
            "ci": finite_pair(widest),
            "ci_these_words": finite_pair(self._of_dialogues(number)),
        }

    def _of_dialogues(self, number: int) -> np.ndarray:
        dialogues = int(self.there.sum())
        if self._samples is None or dialogues < FEWEST:
            return np.full(2, np.nan)
        return interval(self._samples[:, number], dialogues, self._level)

    def error_and_freedom(self, number: int) -> tuple[float, float]:
        """The largest standard error of a contrast over the kinds of clusters, and its degrees of freedom."""
        found = [(float(one.error[number]), one.freedom) for one in self.spreads if one.clusters >= 2]
        return max(found, default=(math.nan, 0.0))

    def error_of_dialogues(self, number: int) -> float:
        """The standard error of a contrast with words as they are; NaN without resamples."""
        return math.nan if self._samples is None else float(np.nanstd(self._samples[:, number], ddof=1))
