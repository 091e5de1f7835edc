"""Weights and activations of linear layers in 8 bits, for processors."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from tod_bias.errors import ModelError


def in_eight_bits(model: Any, name: str) -> Any:
    """The model with its linear layers in int8: weights by channel, activations as they come (Jacob et al. 2018).

    Args:
        model: in float32, on the processor; it is changed.
        name: of the checkpoint, for messages.

    Raises:
        ModelError: this PyTorch has no such layers.
    """
    engines = torch.backends.quantized.supported_engines
    chosen = next((engine for engine in ("onednn", "x86", "fbgemm", "qnnpack") if engine in engines), None)
    try:
        from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic
    except ImportError:
        chosen = None
    if chosen is None:
        raise ModelError(f"{name}: this PyTorch has no layers in int8; use backend 'ctranslate2' or dtype float32")
    torch.backends.quantized.engine = chosen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library announces that this will move to another package
        return quantize_dynamic(model, {torch.nn.Linear: per_channel_dynamic_qconfig}, inplace=True)
