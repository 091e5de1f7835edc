"""Crossed axes: every group of one axis with every group of another, in the dialogues that admit both."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Axis, Candidate, Expressions, SelectedDialogue
from tod_bias.perturb.dealing import groups_of, number_of
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.systems.twin import Rewrite

CROSS = "×"
"""Joins the names of crossed axes and groups."""


@dataclass(frozen=True)
class CandidatePair(Candidate):
    """A candidate of each axis; None where the group stays."""

    first: Candidate | None = None
    second: Candidate | None = None
    every: tuple[tuple[Candidate, ...], tuple[Candidate, ...]] = ((), ())
    """Candidates of both axes in the dialogue, which determine the terms of a group that stays."""


class ProductAxis(Axis):
    """Rewrites along two axes at once: T = T₂ ∘ T₁.

    Args:
        first: an axis.
        second: another one; the dialogues are those that both admit.

    Raises:
        AxisError: an axis crossed with itself.
    """

    def __init__(self, first: Axis, second: Axis) -> None:
        self.name = f"{first.name}{CROSS}{second.name}"
        if first.name == second.name:
            raise AxisError(f"axis {self.name}: crosses an axis with itself")
        if first.introduces and second.introduces:
            raise AxisError(f"axis {self.name}: of two introductions make one axis")
        self.axes = first, second
        self.factors = (first.name, second.name)
        self.groups = tuple(CROSS.join(pair) for pair in product(first.groups, second.groups))
        self.introduces = first.introduces or second.introduces
        self.has_placebo = first.has_placebo or second.has_placebo

    @property
    def signature(self) -> str:
        """Return the signatures of both axes."""
        return " × ".join(axis.signature for axis in self.axes)

    def select(
        self, dialogues: Sequence[Dialogue], *, seed: int = 0, variants: int | None = None, draws: int | None = None
    ) -> list[SelectedDialogue]:
        """The dialogues that both axes admit, each rewritten for every other pair of groups."""
        admitted: list[Dialogue] = list(dialogues)
        by_axis: dict[str, dict[str, Sequence[Candidate]]] = {}
        for axis in sorted(self.axes, key=lambda axis: not axis.introduces):  # introductions make other dialogues
            selections = axis.select(admitted, seed=seed)
            by_axis[axis.name] = {dialogue.id: candidates for dialogue, candidates in selections}
            admitted = [dialogue for dialogue, _ in selections]
        selected: list[SelectedDialogue] = []
        for dialogue in admitted:
            pairs = _pairs(*(by_axis[axis.name][dialogue.id] for axis in self.axes))
            source = pairs[0].source
            if draws is None:
                every = [source, *(pair.target for pair in pairs)]
                wanted = {group for group, _ in groups_of(every, source, len(selected), variants)}
                chosen = [pair for pair in pairs if pair.target in wanted]
            else:
                drawing = random.Random(number_of(seed, self.name, dialogue.id))
                chosen = [drawing.choice(pairs) for _ in range(draws)]
            selected.append(SelectedDialogue(dialogue, tuple(chosen)))
        return selected

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """Return the pairs of both axes' candidates; empty if one axis has none."""
        first, second = (axis.crossed(dialogue) for axis in self.axes)
        return sorted(_pairs(first, second)) if first and second else []

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """T = T₂ ∘ T₁.

        Raises:
            AxisError: the candidate is none of the dialogue's.
        """
        if not isinstance(candidate, CandidatePair):
            raise AxisError(
                f"axis {self.name}: {candidate} is not a pair of candidates; take one from candidates(dialogue)"
            )
        rewrites = [axis.rewrite(dialogue, part) for axis, part in self._each(candidate)]

        def forward(text: str) -> str:
            for rewrite in rewrites:
                text = rewrite(text)
            return str(text)

        def backward(text: str) -> str:
            for rewrite in reversed(rewrites):
                text = rewrite.inverse(text)
            return str(text)

        return DialogueRewrite(self.name, candidate.source, candidate.target, candidate.term, forward, backward)

    def placebo(self, dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> Rewrite | None:
        """Return the placebo of the first axis that makes its own."""
        maker = next(axis for axis in self.axes if axis.has_placebo)
        parts = [part for candidate in candidates for axis, part in self._each(candidate) if axis is maker]
        return maker.placebo(dialogue, parts, seed)

    def references(self, dialogue: Dialogue) -> Sequence[tuple[str, Rewrite]]:
        """Return the reference variants of the axis that introduces."""
        return next((axis.references(dialogue) for axis in self.axes if axis.introduces), ())

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The terms of both."""
        labels = [axis.labels(part) for axis, part in self._each(candidate)]
        return "+".join(label for label, _ in labels), "+".join(label for _, label in labels)

    def terms(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[Expressions]:
        """The terms of both, those of a group that stays among them: the system sees them as well."""
        of_first, of_second = (self._terms_of_factor(dialogue, candidates, place) for place in range(2))
        return [
            Expressions(first.source | second.source, first.target | second.target, (first, second))
            for first, second in zip(of_first, of_second, strict=True)
        ]

    def _terms_of_factor(self, dialogue: Dialogue, candidates: Sequence[Candidate], place: int) -> list[Expressions]:
        """The terms of one axis in each candidate; where its group stays, source and target are the same."""
        parts = [_parts(candidate)[place] for candidate in candidates]
        listed = [some.every[place] for some in candidates if isinstance(some, CandidatePair)]
        every = list(dict.fromkeys(some for some in (*chain(*listed), *parts) if some is not None))
        known = dict(zip(every, self.axes[place].terms(dialogue, every), strict=True))
        stays = frozenset[str]().union(*(some.source for some in known.values()))
        return [Expressions(stays, stays) if part is None else known[part] for part in parts]

    def _each(self, candidate: Candidate) -> list[tuple[Axis, Candidate]]:
        """The axes along which a candidate rewrites, each with its part of it."""
        return [(axis, part) for axis, part in zip(self.axes, _parts(candidate), strict=True) if part is not None]


def _parts(candidate: Candidate) -> tuple[Candidate | None, Candidate | None]:
    """Return the changes of a candidate along either axis."""
    return (candidate.first, candidate.second) if isinstance(candidate, CandidatePair) else (candidate, None)


def _pairs(first: Sequence[Candidate], second: Sequence[Candidate]) -> list[CandidatePair]:
    """Every change along one axis, along the other, and along both."""
    sources = first[0].source, second[0].source
    terms, every = (first[0].term, second[0].term), (tuple(first), tuple(second))
    pairs = []
    for parts in product((None, *first), (None, *second)):
        if parts == (None, None):
            continue
        targets = [source if part is None else part.target for part, source in zip(parts, sources, strict=True)]
        term = "+".join(term if part is None else part.term for part, term in zip(parts, terms, strict=True))
        form = "+".join(part.form for part in parts if part is not None and part.form)
        pairs.append(
            CandidatePair(
                term, CROSS.join(sources), CROSS.join(targets), form, first=parts[0], second=parts[1], every=every
            )
        )
    return pairs
