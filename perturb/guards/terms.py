"""The reference form of texts on an axis with a lexicon, and the way back: what its guards use.

The rewriting is the axis's own (:class:`~tod_bias.perturb.rewriter.TextRewriter`), from all groups at once to the
reference group. A guard is exact where the reference form R is the same for a text x and for every T x. A rewrite T
takes a term to another one of its row of the lexicon, and a second T that to a third, which may stand in another row
too: ``son`` and ``girl`` both become ``child``. So all terms that any T leads to and fro, where they stand, are
*linked* and have one reference form; there is no finer map that is exact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from tod_bias.errors import AxisError
from tod_bias.perturb.context import fits, in_name, phrase_spans
from tod_bias.perturb.english import previous_word
from tod_bias.perturb.lexicon import Form, Lexicon, Paradigm
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.pronouns import DETERMINER, OBJECT, POSSESSIVE, REFLEXIVE, SUBJECT, THEY, is_misspelt, role
from tod_bias.perturb.rewriter import Mention, Recogniser, TextRewriter, plain_form
from tod_bias.perturb.tables import words

_NOT_BEFORE_SUBJECT = words("not-before-subject")
_OTHERS = re.compile(r"\b(?:him|her|them|his|their|hers|theirs)\b", re.IGNORECASE)
_SEEN = 60
"""Characters on both sides by which a term of an output is recognised as one of the input."""
_QUOTED = 16
"""So many of them, and the output quotes the input."""


class Place(NamedTuple):
    """One form of one row of a lexicon."""

    row: int
    slot: int


@dataclass(frozen=True)
class LinkedTerms:
    """The terms that have one reference form."""

    places: tuple[Place, ...]
    """Where they stand in the lexicon, in its order."""
    form: str
    """The reference form."""
    terms: frozenset[str]
    """As :func:`~tod_bias.perturb.rewriter.plain_form` writes them."""
    is_pronoun: bool = False
    complete: Place | None = None
    """A row by which every T rewrites, from any group to any other; None where there is none."""
    natural: bool = False
    """Whether some have a capital and others none ("black", "Hispanic"), so that capitals say nothing."""


class ReferenceTerm(NamedTuple):
    """A term of a text in its reference form."""

    mention: Mention
    """Where it stands in the reference form."""
    linked: LinkedTerms
    old: str
    """What stands there in the text."""
    group: str
    """The group that it mentions there."""
    is_rewritten: bool = True
    """Whether every T rewrites it; not so a subject that is a misspelt article ("at he moment")."""


@dataclass(frozen=True)
class ReferenceText:
    """A text in its reference form."""

    text: str
    terms: tuple[ReferenceTerm, ...] = ()
    """From left to right."""


class _AnyTerm(Recogniser):
    """Finds the terms of all groups, mentions and what T may have written alike."""

    def __init__(self, lexicon: Lexicon, protected: Iterable[str]) -> None:
        super().__init__(lexicon, lexicon.groups, written=True, protected=protected)
        unguarded = {
            Place(row, slot) for row, _, slot, form in _forms(lexicon) if form.text.lower() in lexicon.unguarded
        }
        for key, entries in self._entries.items():
            self._entries[key] = [entry for entry in entries if Place(entry.row, entry.slot) not in unguarded]
        self.phrases = tuple(phrase for phrase, _ in self._protected)

    def entries(self, term: str) -> list[tuple[Place, str]]:
        """Where a term stands in the lexicon, and for which group; pronouns left out."""
        entries = self._entries.get(term, ())
        return [(Place(entry.row, entry.slot), entry.group) for entry in entries if not self._is_pronoun(entry.row)]

    def places(self, term: str) -> list[Place]:
        """Where a term stands in the lexicon; pronouns left out."""
        return [place for place, _ in self.entries(term)]

    def _is_pronoun(self, row: int) -> bool:
        return self.lexicon.paradigms[row].pos == "pronoun"

    def slot(self, text: str, mention: Mention) -> int:
        """Which form stands there; of a pronoun whatever it is now: "him" and "his" both become "her"."""
        start, end = mention.start, mention.end
        if not self._is_pronoun(mention.row):
            return mention.slot
        slots = {entry.slot for entry in self._entries.get(plain_form(text[start:end]), ())}
        if slots <= {SUBJECT, REFLEXIVE}:
            return min(slots)
        before, after = _OTHERS.sub("her", text[:start]), _OTHERS.sub("her", text[end:])
        alone, start = before + "her" + after, len(before)
        if role(alone, start, start + 3, frozenset([DETERMINER, POSSESSIVE])) == POSSESSIVE:
            return OBJECT if OBJECT in slots else POSSESSIVE
        return role(alone, start, start + 3, frozenset([OBJECT, DETERMINER]))

    def _entry(self, text: str, start: int, end: int, key: str) -> Any:
        entry = super()._entry(text, start, end, key)
        if entry is not None or "-" in (text[start - 1 : start], text[end : end + 1]):
            return entry
        for other in self._entries.get(key, ()):  # T may have written it where it would not look for it
            if self._is_pronoun(other.row) and not in_name(self.lexicon.paradigms[other.row], text, start, end):
                before = previous_word(text, start).text.lower().replace("’", "'")
                return None if other.slot == SUBJECT and before in _NOT_BEFORE_SUBJECT else other
        return None

    def _counts_protected(self, text: str, mention: Mention, protected: Iterable[str]) -> bool:
        """A phrase protects a term only where it protects all that T makes of it: no "big sister" is protected, so that
        a "big brother" may be one. Phrases of both ("he or she") always do, as no T makes one of anything else."""
        start, end = mention.start, mention.end
        around = text[max(0, start - 30) : end + 30].lower()
        lower = (phrase.lower() for phrase in self.phrases)
        if any(len(self._pattern.findall(phrase)) > 1 for phrase in lower if phrase in around):
            return False
        for group, cell in self.lexicon.paradigms[mention.row].cells.items():
            if group != mention.group and cell[0][mention.slot].mention:
                other = cell[0][mention.slot].text
                if not _is_within(text, start, end, other, (*self.phrases, *protected)):
                    return True
        return False


class ReferenceRewriter(TextRewriter):
    """Rewrites the terms of all groups to their reference forms.

    Args:
        axis: with a lexicon.
        reference: the group that everybody is rewritten to; by default what the lexicon says (``@reference``), else the
            one whose pronoun is "they", else the one with the fewest terms.

    Raises:
        AxisError: no such group, or one that not every pronoun can be rewritten to.
    """

    def __init__(self, axis: LexiconAxis, reference: str | None = None) -> None:
        lexicon = self.lexicon = axis.lexicon
        self.target = _default(lexicon) if reference is None else lexicon.group(reference)
        plural = _of_they(lexicon)
        if plural and self.target != plural:
            raise AxisError(
                f"axis {lexicon.axis!r}: the reference group is {plural!r}, as every pronoun can become {THEY!r} only; "
                f"got {reference!r}"
            )
        self._order = (self.target, *(name for name in lexicon.groups if name != self.target))
        self.recogniser: _AnyTerm = _AnyTerm(lexicon, axis.protected)
        self._mentions = {plain_form(form.text) for _, _, _, form in _forms(lexicon) if form.mention}
        self._capitals = {plain_form(form.text) for _, _, _, form in _forms(lexicon) if form.text[:1].isupper()}
        self._reached: dict[str, tuple[Place, ...]] = {}
        self._links: dict[tuple[str, frozenset[Place]], LinkedTerms] = {}
        self._distinct: dict[LinkedTerms, LinkedTerms] = {}
        self._every = Recogniser(lexicon, lexicon.groups, protected=axis.protected, strict_they=True)
        self._rewriters = [
            TextRewriter(lexicon, source, target, protected=axis.protected, strict_they=True)
            for source, target in permutations(lexicon.groups, 2)
        ]
        self._remember()

    def _remember(self) -> None:
        self.reference = lru_cache(maxsize=1 << 16)(self._reference)
        self.uncovered = lru_cache(maxsize=1 << 16)(self._uncovered)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("reference", "uncovered")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._remember()  # another process remembers by itself

    # --- which terms are linked

    def _linked_at(self, text: str, mention: Mention) -> LinkedTerms:
        """The terms that a term is linked to where it stands."""
        start, end = mention.start, mention.end
        key = plain_form(text[start:end])
        is_open = frozenset([Place(mention.row, mention.slot)])
        if not self._is_pronoun(mention.row):
            paradigms = self.lexicon.paradigms
            is_open = frozenset(
                place
                for place in self._reach(key)
                if fits(paradigms[place.row], place.slot, text, start, end)
                and not in_name(paradigms[place.row], text, start, end)
            )
        if (key, is_open) not in self._links:
            linked = self._pronouns(mention) if self._is_pronoun(mention.row) else self._connected(key, is_open)
            self._links[key, is_open] = self._distinct.setdefault(linked, linked)
        return self._links[key, is_open]

    def _is_pronoun(self, row: int) -> bool:
        return self.lexicon.paradigms[row].pos == "pronoun"

    def _pronouns(self, mention: Mention) -> LinkedTerms:
        place = Place(mention.row, mention.slot)
        return LinkedTerms((place,), self._written(place)[1], self._terms([place]), is_pronoun=True)

    def _terms(self, places: Iterable[Place]) -> frozenset[str]:
        """All that stands in some places, plain."""
        return frozenset(term for place in places for _, _, term in _row_forms(self.lexicon, place))

    def _reach(self, key: str) -> tuple[Place, ...]:
        """All places that could lead on from a term, whatever stands around it."""
        if key not in self._reached:
            keys, waiting, places = {key}, [key], set[Place]()
            while waiting:
                for place in self.recogniser.places(waiting.pop()):
                    if place not in places:
                        places.add(place)
                        beside = self._terms([place]) - keys
                        keys |= beside
                        waiting += beside
            self._reached[key] = tuple(sorted(places))
        return self._reached[key]

    def _connected(self, key: str, is_open: frozenset[Place]) -> LinkedTerms:
        """The terms to and from which some T leads by the places that are open."""
        edges: dict[str, dict[str, Place]] = {}
        for term in self._terms(is_open):
            for target, place in self._steps(term, is_open).items():
                edges.setdefault(term, {})[target] = place
                edges.setdefault(target, {})[term] = place
        terms, waiting, places = {key}, [key], set[Place]()
        while waiting:
            beside = edges.get(waiting.pop(), {})
            places.update(beside.values())
            waiting += beside.keys() - terms
            terms |= beside.keys()
        ordered = tuple(sorted(places))
        complete = next((place for place in ordered if self._is_complete(place, is_open)), None)
        natural = bool(terms & self._capitals and terms - self._capitals)
        return LinkedTerms(ordered, self._form(ordered, terms), frozenset(terms), complete=complete, natural=natural)

    def _steps(self, term: str, is_open: frozenset[Place]) -> dict[str, Place]:
        """Where T leads from a term: by the first open row of each group. Of adjectives that are different things T
        may write any."""
        groups: set[str] = set()
        led: dict[str, Place] = {}
        for place, group in self.recogniser.entries(term):
            if group in groups or place not in is_open:
                continue
            paradigm = self.lexicon.paradigms[place.row]
            forms = _row_forms(self.lexicon, place)
            if any(other == group and form.mention and plain == term for other, form, plain in forms):
                groups.add(group)
                every = self.lexicon.distinct and paradigm.pos == "adj"
                for other, cell in paradigm.cells.items():
                    if other != group:
                        led |= {
                            plain_form(cell_forms[place.slot].text): place
                            for cell_forms in (cell if every else cell[:1])
                        }
        return led

    def _is_complete(self, place: Place, is_open: frozenset[Place]) -> bool:
        """Whether T rewrites by this row from what it writes for any group to any other."""
        cells = self.lexicon.paradigms[place.row].cells
        written = {group: plain_form(cell[0][place.slot].text) for group, cell in cells.items()}
        return len(cells) == len(self.lexicon.groups) and all(
            self._steps(written[source], is_open).get(written[target]) == place
            for source, target in permutations(cells, 2)
        )

    def _form(self, places: Sequence[Place], terms: set[str]) -> str:
        """What is written for linked terms: for the reference group, best a form that T leaves alone."""
        if not places:
            return min(terms)
        written = [(*self._written(place), place) for place in places]
        counts = Counter(form for _, form, _ in written)
        return min(
            (rank, plain_form(form) in self._mentions, -counts[form], place, form) for rank, form, place in written
        )[-1]

    def _written(self, place: Place) -> tuple[int, str]:
        """What a row has for the reference group, or for the first group that it has a term for; and which that is."""
        cells = self.lexicon.paradigms[place.row].cells
        rank = next(rank for rank, group in enumerate(self._order) if group in cells)
        return rank, cells[self._order[rank]][0][place.slot].text

    # --- the reference form

    def mentions(self, text: str) -> Iterator[tuple[Mention, str]]:
        """Every term, with its reference form."""
        for mention in self.recogniser.mentions(text):
            mention = mention._replace(slot=self.recogniser.slot(text, mention))
            yield mention, self._linked_at(text, mention).form

    def cased(self, text: str, mention: Mention, form: str) -> str:
        """A form in the capitals of the mention; as it is written where capitals say nothing."""
        old = text[mention.start : mention.end]
        if self._linked_at(text, mention).natural and not (old.isupper() and len(old) > 1):
            return form
        return _in_capitals(form, old)

    def _reference(self, text: str) -> ReferenceText:
        """A text in its reference form."""
        chosen = list(self.mentions(text))
        if not chosen:
            return ReferenceText(text)
        edits = self.changes(text, chosen)
        written, spans = _edited(text, edits)
        terms = []
        for mention, form in chosen:
            if (mention.start, mention.end) not in spans:
                continue  # it agrees with another term
            start, end = spans[mention.start, mention.end]
            linked = self._linked_at(text, mention)
            at = mention._replace(start=start, end=end, group=self.target, lexical=form, text=written[start:end])
            terms.append(
                ReferenceTerm(at, linked, mention.text, mention.group, self._is_rewritten(text, mention, linked))
            )
        return ReferenceText(written, tuple(terms))

    def _is_rewritten(self, text: str, mention: Mention, linked: LinkedTerms) -> bool:
        """Whether T rewrites the term, whichever stands there: no slip ("at he moment"), and no protected phrase
        ("Big Brother") with any of them."""
        start, end = mention.start, mention.end
        if linked.is_pronoun:
            return mention.slot != SUBJECT or not is_misspelt(text[:start] + "he" + text[end:], start, start + 2)
        phrases = [phrase for phrase in self.recogniser.phrases if any(term in phrase.lower() for term in linked.terms)]
        return not any(_is_within(text, start, end, term, phrases) for term in (linked.terms if phrases else ()))

    def _uncovered(self, text: str) -> int:
        """How many mentions of a text become a term with another reference form; 0 where R(T x) = R(x) for every T.

        The text is rewritten for every group, as T does, and looked at: nothing is taken on trust.
        """
        if not self._every.may_mention(text):
            return 0
        mentions = list(self._every.mentions(text))
        spans = [(mention.start, mention.end) for mention in self.recogniser.mentions(text)]
        missed = sum(not any(known.start < end and start < known.end for start, end in spans) for known in mentions)
        if missed:
            return missed
        reference = self.reference(text).text
        return (
            0 if all(self.reference(rewrite(text)).text == reference for rewrite in self._rewriters) else len(mentions)
        )

    # --- the way back

    @staticmethod
    def outside(reference: ReferenceText, names: Sequence[str]) -> ReferenceText:
        """The text with the terms that stand in ``names`` (in their reference form) marked as not rewritten."""
        spans = phrase_spans(reference.text, reference.text.lower(), names) if names else []
        terms = tuple(
            term._replace(is_rewritten=False)
            if any(term.mention.start < end and start < term.mention.end for start, end in spans)
            else term
            for term in reference.terms
        )
        return replace(reference, terms=terms)

    def back(self, output: ReferenceText, known: Sequence[ReferenceText]) -> tuple[str, int]:
        """A reference form as the input says it, and how many of its terms the input does not say.

        Every term is the one that stands in the input between the most like characters, among those linked to it. Where
        the input has none, it is of the group that is mentioned first, if every T would rewrite it so; else it stays.

        Args:
            output: the output's text, in its reference form.
            known: the texts of the input, in theirs.
        """
        chosen = []
        for term in output.terms:
            held = self._nearest(term, output.text, known)
            chosen.append(self._first(term, known) if held is None else self._as(term, held))
        return self._written_as(output, chosen), sum(form is None for _, form in chosen)

    def _written_as(
        self, reference: ReferenceText, chosen: Sequence[tuple[str, str | None]], is_mask: bool = False
    ) -> str:
        """A reference form with other terms, each of a group, and what agrees with them; None: a term stays."""
        text = reference.text
        edits: dict[tuple[int, int], str] = {}
        agreeing: dict[tuple[int, int], str] = {}
        for (mention, linked, *_), (group, form) in zip(reference.terms, chosen, strict=True):
            if form is not None:
                old = text[mention.start : mention.end]
                as_written = is_mask or (linked.natural and not (old.isupper() and len(old) > 1))
                changed = _GroupWriter(self.lexicon, group, as_written).changes(text, [(mention, form)])
                edits[mention.start, mention.end] = changed.pop((mention.start, mention.end))
                agreeing |= changed
        for (start, end), new in agreeing.items():
            if not any(start < last and first < end for first, last in edits):
                edits[start, end] = new
        return _edited(text, edits)[0]

    def written_for(self, reference: ReferenceText, group: str) -> str:
        """A reference form with everybody of one group."""
        return self._written_as(reference, [(group, self._form_for(term.linked, group)) for term in reference.terms])

    def masked(self, reference: ReferenceText, mask: str) -> str:
        """A reference form with ``mask`` in the place of every term."""
        return self._written_as(reference, [(self.target, mask)] * len(reference.terms), is_mask=True)

    def _nearest(self, term: ReferenceTerm, text: str, known: Sequence[ReferenceText]) -> ReferenceTerm | None:
        best: tuple[tuple[bool, int], ReferenceTerm] | None = None
        for reference in known:
            for other in reference.terms:
                same = other.linked is term.linked
                if not same and not _share_row(term.linked, other.linked):
                    continue
                common = _alike(text, term, reference.text, other)
                if not other.is_rewritten and (term.linked.is_pronoun or not same) and common < _QUOTED:
                    continue
                score = (same or term.linked.is_pronoun, common)
                if best is None or score > best[0]:
                    best = (score, other)
        return None if best is None else best[1]

    def mixed(self, output: ReferenceText, known: Sequence[ReferenceText]) -> int:
        """How many terms of an output may mean either of several that the input tells apart by the axis alone: "spouse"
        of "wife" and "husband". Where it quotes the input, none."""
        number = 0
        for term in output.terms:
            same = [(text.text, other) for text in known for other in text.terms if other.linked is term.linked]
            if not term.linked.is_pronoun and len({plain_form(other.old) for _, other in same}) > 1:
                number += max(_alike(output.text, term, text, other) for text, other in same) < _QUOTED
        return number

    def _as(self, term: ReferenceTerm, held: ReferenceTerm) -> tuple[str, str | None]:
        """The group and the term of the input that a term of an output stands for."""
        if held.linked is term.linked and not term.linked.is_pronoun:
            return held.group, held.old
        return held.group, self._form_for(term.linked, held.group, held.linked)

    def _form_for(self, linked: LinkedTerms, group: str, nearest: LinkedTerms | None = None) -> str | None:
        """The term of a group among linked ones, best one of a row that others are linked to as well."""
        rows = {place.row for place in nearest.places} if nearest is not None else set[int]()
        for place in sorted(linked.places, key=lambda place: (place.row not in rows, place)):
            cell = self.lexicon.paradigms[place.row].cells.get(group)
            if cell is not None:
                return cell[0][place.slot].text
        return None

    def _first(self, term: ReferenceTerm, known: Sequence[ReferenceText]) -> tuple[str, str | None]:
        """The group that is mentioned first among terms that every T rewrites, and its term."""
        place = term.linked.complete
        for reference in known if place is not None else ():
            for other in reference.terms:
                if other.is_rewritten and other.linked.complete is not None:
                    assert place is not None
                    return other.group, self.lexicon.paradigms[place.row].cells[other.group][0][place.slot].text
        return "", None


class _GroupWriter(TextRewriter):
    """Writes terms of one group in the places of reference forms.

    Args:
        lexicon: the axis's terms.
        group: whose terms are written.
        as_written: whether every term stays as it is given; else it gets the capitals of what stands there.
    """

    def __init__(self, lexicon: Lexicon, group: str, as_written: bool) -> None:
        self.lexicon, self.target, self._as_written = lexicon, group, as_written

    def cased(self, text: str, mention: Mention, form: str) -> str:
        """A form in the capitals of what it replaces."""
        return form if self._as_written else _in_capitals(form, text[mention.start : mention.end])


def _in_capitals(form: str, old: str) -> str:
    if old.isupper() and len(old) > 1:
        return form.upper()
    return form[:1].upper() + form[1:] if old[:1].isupper() else form.lower()


def _forms(lexicon: Lexicon) -> Iterator[tuple[int, str, int, Form]]:
    """Every form of a lexicon: row, group, slot, form."""
    for row, paradigm in enumerate(lexicon.paradigms):
        for group, cell in paradigm.cells.items():
            for forms in cell:
                for slot, form in enumerate(forms):
                    yield row, group, slot, form


def _row_forms(lexicon: Lexicon, place: Place) -> list[tuple[str, Form, str]]:
    """The forms of a row that stand for each other: group, form, and the form plain."""
    cells = lexicon.paradigms[place.row].cells
    forms = [(group, forms_of_cell[place.slot]) for group, cell in cells.items() for forms_of_cell in cell]
    return [(group, form, plain_form(form.text)) for group, form in forms]


def _is_within(text: str, start: int, end: int, term: str, phrases: Sequence[str]) -> bool:
    """Whether a term in the place of what stands at ``start:end`` would be part of one of the phrases."""
    image = text[:start] + term + text[end:]
    lowered = image.lower()
    last = start + len(term)
    here = [phrase for phrase in phrases if phrase.lower() in lowered]
    return any(first < last and start < stop for first, stop in phrase_spans(image, lowered, here))


def _edited(text: str, edits: Mapping[tuple[int, int], str]) -> tuple[str, dict[tuple[int, int], tuple[int, int]]]:
    """The text with edits made, and where each new text stands then."""
    parts, position, length = [], 0, 0
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for (start, end), new in sorted(edits.items()):
        parts += [text[position:start], new]
        length += start - position
        spans[start, end] = (length, length + len(new))
        length += len(new)
        position = end
    return "".join([*parts, text[position:]]), spans


def _share_row(first: LinkedTerms, second: LinkedTerms) -> bool:
    """Whether some linked terms are other forms of the others: "wife" and "wives"."""
    rows = {place.row for place in first.places}
    return first.is_pronoun == second.is_pronoun and any(place.row in rows for place in second.places)


def _alike(text: str, term: ReferenceTerm, reference: str, held: ReferenceTerm) -> int:
    """How many characters beside two terms are the same."""
    left = _common(
        text[max(0, term.mention.start - _SEEN) : term.mention.start][::-1], reference[: held.mention.start][::-1]
    )
    return left + _common(text[term.mention.end : term.mention.end + _SEEN], reference[held.mention.end :])


def _common(first_text: str, second_text: str) -> int:
    """How many characters two texts have in common from their beginning."""
    for number, (first, second) in enumerate(zip(first_text, second_text, strict=False)):
        if first != second:
            return number
    return min(len(first_text), len(second_text))


def _of_they(lexicon: Lexicon) -> str:
    """The group whose pronoun is "they"; empty where there is none."""
    pronouns: Iterator[Paradigm] = (paradigm for paradigm in lexicon.paradigms if paradigm.pos == "pronoun")
    groups = (group for pronoun in pronouns for group, cell in pronoun.cells.items() if cell[0][SUBJECT].text == THEY)
    return next(groups, "")


def _default(lexicon: Lexicon) -> str:
    counts = Counter(group for _, group, _, form in _forms(lexicon) if form.mention)
    return lexicon.reference or _of_they(lexicon) or min(lexicon.groups, key=lambda group: counts[group])
