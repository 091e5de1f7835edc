"""Crossed axes: every attribute of one axis with every attribute of another, in the dialogues that admit both."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.balance import number_of, targets
from tod_bias.perturb.candidates import Arranging, Candidate, Drawn, Floored, Perturber, Referring
from tod_bias.perturb.crossed import crossed_candidates, word_labels, words_in
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.systems.twin import Rewrite

CROSS = "×"
"""Joins the names of crossed axes and attributes."""


@dataclass(frozen=True)
class Both(Candidate):
    """A candidate of each axis; None where the attribute stays."""

    first: Candidate | None = None
    second: Candidate | None = None


class ProductPerturber:
    """Rewrites along two axes at once: T = T₂ ∘ T₁; a dialect, which knows what was said as it was said, comes first.

    Args:
        first: a perturber.
        second: another one; the dialogues are those that both find something in.

    Raises:
        AxisError: an axis crossed with itself.
    """

    def __init__(self, first: Perturber, second: Perturber) -> None:
        if first.axis == second.axis:
            raise AxisError(f"axis {first.axis}{CROSS}{second.axis}: crosses an axis with itself")
        if isinstance(second, Referring) and isinstance(first, Referring):
            raise AxisError(f"axis {first.axis}{CROSS}{second.axis}: of two introductions make one axis")
        self._both = first, second
        self.axis = f"{first.axis}{CROSS}{second.axis}"
        self.factors = (first.axis, second.axis)
        """What the attributes are products of."""
        self.attributes = tuple(CROSS.join(pair) for pair in product(first.attributes, second.attributes))
        own = next((one for one in self._both if isinstance(one, Referring)), None)
        if own is not None:
            self.references = own.references
        floored = next((one for one in self._both if isinstance(one, Floored)), None)
        if floored is not None:
            place = self._both.index(floored)

            def floor(dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> Rewrite | None:
                parts = ((one.first, one.second)[place] for one in candidates if isinstance(one, Both))
                return floored.floor(dialogue, [part for part in parts if part is not None], seed)

            self.floor = floor

    @property
    def signature(self) -> str:
        """Those of both."""
        return " × ".join(str(getattr(one, "signature", one.axis)) for one in self._both)

    def arrange(
        self, dialogues: Sequence[Dialogue], *, seed: int, tellings: int | None = None, draws: int | None = None
    ) -> list[Drawn]:
        """The dialogues that both axes find something in, each told as every other pair of attributes."""
        order = sorted((0, 1), key=lambda place: not isinstance(self._both[place], Referring))
        told: list[Dialogue] = list(dialogues)
        found: dict[int, dict[str, Sequence[Candidate]]] = {}
        for place in order:  # introductions first: they make other dialogues
            drawn = _each(self._both[place], told, seed)
            found[place] = {dialogue.id: candidates for dialogue, candidates in drawn}
            told = [dialogue for dialogue, _ in drawn]
        arranged: list[Drawn] = []
        for dialogue in told:
            first, second = found[0][dialogue.id], found[1][dialogue.id]
            every = _pairs(first, second)
            source = every[0].source
            if draws is None:
                there = [source, *(one.target for one in every)]
                names = {name for name, _ in targets(there, source, len(arranged), tellings)}
                chosen = [one for one in every if one.target in names]
            else:
                drawing = random.Random(number_of(seed, self.axis, dialogue.id))
                chosen = [drawing.choice(every) for _ in range(draws)]
            arranged.append((dialogue, tuple(chosen)))
        return arranged

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """The pairs of what both find; none where one finds nothing."""
        first, second = (crossed_candidates(one, dialogue) for one in self._both)
        return sorted(_pairs(first, second)) if first and second else []

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """T = T₂ ∘ T₁.

        Raises:
            AxisError: the candidate is none of the dialogue's.
        """
        if not isinstance(candidate, Both):
            raise AxisError(
                f"axis {self.axis}: {candidate} is no pair of candidates; take one from candidates(dialogue)"
            )
        both = zip(self._both, (candidate.first, candidate.second), strict=True)
        ordered = sorted(both, key=lambda pair: not getattr(pair[0], "reads_originals", False))
        made = [one.rewrite(dialogue, part) for one, part in ordered if part is not None]

        def forward(text: str) -> str:
            for rewrite in made:
                text = rewrite(text)
            return str(text)

        def backward(text: str) -> str:
            for rewrite in reversed(made):
                text = rewrite.inverse(text)
            return str(text)

        return DialogueRewrite(self.axis, candidate.source, candidate.target, candidate.word, forward, backward)

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The words of both."""
        parts = [
            word_labels(one, part) for one, part in zip(self._both, _parts(candidate), strict=True) if part is not None
        ]
        own, other = zip(*parts, strict=True)
        return "+".join(own), "+".join(other)

    def words_in(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[frozenset[str]]:
        """All words that each rests on."""
        sets = []
        for candidate in candidates:
            names: set[str] = set()
            for one, part in zip(self._both, _parts(candidate), strict=True):
                if part is not None:
                    names |= words_in(one, dialogue, [part])[0]
            sets.append(frozenset(names))
        return sets


def _parts(candidate: Candidate) -> tuple[Candidate | None, Candidate | None]:
    return (candidate.first, candidate.second) if isinstance(candidate, Both) else (candidate, None)


def _each(perturber: Perturber, dialogues: Sequence[Dialogue], seed: int) -> list[Drawn]:
    if isinstance(perturber, Arranging):
        return perturber.arrange(dialogues, seed=seed)
    found = ((dialogue, crossed_candidates(perturber, dialogue, seed)) for dialogue in dialogues)
    return [(dialogue, candidates) for dialogue, candidates in found if candidates]


def _pairs(first: Sequence[Candidate], second: Sequence[Candidate]) -> list[Both]:
    """Every change of one, of the other, and of both."""
    found = []
    for one, other in product((None, *first), (None, *second)):
        if one is None and other is None:
            continue
        own = first[0].source, second[0].source
        there = own[0] if one is None else one.target, own[1] if other is None else other.target
        word = "+".join((first[0].word if one is None else one.word, second[0].word if other is None else other.word))
        form = "+".join(part.form for part in (one, other) if part is not None and part.form)
        found.append(Both(word, CROSS.join(own), CROSS.join(there), form, one, other))
    return found
