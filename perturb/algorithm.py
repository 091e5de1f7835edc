"""Su's Algorithm 1: which rewrites a dialogue admits, and seeded draws among them.

``K``, the set of candidates, holds every (word, target attribute) for the lexicon words of a dialogue. A draw takes
one of them uniformly and rewrites every string of the dialogue with it: utterances, API-call values, API results and
gold responses.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

from tod_bias.dialogues.dialogue import API_NAME, Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.entities import entity_names
from tod_bias.perturb.lexicon import Lexicon, load_lexicon
from tod_bias.perturb.pronouns import SUBJECT
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.perturb.rewriter import ChosenForms, Mention, Recogniser, TextRewriter, plain_form
from tod_bias.systems.twin import Rewrite

PLACEBO = "placebo"
"""The control axis."""
SCOPES = ("attribute", "word")
"""What one rewrite changes: all words of the source attribute, or the paradigm of the drawn word only."""


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


class LexiconPerturber:
    """Rewrites with a lexicon.

    The words of K are those in user utterances and responses. Values of API calls and results do not count, though
    they are rewritten: what they mention the speakers mention too, and most of them are names. A name that a call or
    a result holds (see :func:`~tod_bias.perturb.entities.is_entity_slot`) is left alone everywhere.

    The default scope is ``attribute``: all words of the source attribute change together. A dialogue that says "my
    wife … she" would otherwise say "my husband … she" and be another dialogue about another person. The control axis
    ``placebo`` changes one word at a time, as its words do not speak of one person.

    Args:
        lexicon: the axis's words.
        scope: ``attribute`` or ``word``; the lexicon's own default if not given.
        protected: phrases that are no mentions, beside those of the lexicon.
        sources: keep only candidates with these source attributes.
        targets: keep only candidates with these target attributes.

    Raises:
        AxisError: an unknown attribute or scope.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        *,
        scope: str | None = None,
        protected: Iterable[str] = (),
        sources: Iterable[str] | None = None,
        targets: Iterable[str] | None = None,
    ) -> None:
        self.axis = lexicon.axis
        self.attributes = lexicon.attributes
        self.lexicon = lexicon
        self.scope = lexicon.scope if scope is None else scope
        if self.scope not in SCOPES:
            raise AxisError(f"unknown scope {scope!r}; expected one of {', '.join(SCOPES)}")
        self.sources = _chosen(lexicon, sources)
        self.targets = _chosen(lexicon, targets)
        self._protected = tuple(protected)
        self._rewriters: dict[tuple[str, str, bool], TextRewriter] = {}

    @cached_property
    def signature(self) -> str:
        """What decides the rewrites, as one line of ``key:value`` parts; the lexicon by its content."""
        rows = [
            (row.pos, sorted(row.cells.items()), [(asked.name, sorted(asked.words)) for asked in row.context])
            for row in self.lexicon.paradigms
        ]
        choices = (self.lexicon.protected, self._protected, self.sources, self.targets, self.lexicon.distinct)
        content = repr((rows, choices)).encode("utf-8")
        return f"lexicon:{self.axis}|hash:{hashlib.sha256(content).hexdigest()[:12]}|scope:{self.scope}"

    @cached_property
    def _recogniser(self) -> Recogniser:
        return Recogniser(self.lexicon, self.attributes, protected=self._protected, strict_they=True)

    @cached_property
    def _possible(self) -> Recogniser:
        return Recogniser(self.lexicon, self.attributes, written=True, protected=self._protected)

    def _rewriter(self, source: str, target: str, *, inverse: bool = False) -> TextRewriter:
        key = (source, target, inverse)
        if key not in self._rewriters:
            self._rewriters[key] = TextRewriter(
                self.lexicon,
                source,
                target,
                protected=self._protected,
                inverse=inverse,
                strict_they=not inverse,
            )
        return self._rewriters[key]

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """K: distinct and sorted."""
        return sorted(self._candidates(dialogue))

    def _candidates(self, dialogue: Dialogue) -> dict[Candidate, set[int]]:
        """K, each candidate with the paradigms in which its word stands."""
        found: dict[Candidate, set[int]] = {}
        for _, mention in self._spoken(dialogue):
            for candidate in self._targets_of(mention):
                found.setdefault(candidate, set()).add(mention.row)
        return found

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """The mentions in what is said, in order: who says it (``user``, ``system``) and which attribute it is of."""
        for speaker, mention in self._spoken(dialogue):
            if mention.attribute in self.sources:
                yield speaker, mention.attribute

    def _spoken(self, dialogue: Dialogue) -> Iterator[tuple[str, Mention]]:
        texts = [said for turn in dialogue.turns for said in (("user", turn.user), ("system", turn.response))]
        texts = [(speaker, text) for speaker, text in texts if self._recogniser.may_mention(text)]
        if texts:
            names = self._names(dialogue)
            for speaker, text in texts:
                for mention in self._recogniser.mentions(text, names):
                    yield speaker, mention

    def _targets_of(self, mention: Mention) -> Iterator[Candidate]:
        if mention.attribute in self.sources:
            cells = self.lexicon.paradigms[mention.row].cells
            for target in self.targets:
                if target in cells and target != mention.attribute:
                    yield Candidate(mention.lexical.lower(), mention.attribute, target)

    def _names(self, dialogue: Dialogue) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entity_names(dialogue, self._possible.may_mention)))

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """The rewriting T of this dialogue that ``candidate`` stands for.

        Raises:
            AxisError: ``candidate`` is not one of this dialogue's.
        """
        forward, names, rows = self._parts(dialogue, candidate)
        backward = self._rewriter(candidate.target, candidate.source, inverse=True)
        return dialogue_rewrite(dialogue, candidate, forward, backward, names, rows)

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite plain texts, each on its own: every word of ``source`` becomes one of ``target``.

        Raises:
            AxisError: an unknown attribute, or source equal to target.
        """
        rewriter = TextRewriter(self.lexicon, source, target, protected=self._protected)
        return [rewriter(text) for text in texts]

    def _parts(
        self, dialogue: Dialogue, candidate: Candidate
    ) -> tuple[TextRewriter, tuple[str, ...], frozenset[int] | None]:
        """The rewriter, the dialogue's names, and the paradigms that change (None: all)."""
        rows = self._candidates(dialogue).get(candidate)
        if not rows:
            raise AxisError(
                f"dialogue {dialogue.id!r} has no candidate {candidate.word!r} ({candidate.source} > "
                f"{candidate.target}) on axis {self.axis!r}; take one from candidates(dialogue)"
            )
        forward, names = self._rewriter(candidate.source, candidate.target), self._names(dialogue)
        if self.lexicon.distinct:
            backward = self._rewriter(candidate.target, candidate.source, inverse=True)
            forms = _distinct_forms(dialogue, forward, backward, names)
            base = forward
            forward = ChosenForms(base, lambda mention, form: forms.get(plain_form(mention.lexical), form))
        return forward, names, frozenset(rows) if self.scope == "word" else None


