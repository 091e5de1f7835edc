"""Does a direction capture the attribute? The three tests of Beattie section 4.3.1.

They are made on entities that the direction was not fitted on: in many dimensions, any two groups of the entities that
a direction was fitted on lie apart along it, whatever their labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.permutation import Exceedances

ALPHA = 0.05
RANDOM_VECTORS = 10_000

TESTS = {
    "sets": "held-out entities of A have larger cosines with the direction than those of B (rank-sum)",
    "random_direction": "held-out entities of A and B lie further apart along the direction than along random ones",
    "random_entities": "held-out entities of A (or B) have larger (smaller) cosines with it than random vectors have",
}
"""The three tests, in the order of the paper, and what their alternatives say."""


@dataclass(frozen=True)
class DirectionTests:
    """The three p-values of one direction, and whether all are below the corrected level."""

    p_values: dict[str, float]
    level: float
    """Bonferroni: alpha over all tests of all directions."""

    @property
    def significant(self) -> bool:
        """Whether all three tests are; a direction that fails one is not to be used."""
        return all(p < self.level for p in self.p_values.values())

    @property
    def failed(self) -> list[str]:
        """Names of the tests that are not."""
        return [name for name, p in self.p_values.items() if not p < self.level]

    def record(self) -> dict[str, Any]:
        """As JSON, one entry a test."""
        return {
            name: {"p_value": p, "level": self.level, "significant": bool(p < self.level), "alternative": TESTS[name]}
            for name, p in self.p_values.items()
        }


def direction_tests(
    direction: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    seed: int = 0,
    random_vectors: int = RANDOM_VECTORS,
) -> dict[str, float]:
    """p-values of the three tests.

    1. ``sets``: cosines of A and of B with the direction, one-sided rank-sum test (the direction points to A).
    2. ``random_direction``: difference of the mean cosines of A and of B with the direction, against its size with each
       of many random vectors; p = (b + 1) / (m + 1). One random vector, as the paper draws, would leave it to luck;
       cosines without regard to A and B would fail a direction that tells them apart where entities vary little.
    3. ``random_entities``: cosines of A against those of random vectors (rank-sum, larger), and of B (smaller); the
       smaller p of the two, doubled, since the paper asks it of A or B.

    Args:
        direction: (dimensions,), fitted on other entities.
        a: (n, dimensions) held-out entities of A.
        b: (m, dimensions) held-out entities of B.
        seed: of the random vectors.
        random_vectors: how many, drawn with equal chance in all directions.
    """
    from scipy import stats

    psi = unit(direction)
    first, second = unit(a), unit(b)
    apart = first.mean(axis=0) - second.mean(axis=0)
    drawn = unit(np.random.default_rng(seed).standard_normal((random_vectors, len(psi))))  # (random, dimensions)
    along_others = Exceedances(float(apart @ psi), tolerance=0.0)
    along_others.add(np.abs(drawn @ apart))
    along_random = drawn @ psi
    # With few entities scipy would enumerate ranks among thousands of random vectors.
    larger = stats.mannwhitneyu(first @ psi, along_random, alternative="greater", method="asymptotic").pvalue
    smaller = stats.mannwhitneyu(second @ psi, along_random, alternative="less", method="asymptotic").pvalue
    return {
        "sets": float(stats.mannwhitneyu(first @ psi, second @ psi, alternative="greater").pvalue),
        "random_direction": float(along_others.p_values()),
        "random_entities": float(min(1.0, 2 * min(larger, smaller))),
    }
