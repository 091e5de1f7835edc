"""Which back end decodes: chosen by model, settings and device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import torch

from tod_bias.errors import ModelError
from tod_bias.models.decoders import ctranslate, timing
from tod_bias.models.decoders.batch import BatchDecoder
from tod_bias.models.decoders.ctranslate import CTranslateDecoder
from tod_bias.models.decoders.decoder import Decoder
from tod_bias.models.decoders.tree import SUPPORTED, PrefixTreeDecoder, supports, token_bytes
from tod_bias.models.examples import padding
from tod_bias.models.settings import Backend, Dtype, GenerationSettings

_MOST_BYTES = {"cpu": 2**30, "cuda": 2**32}
"""What the keys and values of one batch of trees may take."""


def resolved(
    name: str, config: Any, settings: GenerationSettings, *, causal: bool, device: torch.device
) -> GenerationSettings:
    """Settings with every ``auto`` replaced by what was chosen, so that the signature says it.

    Args:
        name: the checkpoint's, for messages.
        config: its configuration.
        settings: as they were asked for.
        causal: whether it continues its input (else sequence to sequence).
        device: where it runs.

    Raises:
        ModelError: a setting has no such value, or does not go with the model, the device, or what is installed.
    """
    dtype, backend = settings.dtype, settings.backend
    for field, value, known in (
        ("dtype", dtype, get_args(Dtype)),
        ("backend", backend, get_args(Backend)),
    ):
        if value not in known:
            raise ModelError(f"unknown {field} {value!r}; expected one of {', '.join(known)}")
    for field in ("max_new_tokens", "num_beams", "batch_tokens"):
        if type(value := getattr(settings, field)) is not int:
            raise ModelError(f"{field} must be a whole number, got {value!r}")
    if dtype == "auto":
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
        dtype = "bfloat16" if fast else "float32"
    if dtype == "int8" and backend == "auto":
        backend = "ctranslate2"
    if dtype == "int8" and backend not in ("ctranslate2", "fastest"):
        raise ModelError(f"{name}: dtype int8 needs backend 'ctranslate2', got {backend!r}")
    if backend == "ctranslate2":
        _check_ctranslate(name, dtype, settings.num_beams, device)
    can_share = causal and settings.num_beams == 1 and supports(config)
    if backend == "tree" and not can_share:
        raise ModelError(
            f"{name}: backend 'tree' needs greedy decoding and one of {', '.join(SUPPORTED)} with "
            f"full attention and fixed positions, got {config.model_type} with {settings.num_beams} beam(s); "
            "use 'batch'"
        )
    if backend == "auto":
        backend = "tree" if can_share else "batch"
    if settings.max_new_tokens < 1 or settings.num_beams < 1:
        raise ModelError(
            f"max_new_tokens and num_beams must be at least 1, got {settings.max_new_tokens} and {settings.num_beams}"
        )
    tokens = settings.batch_tokens or (16384 if device.type == "cuda" and backend != "tree" else 4096)
    return dataclasses.replace(settings, dtype=dtype, backend=backend, batch_tokens=tokens)


def _check_ctranslate(name: str, dtype: str, beams: int, device: torch.device) -> None:
    if device.type != "cpu":
        raise ModelError(f"{name}: backend 'ctranslate2' is for the processor, got the device {device}; use 'auto'")
    if beams != 1:
        raise ModelError(f"{name}: backend 'ctranslate2' decodes greedily, got {beams} beams; use 'batch'")
    if not ctranslate.is_installed():
        raise ModelError("backend 'ctranslate2' needs its package: pip install 'tod-bias[fast]'")
    if dtype not in (known := ctranslate.precisions()):
        usable = [one for one in get_args(Dtype) if one in known]
        raise ModelError(f"{name}: dtype {dtype} is not to be had here with 'ctranslate2'; it has {', '.join(usable)}")


@dataclass(frozen=True)
class Decoded:
    """A checkpoint that is to be decoded with."""

    name: str
    """For messages."""
    config: Any
    tokenizer: Any
    stop_tokens: tuple[int, ...]
    """Tokens that end an output."""
    causal: bool
    """Whether it continues its input (else sequence to sequence)."""
    device: torch.device
    """Where it runs."""
    max_prompt: int
    """Tokens of a prompt at the most."""
    model: Callable[[str], Any]
    """Gives the model that a back end needs, when it does."""


def new_decoder(checkpoint: Decoded, settings: GenerationSettings, timed: Decoder | None = None) -> Decoder:
    """The back end that resolved settings name.

    Args:
        checkpoint: what decodes.
        settings: of :func:`resolved`.
        timed: what :func:`fastest` timed; a model that it converted is not converted again.
    """
    if settings.backend == "ctranslate2" and isinstance(timed, CTranslateDecoder):
        return timed.under(settings)
    model = partial(checkpoint.model, settings.backend)
    tokenizer, stop_tokens = checkpoint.tokenizer, checkpoint.stop_tokens
    if settings.backend == "ctranslate2":
        return CTranslateDecoder(
            model, tokenizer, stop_tokens, settings, causal=checkpoint.causal, name=checkpoint.name
        )
    if settings.backend == "tree":
        return PrefixTreeDecoder(
            model,
            stop_tokens,
            settings,
            width=checkpoint.config.hidden_size,
            token_bytes=token_bytes(checkpoint.config, 2 if settings.dtype == "bfloat16" else 4),
            most_bytes=_MOST_BYTES["cuda" if checkpoint.device.type == "cuda" else "cpu"],
        )
    return BatchDecoder(model, stop_tokens, settings, padding(tokenizer), checkpoint.causal)


def fastest(checkpoint: Decoded, settings: GenerationSettings) -> tuple[Backend, Decoder]:
    """The back end that decodes made prompts in the least time, here and now.

    Args:
        checkpoint: what decodes.
        settings: how; the back end is what is to be found.

    Returns:
        Its name, and the decoder that was timed, for :func:`new_decoder`.
    """
    usable: list[Backend] = ["tree", "batch", "ctranslate2"]
    tried = dataclasses.replace(settings, max_new_tokens=min(12, settings.max_new_tokens))
    decoders: dict[Backend, Decoder] = {}
    reasons = []
    for backend in usable:
        asked = dataclasses.replace(tried, backend=backend)
        try:
            own = resolved(
                checkpoint.name, checkpoint.config, asked, causal=checkpoint.causal, device=checkpoint.device
            )
        except ModelError as error:
            reasons.append(str(error))
        else:
            decoders[backend] = new_decoder(checkpoint, own)
    tokens = min(len(checkpoint.tokenizer), getattr(checkpoint.config, "vocab_size", None) or len(checkpoint.tokenizer))
    rows = timing.prompts(tokens, checkpoint.stop_tokens, checkpoint.max_prompt)
    chosen = timing.fastest(decoders, rows)
    if chosen is None:
        raise ModelError(f"{checkpoint.name}: no back end takes it with these settings: {'; '.join(reasons)}")
    return chosen, decoders[chosen]
