"""Parts of a corpus: representative samples, and ParlAI's splits of corpora without splits.

ParlAI's splits depend only on the number and order of the dialogues.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError

SEED = 42
"""Seed of all of ParlAI's splits."""


def sample(dialogues: Sequence[Dialogue], count: int | None, seed: int = 0) -> list[Dialogue]:
    """``count`` dialogues drawn over the whole corpus, stratified by domain, in the order of the corpus.

    Corpora are sorted by service: their first dialogues are all of one domain. Every domain gets its share of ``count``
    (largest remainders), at least one dialogue if there is room for all. The draw of a domain depends on the seed, the
    domain and its dialogues only.

    Args:
        dialogues: the whole corpus.
        count: how many; None, or as many as there are, for all of them.
        seed: of the draws.
    """
    if count is None or count >= len(dialogues):
        return list(dialogues)
    places: dict[str, list[int]] = {}
    for place, dialogue in enumerate(dialogues):
        places.setdefault(dialogue.domain, []).append(place)
    shares = allocate({domain: len(numbers) for domain, numbers in places.items()}, count)
    chosen: list[int] = []
    for domain, numbers in places.items():
        shuffled = random.Random(f"{seed}/{domain}").sample(numbers, len(numbers))
        chosen += shuffled[: shares[domain]]
    return [dialogues[place] for place in sorted(chosen)]


def allocate(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide ``count`` over the strata: proportional shares by largest remainder, at least one each if possible.

    Equal remainders go by name. The shares add up to ``count``, and none is larger than its stratum.
    """
    whole = sum(sizes.values())
    quotas = {name: count * size / whole for name, size in sizes.items()}
    least = 1 if count >= len(sizes) else 0
    shares = {name: max(least, int(quota)) for name, quota in quotas.items()}
    while (missing := count - sum(shares.values())) != 0:
        step = 1 if missing > 0 else -1
        open_to = [name for name in sizes if (shares[name] < sizes[name] if step > 0 else shares[name] > least)]
        best = min(open_to, key=lambda name: (step * (shares[name] - quotas[name]), name))
        shares[best] += step
    return shares


def hold_out(dialogues: Sequence[Dialogue], count: int, seed: int = 0) -> tuple[list[Dialogue], list[Dialogue]]:
    """Split off ``count`` dialogues for validation, drawn by ``seed``: (the others, the held-out ones).

    So the split that is audited later takes no part in early stopping.

    Raises:
        ModelError: nothing would be left to train on.
    """
    if not 0 < count < len(dialogues):
        raise ModelError(f"cannot hold out {count} of {len(dialogues)} dialogues for validation")

    chosen = set(np.random.default_rng(seed).permutation(len(dialogues))[:count].tolist())
    training = [dialogue for number, dialogue in enumerate(dialogues) if number not in chosen]
    return training, [dialogue for number, dialogue in enumerate(dialogues) if number in chosen]


def tenths(count: int, split: str) -> list[int]:
    """Return the indices of a split: eight tenths, one tenth and the rest of ``count`` dialogues shuffled by NumPy.

    All Taskmaster corpora are split like this (``DataFrame.sample`` with seed 42). A tenth is rounded down, and the
    remainder belongs to ``test``.
    """
    order = np.random.RandomState(SEED).permutation(count)
    tenth = count // 10
    bounds = {"train": (0, 8 * tenth), "valid": (8 * tenth, 9 * tenth), "test": (9 * tenth, count)}
    return [int(number) for number in order[slice(*bounds[split])]]
