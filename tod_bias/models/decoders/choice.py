"""Choice of the decoding back end by model, settings and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from tod_bias.errors import ModelError
from tod_bias.models.decoders.batch import BatchDecoder
from tod_bias.models.decoders.tree import SUPPORTED, PrefixTreeDecoder, supports, token_bytes
from tod_bias.models.examples import padding
from tod_bias.models.settings import GenerationSettings


class Decoder(Protocol):
    """A back end: plans batches over token sequences and decodes one batch at a time."""

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Indices into ``sequences``, a list a batch; every index once."""

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""


_MOST_BYTES = {"cpu": 2**30, "cuda": 2**32}
"""Bytes that the keys and values of one batch of trees may take."""


def resolved(
    name: str, config: Any, settings: GenerationSettings, *, causal: bool, device: torch.device
) -> GenerationSettings:
    """Return settings with every ``auto`` replaced by the choice, so that the signature records it.

    Args:
        name: the checkpoint's, for messages.
        config: its configuration.
        settings: as they were given.
        causal: True if the model continues its input, False if it is sequence to sequence.
        device: where it runs.

    Raises:
        ModelError: the back end does not support the model.
    """
    dtype, backend = settings.dtype, settings.backend
    if dtype == "auto":
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
        dtype = "bfloat16" if fast else "float32"
    can_share = causal and supports(config)
    if backend == "tree" and not can_share:
        raise ModelError(
            f"{name}: backend 'tree' needs one of {', '.join(SUPPORTED)} with full attention and fixed positions, "
            f"got {config.model_type}; use 'batch'"
        )
    if backend == "auto":
        backend = "tree" if can_share else "batch"
    tokens = settings.batch_tokens or (16384 if device.type == "cuda" and backend != "tree" else 4096)
    return settings.model_copy(update={"dtype": dtype, "backend": backend, "batch_tokens": tokens})


@dataclass(frozen=True)
class Decoded:
    """A checkpoint that is to be decoded with."""

    name: str
    """Name of the model in messages."""
    config: Any
    tokenizer: Any
    stop_tokens: tuple[int, ...]
    """Tokens that end an output."""
    causal: bool
    """True if the model continues its input, False if it is sequence to sequence."""
    device: torch.device
    """Device of the model."""
    model: Callable[[], Any]
    """Loads the model, when a back end needs it."""


def new_decoder(checkpoint: Decoded, settings: GenerationSettings) -> Decoder:
    """The back end that resolved settings name.

    Args:
        checkpoint: what decodes.
        settings: of :func:`resolved`.
    """
    if settings.backend == "tree":
        return PrefixTreeDecoder(
            checkpoint.model,
            checkpoint.stop_tokens,
            settings,
            width=checkpoint.config.hidden_size,
            token_bytes=token_bytes(checkpoint.config, 2 if settings.dtype == "bfloat16" else 4),
            most_bytes=_MOST_BYTES["cuda" if checkpoint.device.type == "cuda" else "cpu"],
        )
    pad = padding(checkpoint.tokenizer)
    return BatchDecoder(checkpoint.model, checkpoint.stop_tokens, settings, pad, checkpoint.causal)
