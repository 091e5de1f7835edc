"""Axes of terms in a lexicon: their candidates, and the rewrite T of one dialogue."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Axis, Candidate, Expressions
from tod_bias.perturb.context import entity_names
from tod_bias.perturb.dealing import Dealer
from tod_bias.perturb.english import plain_form
from tod_bias.perturb.lexicon import Form, Lexicon
from tod_bias.perturb.pronouns import SUBJECT, THEY
from tod_bias.perturb.rewrite import DialogueRewrite, texts_of
from tod_bias.perturb.rewriter import Mention, Recogniser, TextRewriter

SCOPES = ("attribute", "word")
"""Scope of one rewrite: all terms of the source group, or the paradigm of the candidate's term only."""


class LexiconAxis(Axis):
    """Rewrites with a lexicon.

    The terms of K are those in utterances: the user's messages, responses, and texts with calls. Values of API calls
    and results do not count, though they are rewritten: speakers usually mention the same things, and most values are
    names. A name that a call or a result holds (see :func:`~tod_bias.perturb.context.is_entity_slot`) is left alone
    everywhere.

    The default scope is ``attribute``: all terms of the source group change together. A dialogue that says "my
    wife … she" would otherwise say "my husband … she" and be another dialogue about another person. The control axis
    ``placebo`` changes one term at a time, as its terms do not speak of one person.

    Where a cell of the lexicon lists several terms for a group, they are dealt out evenly over the corpus: all that a
    dialogue says with the terms of one row becomes the same one. In a lexicon whose adjectives are different things
    (``@distinct``), two of them in a dialogue become two: "Indian or Chinese?" must not become "American or American?".

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
        """Phrases that never mention a group, in addition to the lexicon's."""
        self._rewriters: dict[tuple[str, str, bool, bool], TextRewriter] = {}
        self._labels: dict[tuple[str, str, str], tuple[str, str]] = {}

    def group(self, name: str) -> str:
        """The group of a name, by its own or an alias, in any case."""
        return self.lexicon.group(name)

    @cached_property
    def signature(self) -> str:
        """Identify everything that determines the rewrites, as ``key:value`` parts; the lexicon by its content."""
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
        """Return K, each candidate with the paradigms of its term."""
        rows: dict[Candidate, set[int]] = {}
        for _, mention in self._spoken(dialogue):
            for candidate in self._targets_of(mention):
                rows.setdefault(candidate, set()).add(mention.row)
        return rows

    def _rows_of(self, dialogue: Dialogue, candidate: Candidate) -> frozenset[int]:
        """Return the paradigms of a candidate's term, whatever its new form; empty if the dialogue has none."""
        return frozenset(self._rows(dialogue).get(replace(candidate, form="", other_forms=()), ()))

    def counts_of(self, dialogue: Dialogue) -> Counter[Candidate]:
        """Return how often the term of each candidate occurs."""
        return Counter(candidate for _, mention in self._spoken(dialogue) for candidate in self._targets_of(mention))

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The clusters of a rewrite: the term that is replaced ("wife", also for "wives"), and the one that replaces
        it."""
        key = candidate.term, candidate.source, candidate.target
        if key not in self._labels:
            self._labels[key] = self.lexicon.terms(*key)
        source, target = self._labels[key]
        return source, candidate.form or target

    def terms(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[Expressions]:
        """The terms that express either group: every mention that is rewritten, and what it becomes."""
        spoken = {(entry.row, entry.group, entry.lexical.lower()): entry for _, entry in self._spoken(dialogue)}
        sets = []
        for candidate in candidates:
            pairs: set[tuple[str, str]] = set()
            written = self._written(dialogue, candidate)
            for (row, group, form), mention in spoken.items():
                paradigm = self.lexicon.paradigms[row]
                if group != candidate.source or candidate.target not in paradigm.cells:
                    continue
                if self.scope == "attribute" or form == candidate.term:
                    pairs.add((paradigm.term(group, form) or form, written(mention)))
            source, target = zip(*(pairs or [self.labels(candidate)]), strict=True)
            sets.append(Expressions(frozenset(source), frozenset(target)))
        return sets

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """Yield the mentions in utterances, in order: the speaker (``user``, ``system``) and the mentioned group."""
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
        """Return the rewrite T of this dialogue for ``candidate``.

        Raises:
            AxisError: ``candidate`` is not one of this dialogue's, or its form is not a term of its target.
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
        rows = self._rows_of(dialogue, candidate)
        if not rows:
            raise AxisError(
                f"dialogue {dialogue.id!r} has no candidate {candidate.term!r} ({candidate.source} > "
                f"{candidate.target}) on axis {self.name!r}; take one from candidates(dialogue)"
            )
        listed = {term for row in rows for term in self.lexicon.paradigms[row].choices[candidate.target]}
        if candidate.form and candidate.form not in listed:
            raise AxisError(
                f"axis {self.name!r}: {candidate.form!r} is not a form for {candidate.term!r} as {candidate.target}; "
                f"the lexicon has {', '.join(sorted(listed))}"
            )
        written = self._written(dialogue, candidate)

        def choose(mention: Mention, form: str) -> str:
            choices = self.lexicon.paradigms[mention.row].choices[candidate.target]
            return choices[written(mention)][mention.slot].text

        forward = self._rewriter(candidate.source, candidate.target).within(self._names(dialogue)).choosing(choose)
        return forward, rows if self.scope == "word" else None

    # --- which terms are written

    def deal(self, dialogue: Dialogue, candidates: Sequence[Candidate], dealer: Dealer) -> tuple[Candidate, ...]:
        """The candidates with the terms that are written: one for each cell of the lexicon that the dialogue needs.

        A term that the dialogue holds already is left out, as long as there is another.
        """
        variants: Counter[str] = Counter()
        dealt = []
        for candidate in candidates:
            target = candidate.target
            cells = dict.fromkeys(
                tuple(self.lexicon.paradigms[mention.row].choices[target])
                for mention in self._rewritten(dialogue, candidate)
            )
            taken = self._held(dialogue, candidate)
            forms: list[str] = []
            for cell in cells:
                if not forms or (len(cell) > 1 and not any(form in cell for form in forms)):
                    forms.append(dealer.pick(cell, target, *cell, variant=variants[target], taken=taken))
            variants[target] += 1
            dealt.append(replace(candidate, form="".join(forms[:1]), other_forms=tuple(forms[1:])))
        return tuple(dealt)

    def _rewritten(self, dialogue: Dialogue, candidate: Candidate) -> list[Mention]:
        """The mentions that T rewrites, first those of the candidate's term, then in the order of the dialogue."""
        forward = self._rewriter(candidate.source, candidate.target).within(self._names(dialogue))
        rows = self._rows_of(dialogue, candidate)
        if self.scope == "word":
            forward = forward.only(rows)
        texts = dict.fromkeys(texts_of(dialogue))
        mentions = [mention for text in texts for mention, _ in forward.mentions(text)]
        return sorted(mentions, key=lambda held: held.lexical.lower() != candidate.term or held.row not in rows)

    def _held(self, dialogue: Dialogue, candidate: Candidate) -> set[str]:
        """The terms of the target that the dialogue holds as it is."""
        backward = self._inverse(candidate).within(self._names(dialogue))
        mentions = (mention for text in dict.fromkeys(texts_of(dialogue)) for mention, _ in backward.mentions(text))
        terms = (self.lexicon.paradigms[held.row].term(candidate.target, held.lexical) for held in mentions)
        return {term for term in terms if term is not None}

    def _written(self, dialogue: Dialogue, candidate: Candidate) -> Callable[[Mention], str]:
        """Return the function that chooses the target's term for a mention: the first of the candidate's forms in the
        cell, else the first of the cell; in a ``@distinct`` lexicon each adjective has its own term."""
        forms = [candidate.form, *candidate.other_forms]
        by_form = self._distinct(dialogue, candidate, forms) if self.lexicon.distinct else {}

        def written(mention: Mention) -> str:
            choices = self.lexicon.paradigms[mention.row].choices[candidate.target]
            some = [by_form[form]] if (form := plain_form(mention.lexical)) in by_form else forms
            return next((form for form in some if form in choices), next(iter(choices)))

        return written

    def _distinct(self, dialogue: Dialogue, candidate: Candidate, forms: Sequence[str]) -> dict[str, str]:
        """Return a term of the target for every adjective of the dialogue, all different while terms last.

        The candidate's adjective gets the dealt term. Each other adjective gets the next term of its cell that the
        dialogue does not contain, or the first one if none is left.
        """
        taken = self._held(dialogue, candidate)
        distinct: dict[str, str] = {}
        for mention in self._rewritten(dialogue, candidate):
            form, paradigm = plain_form(mention.lexical), self.lexicon.paradigms[mention.row]
            if form in distinct or paradigm.pos != "adj":
                continue
            choices = list(paradigm.choices[candidate.target])
            first = next((choices.index(form) for form in forms if form in choices), 0)
            turns = [*choices[first:], *choices[:first]]
            distinct[form] = next((choice for choice in turns if choice not in taken), turns[0])
            taken.add(distinct[form])
        return distinct


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
        by_model: texts of the dialogue → what a model makes of them, in place of ``forward``.
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
        forward=(lambda text: written[text] if text in written else forward(text)) if written else forward,
        backward=lambda text: undoing()(text) if backward.recogniser.may_mention(text) else text,
    )


