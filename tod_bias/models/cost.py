"""Cost of generating, apart from the models, so that components in Python need none of their libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GenerationCost:
    """Cost of generating up to now."""

    prompts: int = 0
    """Prompts asked for."""
    distinct_prompts: int = 0
    """Distinct ones among them."""
    cached: int = 0
    """Distinct ones that an earlier run had computed."""
    computed: int = 0
    """Distinct ones that this run computed."""
    read: int = 0
    """Tokens of the prompts that this run computed."""
    written: int = 0
    """Tokens that they were continued with."""
