"""The people of one input under reference names, and the way back, on the axes over names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.names.forms import WORD, NameForms, is_last_name, listed, written_like
from tod_bias.perturb.names.people import Person, people
from tod_bias.perturb.names.resources import GENDERS, by_first, by_last, dealt, dealt_last
from tod_bias.perturb.names.slots import NameSlots, is_thing, things_called
from tod_bias.perturb.rewriter import edited

_WORD = re.compile(WORD)
_FULL = re.compile(r"(?<![^\W_])([A-Z][^\W\d_]+)\s+(?=([A-Z][^\W\d_]+))")
_EDGES = " \t\r\n.,!?;:\"'()"
_RACE = "white"
"""Whose names the reference names are: any would do, as everybody gets them."""


@dataclass(frozen=True)
class Named:
    """Somebody in an input, with the reference name."""

    forms: NameForms
    """Where the name stands."""
    first: str
    """The reference first name."""
    last: str = ""
    """The reference last name; empty where last names stay."""


class People:
    """The reference telling of one input's names: the person named first is one and the same, and so on.

    Whoever is told under another name stands in the same place, so the order in which first names appear is the same in
    all tellings. First names that are known (and are no words) count wherever they stand, others where somebody is so
    named.

    Args:
        dialogue: what the input holds, as a dialogue.
        texts: all its texts, in order.
        slots: which slots hold names.
        with_last: whether last names change too (race).
        shift: reference names from so many names on, for other tellings.
    """

    def __init__(
        self, dialogue: Dialogue, texts: Iterable[str], slots: NameSlots, *, with_last: bool, shift: int = 0
    ) -> None:
        self._texts = tuple(dict.fromkeys(texts))
        self._slots = slots
        self._dialogue = dialogue
        self._with_last = with_last
        self._shift = shift
        self._left: list[str] = []
        self._as_told: dict[str, str] = {}  # every text is told twice: to ask, and to know it in the answer

    def __bool__(self) -> bool:
        return bool(self.named)

    @cached_property
    def found(self) -> tuple[NameForms, ...]:
        """The first names of the input, in the order in which they appear."""
        known = by_first()
        standing = dict.fromkeys(
            word.lower() for text in self._texts for part in _WORD.findall(text) for word in (part, *_parts(part))
        )
        told = self._told
        relatives = frozenset(person.last.lower() for person in told.values() if person.last)
        found = []
        for word in standing:
            person = told.get(word)
            if person is None and word not in known:
                continue
            if person is None and word in relatives:
                self._left.append(known[word].name)  # "Miller" may come to be somebody's first name too
                continue
            name = known[word].name if word in known else told[word].first
            if person is None and known[word].word and not self._is_so_called(name):
                self._left.append(name)
                continue
            last = "" if person is None else person.last
            things = things_called(self._dialogue, (word, last), self._slots)
            finds_last = self._with_last and bool(last)
            found.append(NameForms(name, last, relatives, things, finds_last=finds_last))
        places = []
        for forms in found:
            at = next(
                (
                    (number, start)
                    for number, text in enumerate(self._texts)
                    for start, _, part in forms.spans(text)
                    if part == "first"
                ),
                None,
            )
            if at is not None:
                places.append((at, forms))
        return tuple(forms for _, forms in sorted(places, key=lambda item: item[0]))

    @cached_property
    def _told(self) -> Mapping[str, Person]:
        """First name to who bears it; names that no table holds count where the last name tells something."""
        known = by_first()
        return {
            person.first.lower(): person
            for person in reversed(people(self._dialogue, self._slots))
            if person.first.lower() in known or (self._with_last and person.last)
        }

    def _is_so_called(self, name: str) -> bool:
        """Whether a text takes a name that is also a word ("Mark") for somebody's, as T would where a later turn says
        that somebody is so called. Places and times are left: they are somebody's nearly never."""
        word = name.lower()
        if word in listed("places") or word in listed("times"):
            return False
        forms = NameForms(name)
        texts = [text for text in self._texts if word != text.strip(_EDGES).lower()]
        return any(part == "first" for text in texts for _, _, part in forms.spans(text))

    @cached_property
    def uncovered(self) -> tuple[str, ...]:
        """Names that are left as places, times or things, where a later turn could show that they are somebody's."""
        whole = [forms.first.lower() for forms in self.found if forms.last]
        left = [name for name in self._left if any(True for text in self._texts for _ in NameForms(name).spans(text))]
        return tuple(name for name in dict.fromkeys([*left, *self._in_full(whole)]) if self._tells(name))

    def _in_full(self, whole: Collection[str]) -> Iterator[str]:
        """First names that a last name follows ("see Aaron Lewis"), of nobody who is known by both, and no thing's."""
        known, last = by_first(), by_last()
        held: str | None = None
        for text in self._texts:
            for match in _FULL.finditer(text):
                first, second = match[1].lower(), match[2].lower()
                if first in known and second in last and first not in whole and is_last_name(match[2]):
                    if held is None:
                        values = (value for turn in self._dialogue.turns for value in turn.values)
                        held = "\n".join(value.lower() for slot, value in values if is_thing(slot, self._slots))
                    if f"{first} {second}" not in held:
                        yield known[first].name

    def _tells(self, name: str) -> bool:
        """Whether the axis would tell somebody of this name under another one."""
        known = by_first()[name.lower()]
        return bool(known.race if self._with_last else known.gender)

    @cached_property
    def named(self) -> tuple[Named, ...]:
        """Everybody, with a reference name that the rest of the input does not hold."""
        if not self.found:
            return ()
        rest = " ".join(self._replaced(text, dict.fromkeys(self.found, ("", ""))) for text in self._texts)
        taken = frozenset(word.lower() for word in _WORD.findall(rest))
        free = _free(taken)
        lasts = _free_last(taken)
        made = []
        for number, forms in enumerate(self.found):
            place = self._shift + number
            last = lasts[place % len(lasts)] if forms.finds_last else ""
            made.append(Named(forms, free[place % len(free)], last))
        return tuple(made)

    def told(self, text: str) -> str:
        """A text under the reference names."""
        if text not in self._as_told:
            self._as_told[text] = self._replaced(text, self._references)
        return self._as_told[text]

    @cached_property
    def _references(self) -> Mapping[NameForms, tuple[str, str]]:
        return {one.forms: (one.first, one.last) for one in self.named}

    def back(self, text: str) -> str:
        """A text with the names of the input in the places of their reference names."""
        names: dict[NameForms, tuple[str, str]] = {}
        for one in self.named:
            forms = one.forms
            last = one.last or forms.last
            names[NameForms(one.first, last, forms.relatives, forms.protected, finds_last=bool(one.last))] = (
                forms.first,
                forms.last if one.last else "",
            )
        return self._replaced(text, names)

    def masked(self, text: str, mask: str) -> str:
        """A text with ``mask`` in the places of names."""
        return self._replaced(text, {one.forms: (mask, mask) for one in self.named}, cased=False)

    @staticmethod
    def _replaced(text: str, names: Mapping[NameForms, tuple[str, str]], *, cased: bool = True) -> str:
        edits: dict[tuple[int, int], str] = {}
        for forms, (first, last) in names.items():
            for start, end, part in forms.spans(text):
                if any(start < stop and begin < end for begin, stop in edits):
                    continue
                old = text[start:end]
                new = (last if part == "last" else first[:1] if part == "initial" and cased else first) or ""
                if cased and part != "initial":
                    new = written_like(old, new)
                edits[start, end] = new
        return edited(text, edits) if edits else text


def _parts(word: str) -> Sequence[str]:
    return word.split("-") if "-" in word else ()


@lru_cache(maxsize=1024)
def _free(taken: frozenset[str]) -> tuple[str, ...]:
    women, men = (dealt(gender, _RACE) for gender in reversed(GENDERS))
    mixed = [name for pair in zip(women, men, strict=False) for name in pair]
    return tuple(name for name in mixed if name.lower() not in taken) or tuple(mixed)


@lru_cache(maxsize=1024)
def _free_last(taken: frozenset[str]) -> tuple[str, ...]:
    names = dealt_last(_RACE)
    return tuple(name for name in names if name.lower() not in taken) or names
