"""Which words stand for each other in a place of a text: everything that rewrites of one axis lead to and fro.

A rewrite T takes a word to another one of its row, and a second T that to a third, which may come from another row too:
``son`` and ``girl`` both become ``child``. So the smallest groups that no T leaves are the connected parts of the graph
whose edges are the steps of all T: the *families*. A map that is constant on families is constant on everything that a
dialogue can be told as, which is what a guard needs; and there is no finer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tod_bias.perturb.context import fits, in_name, phrase_spans
from tod_bias.perturb.english import previous_word
from tod_bias.perturb.lexicon import Form, Lexicon, Paradigm
from tod_bias.perturb.pronouns import DETERMINER, OBJECT, POSSESSIVE, REFLEXIVE, SUBJECT, role
from tod_bias.perturb.rewriter import Mention, Recogniser, plain_form
from tod_bias.perturb.tables import words

_NOT_BEFORE_SUBJECT = words("not-before-subject")
_ANY_ROLE = frozenset([OBJECT, DETERMINER])
_OTHERS = re.compile(r"\b(?:him|her|them|his|their|hers|theirs)\b", re.IGNORECASE)


class Place(NamedTuple):
    """One row's form in a place: which word of the lexicon stands, or may stand, there."""

    row: int
    slot: int


@dataclass(frozen=True)
class Family:
    """The words that stand for each other in one place."""

    keys: frozenset[str]
    """The words, plain (:func:`~tod_bias.perturb.rewriter.plain_form`)."""
    places: tuple[Place, ...]
    """The rows and forms that lead from one to another, in the lexicon's order."""
    pronoun: bool = False
    """Whether they are pronouns."""
    settled: Place | None = None
    """A row that every T follows here, from any group to any other; None where there is none."""
    natural: bool = False
    """Whether some have a capital and others none ("black", "Hispanic"), so that capitals say nothing."""


