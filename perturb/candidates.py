"""K of Su's Algorithm 1, the rewrites that a dialogue admits, and what finds and makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.systems.twin import Rewrite


@dataclass(frozen=True, order=True)
class Candidate:
    """One element of K: a word of the dialogue and the attribute it may be rewritten to."""

    word: str
    """The word as it stands in the lexicon, lower case."""
    source: str
    """The attribute that the word mentions."""
    target: str
    """Another attribute of the axis."""


@runtime_checkable
class Perturber(Protocol):
    """Anything that finds the candidates of a dialogue on one axis and rewrites the dialogue with one of them."""

    axis: str
    """The axis's name."""
    attributes: tuple[str, ...]
    """The axis's attributes."""

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """K: distinct and sorted, the same for the same dialogue."""

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> Rewrite:
        """The rewriting T of this dialogue that ``candidate`` stands for."""
