"""Restoring texts with gaps: what a sequence-to-sequence model with random weights learns first.

A new model of that kind learns to write likely calls and responses long before it learns to read: what it is to write
is short, and hardly depends on what it reads. A text with gaps can only be restored by reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.models.examples import TokenSequence, beginning_of, encode_segments

SHARE = 0.3
"""Of the tokens are left out (Lewis et al. 2020, section 4.2)."""
MEAN_LENGTH = 3.0
"""Tokens of a gap on average."""
_SENTINEL = "<extra_id_0>"
"""What stands for a gap where a tokenizer has no mask (T5)."""


def denoising_sequences(
    dialogues: Sequence[Dialogue], tokenizer: Any, *, max_length: int = 1024, seed: int = 0
) -> list[TokenSequence]:
    """Dialogues in windows that follow one another: the window with gaps, and the window as labels.

    Text infilling (Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training …", section 2.2): spans of
    tokens are replaced by one mask each. Here spans have one token or more (1 + Poisson(2)), so that none is inserted.

    Args:
        dialogues: whose lines are restored, calls and results among them.
        tokenizer: one with a mask token, or with T5's sentinels.
        max_length: tokens of a window at the most, marks at its ends included.
        seed: draws the gaps.

    Raises:
        ModelError: nothing in the tokenizer can stand for a gap.
    """
    mask = mask_of(tokenizer)
    begins, ends = beginning_of(tokenizer), [tokenizer.eos_token_id]
    room = max(max_length - len(begins) - len(ends), 1)
    rng = np.random.default_rng([seed, len(dialogues)])
    sequences = []
    for dialogue in dialogues:
        (ids,) = encode_segments(tokenizer, ["\n".join(turn.text for turn in dialogue.turns)])
        for start in range(0, len(ids), room):
            window = ids[start : start + room]
            sequences.append(
                TokenSequence.of([*begins, *with_gaps(window, mask, rng), *ends], [*begins, *window, *ends])
            )
    return sequences


def with_gaps(ids: Sequence[int], mask: int, rng: np.random.Generator) -> list[int]:
    """A copy in which spans of a :data:`SHARE` of the tokens are one ``mask`` each; no two gaps touch."""
    left = max(round(SHARE * len(ids)), 1)
    lengths: list[int] = []
    kept = len(ids) - left
    while left and len(lengths) <= kept:
        lengths.append(min(1 + int(rng.poisson(MEAN_LENGTH - 1)), left))
        left -= lengths[-1]
    places = np.sort(rng.choice(kept + 1, len(lengths), replace=False))  # how many kept tokens stand before each gap
    gapped: list[int] = []
    at = read = 0
    for place, length in zip(places, lengths, strict=True):
        gapped += [*ids[at : at + place - read], mask]
        at, read = at + place - read + length, place
    return [*gapped, *ids[at:]]


def mask_of(tokenizer: Any) -> int:
    """The token that stands for a gap.

    Raises:
        ModelError: there is none.
    """
    if tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id)
    if (found := tokenizer.get_vocab().get(_SENTINEL)) is not None:
        return int(found)
    raise ModelError(
        "--objective denoising: the tokenizer has neither a mask token nor T5's sentinels; start from scratch, or from "
        "a checkpoint that has restored texts before"
    )
