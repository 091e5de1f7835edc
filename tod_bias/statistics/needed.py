"""Minimum numbers of words and clusters for a claim, and maximum of resamples."""

from tod_bias.errors import TodBiasError

FEWEST = 5
"""Units that an interval needs."""
FEWEST_CLUSTERS = 7.0
"""Effective clusters (Kish) whose variance is estimated; with fewer a claim holds for these clusters only, and is
marked so. Six clusters have 2⁵ patterns of signs, too few for any claim in a family of events."""
MANY_CLUSTERS = 25.0
"""Effective clusters from which flips of their signs need no t test beside them: nulls of skewed clusters were claimed
too often with ten to sixteen."""
ENOUGH_TERMS = 3
"""Effective terms of the group that a claim needs; with fewer it holds for these terms only."""
MOST_OF_A_TERM = 0.5
"""Largest share of a gap that one term may carry in a claim about a group."""
ENOUGH_FREEDOM = 4.0
"""Degrees of freedom that such a claim needs."""
ENOUGH_WORDS = 6
"""Effective words that a claim about a group needs; with fewer it is one about these words."""
FEWEST_FLIPS = 20
"""Sign flips of which the smallest p-value, 1 / (20 + 1), is below .05."""
MOST_RESAMPLES = 1_000_000
"""Upper limit of resamples and permutations, which are all in memory at once; more add no precision."""


def check_resamples(**counts: int) -> None:
    """Raise for invalid numbers of resamples or permutations, given by name.

    Raises:
        TodBiasError: a number is not a whole number from 0 to :data:`MOST_RESAMPLES`.
    """
    for name, count in counts.items():
        if isinstance(count, bool) or not hasattr(count, "__index__") or not 0 <= count <= MOST_RESAMPLES:
            raise TodBiasError(f"{name} must be a whole number from 0 to {MOST_RESAMPLES:,}, got {count!r}")
