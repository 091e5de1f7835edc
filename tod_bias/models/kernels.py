"""A model's arithmetic by faster ways to the same numbers, but for rounding in the last bits."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers.activations import NewGELUActivation
from transformers.pytorch_utils import Conv1D

_PROCESSOR = Path("/proc/cpuinfo")
_AMD = ("AuthenticAMD", "HygonGenuine")


def quickened(model: Any) -> Any:
    """The model, for inference only, with GPT-2's activation, which is written in eight passes over its input, in one;
    and in float32 on AMD's processors with linear layers computed by oneDNN. PyTorch takes Intel's MKL for them, which
    on those leaves out the widest instructions and takes twice as long.
    """
    by_onednn = model.device.type == "cpu" and model.dtype == torch.float32 and _prefers_onednn()
    for module in list(model.modules()):
        for name, part in module.named_children():
            if type(part) is NewGELUActivation:
                setattr(module, name, torch.nn.GELU(approximate="tanh"))
            elif by_onednn and type(part) is torch.nn.Linear:
                setattr(module, name, OneDnnLinear(part.weight, part.bias))
            elif by_onednn and type(part) is Conv1D:
                setattr(module, name, OneDnnLinear(part.weight.t(), part.bias))
    return model


@cache
def _prefers_onednn() -> bool:
    """True on an AMD processor if PyTorch has oneDNN's linear layer. The choice is not timed, so that all processes of
    a machine compute alike."""
    try:
        vendor = _PROCESSOR.read_text(encoding="utf-8", errors="replace")
    except OSError:  # another system than Linux
        return False
    if not any(name in vendor for name in _AMD):
        return False
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class OneDnnLinear(torch.nn.Module):
    """A linear layer in float32 by oneDNN, as ``torch.compile`` calls it.

    oneDNN keeps code of up to a megabyte for each number of rows that it met, so rows are filled up to a few numbers.

    Args:
        weight: (out, in), in any order in memory.
        bias: (out,), or none.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = weight.detach()  # a view, no parameter: tied weights stay one
        self.bias = None if bias is None else bias.detach()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """(…, in) to (…, out)."""
        flat = states.reshape(-1, states.shape[-1])
        rows = len(flat)
        filled = torch.nn.functional.pad(flat, (0, 0, 0, -rows % _step(rows)))
        out = torch.ops.mkldnn._linear_pointwise(filled, self.weight, self.bias, "none", [], "")
        return out[:rows].view(*states.shape[:-1], -1)


def _step(rows: int) -> int:
    """Return the number of which the number of rows becomes a multiple: at most a sixteenth of it, from 128 rows on."""
    return max(8, 1 << rows.bit_length() >> 5)
