"""How intervals and p-values are computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Inference:
    """How intervals and p-values are computed."""

    resamples: int = 1000
    """Bootstrap resamples; 0 for no intervals."""
    permutations: int = 10_000
    """Random permutations of a test; 0 for no p-values."""
    seed: int = 0
    """Seeds both."""
