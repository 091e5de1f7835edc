"""The processes of one run: one, or several under ``accelerate launch`` or ``torchrun``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

V = TypeVar("V")


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
    from tod_bias.models.devices import sent_by_first

    return sent_by_first(look_up)
