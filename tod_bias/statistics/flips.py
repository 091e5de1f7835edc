"""Sign-flip tests of several statistics at once, jointly: the null hypothesis of equivariance.

If a component answers a rewritten dialogue as its twin does, the two may change places, and what a cluster of
dialogues adds to a disparity may change its sign. All statistics are looked at under the same flips, so that the
largest of them has a distribution of its own, and each gets a p-value that stands for the whole family (single-step
maxT, Westfall and Young 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tod_bias.statistics.permutation import TOLERANCE, signs


@dataclass(frozen=True)
class FlipTest:
    """p-values of a family of statistics."""

    p_values: np.ndarray
    """(statistics,), of each on its own."""
    joint: np.ndarray
    """(statistics,), adjusted for the family: the share of flips in which the largest statistic is as far out."""
    critical: float
    """What the largest standardised statistic exceeds in a share ``alpha`` of flips; NaN where there are too few flips
    to tell."""
    floor: np.ndarray
    """(statistics,), the smallest p-value that the flips of each can give: 0 where they were drawn at random."""

    def beyond(self, p_values: np.ndarray) -> FlipTest:
        """With the p-values of another test where flips can give none that is smaller.

        n clusters have 2ⁿ flips, so that no p-value is below 2¹⁻ⁿ, however clear the case. A statistic at that floor
        gets the p-value of a t test where that is smaller, times the number of statistics (Bonferroni) in the family.

        Args:
            p_values: (statistics,) of the t test; NaN where there is none.
        """
        is_smallest = (self.p_values <= self.floor) & ~np.isnan(p_values)
        single = np.where(is_smallest, np.fmin(self.p_values, p_values), self.p_values)
        joint = np.where(is_smallest, np.fmin(self.joint, p_values * len(p_values)), self.joint)
        return replace(self, p_values=single, joint=joint)

    def and_also(self, p_values: Sequence[float]) -> FlipTest:
        """With the larger p-values of this and of another test, which must reject as well (Bonferroni in the family).

        Args:
            p_values: (statistics,) of the other test; NaN where it could not be made, which is taken for 1.
        """
        other = np.nan_to_num(np.asarray(p_values, dtype=float), nan=1.0)
        joint = np.minimum(1.0, other * len(other))
        return replace(self, p_values=np.maximum(self.p_values, other), joint=np.maximum(self.joint, joint))


def flip_test(parts: np.ndarray, permutations: int, seed: int, alpha: float = 0.05) -> FlipTest:
    """Is each sum other than 0 by more than chance? Under the null every row may change its sign.

    Statistics are standardised as Σz / √Σz², whose denominator no flip changes, so none outweighs the others.

    Args:
        parts: (clusters, statistics), what each cluster adds to each statistic.
        permutations: all 2^clusters signs where they are no more than this, else so many seeded random ones.
        seed: of the random ones.
        alpha: of ``critical``.

    Returns:
        p-values, (b + 1) / (m + 1), or b / m where all signs were enumerated; 1 where all parts are 0.
    """
    length = np.sqrt((parts**2).sum(axis=0))
    has_spread = length > TOLERANCE
    scaled = np.where(has_spread, parts / np.where(has_spread, length, 1.0), 0.0)
    observed = np.abs(scaled.sum(axis=0))
    exact, drawn = signs(len(parts), permutations, np.random.default_rng(seed))
    single, joint, count = np.zeros(len(observed)), np.zeros(len(observed)), 0
    largest: list[np.ndarray] = []
    for block in drawn:
        values = np.abs(block.astype(float) @ scaled)  # (rows, statistics)
        most = values.max(axis=1, initial=0.0)
        single += (values >= observed - 1e-9).sum(axis=0)
        joint += (most[:, None] >= observed - 1e-9).sum(axis=0)
        largest.append(most)
        count += len(values)
    extra = 0 if exact else 1
    p_values, of_family = (single + extra) / (count + extra), (joint + extra) / (count + extra)
    critical = float(np.quantile(np.concatenate(largest), 1 - alpha)) if count * alpha > 2 else float("nan")
    # A set of flips and its mirror image are as far out, and flips of rows without a part change nothing.
    floor = np.where(exact, 2.0 ** (1 - (np.abs(scaled) > TOLERANCE).sum(axis=0)), 0.0) + TOLERANCE
    return FlipTest(np.where(has_spread, p_values, 1.0), np.where(has_spread, of_family, 1.0), critical, floor)
