"""Worlds by name, and the systems that act in them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tod_bias.errors import TodBiasError
from tod_bias.worlds.bfcl import Bfcl
from tod_bias.worlds.tau2 import Tau2

if TYPE_CHECKING:
    from tod_bias.worlds.world import World

KINDS = ("bfcl", "tau2")
"""Worlds that are known."""


def is_world(name: str) -> bool:
    """Return whether a name is that of a world: ``bfcl:PART`` or ``tau2:PART``."""
    return name.partition(":")[0] in KINDS and ":" in name


@lru_cache(maxsize=4)
def load_world(name: str) -> World:
    """Return a world; the same object for the same name.

    Args:
        name: ``bfcl:multi_turn_base``, ``tau2:retail`` …

    Raises:
        TodBiasError: the name is unknown, or the package is not installed.
    """
    if not is_world(name):
        raise TodBiasError(f"unknown world {name!r}; expected bfcl:PART or tau2:PART, such as bfcl:multi_turn_base")
    if name.startswith("bfcl:"):
        return Bfcl(name)
    return Tau2(name)
