"""Candidates and rewrites by a lexicon."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.candidates import Candidate
from tod_bias.perturb.dialogue_rewriter import dialogue_rewrite, distinct_forms
from tod_bias.perturb.entities import entity_names
from tod_bias.perturb.lexicon import Lexicon
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.perturb.rewriter import ChosenForms, Mention, Recogniser, TextRewriter, plain_form

SCOPES = ("attribute", "word")
"""What one rewrite changes: all words of the source attribute, or the paradigm of the drawn word only."""


class LexiconPerturber:
    """Rewrites with a lexicon.

    The words of K are those in what is said: user utterances, responses, and what stands beside a call. Values of API
    calls and results do not count, though they are rewritten: what they mention the speakers mention too, and most of
    them are names. A name that a call or a result holds (see :func:`~tod_bias.perturb.entities.is_entity_slot`) is left
    alone everywhere.

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
        self._labels: dict[Candidate, tuple[str, str]] = {}

    @property
    def protected(self) -> tuple[str, ...]:
        """Phrases that are no mentions, beside those of the lexicon."""
        return self._protected

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

    def counts_of(self, dialogue: Dialogue) -> Counter[Candidate]:
        """How often the word of each candidate is said."""
        return Counter(candidate for _, mention in self._spoken(dialogue) for candidate in self._targets_of(mention))

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The words that a rewrite rests on, as names of clusters: what is rewritten, and what it becomes.

        A paradigm's first forms stand for each other ("husband" and "wife"), whichever of them is the source, so they
        are one cluster; another form that is only rewritten ("hubby") is one of its own.
        """
        if candidate not in self._labels:
            self._labels[candidate] = self.lexicon.labels(candidate.word, candidate.source, candidate.target)
        return self._labels[candidate]

    def words_in(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[frozenset[str]]:
        """All words that each rewrite rests on, as names of clusters: every mention that it rewrites, and what it
        becomes."""
        found: dict[tuple[int, str, str], None] = {}
        for _, mention in self._spoken(dialogue):
            found[mention.row, mention.attribute, mention.lexical.lower()] = None
        sets = []
        for candidate in candidates:
            names: set[str] = set()
            for row, attribute, word in found:
                if attribute != candidate.source or candidate.target not in self.lexicon.paradigms[row].cells:
                    continue
                if self.scope == "attribute" or word == candidate.word:
                    names.update(self.labels(Candidate(word, candidate.source, candidate.target)))
            sets.append(frozenset(names) or frozenset(self.labels(candidate)))
        return sets

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """The mentions in what is said, in order: who says it (``user``, ``system``) and which attribute it is of."""
        for speaker, mention in self._spoken(dialogue):
            if mention.attribute in self.sources:
                yield speaker, mention.attribute

    def _spoken(self, dialogue: Dialogue) -> Iterator[tuple[str, Mention]]:
        texts = [
            (speaker, text)
            for turn in dialogue.turns
            for speaker, text in turn.utterances
            if self._recogniser.may_mention(text)
        ]
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
            forms = distinct_forms(dialogue, forward, backward, names)
            base = forward
            forward = ChosenForms(base, lambda mention, form: forms.get(plain_form(mention.lexical), form))
        return forward, names, frozenset(rows) if self.scope == "word" else None


def _chosen(lexicon: Lexicon, names: Iterable[str] | None) -> tuple[str, ...]:
    if names is None:
        return lexicon.attributes
    chosen = {lexicon.attribute(name) for name in names}
    return tuple(attribute for attribute in lexicon.attributes if attribute in chosen)
