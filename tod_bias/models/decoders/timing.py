"""Which exact back end is the fastest here: a short timing on prompts like those of an attribution."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TypeVar

import torch

from tod_bias.errors import ModelError, described
from tod_bias.models.decoders.decoder import Decoder

B = TypeVar("B", bound=str)
log = logging.getLogger(__name__)
_TURNS, _TELLINGS, _LENGTH = 6, 2, 40


def prompts(vocabulary: int, stop_tokens: tuple[int, ...], most: int) -> list[list[int]]:
    """Made prompts: dialogues that grow turn by turn, each told in two ways that differ early.

    Args:
        vocabulary: how many tokens there are.
        stop_tokens: that none may hold.
        most: tokens of a prompt at the most.
    """
    usable = [token for token in range(min(vocabulary, 4096)) if token not in stop_tokens]
    made: list[list[int]] = []
    for dialogue in range(2):
        for telling in range(_TELLINGS):
            drawn = torch.Generator().manual_seed(dialogue)
            picks = torch.randint(len(usable), (_TURNS * _LENGTH,), generator=drawn).tolist()
            row = [usable[pick] for pick in picks]
            row[_LENGTH // 2] = usable[telling]
            made += [row[: _LENGTH * turn][-most:] for turn in range(1, _TURNS + 1)]
    return made


@torch.inference_mode()
def fastest(decoders: Mapping[B, Decoder], rows: list[list[int]]) -> B | None:
    """The name of the back end that decodes the prompts in the least time, after one batch to warm up.

    One that cannot take the model is passed over; None where none can.
    """
    seconds: dict[B, float] = {}
    for name, decoder in decoders.items():
        try:
            decoder.decode(rows[:2])
            begun = time.perf_counter()
            for batch in decoder.plan(rows):
                decoder.decode([rows[index] for index in batch])
        except (ModelError, RuntimeError, ValueError, TypeError, IndexError) as error:
            log.warning("back end %s is left out: %s", name, described(error))
            continue
        seconds[name] = time.perf_counter() - begun
    if not seconds:
        return None
    chosen = min(seconds, key=lambda name: seconds[name])
    log.info("back end %s: %s", chosen, ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))
    return chosen
