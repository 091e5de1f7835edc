"""The processes of one run: one, or several under ``accelerate launch`` or ``torchrun``."""

from __future__ import annotations

import os
from typing import Any


def process_state() -> Any:
    """This process among those of the run. Without an accelerator, processes work together on the CPU."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available())


def is_first_process() -> bool:
    """Whether this is the process that prints; known before any library is loaded."""
    return os.environ.get("RANK", "0") == "0"
