"""K of Su's Algorithm 1, the rewrites that a dialogue admits, and what finds and makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.imports import guarded
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
    form: str = ""
    """What the word becomes, where there is a choice, such as another name; empty: the rewriter decides."""


Drawn = tuple[Dialogue, Sequence[Candidate]]
"""A dialogue and the rewrites that it is told under."""


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


@runtime_checkable
class Arranging(Protocol):
    """A perturber with many forms for an attribute (names, introductions), which it deals out over a corpus."""

    def arrange(
        self, dialogues: Sequence[Dialogue], *, seed: int, tellings: int | None = None, draws: int | None = None
    ) -> list[Drawn]:
        """The dialogues that can be told otherwise, each with its tellings, in the corpus's order.

        A form meets many dialogues and a dialogue many forms (:mod:`tod_bias.perturb.balance`). The dialogues may be
        other ones than the corpus's, with the same ids: a persona's have an introduction.

        Args:
            dialogues: the corpus.
            seed: of what is dealt to whom.
            tellings: rewritten tellings a dialogue; by default one for every other attribute.
            draws: so many targets drawn with replacement (Su, Algorithm 1) instead.
        """


@runtime_checkable
class Floored(Protocol):
    """A perturber with a matched placebo of its own."""

    def floor(self, dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> Rewrite | None:
        """The matched placebo of these tellings: the dialogue's own form exchanged for another of its own attribute.

        Its source is called ``original`` and its target ``placebo``; None where there is no other form.
        """


@runtime_checkable
class Referring(Protocol):
    """A perturber whose dialogues are others than the corpus', which are told too, for comparison."""

    def references(self, dialogue: Dialogue) -> Sequence[tuple[str, Rewrite]]:
        """Tellings that are nobody's: their names, and their rewrites; ``original`` is the corpus' own dialogue."""


def candidates_of(perturber: Perturber, dialogue: Dialogue) -> list[Candidate]:
    """K of a dialogue, of whatever perturber.

    Raises:
        AxisError: the perturber raised something, or gives no candidates.
    """
    with guarded(f"axis {perturber.axis!r}", AxisError):
        found = perturber.candidates(dialogue)
    if not isinstance(found, list | tuple) or not all(isinstance(one, Candidate) for one in found):
        raise AxisError(
            f"axis {perturber.axis!r}: expected a list of Candidates for {dialogue.id!r}, got {found!r:.60}"
        )
    return list(found)


def rewrite_of(perturber: Perturber, dialogue: Dialogue, candidate: Candidate) -> Rewrite:
    """The rewriting of a dialogue that a candidate stands for, by whatever perturber.

    Raises:
        AxisError: the perturber raised something, or what it gives cannot rewrite.
    """
    with guarded(f"axis {perturber.axis!r}", AxisError):
        found = perturber.rewrite(dialogue, candidate)
    if not callable(found):
        raise AxisError(f"axis {perturber.axis!r}: expected a rewrite of {dialogue.id!r}, got {found!r:.60}")
    return found
