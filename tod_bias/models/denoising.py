"""Restoring texts with gaps: what a sequence-to-sequence model with random weights learns first.

A new model of that kind learns to write likely calls and responses long before it learns to read: what it is to write
is short, and hardly depends on what it reads. What stood in a gap can only be told by reading what stands around it.
(Where the whole text is to be written again, a model that reads nothing does nearly as well as one that does, as each
word is likely after those before it: BART's infilling is for checkpoints that read already.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, takewhile
from typing import Any

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.models.examples import TokenSequence, beginning_of, encode_segments

SENTINEL = "<extra_id_{}>"
"""Stands for the gap of this number (T5)."""
SHARES = {"spans": 0.15, "infilling": 0.3}
"""Of the tokens are left out: Raffel et al. 2020, section 3.3.4, and Lewis et al. 2020, section 4.2."""
MEAN_LENGTH = 3.0
"""Tokens of a gap on average, in both."""


def denoising_sequences(
    dialogues: Sequence[Dialogue], tokenizer: Any, *, max_length: int = 1024, seed: int = 0
) -> list[TokenSequence]:
    """Dialogues in windows that follow one another: the window with gaps, and what is to be written.

    Where the tokenizer has sentinels, each gap is one of them, and what is to be written is each gap's sentinel and
    tokens (span corruption; Raffel et al. 2020, "Exploring the Limits of Transfer Learning …", section 3.1.4). Where it
    has a mask token only, every gap is a mask, and the window is written whole (text infilling; Lewis et al. 2020,
    "BART: Denoising Sequence-to-Sequence Pre-training …", section 2.2). Gaps have one token or more (1 + Poisson(2)).

    Args:
        dialogues: whose lines are restored, calls and results among them.
        tokenizer: one with T5's sentinels, or with a mask token.
        max_length: tokens of a window at the most, marks at its ends included.
        seed: draws the gaps.

    Raises:
        ModelError: nothing in the tokenizer can stand for a gap.
    """
    marks = marks_of(tokenizer)
    begins, ends = beginning_of(tokenizer), [tokenizer.eos_token_id]
    room = max(max_length - len(begins) - len(ends), 1)
    rng = np.random.default_rng([seed, len(dialogues)])
    sequences = []
    for dialogue in dialogues:
        (ids,) = encode_segments(tokenizer, ["\n".join(turn.text for turn in dialogue.turns)])
        for start in range(0, len(ids), room):
            window = ids[start : start + room]
            source: list[int] = []
            target: list[int] = []
            number = 0
            for text, is_gap in cut(window, SHARES["spans" if len(marks) > 1 else "infilling"], rng):
                mark = [marks[number % len(marks)]] if is_gap else []
                number += is_gap
                source += mark or text
                target += [] if len(marks) > 1 and not is_gap else [*(mark if len(marks) > 1 else []), *text]
            sequences.append(TokenSequence.of([*begins, *source, *ends], [*begins, *target, *ends]))
    return sequences


def cut(ids: Sequence[int], share: float, rng: np.random.Generator) -> Iterator[tuple[list[int], bool]]:
    """A text in pieces, in order: (tokens, is it a gap). A ``share`` of the tokens is in gaps, and no two touch."""
    left = max(round(share * len(ids)), 1)
    lengths: list[int] = []
    kept = len(ids) - left
    while left and len(lengths) <= kept:
        lengths.append(min(1 + int(rng.poisson(MEAN_LENGTH - 1)), left))
        left -= lengths[-1]
    places = np.sort(rng.choice(kept + 1, len(lengths), replace=False))  # how many kept tokens stand before each gap
    at = read = 0
    for place, length in zip(map(int, places), lengths, strict=True):
        start = at + place - read
        yield list(ids[at:start]), False
        yield list(ids[start : start + length]), True
        at, read = start + length, place
    yield list(ids[at:]), False


def marks_of(tokenizer: Any) -> list[int]:
    """The tokens that stand for gaps: sentinels, one after the other, or one mask for all.

    Raises:
        ModelError: there is none.
    """
    known = tokenizer.get_vocab()
    if SENTINEL.format(1) in known:
        return [known[name] for name in takewhile(known.__contains__, map(SENTINEL.format, count()))]
    if tokenizer.mask_token_id is not None:
        return [int(tokenizer.mask_token_id)]
    raise ModelError(
        "--objective denoising: the tokenizer has neither T5's sentinels nor a mask token; start from scratch, or from "
        "a checkpoint that has restored texts before"
    )
