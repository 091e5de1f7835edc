"""How often another precision than float32 gives another text: a random sample of a run's prompts, decoded again."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from tod_bias.models.settings import Dtype

SIZE = 64
"""Prompts in the sample."""
MOST_WEIGHTS = 2_000_000_000
"""A model with more is not loaded once more in float32."""
REFERENCE: Dtype = "float32"


@dataclass
class PromptSample:
    """Those of the prompts seen that have the smallest keys.

    A key is a hash of the prompt, so the sample is random, and the same in whatever order prompts come.
    """

    prompts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key to the prompt and its text."""

    def add(self, keys: Iterable[tuple[str, str]], texts: dict[str, str]) -> None:
        """See more prompts."""
        for prompt, key in keys:
            self.prompts[key] = prompt, texts[key]
        if len(self.prompts) > SIZE:
            self.prompts = {key: self.prompts[key] for key in heapq.nsmallest(SIZE, self.prompts)}


@dataclass(frozen=True)
class Agreement:
    """What a precision changes."""

    model: str
    """The checkpoint's name."""
    dtype: str
    """The precision."""
    prompts: int
    """In the sample."""
    differ: int
    """Prompts among them whose text is another than in float32."""
