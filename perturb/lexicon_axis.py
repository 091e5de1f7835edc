"""Axes of terms in a lexicon: their candidates, and the rewrite T of one dialogue."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Axis, Candidate, Expressions
from tod_bias.perturb.context import entity_names
from tod_bias.perturb.lexicon import Lexicon
from tod_bias.perturb.pronouns import SUBJECT, THEY
from tod_bias.perturb.rewrite import DialogueRewrite, texts_of
from tod_bias.perturb.rewriter import Mention, Recogniser, TextRewriter, plain_form

SCOPES = ("attribute", "word")
"""What one rewrite changes: all terms of the source group, or the paradigm of the candidate's term only."""


class LexiconAxis(Axis):
    """Rewrites with a lexicon.

    The terms of K are those in what is said: user utterances, responses, and what stands beside a call. Values of API
    calls and results do not count, though they are rewritten: what they mention the speakers mention too, and most of
    them are names. A name that a call or a result holds (see :func:`~tod_bias.perturb.context.is_entity_slot`) is left
    alone everywhere.

    The default scope is ``attribute``: all terms of the source group change together. A dialogue that says "my
    wife … she" would otherwise say "my husband … she" and be another dialogue about another person. The control axis
    ``placebo`` changes one term at a time, as its terms do not speak of one person.

    Args:
        lexicon: the axis's terms.
        scope: ``attribute`` or ``word``; the lexicon's own default if not given.
        protected: phrases that are no mentions, beside those of the lexicon.
        sources: keep only candidates with these source groups.
        targets: keep only candidates with these target groups.

    Raises:
        AxisError: an unknown group or scope.
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
        self.name = lexicon.axis
        self.groups = lexicon.groups
        self.lexicon = lexicon
        self.scope = lexicon.scope if scope is None else scope
        if self.scope not in SCOPES:
            raise AxisError(f"unknown scope {scope!r}; expected one of {', '.join(SCOPES)}")
        self.sources, self.targets = self.chosen(sources), self.chosen(targets)
        self.protected = tuple(protected)
        """Phrases that are no mentions, beside those of the lexicon."""
        self._rewriters: dict[tuple[str, str, bool, bool], TextRewriter] = {}
        self._labels: dict[Candidate, tuple[str, str]] = {}

    def group(self, name: str) -> str:
        """The group of a name, by its own or an alias, in any case."""
        return self.lexicon.group(name)

    @cached_property
    def signature(self) -> str:
        """What decides the rewrites, as one line of ``key:value`` parts; the lexicon by its content."""
        choices = (self.lexicon.protected, self.protected, self.sources, self.targets, self.lexicon.distinct)
        content = repr((self.lexicon.content, choices)).encode("utf-8")
        return f"lexicon:{self.name}|hash:{hashlib.sha256(content).hexdigest()[:12]}|scope:{self.scope}"

    @cached_property
    def _recogniser(self) -> Recogniser:
        return Recogniser(self.lexicon, self.groups, protected=self.protected, strict_they=True)

    @cached_property
    def _possible(self) -> Recogniser:
        return Recogniser(self.lexicon, self.groups, written=True, protected=self.protected)

    def _rewriter(self, source: str, target: str, *, inverse: bool = False, strict_they: bool = True) -> TextRewriter:
        key = (source, target, inverse, strict_they)
        if key not in self._rewriters:
            self._rewriters[key] = TextRewriter(
                self.lexicon, source, target, protected=self.protected, inverse=inverse, strict_they=strict_they
            )
        return self._rewriters[key]

    def _inverse(self, candidate: Candidate) -> TextRewriter:
        return self._rewriter(candidate.target, candidate.source, inverse=True, strict_they=False)

    # --- terms

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """K: distinct and sorted."""
        return sorted(self._rows(dialogue))

    def _rows(self, dialogue: Dialogue) -> dict[Candidate, set[int]]:
        """K, each candidate with the paradigms in which its term stands."""
        rows: dict[Candidate, set[int]] = {}
        for _, mention in self._spoken(dialogue):
            for candidate in self._targets_of(mention):
                rows.setdefault(candidate, set()).add(mention.row)
        return rows

    def counts_of(self, dialogue: Dialogue) -> Counter[Candidate]:
        """How often the term of each candidate is said."""
        return Counter(candidate for _, mention in self._spoken(dialogue) for candidate in self._targets_of(mention))

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The clusters of a rewrite: by the term that is replaced, and by the one that replaces it.

        A paradigm's first forms stand for each other ("husband" and "wife"), whichever of them is the source, so they
        are one cluster; another form that is only rewritten ("hubby") is one of its own.
        """
        if candidate not in self._labels:
            self._labels[candidate] = self.lexicon.labels(candidate.term, candidate.source, candidate.target)
        return self._labels[candidate]

    def terms(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[Expressions]:
        """The terms that express either group: every mention that is rewritten, and what it becomes."""
        spoken = dict.fromkeys((entry.row, entry.group, entry.lexical.lower()) for _, entry in self._spoken(dialogue))
        sets = []
        for candidate in candidates:
            pairs: set[tuple[str, str]] = set()
            for row, group, term in spoken:
                if group != candidate.source or candidate.target not in self.lexicon.paradigms[row].cells:
                    continue
                if self.scope == "attribute" or term == candidate.term:
                    pairs.add(self.labels(Candidate(term, candidate.source, candidate.target)))
            source, target = zip(*(pairs or [self.labels(candidate)]), strict=True)
            sets.append(Expressions(frozenset(source), frozenset(target)))
        return sets

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """The mentions in what is said, in order: who says it (``user``, ``system``) and the group that it mentions."""
        for speaker, mention in self._spoken(dialogue):
            if mention.group in self.sources:
                yield speaker, mention.group

    def _spoken(self, dialogue: Dialogue) -> Iterator[tuple[str, Mention]]:
        said = chain.from_iterable(turn.utterances for turn in dialogue.turns)
        texts = [(speaker, text) for speaker, text in said if self._recogniser.may_mention(text)]
        if texts:
            names = self._names(dialogue)
            for speaker, text in texts:
                for mention in self._recogniser.mentions(text, names):
                    yield speaker, mention

    def _targets_of(self, mention: Mention) -> Iterator[Candidate]:
        if mention.group in self.sources:
            cells = self.lexicon.paradigms[mention.row].cells
            for target in self.targets:
                if target in cells and target != mention.group:
                    yield Candidate(mention.lexical.lower(), mention.group, target)

    def _names(self, dialogue: Dialogue) -> tuple[str, ...]:
        return entity_names(dialogue, self._possible.may_mention)

    # --- T

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """The rewrite T of this dialogue that ``candidate`` stands for.

        Raises:
            AxisError: ``candidate`` is not one of this dialogue's.
        """
        forward, rows = self._forward(dialogue, candidate)
        return dialogue_rewrite(dialogue, candidate, forward, self._inverse(candidate), rows)

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite plain texts, each on its own: every term of ``source`` becomes one of ``target``.

        Raises:
            AxisError: an unknown group, or source equal to target.
        """
        return list(map(self._rewriter(source, target, strict_they=False), texts))

    def _forward(self, dialogue: Dialogue, candidate: Candidate) -> tuple[TextRewriter, frozenset[int] | None]:
        """The rewriter within the dialogue, and the paradigms that change (None: all)."""
        rows = self._rows(dialogue).get(candidate)
        if not rows:
            raise AxisError(
                f"dialogue {dialogue.id!r} has no candidate {candidate.term!r} ({candidate.source} > "
                f"{candidate.target}) on axis {self.name!r}; take one from candidates(dialogue)"
            )
        forward = self._rewriter(candidate.source, candidate.target).within(self._names(dialogue))
        if self.lexicon.distinct:
            forms = distinct_forms(dialogue, forward, self._inverse(candidate))
            forward = forward.choosing(lambda mention, form: forms.get(plain_form(mention.lexical), form))
        return forward, frozenset(rows) if self.scope == "word" else None


def dialogue_rewrite(
    dialogue: Dialogue,
    candidate: Candidate,
    forward: TextRewriter,
    backward: TextRewriter,
    rows: frozenset[int] | None = None,
    by_model: Mapping[str, str] | None = None,
) -> DialogueRewrite:
    """The rewrite T of one dialogue by a pair of text rewriters.

    Args:
        dialogue: the original.
        candidate: which T.
        forward: rewrites a text, within the dialogue.
        backward: its inverse on unseen text.
        rows: the paradigms that change; None for all.
        by_model: texts of the dialogue that a model has rewritten, to what it wrote.
    """
    written = by_model or {}
    forward, backward = forward.only(rows), backward.within(forward.names)

    @cache
    def undoing() -> TextRewriter:
        forms = _restorable(dialogue, forward, backward, has_pronouns=rows is None)
        return backward.choosing(
            lambda mention, form: forms[key] or form if (key := mention.text.lower()) in forms else None
        )

    return DialogueRewrite(
        axis=forward.lexicon.axis,
        source=candidate.source,
        target=candidate.target,
        word=candidate.term,
        forward=lambda text: written[text] if text in written else forward(text),
        backward=lambda text: undoing()(text) if backward.recogniser.may_mention(text) else text,
    )


def _restorable(
    dialogue: Dialogue, forward: TextRewriter, backward: TextRewriter, *, has_pronouns: bool
) -> dict[str, str | None]:
    """The terms that T introduced, each to the term it stands for, with the other forms of their paradigms.

    A term that the original dialogue holds too is left out: on a string that T did not make nothing tells which of the
    two it is. Pronouns of the target join in as soon as anything was introduced, as they refer to it; "they", which
    refers to anything, does so only where T introduced it.
    """
    introduced: dict[str, str | None] = {}
    native: set[str] = set()
    paradigms: set[int] = set()
    for text in dict.fromkeys(texts_of(dialogue)):
        for mention, form in forward.mentions(text):
            introduced.setdefault(form.lower(), mention.lexical)
            paradigms.add(mention.row)
        native.update(mention.text.lower() for mention, _ in backward.mentions(text))
    if introduced and has_pronouns:
        paradigms |= _pronouns(forward)
    for row in paradigms:
        for written in forward.lexicon.paradigms[row].cells[forward.target][0]:
            introduced.setdefault(written.text.lower(), None)
    return {form: source for form, source in introduced.items() if form not in native}


def _pronouns(rewriter: TextRewriter) -> set[int]:
    """The rows of pronouns that a rewriter writes, but for "they"."""
    source, target = rewriter.source, rewriter.target
    return {
        row
        for row, paradigm in enumerate(rewriter.lexicon.paradigms)
        if paradigm.pos == "pronoun" and paradigm.cells.keys() >= {source, target}
        if paradigm.cells[target][0][SUBJECT].text != THEY
    }


def distinct_forms(dialogue: Dialogue, forward: TextRewriter, backward: TextRewriter) -> dict[str, str]:
    """A form of the target for every adjective that the dialogue holds, each another one while there are some left.

    "Indian or Chinese?" must not become "American or American?", nor "Mexican or American?". The first adjective gets
    the first form that the dialogue does not hold already, or the first of all where none is left.
    """
    texts = list(dict.fromkeys(texts_of(dialogue)))
    backward = backward.within(forward.names)
    taken = {plain_form(mention.lexical) for text in texts for mention, _ in backward.mentions(text)}
    forms: dict[str, str] = {}
    for text in texts:
        for mention, _ in forward.mentions(text):
            term, paradigm = plain_form(mention.lexical), forward.lexicon.paradigms[mention.row]
            if term in forms or paradigm.pos != "adj":
                continue
            choices = [alternative[0].text for alternative in paradigm.cells[forward.target]]
            form = next((choice for choice in choices if plain_form(choice) not in taken), choices[0])
            taken.add(plain_form(form))
            forms[term] = form
    return forms
