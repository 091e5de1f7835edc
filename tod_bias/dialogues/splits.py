"""ParlAI's splits of corpora that come without: who is in which depends on nothing but their number and order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

SEED = 42
"""Of all of ParlAI's splits."""
_TRAIN, _VALID = 0.8, 0.1
_SHARES = {"train": (0.0, _TRAIN), "valid": (_TRAIN, _TRAIN + _VALID), "test": (_TRAIN + _VALID, 1.0)}


def tenths(count: int, split: str) -> list[int]:
    """Which of ``count`` dialogues are in a split, in order: of a shuffle by NumPy eight tenths, one, and the rest.

    So are all of the Taskmaster corpora cut (``DataFrame.sample`` with seed 42). A tenth is rounded down, so what is
    left over goes to ``test``.
    """
    import numpy as np  # after the command line is read: it makes --help slow

    order = np.random.RandomState(SEED).permutation(count)
    tenth = count // 10
    bounds = {"train": (0, 8 * tenth), "valid": (8 * tenth, 9 * tenth), "test": (9 * tenth, count)}
    return [int(number) for number in order[slice(*bounds[split])]]


def shares(items: Sequence[Item], split: str) -> list[Item]:
    """The items of a split, in order: 80, 10 and 10 % of a shuffle by Python's generator, bounds rounded down.

    ParlAI's ``DatatypeHelper.split_data_by_fold``.
    """
    start, end = _SHARES[split]
    return _shuffled(items)[int(start * len(items)) : int(end * len(items))]


def shares_of_subsets(subsets: Iterable[Sequence[Item]], split: str) -> list[Item]:
    """The items of a split, where every subset (a domain) is cut by itself, and all are shuffled then.

    ParlAI's ``DatatypeHelper.split_subset_data_by_fold``.
    """
    return _shuffled([item for subset in subsets for item in shares(subset, split)])


def _shuffled(items: Sequence[Item]) -> list[Item]:
    made = list(items)
    random.Random(SEED).shuffle(made)
    return made
