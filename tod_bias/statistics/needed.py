"""How many words and clusters a claim needs, and how many resamples are too many."""

from tod_bias.errors import TodBiasError

FEWEST = 5
"""Units that an interval needs."""
FEWEST_CLUSTERS = 3.5
"""Effective clusters whose variance is estimated. If groups differ by domain, .05 of null samples are claimed with 4
domains; with 3 and 2 their variance is known so badly that other groups are claimed than those that differ, and a claim
is one of these domains only."""
FEW_CLUSTERS = 5
"""With fewer clusters a claim is one of these clusters only."""
ENOUGH_TERMS = 3
"""Effective terms of its own that a claim about a group needs; with fewer it is one about these terms."""
MOST_OF_A_TERM = 0.5
"""Share of a gap that may rest on one term where a group is claimed."""
ENOUGH_FREEDOM = 4.0
"""Degrees of freedom that such a claim needs."""
ENOUGH_WORDS = 6
"""Effective words that a claim about a group needs; with fewer it is one about these words."""
MOST_RESAMPLES = 1_000_000
"""Resamples and permutations at the most: they are all held at once, and more tell nothing."""


def check_resamples(**counts: int) -> None:
    """Find numbers of resamples or permutations, by name, that make no sense.

    Raises:
        TodBiasError: one is no whole number from 0 to :data:`MOST_RESAMPLES`.
    """
    for name, count in counts.items():
        if isinstance(count, bool) or not hasattr(count, "__index__") or not 0 <= count <= MOST_RESAMPLES:
            raise TodBiasError(f"{name} must be a whole number from 0 to {MOST_RESAMPLES:,}, got {count!r}")