class Families(Recogniser):
    """Finds the words of all groups of an axis in texts, mentions and what T may have written alike.

    Args:
        lexicon: the axis's words.
        protected: phrases that are no mentions, beside those of the lexicon.
    """

    def __init__(self, lexicon: Lexicon, protected: Iterable[str] = ()) -> None:
        super().__init__(lexicon, lexicon.groups, written=True, protected=protected)
        left_out = {
            Place(number, slot)
            for number, row in enumerate(lexicon.paradigms)
            for cell in row.cells.values()
            for forms in cell
            for slot, form in enumerate(forms)
            if form.text.lower() in lexicon.unguarded
        }
        for key, entries in self._entries.items():
            self._entries[key] = [entry for entry in entries if Place(entry.row, entry.slot) not in left_out]
        self._phrases = tuple(phrase for phrase, _ in self._protected)
        self._lower = tuple(phrase.lower() for phrase in self._phrases)
        forms = [form for row in lexicon.paradigms for cell in row.cells.values() for forms in cell for form in forms]
        mentions = {plain_form(form.text) for form in forms if form.mention}
        self.inert = frozenset(plain_form(form.text) for form in forms) - mentions
        """Words that mention nobody, so that no T changes them."""
        self._capitals = frozenset(plain_form(form.text) for form in forms if form.text[:1].isupper())
        self._reached: dict[str, tuple[Place, ...]] = {}
        self._known: dict[tuple[str, frozenset[Place]], Family] = {}

    def found(self, text: str, protected: Iterable[str] = ()) -> Iterator[tuple[Mention, Family]]:
        """The words in ``text`` from left to right, each with its family."""
        for mention in self.mentions(text, protected):
            yield mention, self.family(text, mention)

    def family(self, text: str, mention: Mention) -> Family:
        """The family of a word where it stands."""
        start, end = mention.start, mention.end
        if self.lexicon.paradigms[mention.row].pos == "pronoun":
            return self._pronouns(text, start, end, mention)
        key = plain_form(text[start:end])
        is_open = frozenset(place for place in self._reach(key) if self._fits(place, text, start, end))
        known = (key, is_open)
        if known not in self._known:
            self._known[known] = self._connected(key, is_open)
        return self._known[known]

    def _fits(self, place: Place, text: str, start: int, end: int) -> bool:
        paradigm = self.lexicon.paradigms[place.row]
        return fits(paradigm, place.slot, text, start, end) and not in_name(paradigm, text, start, end)

    def _reach(self, key: str) -> tuple[Place, ...]:
        """All rows and forms that could lead on from a word, whatever stands around it."""
        if key not in self._reached:
            keys, waiting, places = {key}, [key], set[Place]()
            while waiting:
                for entry in self._entries.get(waiting.pop(), ()):
                    paradigm, place = self.lexicon.paradigms[entry.row], Place(entry.row, entry.slot)
                    if paradigm.pos == "pronoun" or place in places:
                        continue
                    places.add(place)
                    beside = {other for _, _, other in _forms(paradigm, entry.slot)} - keys
                    keys |= beside
                    waiting += beside
            self._reached[key] = tuple(sorted(places))
        return self._reached[key]

    def _connected(self, first: str, is_open: frozenset[Place]) -> Family:
        """The words to and from which steps of T lead, by the rows that are open."""

        distinct = self.lexicon.distinct

        def steps(key: str) -> dict[str, Place]:
            """Where T leads from a word: by the first open row of each group. Of adjectives that are different
            things it may write any."""
            seen: set[str] = set()
            led: dict[str, Place] = {}
            for entry in self._entries.get(key, ()):
                place = Place(entry.row, entry.slot)
                paradigm = self.lexicon.paradigms[entry.row]
                if entry.group in seen or place not in is_open:
                    continue
                if any(
                    group == entry.group and form.mention and other == key
                    for group, form, other in _forms(paradigm, entry.slot)
                ):
                    seen.add(entry.group)
                    for group, cell in paradigm.cells.items():
                        if group != entry.group:
                            for forms in cell if distinct and paradigm.pos == "adj" else cell[:1]:
                                led[plain_form(forms[entry.slot].text)] = place
            return led

        edges: dict[str, dict[str, Place]] = {}
        for place in is_open:
            for _, _, other in _forms(self.lexicon.paradigms[place.row], place.slot):
                for target, by in steps(other).items():
                    edges.setdefault(other, {})[target] = by
                    edges.setdefault(target, {})[other] = by
        keys, waiting, places = {first}, [first], set[Place]()
        while waiting:
            beside = edges.get(waiting.pop(), {})
            places.update(beside.values())
            waiting += beside.keys() - keys
            keys |= beside.keys()
        settled = None
        for place in sorted(places):
            cells = self.lexicon.paradigms[place.row].cells
            written = {name: plain_form(cell[0][place.slot].text) for name, cell in cells.items()}
            if len(cells) == len(self.lexicon.groups) and all(
                steps(written[one]).get(written[other]) == place for one in cells for other in cells if one != other
            ):
                settled = place
                break
        natural = bool(keys & self._capitals and keys - self._capitals)
        return Family(frozenset(keys), tuple(sorted(places)), settled=settled, natural=natural)

    def _pronouns(self, text: str, start: int, end: int, mention: Mention) -> Family:
        slot = self.role(text, start, end)
        keys = {
            plain_form(forms[slot].text)
            for cell in self.lexicon.paradigms[mention.row].cells.values()
            for forms in cell
        }
        return Family(frozenset(keys), (Place(mention.row, slot),), pronoun=True)

    def role(self, text: str, start: int, end: int) -> int:
        """Which form a pronoun takes in its place, whatever stands there now: "him" and "his" both become "her"."""
        slots = {entry.slot for entry in self._entries.get(plain_form(text[start:end]), ())}
        if slots <= {SUBJECT, REFLEXIVE}:
            return min(slots)
        before, after = _OTHERS.sub("her", text[:start]), _OTHERS.sub("her", text[end:])
        alone = before + "her" + after
        start = len(before)
        if role(alone, start, start + 3, frozenset([DETERMINER, POSSESSIVE])) == POSSESSIVE:
            return OBJECT if OBJECT in slots else POSSESSIVE
        return role(alone, start, start + 3, _ANY_ROLE)

    def _entry(self, text: str, start: int, end: int, key: str) -> Any:
        found = super()._entry(text, start, end, key)
        if found is not None or "-" in (text[start - 1 : start], text[end : end + 1]):
            return found
        for entry in self._entries.get(key, ()):  # T may have written it where it would not look for it
            paradigm = self.lexicon.paradigms[entry.row]
            if paradigm.pos == "pronoun" and not in_name(paradigm, text, start, end):
                before = previous_word(text, start).text.lower().replace("’", "'")
                return None if entry.slot == SUBJECT and before in _NOT_BEFORE_SUBJECT else entry
        return None

    def _is_told(self, text: str, start: int, end: int, entry: Any, protected: Iterable[str]) -> bool:
        """A phrase protects a word only where it protects all that T makes of it: no "big sister" is protected, so that
        a "big brother" may be one. Phrases of both ("he or she") always do, as no T makes one of anything else."""
        around = text[max(0, start - 30) : end + 30].lower()
        if any(len(self._pattern.findall(phrase)) > 1 for phrase in self._lower if phrase in around):
            return False
        paradigm = self.lexicon.paradigms[entry.row]
        for group, cell in paradigm.cells.items():
            if group != entry.group and cell[0][entry.slot].mention:
                other = cell[0][entry.slot].text
                told = text[:start] + other + text[end:]
                lowered = told.lower()
                there = [phrase for phrase in (*self._phrases, *protected) if phrase.lower() in lowered]
                last = start + len(other)
                if not any(a < last and start < b for a, b in phrase_spans(told, lowered, there)):
                    return True
        return False


def _forms(paradigm: Paradigm, slot: int) -> Iterator[tuple[str, Form, str]]:
    """The forms of a row that stand for each other: group, form, and the form plain."""
    for group, cell in paradigm.cells.items():
        for forms in cell:
            yield group, forms[slot], plain_form(forms[slot].text)