def _restorable(
    dialogue: Dialogue, forward: TextRewriter, backward: TextRewriter, *, has_pronouns: bool
) -> dict[str, str | None]:
    """Return the terms that T introduced, each with the term that it replaced, and the other forms of their paradigms.

    A term that the original dialogue contains too is left out, because the two cannot be told apart in other strings.
    Pronouns of the target are included as soon as T introduced anything, because they refer to it; "they", which may
    refer to anything, is included only if T introduced it.
    """
    introduced: dict[str, str | None] = {}
    native: set[str] = set()
    terms: dict[tuple[int, str], tuple[Form, ...]] = {}
    for text in dict.fromkeys(texts_of(dialogue)):
        for mention, form in forward.mentions(text):
            introduced.setdefault(form.lower(), mention.lexical)
            paradigm = forward.lexicon.paradigms[mention.row]
            if term := paradigm.term(forward.target, form):
                terms[mention.row, term] = paradigm.choices[forward.target][term]
        native.update(mention.text.lower() for mention, _ in backward.mentions(text))
    pronouns = _pronouns(forward) if introduced and has_pronouns else ()
    for written in chain(*terms.values(), *pronouns):
        introduced.setdefault(written.text.lower(), None)
    return {form: source for form, source in introduced.items() if form not in native}


def _pronouns(rewriter: TextRewriter) -> Iterator[tuple[Form, ...]]:
    """The pronouns that a rewriter writes, but for "they"."""
    for paradigm in rewriter.lexicon.paradigms:
        if paradigm.pos == "pronoun" and paradigm.cells.keys() >= {rewriter.source, rewriter.target}:
            forms = paradigm.cells[rewriter.target][0]
            if forms[SUBJECT].text != THEY:
                yield forms
