"""How many words and clusters a claim needs."""

FEWEST = 5
"""Clusters that an interval needs."""
ENOUGH_WORDS = 6
"""Effective words that a claim about a group needs; with fewer it is one about these words."""
