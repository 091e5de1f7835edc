"""The processes of one run: one, or several under ``accelerate launch`` or ``torchrun``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from tod_bias.errors import ModelError

V = TypeVar("V")


def process_state() -> Any:
    """This process among those of the run. Without an accelerator, processes work together on the CPU."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available())


def is_first_process() -> bool:
    """True in the process that prints; known before any library is loaded."""
    return os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """True if other processes work on the same run; known before any library is loaded."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def as_first_sees(look_up: Callable[[], V]) -> V:
    """Return the first process's result in every process.

    All processes must plan with the same knowledge. A process that looked later would see more outputs, distribute the
    work differently, and leave some of it undone.
    """
    if not several_processes():
        return look_up()
    from accelerate.utils import broadcast_object_list

    shared = [look_up() if process_state().is_main_process else None]
    broadcast_object_list(shared)
    return shared[0]  # type: ignore[return-value]


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
