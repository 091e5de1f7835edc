"""Axes: the base class of everything that rewrites dialogues along one demographic dimension.

An axis knows which rewrites a dialogue admits (``K`` of Su's Algorithm 1, its *candidates*), chooses among them by a
design, and makes the rewrite T of each. The result is a dialogue's :class:`Variants`: its original, and a
:class:`Counterfactual` per group.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, NamedTuple

from tod_bias.config import PLACEBO as PLACEBO
from tod_bias.config import DesignOptions
from tod_bias.dialogues.dialogue import ORIGINAL_VARIANT, Dialogue
from tod_bias.errors import AxisError
from tod_bias.io.imports import guarded
from tod_bias.perturb.dealing import Dealer, groups_of
from tod_bias.perturb.rewrite import changed_tokens
from tod_bias.systems.execution import Run
from tod_bias.systems.twin import Rewrite

Role = Literal["original", "group", "reference", "placebo"]
"""Role of a variant: the dialogue as it is, one rewritten for a group, one that expresses no group, or one whose
rewriting changes no group (the negative control)."""
PLACEBO_SOURCE = "original"
"""Group of the words that a placebo exchanges, as it is that of all its originals."""


@dataclass(frozen=True, order=True)
class Candidate:
    """One element of Su's K: a term of the dialogue and the group that it may be rewritten for."""

    term: str
    """Term as in the lexicon, in lower case."""
    source: str
    """The group that the term mentions."""
    target: str
    """Another group of the axis."""
    form: str = ""
    """New form of the term, if there is a choice, such as another name; empty: the axis decides."""
    other_forms: tuple[str, ...] = ()
    """New forms of other terms of the dialogue, if there is a choice."""


class Expressions(NamedTuple):
    """Expressions of two groups in a counterfactual and its original."""

    source: frozenset[str]
    """The terms of the dialogue's own group that are rewritten."""
    target: frozenset[str]
    """The terms of the other group that they become."""
    factors: tuple[Expressions, ...] = ()
    """Terms of each factor of a crossed axis, whose terms occur in several groups, also of a factor that stays."""


class SelectedDialogue(NamedTuple):
    """A dialogue and the candidates by which it is rewritten."""

    dialogue: Dialogue
    """The original; on an axis that brings introductions the dialogue with one."""
    candidates: Sequence[Candidate]


@dataclass(frozen=True)
class Counterfactual(Run):
    """One dialogue rewritten along one axis, or the original of such."""

    axis: str = ""
    """The axis's name."""
    group: str | None = None
    """Group that it is rewritten for; None for the original and for variants that express no group."""
    role: Role = "group"
    draw: int = field(default=0, compare=False)
    """Number of the draw of Su's Algorithm 1, from 0; 0 in the crossed design."""
    clusters: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)
    """Kind of cluster (``term``) to those that it belongs to: what a system does with one of them moves all that
    belong to it."""

    @property
    def source_id(self) -> str:
        """The id of the dialogue in the corpus."""
        return self.dialogue.id

    @cached_property
    def edits(self) -> int:
        """Number of words of the dialogue that are changed (:func:`~tod_bias.perturb.rewrite.changed_tokens`)."""
        return 0 if self.rewrite is None else changed_tokens(self.dialogue, self.rewrite)


class Edits(NamedTuple):
    """Words changed in a dialogue."""

    wanted: float
    """Mean number of words changed by the rewrites to which the placebo is matched."""
    given: int
    """Number of words changed by the placebo."""


@dataclass(frozen=True)
class Variants:
    """One dialogue with all its counterfactuals along one axis."""

    original: Counterfactual
    groups: tuple[Counterfactual, ...]
    """Rewritten for groups of the axis."""
    references: tuple[Counterfactual, ...] = ()
    """Reference variants: without an introduction, or with a neutral one; nothing is claimed of them."""
    placebo: Counterfactual | None = None
    """Placebo with as many exchanged words as the axis rewrites, none of which changes a group; None if there
    is none."""
    edits: Edits | None = None
    """Numbers of words that the counterfactuals and the placebo change; None without a placebo."""

    @property
    def rewritten(self) -> tuple[Counterfactual, ...]:
        """The groups, the references, then the placebo."""
        return (*self.groups, *self.references, *(() if self.placebo is None else (self.placebo,)))


