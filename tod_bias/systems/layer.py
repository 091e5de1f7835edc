"""Layers: components that stand before another one, ask it otherwise, and make their answer of what it answered.

A layer (a guard, say) says what it asks, and the engine asks it: so requests of a chat component are sent, counted,
kept and collected for batches as they are without the layer, and answers that were kept without it are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from tod_bias.systems.stage import Stage, StageInput


class Layered(NamedTuple):
    """What a layer asks for one question."""

    items: tuple[StageInput, ...]
    """What the component behind it is asked, one or several."""
    answer: Callable[[Sequence[Any]], Any]
    """Makes the layer's answer of the component's answers, one an item."""


class Layer(Protocol):
    """A stage before another one."""

    stage: Stage
    """The component behind it; a layer itself, or not."""

    def layered(self, item: StageInput) -> Layered:
        """What is asked for a question, and what is made of the answers."""

    def __call__(self, inputs: Sequence[StageInput], /) -> Sequence[Any]:
        """One output an input, as of any stage."""


def layer_of(stage: Any) -> Layer | None:
    """The stage as a layer; None where it is none."""
    return stage if callable(getattr(type(stage), "layered", None)) else None


def innermost(stage: Any) -> Any:
    """The component behind all layers; a stage that is none itself."""
    while (layer := layer_of(stage)) is not None:
        stage = layer.stage
    return stage
