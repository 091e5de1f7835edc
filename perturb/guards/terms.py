"""The reference form of texts on an axis of terms, and the way back: what its guards use.

The reference form R of a text has the reference group's form in the place of every term, as the axis's own rewriter
would write it. A guard is exact on a text where R is the same for every rewrite T of it. That is no property of the
lexicon, as T may lead from one row to another: so every text is rewritten for every group, and what comes out is
compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import permutations
from typing import Any, NamedTuple

from tod_bias.errors import AxisError
from tod_bias.perturb.context import entity_names, is_entity_slot, phrase_spans
from tod_bias.perturb.english import plain_form, replaced
from tod_bias.perturb.guards.inputs import Change, ReferenceInput, dialogue_of
from tod_bias.perturb.lexicon import Form, Lexicon
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.pronouns import DETERMINER, OBJECT, POSSESSIVE, REFLEXIVE, SUBJECT, THEY, is_misspelt, role
from tod_bias.perturb.rewriter import Choose, Mention, Recogniser, TextRewriter
from tod_bias.systems.outputs import Lookup
from tod_bias.systems.stage import StageInput

_OTHERS = re.compile(r"\b(?:him|her|them|his|their|hers|theirs)\b", re.IGNORECASE)
_SEEN = 60
"""Characters on both sides by which a term of an output is recognised as one of the input."""
_QUOTED = 16
"""So many of them, and the output quotes the input."""


class ReferenceTerm(NamedTuple):
    """A term of a text in its reference form."""

    mention: Mention
    """Where it stands in the reference form, and which group it mentions in the text."""
    form: str
    """The reference form, as the lexicon writes it."""
    old: str
    """What stands there in the text."""
    is_rewritten: bool = True
    """Whether every T rewrites it; not so a subject that is a misspelt article ("at he moment")."""


class ReferenceText(NamedTuple):
    """A text in its reference form."""

    text: str
    terms: tuple[ReferenceTerm, ...] = ()
    """From left to right."""


class _AnyTerm(Recogniser):
    """Finds the terms of all groups, mentions and what T may have written alike."""

    def __init__(self, axis: LexiconAxis) -> None:
        lexicon = axis.lexicon
        super().__init__(lexicon, lexicon.groups, written=True, protected=axis.protected)
        unguarded = {(row, slot) for row, slot, form in lexicon.forms() if form.lower() in lexicon.unguarded}
        for key, entries in self._entries.items():
            self._entries[key] = [entry for entry in entries if (entry.row, entry.slot) not in unguarded]
        self.phrases = tuple(phrase for phrase, _ in self._protected)

    def slot(self, text: str, mention: Mention) -> int:
        """Which form stands there; of a pronoun whatever it is now: "him" and "his" both become "her"."""
        start, end = mention.start, mention.end
        if self.lexicon.paradigms[mention.row].pos != "pronoun":
            return mention.slot
        slots = {entry.slot for entry in self._entries.get(plain_form(mention.text), ())}
        if slots <= {SUBJECT, REFLEXIVE}:
            return min(slots)
        before, after = _OTHERS.sub("her", text[:start]), _OTHERS.sub("her", text[end:])
        alone, start = before + "her" + after, len(before)
        if role(alone, start, start + 3, frozenset([DETERMINER, POSSESSIVE])) == POSSESSIVE:
            return OBJECT if OBJECT in slots else POSSESSIVE
        return role(alone, start, start + 3, frozenset([OBJECT, DETERMINER]))

    def _counts_protected(self, text: str, mention: Mention, protected: Iterable[str]) -> bool:
        """A phrase protects a term only where it protects all that T makes of it: no "big sister" is protected, so that
        a "big brother" may be one. Phrases of both ("he or she") always do, as no T makes one of anything else."""
        start, end = mention.start, mention.end
        around = text[max(0, start - 30) : end + 30].lower()
        lower = (phrase.lower() for phrase in self.phrases)
        if any(len(self._pattern.findall(phrase)) > 1 for phrase in lower if phrase in around):
            return False
        cells = [cell for group, cell in self.lexicon.paradigms[mention.row].cells.items() if group != mention.group]
        others = [forms[mention.slot] for cell in cells for forms in cell if forms[mention.slot].mention]
        return not all(_is_within(text, start, end, other.text, self.phrases) for other in others)


class _GroupWriter(TextRewriter):
    """Writes the terms of one group in the places of others.

    Args:
        lexicon: the axis's terms.
        group: whose terms are written.
        as_given: write every term as it is given; else in the capitals of what stands there, but for rows whose terms
            have capitals of their own ("black", "Hispanic").
    """

    def __init__(self, lexicon: Lexicon, group: str, *, as_given: bool = False) -> None:
        self.lexicon, self.target, self._as_given = lexicon, group, as_given

    def cased(self, text: str, mention: Mention, form: str) -> str:
        """A form in the capitals of what it replaces."""
        old = mention.text
        is_shouted = old.isupper() and len(old) > 1
        if self._as_given or (not is_shouted and (mention.row, mention.slot) in self.lexicon.mixed_capitals):
            return form
        if is_shouted:
            return form.upper()
        return form[:1].upper() + form[1:] if old[:1].isupper() else form.lower()


class ReferenceRewriter:
    """Rewrites the terms of all groups to their reference forms, and back.

    Args:
        axis: with a lexicon.
        reference: the group that everybody is rewritten to; by default what the lexicon says (``@reference``), else the
            one whose pronoun is "they", else the one with the fewest terms.

    Raises:
        AxisError: no such group, or one that not every pronoun can be rewritten to.
    """

    def __init__(self, axis: LexiconAxis, reference: str | None = None) -> None:
        lexicon = self.lexicon = axis.lexicon
        plural = _group_of_they(lexicon)
        self.target = _default(lexicon, plural) if reference is None else lexicon.group(reference)
        if plural and self.target != plural:
            raise AxisError(
                f"axis {lexicon.axis!r}: the reference group is {plural!r}, as every pronoun can become {THEY!r} only; "
                f"got {reference!r}"
            )
        self._terms = _AnyTerm(axis)
        self._mentions = Recogniser(lexicon, lexicon.groups, protected=axis.protected, strict_they=True)
        self._rewriters = [
            TextRewriter(lexicon, source, target, protected=axis.protected, strict_they=True).choosing(choose)
            for source, target in permutations(lexicon.groups, 2)
            for choose in _every_term(lexicon, target)
        ]

    def reference(self, text: str) -> ReferenceText:
        """A text in its reference form."""
        return _reference(self, text)

    def uncovered(self, text: str) -> int:
        """How many mentions of a text become a term with another reference form; 0 where R(T x) = R(x) for every T."""
        return _uncovered(self, text)

    def form(self, row: int, slot: int) -> str:
        """What a row has for the reference group, or for the first group that it has a term for."""
        cells = self.lexicon.paradigms[row].cells
        group = next(name for name in (self.target, *self.lexicon.groups) if name in cells)
        return cells[group][0][slot].text

    def terms(self, text: str) -> list[Mention]:
        """The terms of a text."""
        return [mention._replace(slot=self._terms.slot(text, mention)) for mention in self._terms.mentions(text)]

    def is_rewritten(self, text: str, mention: Mention) -> bool:
        """Whether T rewrites a term, whichever stands there: no slip ("at he moment"), and no protected phrase ("Big
        Brother") with any of them."""
        start, end = mention.start, mention.end
        paradigm = self.lexicon.paradigms[mention.row]
        if paradigm.pos == "pronoun":
            return mention.slot != SUBJECT or not is_misspelt(text[:start] + "he" + text[end:], start, start + 2)
        terms = {forms[mention.slot].text for cell in paradigm.cells.values() for forms in cell}
        phrases = [phrase for phrase in self._terms.phrases if any(term in phrase.lower() for term in terms)]
        return not any(_is_within(text, start, end, term, phrases) for term in (terms if phrases else ()))

    # --- the way back

    def back(self, output: ReferenceText, known: Sequence[ReferenceText]) -> tuple[str, int]:
        """A reference form as the input says it, and how many of its terms the input does not say.

        Every term is the one that stands in the input between the most like characters, among those with its reference
        form. Where the input has none, it is of the group that is mentioned first, if every T would rewrite it so; else
        it stays.

        Args:
            output: the output's text, in its reference form.
            known: the texts of the input, in theirs.
        """
        chosen = []
        for term in output.terms:
            held = self._nearest(term, output.text, known)
            chosen.append(self._first(term, known) if held is None else self._as(term, held))
        return self._written(output, chosen), sum(form is None for _, form in chosen)

    def written_for(self, text: str, group: str) -> str:
        """A text in its reference form, whatever it was before, with everybody of one group."""
        reference = self.reference(text)
        return self._written(reference, [(group, self._form_of(term, group)) for term in reference.terms])

    def masked(self, reference: ReferenceText, mask: str) -> str:
        """A reference form with ``mask`` in the place of every term."""
        return self._written(reference, [(self.target, mask)] * len(reference.terms), is_mask=True)

    def _written(
        self, reference: ReferenceText, chosen: Sequence[tuple[str, str | None]], is_mask: bool = False
    ) -> str:
        """A reference form with other terms, each of a group, and what agrees with them; None: a term stays."""
        places: dict[tuple[int, int], str] = {}
        agreeing: dict[tuple[int, int], str] = {}
        for term, (group, form) in zip(reference.terms, chosen, strict=True):
            if form is not None:
                writer = _GroupWriter(self.lexicon, group, as_given=is_mask)
                mention = term.mention._replace(group=self.target)
                changes = writer.changes(reference.text, [(mention, form)])
                place = term.mention.start, term.mention.end
                places[place] = changes.pop(place)
                agreeing |= changes
        for (start, end), new in agreeing.items():
            if not any(start < last and first < end for first, last in places):
                places[start, end] = new
        return replaced(reference.text, places)[0]

    def _is_pronoun(self, term: ReferenceTerm) -> bool:
        return self.lexicon.paradigms[term.mention.row].pos == "pronoun"

    def _is_related(self, term: ReferenceTerm, other: ReferenceTerm) -> bool:
        """Whether two terms are forms of one word in their reference forms: "wife" and "husbands"."""
        rows = term.mention.row, other.mention.row
        return rows[0] == rows[1] or (
            self._is_pronoun(term) == self._is_pronoun(other)
            and plain_form(self.form(rows[0], 0)) == plain_form(self.form(rows[1], 0))
        )

    def _nearest(self, term: ReferenceTerm, text: str, known: Sequence[ReferenceText]) -> ReferenceTerm | None:
        best: tuple[tuple[bool, int], ReferenceTerm] | None = None
        is_pronoun = self._is_pronoun(term)
        for reference in known:
            for other in reference.terms:
                same = _is_same(other, term)
                if not same and not self._is_related(term, other):
                    continue
                common = _alike(text, term, reference.text, other)
                if not other.is_rewritten and (is_pronoun or not same) and common < _QUOTED:
                    continue
                score = (same or is_pronoun, common)
                if best is None or score > best[0]:
                    best = (score, other)
        return None if best is None else best[1]

    def _as(self, term: ReferenceTerm, held: ReferenceTerm) -> tuple[str, str | None]:
        """The group and the term of the input that a term of an output stands for."""
        group = held.mention.group
        if _is_same(held, term) and not self._is_pronoun(term):
            return group, held.old
        return group, self._form_of(term, group, held.mention.row)

    def _form_of(self, term: ReferenceTerm, group: str, row: int | None = None) -> str | None:
        """The term of a group in the place of another one; best one of a given row."""
        slot = term.mention.slot
        for number in (term.mention.row if row is None else row, term.mention.row):
            cell = self.lexicon.paradigms[number].cells.get(group)
            if cell is not None and slot < len(cell[0]):
                return cell[0][slot].text
        return None

    def _first(self, term: ReferenceTerm, known: Sequence[ReferenceText]) -> tuple[str, str | None]:
        """The group that is mentioned first among terms that every T rewrites, and its term."""
        row = self._complete.get(plain_form(term.form))
        for reference in known if row is not None else ():
            for other in reference.terms:
                if other.is_rewritten and plain_form(other.form) in self._complete:
                    return other.mention.group, self._form_of(term, other.mention.group, row)
        return "", None

    @cached_property
    def _complete(self) -> dict[str, int]:
        """Reference forms that T rewrites from any group to any other, and the row by which it does."""
        rows: dict[str, int] = {}
        for row, paradigm in enumerate(self.lexicon.paradigms):
            if paradigm.pos != "pronoun" and len(paradigm.cells) == len(self.lexicon.groups):
                for slot, forms in enumerate(zip(*(cell[0] for cell in paradigm.cells.values()), strict=True)):
                    if all(form.mention for form in forms):
                        rows.setdefault(plain_form(self.form(row, slot)), row)
        return rows


def _every_term(lexicon: Lexicon, target: str) -> Iterator[Choose]:
    """Choices by which a rewriter writes all terms that T may deal: the first of every row, the second, and so on."""
    rows = [list(row.choices[target].values()) if target in row.choices else [] for row in lexicon.paradigms]
    for number in range(max(map(len, rows))):
        yield partial(_numbered, rows, number)


def _numbered(rows: Sequence[Sequence[tuple[Form, ...]]], number: int, mention: Mention, form: str) -> str:
    terms = rows[mention.row]
    return terms[number % len(terms)][mention.slot].text


@lru_cache(maxsize=1 << 17)
def _reference(rewriter: ReferenceRewriter, text: str) -> ReferenceText:
    changes = [(mention, rewriter.form(mention.row, mention.slot)) for mention in rewriter.terms(text)]
    if not changes:
        return ReferenceText(text)
    written, spans = replaced(text, _GroupWriter(rewriter.lexicon, rewriter.target).changes(text, changes))
    terms = []
    for mention, form in changes:
        if (mention.start, mention.end) in spans:  # else it agrees with another term
            start, end = spans[mention.start, mention.end]
            moved = mention._replace(start=start, end=end, text=written[start:end])
            terms.append(ReferenceTerm(moved, form, mention.text, rewriter.is_rewritten(text, mention)))
    return ReferenceText(written, tuple(terms))


@lru_cache(maxsize=1 << 17)
def _uncovered(rewriter: ReferenceRewriter, text: str) -> int:
    mentions = list(rewriter._mentions.mentions(text))
    if not mentions:
        return 0
    terms = rewriter.terms(text)
    missed = sum(not any(term.start < held.end and held.start < term.end for term in terms) for held in mentions)
    reference = rewriter.reference(text).text
    is_exact = all(rewriter.reference(rewrite(text)).text == reference for rewrite in rewriter._rewriters)
    return missed or (0 if is_exact else len(mentions))


class TermsInput(ReferenceInput):
    """One input on an axis of terms."""

    def __init__(self, rewriter: ReferenceRewriter, given: StageInput) -> None:
        self._rewriter = rewriter
        super().__init__(given)
        references = [rewriter.reference(text) for text in self.texts]
        self._known = tuple(dict.fromkeys(reference for reference in references if reference.terms))
        self._sources = {
            reference.text: text for reference, text in zip(references[::-1], self.texts[::-1], strict=True)
        }
        self.mentions = sum(len(reference.terms) for reference in references)
        self.uncovered = sum(map(rewriter.uncovered, self.texts))

    def reference(self, text: str) -> str:
        """A text in its reference form."""
        return self._rewriter.reference(text).text

    @cached_property
    def _outside_names(self) -> tuple[ReferenceText, ...]:
        """The input's texts with mentions; those in names of things are none, as T leaves them."""
        if not self._known:
            return ()
        reference = self._rewriter.reference
        names = entity_names(dialogue_of(self.given), lambda text: bool(reference(text).terms))
        return tuple(_outside(known, [self.reference(name) for name in names]) for known in self._known)

    def back(self, output: Any) -> Any:
        """The output as the input says it."""
        self._names = frozenset(_entity_values(output))
        return super().back(output)

    def restored(self, text: str) -> str:
        """A text of the output as the input says it."""
        reference = self._rewriter.reference(text)
        source = self._sources.get(text, self._sources.get(reference.text))
        if source is not None or not reference.terms:
            return text if source is None else source
        written, left = self._rewriter.back(reference, self._outside_names)
        if left and text in self._names:
            return text  # somebody's or something's name that the stage gave
        return written

    def masked(self, text: str, mask: str) -> str:
        """A text with ``mask`` in the place of every term."""
        return self._rewriter.masked(self._rewriter.reference(text), mask)

    def versions(self) -> list[tuple[Change, Change]]:
        """One for each group."""
        return [self._version(group) for group in self._rewriter.lexicon.groups]

    def _version(self, group: str) -> tuple[Change, Change]:
        sources: dict[str, str] = {}

        def written(text: str) -> str:
            reference = self.reference(text)
            image = self._rewriter.written_for(reference, group)
            sources.setdefault(image, reference)
            return image

        return written, lambda text: sources[text] if text in sources else self.reference(text)


def _outside(reference: ReferenceText, names: Sequence[str]) -> ReferenceText:
    """The text with the terms that stand in ``names`` (in their reference form) marked as not rewritten."""
    spans = phrase_spans(reference.text, reference.text.lower(), names) if names else []
    terms = tuple(
        term._replace(is_rewritten=False)
        if any(term.mention.start < end and start < term.mention.end for start, end in spans)
        else term
        for term in reference.terms
    )
    return reference._replace(terms=terms)


def _entity_values(value: Any, slot: str = "") -> Iterator[str]:
    """The names of things in an output."""
    if isinstance(value, str):
        if slot and is_entity_slot(slot):
            yield str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entity_values(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _entity_values(item, slot)
    elif isinstance(value, Lookup):
        yield from _entity_values(value.rows)


def _is_same(first: ReferenceTerm, second: ReferenceTerm) -> bool:
    return plain_form(first.form) == plain_form(second.form)


def _is_within(text: str, start: int, end: int, term: str, phrases: Sequence[str]) -> bool:
    """Whether a term in the place of what stands at ``start:end`` would be part of one of the phrases."""
    image = text[:start] + term + text[end:]
    lowered = image.lower()
    last = start + len(term)
    held = [phrase for phrase in phrases if phrase.lower() in lowered]
    return any(first < last and start < stop for first, stop in phrase_spans(image, lowered, held))


def _alike(text: str, term: ReferenceTerm, reference: str, held: ReferenceTerm) -> int:
    """How many characters beside two terms are the same."""
    (start, end), (first, last) = ((some.mention.start, some.mention.end) for some in (term, held))
    left = _common(text[max(0, start - _SEEN) : start][::-1], reference[:first][::-1])
    return left + _common(text[end : end + _SEEN], reference[last:])


def _common(first_text: str, second_text: str) -> int:
    """How many characters two texts have in common from their beginning."""
    pairs = enumerate(zip(first_text, second_text, strict=False))
    differing = (number for number, (first, second) in pairs if first != second)
    return next(differing, min(len(first_text), len(second_text)))


def _group_of_they(lexicon: Lexicon) -> str:
    """The group whose pronoun is "they"; empty where there is none."""
    pronouns = (paradigm for paradigm in lexicon.paradigms if paradigm.pos == "pronoun")
    groups = (group for pronoun in pronouns for group, cell in pronoun.cells.items() if cell[0][SUBJECT].text == THEY)
    return next(groups, "")


def _default(lexicon: Lexicon, plural: str) -> str:
    rows = (cells for paradigm in lexicon.paradigms for cells in paradigm.cells.items())
    counts = Counter(group for group, cell in rows for forms in cell for form in forms if form.mention)
    return lexicon.reference or plural or min(lexicon.groups, key=lambda group: counts[group])