def _chosen(lexicon: Lexicon, names: Iterable[str] | None) -> tuple[str, ...]:
    if names is None:
        return lexicon.attributes
    chosen = {lexicon.attribute(name) for name in names}
    return tuple(attribute for attribute in lexicon.attributes if attribute in chosen)


def dialogue_rewrite(
    dialogue: Dialogue,
    candidate: Candidate,
    forward: TextRewriter,
    backward: TextRewriter,
    names: tuple[str, ...],
    rows: frozenset[int] | None,
    made: Mapping[str, str] | None = None,
) -> DialogueRewrite:
    """The rewriting T of one dialogue by a pair of text rewriters.

    Args:
        dialogue: the original.
        candidate: which T.
        forward: rewrites a text.
        backward: its inverse on unseen text.
        names: phrases of the dialogue that are no mentions.
        rows: the paradigms that change; None for all.
        made: texts of the dialogue that something else has rewritten.
    """
    made = made or {}
    restorable: dict[str, str | None] | None = None

    def undo(text: str) -> str:
        nonlocal restorable
        if not backward.recogniser.may_mention(text):
            return text
        if restorable is None:
            restorable = _restorable(dialogue, forward, backward, names, rows)
        return backward(text, names, only=restorable)

    return DialogueRewrite(
        axis=forward.lexicon.axis,
        source=candidate.source,
        target=candidate.target,
        word=candidate.word,
        forward=lambda text: made[text] if text in made else forward(text, names, rows=rows),
        backward=undo,
    )


