"""Settings of intervals and p-values."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from tod_bias.statistics.adjustment import Correction
from tod_bias.statistics.intervals import LEVEL, interval


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Settings of intervals and p-values; an analysis that follows a paper has the paper's defaults."""

    level: float = LEVEL
    """Level of every interval, in 0–1."""
    resamples: int = 1000
    """Bootstrap resamples; 0 for no intervals."""
    permutations: int = 10_000
    """Random permutations of a test; 0 for no p-values."""
    correction: Correction = "holm"
    """Over several tests: Holm or Benjamini–Hochberg."""
    seed: int = 0
    """Seeds resamples and permutations."""

    def seed_of(self, name: str) -> int:
        """Return the seed of one axis, so that signs of different dialogues are flipped independently."""
        return zlib.crc32(f"{self.seed}/{name}".encode())

    def rng(self, *names: str) -> np.random.Generator:
        """Return the generator of one analysis, so that no analysis depends on earlier ones."""
        return np.random.default_rng([self.seed, zlib.crc32("/".join(names).encode())])

    def bounds(self, samples: np.ndarray, clusters: int) -> np.ndarray:
        """Lower and upper bounds of bootstrap samples.

        Args:
            samples: (resamples, …).
            clusters: how many units were resampled.

        Returns:
            (2, …); NaN if nothing was resampled.
        """
        if not self.resamples:
            return np.full((2, *samples.shape[1:]), np.nan)
        return interval(samples, clusters, self.level)
