"""Decoding padded batches with the model's own ``generate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import GenerationConfig

from tod_bias.models.settings import GenerationSettings


class BatchDecoder:
    """Pads prompts of similar length (on the left for a causal model) and decodes them with ``model.generate``.

    Args:
        model: gives the model when it is needed.
        stop_tokens: tokens that end an output.
        settings: how to decode.
        pad: the token that fills up.
        causal: whether the model continues its input (else sequence to sequence).
    """

    def __init__(
        self, model: Callable[[], Any], stop_tokens: Sequence[int], settings: GenerationSettings, pad: int, causal: bool
    ) -> None:
        self._model = model
        self._stop_tokens = tuple(stop_tokens)
        self._settings = settings
        self._pad = pad
        self._causal = causal

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Batches in order of length, within the token budget, padding included."""
        settings = self._settings
        batches: list[list[int]] = []
        for index in sorted(range(len(sequences)), key=lambda i: (len(sequences[i]), i)):
            length = (len(sequences[index]) + settings.max_new_tokens) * settings.num_beams
            if not batches or (len(batches[-1]) + 1) * length > settings.batch_tokens:
                batches.append([])
            batches[-1].append(index)
        return batches

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        model = self._model()
        width = max(map(len, sequences))
        rows = [_pad(row, width, self._pad, left=self._causal) for row in sequences]
        mask = [_pad([1] * len(row), width, 0, left=self._causal) for row in sequences]
        base = model.generation_config
        config = GenerationConfig(
            max_new_tokens=self._settings.max_new_tokens,
            num_beams=self._settings.num_beams,
            do_sample=False,
            eos_token_id=list(self._stop_tokens),
            pad_token_id=self._pad,
            decoder_start_token_id=base.decoder_start_token_id,
            forced_bos_token_id=base.forced_bos_token_id,
            forced_eos_token_id=base.forced_eos_token_id,
        )
        output = model.generate(
            input_ids=torch.tensor(rows, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            generation_config=config,
        )
        start = width if self._causal else 1  # a sequence-to-sequence output begins with its start token
        stops = set(self._stop_tokens)
        return [until(row, stops) for row in output[:, start:].tolist()]


def _pad(row: Sequence[int], width: int, value: int, *, left: bool) -> list[int]:
    padding = [value] * (width - len(row))
    return [*padding, *row] if left else [*row, *padding]


def until(row: Sequence[int], stops: set[int]) -> list[int]:
    """A row of tokens up to and without the first that stops."""

    def before() -> Iterator[int]:
        for token in row:
            if token in stops:
                return
            yield token

    return list(before())