def _restorable(
    dialogue: Dialogue,
    forward: TextRewriter,
    backward: TextRewriter,
    names: tuple[str, ...],
    rows: frozenset[int] | None,
) -> dict[str, str | None]:
    """The words that T introduced, each to the word it stands for, with the other forms of their paradigms.

    A word that the original dialogue holds too is left out: on a string that T did not make nobody can tell which of
    the two it is. Pronouns of the target join in as soon as anything was introduced, as they refer to it; "they",
    which refers to anything, does so only where T introduced it.
    """
    introduced: dict[str, str | None] = {}
    native: set[str] = set()
    paradigms: set[int] = set()
    for text in _texts(dialogue):
        for mention, form in forward.mentions(text, names):
            if rows is None or mention.row in rows:
                introduced.setdefault(form.lower(), mention.lexical)
                paradigms.add(mention.row)
        native.update(text[found.start : found.end].lower() for found, _ in backward.mentions(text, names))
    for row, paradigm in enumerate(forward.lexicon.paradigms):
        cell = paradigm.cells.get(forward.target)
        if cell is None or forward.source not in paradigm.cells:
            continue
        is_pronoun = paradigm.pos == "pronoun" and introduced and rows is None and cell[0][SUBJECT].text != "they"
        if row in paradigms or is_pronoun:
            for written in cell[0]:
                introduced.setdefault(written.text.lower(), None)
    return {form: source for form, source in introduced.items() if form not in native}


def _distinct_forms(
    dialogue: Dialogue, forward: TextRewriter, backward: TextRewriter, names: tuple[str, ...]
) -> dict[str, str]:
    """A form of the target for every adjective that the dialogue holds, each another one while there are some left.

    "Indian or Chinese?" must not become "American or American?", nor "Mexican or American?". The first word gets the
    first form that the dialogue does not hold already, or the first of all where none is left.
    """
    texts = list(_texts(dialogue))
    taken = {plain_form(mention.lexical) for text in texts for mention, _ in backward.mentions(text, names)}
    forms: dict[str, str] = {}
    for text in texts:
        for mention, _ in forward.mentions(text, names):
            word, paradigm = plain_form(mention.lexical), forward.lexicon.paradigms[mention.row]
            if word in forms or paradigm.pos != "adj":
                continue
            choices = [alternative[0].text for alternative in paradigm.cells[forward.target]]
            form = next((choice for choice in choices if plain_form(choice) not in taken), choices[0])
            taken.add(plain_form(form))
            forms[word] = form
    return forms


def _texts(dialogue: Dialogue) -> Iterator[str]:
    seen: set[str] = set()
    for turn in dialogue.turns:
        values = [
            value for slots in (turn.api_call, *turn.api_results) for slot, value in slots.items() if slot != API_NAME
        ]
        for text in (turn.user, turn.response, *values):
            if text not in seen:
                seen.add(text)
                yield text


def draw_candidates(perturber: Perturber, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Candidate, ...]:
    """``draws`` independent uniform draws from K; none where K is empty.

    A draw depends on the seed, the axis, the dialogue's id and the number of the draw, never on other dialogues.

    Raises:
        AxisError: ``draws`` is not positive.
    """
    if draws < 1:
        raise AxisError(f"draws must be at least 1, got {draws}")
    candidates = perturber.candidates(dialogue)
    if not candidates:
        return ()
    drawn = []
    for number in range(draws):
        key = "\x1f".join((str(seed), perturber.axis, dialogue.id, str(number)))
        number_of_key = int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big")
        drawn.append(random.Random(number_of_key).choice(candidates))
    return tuple(drawn)


