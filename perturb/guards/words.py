"""One text as its reference telling, and the way back, on an axis with a lexicon."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Any

from tod_bias.errors import AxisError
from tod_bias.perturb.context import phrase_spans
from tod_bias.perturb.english import NO_WORD, possessive, previous_word, takes_an
from tod_bias.perturb.guards.families import Families, Family, Place
from tod_bias.perturb.lexicon import Lexicon
from tod_bias.perturb.pronouns import SUBJECT, THEY, agreement, is_misspelt
from tod_bias.perturb.rewriter import Recogniser, TextRewriter, plain_form

_SUFFIX = re.compile(r"['’][sS]?(?!\w)")
_SEEN = 60
"""Signs on both sides by which a word of an answer is recognised as one of the input."""
_QUOTED = 16
"""So many of them, and the answer quotes the input."""


@dataclass(frozen=True)
class Said:
    """A word of a text in its reference telling."""

    start: int
    end: int
    """Where it stands in the reference telling."""
    family: Family
    """What may stand there."""
    old: str
    """What stands there in the text."""
    slot: int
    """Which form it is."""
    sure: bool = True
    """Whether T rewrites it; not so a subject that is a misspelt article ("at he moment")."""


@dataclass(frozen=True)
class Reference:
    """A text in its reference telling."""

    text: str
    said: tuple[Said, ...] = ()
    """The words that were found, from left to right."""


class Words:
    """The reference telling of texts on one axis: the same for a text and for everything that T makes of it.

    Every word of a family (:mod:`tod_bias.perturb.guards.families`) becomes one and the same word, and what agrees with
    it (articles, verbs, possessives) is written for that one.

    Args:
        lexicon: the axis's words.
        reference: the group that everybody is told as; by default the one with the fewest words of its own.
        protected: phrases that are no mentions.

    Raises:
        AxisError: no such group.
    """

    def __init__(self, lexicon: Lexicon, reference: str | None = None, protected: Iterable[str] = ()) -> None:
        self.lexicon = lexicon
        protected = tuple(protected)
        self.families = Families(lexicon, protected)
        self.reference = _fewest(lexicon) if reference is None else lexicon.group(reference)
        self._they = _they(lexicon)
        if self._they and self.reference != self._they:
            raise AxisError(
                f"axis {lexicon.axis!r}: the reference telling is {self._they!r}, as every pronoun can be told as "
                f"{THEY!r} only; got {reference!r}"
            )
        order = [self.reference, *(name for name in lexicon.groups if name != self.reference)]
        self._order = tuple(order)
        self._protected = protected
        self._held_phrases: dict[Family, tuple[str, ...]] = {}
        self._remember()

    def _remember(self) -> None:
        self._told = lru_cache(maxsize=1 << 16)(self._tell)
        self._left = lru_cache(maxsize=1 << 16)(self._uncovered)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_told", "_left")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._remember()  # another process remembers by itself

    def __call__(self, text: str, protected: tuple[str, ...] = ()) -> Reference:
        """The text in its reference telling."""
        return self._told(str(text), protected)

    def uncovered(self, text: str) -> int:
        """How many mentions of a text have a telling whose reference telling is another one; 0 where the text is told
        exactly.

        The text is told as everybody, as T does, and looked at: nothing is taken on trust.
        """
        return self._left(str(text))

    def _uncovered(self, text: str) -> int:
        if not self._every.may_mention(text):
            return 0
        held = self(text)
        mentions = list(self._every.mentions(text))
        found = [(mention.start, mention.end) for mention, _ in self.families.found(text)]
        missed = sum(not any(one.start < end and start < one.end for start, end in found) for one in mentions)
        if missed:
            return missed
        others = (teller(text) for teller in self._tellers)
        return 0 if all(self(other).text == held.text for other in others) else len(mentions)

    @cached_property
    def _every(self) -> Recogniser:
        return Recogniser(self.lexicon, self.lexicon.groups, protected=self._protected, strict_they=True)

    @cached_property
    def _tellers(self) -> list[TextRewriter]:
        return [
            TextRewriter(self.lexicon, one, other, protected=self._protected, strict_they=True)
            for one, other in permutations(self.lexicon.groups, 2)
        ]

    def _tell(self, text: str, protected: tuple[str, ...]) -> Reference:
        found = list(self.families.found(text, protected))
        if not found:
            return Reference(text)
        changes = []
        for mention, family in found:
            place, form = self._form(family, self._order)
            new = _cased(form, text[mention.start : mention.end], natural=family.natural)
            changes.append(_Change(mention.start, mention.end, new, family.pronoun, self._plural(place), place.slot))
        written, spans = _written(text, changes, to_they=True)
        said = tuple(
            Said(
                start, end, family, text[mention.start : mention.end], change.slot, self._is_sure(text, change, family)
            )
            for (mention, family), (start, end), change in zip(found, spans, changes, strict=True)
        )
        return Reference(written, said)

    def _is_sure(self, text: str, change: _Change, family: Family) -> bool:
        """Whether T rewrites the word, whatever stands there now: no slip ("at he moment"), and no protected phrase
        ("Big Brother") in any telling."""
        start, end = change.start, change.end
        if change.pronoun:
            return change.slot != SUBJECT or not is_misspelt(text[:start] + "he" + text[end:], start, start + 2)
        phrases = self._phrases_of(family)
        for key in family.keys if phrases else ():
            told = text[:start] + key + text[end:]
            if any(first < start + len(key) and start < last for first, last in _spans(told, phrases)):
                return False
        return True

    def _phrases_of(self, family: Family) -> tuple[str, ...]:
        if family not in self._held_phrases:
            phrases = (*self.lexicon.protected, *self._protected)
            found = (phrase for phrase in phrases if any(key in phrase.lower() for key in family.keys))
            self._held_phrases[family] = tuple(found)
        return self._held_phrases[family]

    def _form(self, family: Family, order: Sequence[str]) -> tuple[Place, str]:
        """What is written for a family: the first form of the first group that has one, best one that T leaves."""
        forms = []
        for place in family.places:
            cells = self.lexicon.paradigms[place.row].cells
            for rank, group in enumerate(order):
                if group in cells:
                    text = cells[group][0][place.slot].text
                    forms.append((rank, plain_form(text) not in self.families.inert, place, text))
                    break
        if not forms:
            return Place(-1, 0), min(family.keys)
        counts = Counter(text for *_, text in forms)
        _, _, _, place, text = min((rank, said, -counts[text], place, text) for rank, said, place, text in forms)
        return place, text

    def _plural(self, place: Place) -> bool:
        return place.row >= 0 and place.slot == 1 and self.lexicon.paradigms[place.row].pos in ("noun", "kin")

    # --- the way back

    @staticmethod
    def sure(reference: Reference, names: Sequence[str]) -> Reference:
        """The text with the words that T leaves, as they stand in ``names`` (in their reference telling), marked so."""
        spans = phrase_spans(reference.text, reference.text.lower(), names) if names else []
        if not any(one.start < end and start < one.end for one in reference.said for start, end in spans):
            return reference
        said = (
            replace(one, sure=one.sure and not any(one.start < end and start < one.end for start, end in spans))
            for one in reference.said
        )
        return Reference(reference.text, tuple(said))

    def back(self, told: Reference, known: Sequence[Reference]) -> tuple[str, int]:
        """A reference telling as the input tells it, and how many of its words the input does not say.

        Every word is what the word of its family in the input is that stands between the most like signs, the first
        of them. Of a word of whose family the input has none, see :meth:`_first`; else it stays.

        Args:
            told: the answer's text, in its reference telling.
            known: the texts of the input, in theirs.
        """
        changes, own = [], 0
        for one in told.said:
            held = self._like(one, told.text, known)
            form = self._first(one, known) if held is None else self._as(one, held)
            own += form is None
            changes.append(self._change(told.text, one, form))
        return _written(told.text, changes, to_they=False)[0], own

    @staticmethod
    def _change(text: str, one: Said, form: str | None) -> _Change:
        old = text[one.start : one.end]
        new = old if form is None else _cased(form, old, natural=one.family.natural)
        pronoun = one.family.pronoun
        return _Change(one.start, one.end, new, pronoun, one.slot == 1 and not pronoun, one.slot)

    def _like(self, one: Said, text: str, known: Sequence[Reference]) -> Said | None:
        best: tuple[tuple[bool, int], Said] | None = None
        for reference in known:
            for other in reference.said:
                same = other.family == one.family
                if not same and not _related(one.family, other.family):
                    continue
                common = _alike(text, one, reference.text, other)
                if not other.sure and (one.family.pronoun or not same) and common < _QUOTED:
                    continue
                score = (same or one.family.pronoun, common)
                if best is None or score > best[0]:
                    best = (score, other)
        return None if best is None else best[1]

    def mixed(self, told: Reference, known: Sequence[Reference]) -> int:
        """How many words of an answer (in its reference telling, as all texts here) may mean either of several that the
        input tells apart by the axis alone: "spouse" of "wife" and "husband". Where it quotes the input, none."""
        number = 0
        for one in told.said:
            same = [(text.text, other) for text in known for other in text.said if other.family == one.family]
            if not one.family.pronoun and len({plain_form(other.old) for _, other in same}) > 1:
                number += max(_alike(told.text, one, text, other) for text, other in same) < _QUOTED
        return number

    def _as(self, one: Said, held: Said) -> str | None:
        """What is written for a word, as the input says ``held``."""
        if held.family.keys <= one.family.keys and not one.family.pronoun:
            return held.old
        group = self._group(held)
        if group is None:
            return None
        rows = {place.row for place in held.family.places}
        ordered = sorted(one.family.places, key=lambda place: (place.row not in rows, place))
        for place in ordered:
            cell = self.lexicon.paradigms[place.row].cells.get(group)
            if cell is not None:
                return cell[0][place.slot].text
        return None

    def _group(self, said: Said) -> str | None:
        """Which group a word mentions, or is written for."""
        key = plain_form(said.old)
        for place in said.family.places:
            for group, cell in self.lexicon.paradigms[place.row].cells.items():
                if any(plain_form(form.text) == key for forms in cell for form in forms):
                    return group
        return None

    def _first(self, one: Said, known: Sequence[Reference]) -> str | None:
        """What is written for a word of whose family the input has none: it is told as who is mentioned first, among
        the words that every T rewrites."""
        if one.family.settled is None:
            return None
        for reference in known:
            for other in reference.said:
                if other.sure and other.family.settled is not None:
                    group = self._group(other)
                    if group is not None:
                        place = one.family.settled
                        return self.lexicon.paradigms[place.row].cells[group][0][place.slot].text
        return None

    @staticmethod
    def masked(told: Reference, mask: str) -> str:
        """A reference telling with ``mask`` in the place of every mention."""
        changes = [_Change(one.start, one.end, mask, False, False, one.slot) for one in told.said]
        return _written(told.text, changes, to_they=False)[0]

    def tell_as(self, told: Reference, group: str) -> str:
        """A reference telling with everybody of one group."""
        forms = [(one, self._form(one.family, (group, *self._order))[1]) for one in told.said]
        return _written(told.text, [self._change(told.text, one, form) for one, form in forms], to_they=False)[0]


@dataclass(frozen=True)
class _Change:
    start: int
    end: int
    new: str
    pronoun: bool
    plural: bool
    slot: int


def _written(text: str, changes: Sequence[_Change], *, to_they: bool) -> tuple[str, list[tuple[int, int]]]:
    """The text with all changes and what agrees with them, and where the new words stand."""
    edits: dict[tuple[int, int], str] = {(one.start, one.end): one.new for one in changes}

    def add(start: int, end: int, new: str) -> None:
        if text[start:end] != new and not any(start < last and first < end for first, last in edits):
            edits[start, end] = new

    for one in changes:
        if one.pronoun:
            if one.slot == SUBJECT and (one.new.lower() == THEY) == to_they:
                for start, end, new in agreement(text, one.start, one.end, to_they=to_they):
                    add(start, end, new)
            continue
        suffix = _SUFFIX.match(text, one.end)
        if suffix:
            quoted = suffix[0] in "'’" and re.search(r"(?:^|[\s(])['‘]", text[: one.start]) is not None
            old = text[one.start : one.end]
            add(suffix.start(), suffix.end(), possessive(suffix[0], old, one.new, is_plural=one.plural, quoted=quoted))
        article = previous_word(text, one.start)
        if article is not NO_WORD and text[one.start - 1] != "-" and article.text.lower() in ("a", "an"):
            fitting = "an" if takes_an(one.new) else "a"
            if article.text[0] == "A":
                fitting = fitting.upper() if one.new.isupper() and len(one.new) > 1 else fitting.capitalize()
            add(article.start, article.end, fitting)
    parts, position, length = [], 0, 0
    places: dict[tuple[int, int], tuple[int, int]] = {}
    for (start, end), new in sorted(edits.items()):
        parts += [text[position:start], new]
        length += start - position
        places[start, end] = (length, length + len(new))
        length += len(new)
        position = end
    return "".join([*parts, text[position:]]), [places[one.start, one.end] for one in changes]


def _spans(text: str, phrases: Sequence[str]) -> list[tuple[int, int]]:
    return phrase_spans(text, text.lower(), phrases)


def _cased(form: str, old: str, *, natural: bool) -> str:
    """A form in the capitals of what stands there; as it is written where ``natural``."""
    if old.isupper() and len(old) > 1:
        return form.upper()
    if natural:
        return form
    return form[:1].upper() + form[1:] if old[:1].isupper() else form.lower()


def _related(one: Family, other: Family) -> bool:
    """Whether two families are forms of one word: "wife" and "wives"."""
    if one.pronoun != other.pronoun:
        return False
    rows = {place.row for place in one.places}
    return any(place.row in rows for place in other.places)


def _alike(text: str, one: Said, reference: str, other: Said) -> int:
    """How many signs beside two words are the same."""
    left = _common(text[max(0, one.start - _SEEN) : one.start][::-1], reference[: other.start][::-1])
    return left + _common(text[one.end : one.end + _SEEN], reference[other.end :])


def _common(one: str, other: str) -> int:
    """How many signs two texts have in common from their beginning."""
    for number, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return number
    return min(len(one), len(other))


def _they(lexicon: Lexicon) -> str:
    """The group whose pronoun is "they"; empty where there is none."""
    for paradigm in lexicon.paradigms:
        if paradigm.pos == "pronoun":
            for group, cell in paradigm.cells.items():
                if cell[0][SUBJECT].text == THEY:
                    return group
    return ""


def _fewest(lexicon: Lexicon) -> str:
    counts: Mapping[str, int] = {
        name: sum(form.mention for row in lexicon.paradigms for forms in row.cells.get(name, ()) for form in forms)
        for name in lexicon.groups
    }
    return lexicon.reference or _they(lexicon) or min(lexicon.groups, key=lambda name: counts[name])
