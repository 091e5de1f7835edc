"""Decoding padded batches with the model's own ``generate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from transformers import GenerationConfig

from tod_bias.models.settings import GenerationSettings

_MARKS = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
_PROBE, _ALIKE = 9, {torch.float32: 1e-3}
"""Tokens of a row that is padded to see what it changes, and by which share of their range logits may differ."""


def greedy(model: Any) -> Any:
    """The model without the checkpoint's own ways of choosing tokens (penalties, suppressed tokens, samples): what all
    back ends compute is the likeliest next token."""
    former = model.generation_config
    model.generation_config = GenerationConfig(**{name: getattr(former, name, None) for name in _MARKS})
    return model


class BatchDecoder:
    """Pads prompts of similar length (on the left for a causal model) and decodes them with ``model.generate``.

    A causal model that gives other outputs for that (recurrent ones that do not heed the mask) gets one row at a time.

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
            length = len(sequences[index]) + settings.max_new_tokens
            if not batches or (len(batches[-1]) + 1) * length > settings.batch_tokens:
                batches.append([])
            batches[-1].append(index)
        return batches

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        if not self._causal or len(sequences) == 1 or self._heeds_the_mask:
            return self._decoded(sequences)
        return [self._decoded([row])[0] for row in sequences]

    @cached_property
    def _heeds_the_mask(self) -> bool:
        """True if masked tokens to the left of a row change its outputs."""
        row = [token for token in range(2 * _PROBE) if token != self._pad][:_PROBE]
        alone, padded = self._first_logits(row, 0), self._first_logits(row, _PROBE)
        spread = float((alone.max() - alone.min()).abs()) or 1.0
        return float((alone - padded).abs().max()) <= _ALIKE.get(self._model().dtype, 5e-2) * spread

    def _first_logits(self, row: Sequence[int], padding: int) -> torch.Tensor:
        model, width = self._model(), len(row) + padding
        output = model.generate(
            input_ids=torch.tensor([_pad(row, width, self._pad, left=True)], device=model.device),
            attention_mask=torch.tensor([_pad([1] * len(row), width, 0, left=True)], device=model.device),
            generation_config=GenerationConfig(
                max_new_tokens=1,
                do_sample=False,
                pad_token_id=self._pad,
                output_logits=True,
                return_dict_in_generate=True,
            ),
        )
        logits: torch.Tensor = output.logits[0][0].float()
        return logits

    def _decoded(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        model = self._model()
        width = max(map(len, sequences))
        rows = [_pad(row, width, self._pad, left=self._causal) for row in sequences]
        mask = [_pad([1] * len(row), width, 0, left=self._causal) for row in sequences]
        base = model.generation_config
        config = GenerationConfig(
            max_new_tokens=self._settings.max_new_tokens,
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