def rewrites_of(
    perturber: Perturber, drawn: Sequence[tuple[Dialogue, Sequence[Candidate]]]
) -> list[tuple[Rewrite, ...]]:
    """The rewrites of dialogues that were drawn; a perturber with a model (``prepare``) is asked for all at once.

    Equal draws of a dialogue share one rewrite, and with it its memory.
    """
    prepare = getattr(perturber, "prepare", None)
    if prepare is not None:
        prepare([(dialogue, candidate) for dialogue, chosen in drawn for candidate in dict.fromkeys(chosen)])
    rewrites = []
    for dialogue, chosen in drawn:
        made = {candidate: perturber.rewrite(dialogue, candidate) for candidate in dict.fromkeys(chosen)}
        rewrites.append(tuple(made[candidate] for candidate in chosen))
    return rewrites


def draw_rewrites(perturber: Perturber, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Rewrite, ...]:
    """The rewrites of one dialogue that :func:`draw_candidates` draws.

    Raises:
        AxisError: ``draws`` is not positive.
    """
    (rewrites,) = rewrites_of(perturber, [(dialogue, draw_candidates(perturber, dialogue, draws, seed))])
    return rewrites


def load_perturber(
    axis: str,
    *,
    lexicon: str | Path | None = None,
    scope: str | None = None,
    protected: Iterable[str] = (),
    sources: Iterable[str] | None = None,
    targets: Iterable[str] | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> LexiconPerturber:
    """The perturber of an axis.

    Args:
        axis: ``gender``, ``age``, ``race``, ``placebo``, another shipped axis, or any name with ``lexicon``.
        lexicon: a lexicon file that takes the place of the shipped one.
        scope: ``attribute`` or ``word``; the lexicon's own default if not given.
        protected: phrases that are no mentions.
        sources: keep only candidates with these source attributes.
        targets: keep only candidates with these target attributes.
        model: a perturber's checkpoint (:mod:`tod_bias.perturb.neural`); the axis ``placebo`` never uses it, as no
            perturber is trained on what has no demographic meaning.
        device: where the model runs; chosen where left out.

    Raises:
        AxisError: an unknown axis, attribute or scope; names the known ones.
        LexiconError: the lexicon cannot be read; names the file and the line.
        ModelError: the checkpoint cannot be loaded or is no perturber.
    """
    words = load_lexicon(axis, lexicon)
    if model is not None and axis != PLACEBO:
        from tod_bias.perturb.neural import NeuralPerturber, perturber_generator

        generator = perturber_generator(model, device)
        return NeuralPerturber(words, generator, scope=scope, protected=protected, sources=sources, targets=targets)
    return LexiconPerturber(words, scope=scope, protected=protected, sources=sources, targets=targets)


def rewrite_text(
    text: str,
    axis: str,
    source: str,
    target: str,
    *,
    lexicon: str | Path | None = None,
    protected: Sequence[str] = (),
) -> str:
    """Rewrite plain text: every word of ``source`` becomes one of ``target``.

    Raises:
        AxisError: an unknown axis or attribute, or source equal to target.
        LexiconError: the lexicon cannot be read; names the file and the line.
    """
    return text_rewriter(axis, source, target, lexicon=lexicon, protected=protected)(text)


_REWRITERS: dict[tuple[str, str, str, str | None, tuple[str, ...]], TextRewriter] = {}


def text_rewriter(
    axis: str,
    source: str,
    target: str,
    *,
    lexicon: str | Path | None = None,
    protected: Sequence[str] = (),
) -> TextRewriter:
    """The function behind :func:`rewrite_text`, for many texts; raises the same errors."""
    key = (axis, source, target, None if lexicon is None else str(lexicon), tuple(protected))
    if key not in _REWRITERS:
        words = load_lexicon(axis, lexicon)
        _REWRITERS[key] = TextRewriter(words, source, target, protected=protected)
    return _REWRITERS[key]
