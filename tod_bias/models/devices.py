"""Devices of this machine, and this process among those of its run; loads PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from tod_bias.errors import ModelError

V = TypeVar("V")


def process_state() -> Any:
    """This process among those of the run. Without an accelerator, processes work together on the CPU."""
    return PartialState(cpu=not torch.accelerator.is_available())


def sent_by_first(look_up: Callable[[], V]) -> V:
    """Look something up in the first process, and return it in every process."""
    shared = [look_up() if process_state().is_main_process else None]
    broadcast_object_list(shared)
    return shared[0]  # type: ignore[return-value]


def usable_device(name: str) -> Any:
    """A device by its name.

    Raises:
        ModelError: it is not there.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"device {name!r} cannot be used ({reason}); expected e.g. cpu or cuda:0") from error
    return device
