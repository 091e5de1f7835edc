"""Which back end decodes: chosen by model, settings and device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import torch

from tod_bias.errors import ModelError
from tod_bias.models.decoders import ctranslate, timing
from tod_bias.models.decoders.batch import BatchDecoder
from tod_bias.models.decoders.ctranslate import CTranslateDecoder
from tod_bias.models.decoders.decoder import Decoder
from tod_bias.models.decoders.tree import SUPPORTED, PrefixTreeDecoder, supports, token_bytes
from tod_bias.models.settings import Backend, Dtype, GenerationSettings

_MOST_BYTES = {"cpu": 2**28, "cuda": 2**32}
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
    if device.type != "cpu" and dtype == "int8":
        raise ModelError(f"{name}: dtype int8 is for the processor, got the device {device}; use bfloat16")
    if backend == "ctranslate2":
        if device.type != "cpu":
            raise ModelError(f"{name}: backend 'ctranslate2' is for the processor, got the device {device}; use 'auto'")
        if not ctranslate.is_installed():
            raise ModelError("backend 'ctranslate2' needs its package: pip install 'tod-bias[fast]'")
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
    usual = 16384 if device.type == "cuda" else 4096
    tokens = settings.batch_tokens or (1024 if backend == "tree" else usual)
    return dataclasses.replace(settings, dtype=dtype, backend=backend, batch_tokens=tokens)


def new_decoder(
    model: Callable[[], Any],
    config: Any,
    tokenizer: Any,
    stop_tokens: Sequence[int],
    settings: GenerationSettings,
    *,
    name: str,
    causal: bool,
    device: torch.device,
) -> Decoder:
    """The back end that resolved settings name.

    Args:
        model: gives the model when it is needed; for ``ctranslate2`` in float32.
        config: its configuration.
        tokenizer: its tokenizer.
        stop_tokens: tokens that end an output.
        settings: of :func:`resolved`.
        name: the checkpoint's, for messages.
        causal: whether it continues its input.
        device: where it runs.
    """
    if settings.backend == "ctranslate2":
        return CTranslateDecoder(model, tokenizer, stop_tokens, settings, causal=causal, name=name)
    if settings.backend == "tree":
        return PrefixTreeDecoder(
            model,
            stop_tokens,
            settings,
            token_bytes=token_bytes(config, 2 if settings.dtype == "bfloat16" else 4),
            most_bytes=_MOST_BYTES["cuda" if device.type == "cuda" else "cpu"],
        )
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return BatchDecoder(model, stop_tokens, settings, pad, causal)


def fastest(
    model: Callable[[str], Any],
    config: Any,
    tokenizer: Any,
    stop_tokens: tuple[int, ...],
    settings: GenerationSettings,
    *,
    name: str,
    causal: bool,
    device: torch.device,
    most: int,
) -> Backend:
    """The back end that decodes made prompts in the least time, here and now.

    Args:
        model: gives the model that a back end needs.
        config, tokenizer, stop_tokens, settings, name, causal, device: as for :func:`new_decoder`.
        most: tokens of a prompt at the most.
    """
    shared = causal and settings.num_beams == 1 and supports(config)
    usable: list[Backend] = ["tree", "batch"] if shared else ["batch"]
    if device.type == "cpu" and ctranslate.is_installed():
        usable.append("ctranslate2")
    tried = dataclasses.replace(settings, max_new_tokens=min(12, settings.max_new_tokens))
    decoders: dict[Backend, Decoder] = {}
    for backend in usable:
        own = resolved(name, config, dataclasses.replace(tried, backend=backend), causal=causal, device=device)
        decoders[backend] = new_decoder(
            partial(model, backend), config, tokenizer, stop_tokens, own, name=name, causal=causal, device=device
        )
    return timing.fastest(decoders, timing.prompts(len(tokenizer), stop_tokens, most))