class Axis(ABC):
    """A demographic dimension along which dialogues are rewritten.

    A new axis sets ``name`` and ``groups`` and overrides :meth:`candidates` and :meth:`rewrite`; everything
    else has a default.
    """

    name: str
    """Name of the axis, such as ``gender``."""
    groups: tuple[str, ...]
    """The values of the dimension, such as ``woman``; the order decides ties."""
    factors: tuple[str, ...] = ()
    """Factors whose product the groups are, on a crossed axis."""
    kinds: frozenset[str] = frozenset()
    """Kinds of introductions, on an axis that brings some."""
    introduces: bool = False
    """True if the originals have an introduction that the corpus's dialogues lack."""
    has_placebo: bool = False
    """True if the axis makes its own placebos (:meth:`placebo`); otherwise the matched placebo is used."""

    @property
    def signature(self) -> str:
        """Identify everything that determines the rewrites, in one line; caches and cases compare it."""
        return type(self).__name__

    # --- groups

    def group(self, name: str) -> str:
        """The group of a name; some axes know others than its own.

        Raises:
            AxisError: there is none.
        """
        if name not in self.groups:
            raise AxisError(f"axis {self.name!r} has no group {name!r}; it has {', '.join(self.groups)}")
        return name

    def chosen(self, names: Iterable[str] | None) -> tuple[str, ...]:
        """Some groups in their order; all where None.

        Raises:
            AxisError: one is unknown.
        """
        wanted = set(self.groups) if names is None else {self.group(name) for name in names}
        return tuple(group for group in self.groups if group in wanted)

    def pair(self, source: str, target: str) -> tuple[str, str]:
        """Two groups.

        Raises:
            AxisError: one is unknown, or they are the same.
        """
        pair = self.group(source), self.group(target)
        if pair[0] == pair[1]:
            raise AxisError(f"axis {self.name!r}: source and target are both {pair[0]!r}; choose two groups")
        return pair

    # --- what one dialogue admits

    @abstractmethod
    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """Su's K: distinct and sorted, the same for the same dialogue."""

    @abstractmethod
    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> Rewrite:
        """Return the rewrite T of this dialogue for a candidate.

        Raises:
            AxisError: the candidate is not one of the dialogue's.
        """

    def placebo(self, dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> Rewrite | None:
        """Return the axis's own placebo: the dialogue's term exchanged for another term of its group.

        Its source is called ``original`` and its target ``placebo``; None if the group has no other term.
        """
        return None

    def references(self, dialogue: Dialogue) -> Sequence[tuple[str, Rewrite]]:
        """Reference variants, which express no group: their names and rewrites; ``original`` is the corpus's own
        dialogue."""
        return ()

    def counts_of(self, dialogue: Dialogue) -> Counter[Candidate]:
        """Return how often the term of each candidate occurs; by default once."""
        return Counter(dict.fromkeys(self._admitted(dialogue), 1))

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The clusters that a rewrite belongs to: by the term that is replaced, and by the one that replaces it.

        Rewrites with the same label share a term, so what a system does with that term moves them together.
        """
        return candidate.term, candidate.term

    def terms(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[Expressions]:
        """The terms that express either group in each rewrite of a dialogue; at least the candidate's."""
        labels = (self.labels(candidate) for candidate in candidates)
        return [Expressions(frozenset([source]), frozenset([target])) for source, target in labels]

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """Yield the mentions in utterances, in order: the speaker (``user``, ``system``) and the mentioned group.

        Raises:
            AxisError: the axis does not count mentions.
        """
        raise AxisError(f"axis {self.name!r}: mentions are counted by lexicons, and this axis has none")

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite plain texts, each on its own.

        Raises:
            AxisError: an unknown group, source equal to target, or an axis that rewrites whole dialogues only.
        """
        raise AxisError(f"axis {self.name!r}: rewrites whole dialogues only: tod-bias export --corpus")

    # --- which counterfactuals a corpus has

    def select(
        self, dialogues: Sequence[Dialogue], *, seed: int = 0, variants: int | None = None, draws: int | None = None
    ) -> list[SelectedDialogue]:
        """Return the dialogues that can be rewritten, each with its candidates, in the corpus's order.

        An axis with several terms for a group deals them out over the corpus (:meth:`deal`). One that introduces users
        returns other dialogues than the corpus's, with the same ids.

        Args:
            dialogues: the corpus.
            seed: of all draws.
            variants: counterfactuals per dialogue; by default one for every other group. Further ones for the same
                group get further terms if there are any.
            draws: number of candidates that are drawn with replacement instead (Su, Algorithm 1).
        """
        dealer = Dealer.of(dialogues, seed, self.name)
        selected: list[SelectedDialogue] = []
        for dialogue in dialogues:
            if draws is not None:
                candidates = self.deal(dialogue, self.draw(dialogue, draws, seed), dealer)
            else:
                by_target = {candidate.target: candidate for candidate in self.crossed(dialogue, seed)}
                chosen = groups_of(tuple(by_target), "", len(selected), variants) if by_target else ()
                every = self.deal(dialogue, [by_target[target] for target, _ in chosen], dealer)
                candidates = tuple(dict.fromkeys(every))
            if candidates:
                selected.append(SelectedDialogue(dialogue, candidates))
                dealer.next_dialogue()
        return selected

    def deal(self, dialogue: Dialogue, candidates: Sequence[Candidate], dealer: Dealer) -> tuple[Candidate, ...]:
        """Return the candidates with their new terms (:attr:`Candidate.form`), if there is a choice.

        Args:
            dialogue: the original.
            candidates: its own; of two with the same target the second gets another term.
            dealer: of the corpus.
        """
        return tuple(candidates)

    def draw(self, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Candidate, ...]:
        """Independent uniform draws from K; none if K is empty.

        K holds the candidates of all turns. Algorithm 1, as it is printed, empties K at the start of every turn and
        draws after the last one, so that only words of the last turn could be drawn, and no word at all if that turn
        has none. The text of the paper collects the words of every turn, and this method follows it.

        A draw depends on the seed, the axis, the dialogue's id and the number of the draw, never on other dialogues.

        Raises:
            AxisError: ``draws`` is not positive.
        """
        if draws < 1:
            raise AxisError(f"draws must be at least 1, got {draws}")
        candidates = self._admitted(dialogue)
        if not candidates:
            return ()
        digests = (_digest(seed, self.name, dialogue.id, number)[:8] for number in range(draws))
        return tuple(random.Random(int.from_bytes(digest, "big")).choice(candidates) for digest in digests)

    def crossed(self, dialogue: Dialogue, seed: int = 0) -> tuple[Candidate, ...]:
        """One candidate per target: the rewrites of the group that a dialogue mentions most for all others.

        All groups are therefore compared on the same dialogues; with draws, a group's score also depends on the
        dialogues that drew it. If two groups are mentioned equally often, the seed and the dialogue's id decide. Among
        several terms that lead to a target, the candidate holds the most frequent one, which is the same for all its
        targets.

        Returns:
            In the order of the axis's groups; empty if nothing can be rewritten.
        """
        candidates = self._admitted(dialogue)
        if not candidates:
            return ()
        counts = self.counts_of(dialogue)
        of_term = {(candidate.source, candidate.term): counts[candidate] for candidate in candidates}
        of_source: Counter[str] = Counter()
        for (source, _), count in of_term.items():
            of_source[source] += count
        source = min(of_source, key=lambda group: (-of_source[group], _digest(seed, self.name, dialogue.id, group)))
        targets = Counter(candidate.term for candidate in candidates if candidate.source == source)
        rank = {term: (-of_term[source, term], -targets[term], term) for term in targets}
        chosen: dict[str, Candidate] = {}
        for candidate in candidates:
            best = chosen.get(candidate.target)
            if candidate.source == source and (best is None or rank[candidate.term] < rank[best.term]):
                chosen[candidate.target] = candidate
        return tuple(chosen[target] for target in self.groups if target in chosen)

    def _admitted(self, dialogue: Dialogue) -> list[Candidate]:
        """K, checked.

        Raises:
            AxisError: the axis raised something, or gives no candidates.
        """
        with guarded(f"axis {self.name!r}", AxisError):
            candidates = self.candidates(dialogue)
        if not isinstance(candidates, list | tuple) or not all(
            isinstance(candidate, Candidate) for candidate in candidates
        ):
            raise AxisError(
                f"axis {self.name!r}: expected a list of Candidates for {dialogue.id!r}, got {candidates!r:.60}"
            )
        return list(candidates)

    # --- counterfactuals

    def counterfactuals(
        self, dialogues: Sequence[Dialogue], design: DesignOptions | None = None, *, seed: int = 0
    ) -> Iterator[Variants]:
        """Every dialogue that can be rewritten, with its counterfactuals, one after the other."""
        design = DesignOptions() if design is None else design
        draws = design.draws if design.design == "draws" else None
        for selection in self.select(list(dialogues), seed=seed, variants=design.variants, draws=draws):
            yield from self.variants([selection])

    def variants(self, selections: Sequence[SelectedDialogue]) -> list[Variants]:
        """The counterfactuals of selected dialogues, without placebos."""
        return [
            self._variants(selection, rewrites)
            for selection, rewrites in zip(selections, self.rewrites_of(selections), strict=True)
        ]

    def _variants(self, selection: SelectedDialogue, rewrites: Sequence[Rewrite]) -> Variants:
        dialogue, candidates = selection
        base = f"{self.name}:{rewrites[0].source}" if self.introduces else ORIGINAL_VARIANT
        variant = partial(Counterfactual, dialogue, base=base, axis=self.name)
        names, terms = variant_names(rewrites), self.terms(dialogue, candidates)
        groups = tuple(
            variant(rewrite, variant=name, group=rewrite.target, clusters={"term": some.target})
            for rewrite, name, some in zip(rewrites, names, terms, strict=True)
        )
        references = tuple(
            variant(rewrite, variant=name, role="reference") for name, rewrite in self.references(dialogue)
        )
        source = frozenset[str]().union(*(some.source for some in terms))
        return Variants(variant(variant=base, role="original", clusters={"term": source}), groups, references)

    def rewrites_of(self, selections: Sequence[SelectedDialogue]) -> list[tuple[Rewrite, ...]]:
        """T of every candidate of selected dialogues.

        Equal candidates of a dialogue share one rewrite, and with it its memory.
        """
        rewrites = []
        for dialogue, candidates in selections:
            made = {candidate: self._rewrite(dialogue, candidate) for candidate in dict.fromkeys(candidates)}
            rewrites.append(tuple(made[candidate] for candidate in candidates))
        return rewrites

    def _rewrite(self, dialogue: Dialogue, candidate: Candidate) -> Rewrite:
        with guarded(f"axis {self.name!r}", AxisError):
            rewrite = self.rewrite(dialogue, candidate)
        if not callable(rewrite):
            raise AxisError(f"axis {self.name!r}: expected a rewrite of {dialogue.id!r}, got {rewrite!r:.60}")
        return rewrite

    def drawn(self, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Rewrite, ...]:
        """The rewrites of one dialogue, as it is in the corpus, that Su's Algorithm 1 draws.

        Raises:
            AxisError: ``draws`` is not positive.
        """
        dealer = Dealer.of([dialogue], seed, self.name)
        candidates = self.deal(dialogue, self.draw(dialogue, draws, seed), dealer)
        return self.rewrites_of([SelectedDialogue(dialogue, candidates)])[0]


def draw_rewrites(axis: Axis, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Rewrite, ...]:
    """The rewrites of one dialogue that Su's Algorithm 1 draws (:meth:`Axis.drawn`)."""
    return axis.drawn(dialogue, draws, seed)


def variant_names(rewrites: Sequence[Rewrite]) -> list[str]:
    """The names of a dialogue's counterfactuals, ``gender:woman``; numbered where several have one target."""
    targets = [rewrite.target for rewrite in rewrites]
    return [
        f"{rewrite.axis}:{rewrite.target}" + (f"#{number}" if targets.count(rewrite.target) > 1 else "")
        for number, rewrite in enumerate(rewrites)
    ]


def _digest(*parts: object) -> bytes:
    """A hash of some texts and numbers."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
