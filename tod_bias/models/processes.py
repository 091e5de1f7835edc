"""The processes of one run: one, or several under ``accelerate launch`` or ``torchrun``."""

from __future__ import annotations

import os
from typing import Any

from tod_bias.errors import ModelError


def process_state() -> Any:
    """This process among those of the run. Without an accelerator, processes work together on the CPU."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available())


def is_first_process() -> bool:
    """Whether this is the process that prints; known before any library is loaded."""
    return os.environ.get("RANK", "0") == "0"


def usable_device(name: str) -> Any:
    """A device by its name.

    Raises:
        ModelError: it is not there.
    """
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"device {name!r} cannot be used ({reason}); expected e.g. cpu or cuda:0") from error
    return device
