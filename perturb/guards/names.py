"""The people of one input under reference names, and the way back: what guards on the axes over names use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from tod_bias.perturb.guards.inputs import Change, ReferenceInput, dialogue_of
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.names.forms import WORD, NameForms, Renaming, is_last_name, listed, renamed
from tod_bias.perturb.names.people import Person
from tod_bias.perturb.names.resources import GENDERS, by_first, by_last, dealt, dealt_last
from tod_bias.perturb.names.slots import is_thing
from tod_bias.systems.stage import StageInput

_WORD = re.compile(WORD)
_FULL = re.compile(r"(?<![^\W_])([A-Z][^\W\d_]+)\s+(?=([A-Z][^\W\d_]+))")
_EDGES = " \t\r\n.,!?;:\"'()"
_RACE = "white"
"""Whose names the reference names are: any would do, as everybody gets them."""


_SETS = 3
"""Under how many sets of names a stage votes."""


class NamesInput(ReferenceInput):
    """One input on an axis of names: whoever is named first has one and the same reference name, and so on.

    Whoever is renamed stands in the same place, so the order in which first names appear is the same in every T x.
    First names that are known (and are no words) count wherever they stand, others where somebody is so named.
    """

    def __init__(self, axis: NamesAxis, given: StageInput) -> None:
        super().__init__(given)
        self.texts = list(dict.fromkeys(self.texts))
        self._axis, self._dialogue = axis, dialogue_of(given)
        self._with_last = "race" in axis.factors
        self._left: list[str] = []
        may_name = any(_may_hold_name(text, self._with_last) for text in self.texts)
        self.mentions = len(self.people) if may_name else 0
        self.uncovered = len(self._uncovered()) if may_name else 0
        self._references: dict[str, str] = {}

    def reference(self, text: str) -> str:
        """A text under the reference names."""
        if text not in self._references:
            self._references[text] = renamed(text, self._renamings)
        return self._references[text]

    def restored(self, text: str) -> str:
        """A text with the names of the input in the places of their reference names."""
        return self._sources[text] if text in self._sources else renamed(text, _turned(self._renamings))

    @cached_property
    def _sources(self) -> dict[str, str]:
        return {self.reference(text): text for text in reversed(self.texts)}

    def masked(self, text: str, mask: str) -> str:
        """A text with ``mask`` in the places of names."""
        return renamed(text, self._renamings, mask)

    def versions(self) -> list[tuple[Change, Change]]:
        """Some sets of names."""
        return [self._version(self._dealt(number * len(self.people))) for number in range(_SETS)]

    def _version(self, renamings: Sequence[Renaming]) -> tuple[Change, Change]:
        sources = {renamed(text, renamings): text for text in reversed(self.texts)}

        def back(text: str) -> str:
            return self.reference(sources[text] if text in sources else renamed(text, _turned(renamings)))

        return lambda text: renamed(text, renamings), back

    @cached_property
    def people(self) -> tuple[NameForms, ...]:
        """The names of the input, in the order in which their first names appear."""
        relatives = frozenset(person.last.lower() for person in self._named.values() if person.last)
        forms: list[NameForms] = []
        for word in _standing(self.texts):
            person = self._person(word, relatives)
            if person is None:
                continue
            finds_last = self._with_last and bool(person.last)
            forms.append(self._axis.forms(self._dialogue, person, finds_last=finds_last))
        places = ((self._first_place(form), form) for form in forms)
        return tuple(form for _, form in sorted((place, form) for place, form in places if place is not None))

    def _person(self, word: str, relatives: frozenset[str]) -> Person | None:
        """Whom a word of the input names by the first name, if anybody."""
        known, person = by_first().get(word), self._named.get(word)
        if person is not None:
            return person if known is None else Person(known.name, person.last)
        if known is None:
            return None
        if word in relatives or (known.word and not self._is_named(known.name)):
            self._left.append(known.name)  # "Miller" may come to be somebody's first name too
            return None
        return Person(known.name)

    def _first_place(self, forms: NameForms) -> tuple[int, int] | None:
        """Where the first name stands first: number of the text and position."""
        for number, text in enumerate(self.texts):
            for start, _, part in forms.spans(text):
                if part == "first":
                    return number, start
        return None

    @cached_property
    def _named(self) -> dict[str, Person]:
        """First name to who bears it; names that no table holds count where the last name tells something."""
        known = by_first()
        return {
            person.first.lower(): person
            for person in reversed(self._axis.people(self._dialogue))
            if person.first.lower() in known or (self._with_last and person.last)
        }

    def _is_named(self, name: str) -> bool:
        """Whether a text takes a name that is also a word ("Mark") for somebody's, as T would where a later turn says
        that somebody is so called. Places and times are left: they are somebody's nearly never."""
        word = name.lower()
        if word in listed("places") or word in listed("times"):
            return False
        texts = (text for text in self.texts if word != text.strip(_EDGES).lower())
        return any(part == "first" for text in texts for _, _, part in NameForms(name).spans(text))

    def _uncovered(self) -> tuple[str, ...]:
        """Names that are left as places, times or things, where a later turn could show that they are somebody's."""
        in_full = [forms.first.lower() for forms in self.people if forms.last]
        left = [name for name in self._left if any(True for text in self.texts for _ in NameForms(name).spans(text))]
        names = dict.fromkeys([*left, *self._half_known(in_full)])
        return tuple(name for name in names if self._axis.group_of(Person(name)))

    def _half_known(self, in_full: Sequence[str]) -> Iterator[str]:
        """First names that a last name follows ("see Aaron Lewis"), of nobody who is known by both, and no thing's."""
        known, last = by_first(), by_last()
        values = (value for turn in self._dialogue.turns for value in turn.values)
        things = "\n".join(value.lower() for slot, value in values if is_thing(slot, self._axis.slots))
        for text in self.texts:
            for match in _FULL.finditer(text):
                first, second = match[1].lower(), match[2].lower()
                is_full = first in known and second in last and is_last_name(match[2])
                if is_full and first not in in_full and f"{first} {second}" not in things:
                    yield known[first].name

    @cached_property
    def _renamings(self) -> list[Renaming]:
        return self._dealt(0)

    def _dealt(self, shift: int) -> list[Renaming]:
        """Everybody, with a reference name that the rest of the input does not hold; from so many names on."""
        gone = [Renaming(forms, " ", " ") for forms in self.people]
        rest = " ".join(renamed(text, gone) for text in self.texts) if gone else ""
        firsts, lasts = _free_names(frozenset(word.lower() for word in _WORD.findall(rest)))
        return [
            Renaming(forms, firsts[place % len(firsts)], lasts[place % len(lasts)] if forms.finds_last else "")
            for place, forms in enumerate(self.people, start=shift)
        ]


def _turned(renamings: Sequence[Renaming]) -> list[Renaming]:
    return [renaming.turned() for renaming in renamings]


@lru_cache(maxsize=1 << 16)
def _may_hold_name(text: str, with_last: bool) -> bool:
    """A quick check: whether a word of a text is a known name."""
    known, last = by_first(), by_last() if with_last else {}
    return any(
        part in known or part in last for word in _WORD.findall(text.lower()) for part in (word, *word.split("-"))
    )


def _standing(texts: Sequence[str]) -> dict[str, None]:
    """All words of some texts in lower case, and their parts where they have hyphens, each once."""
    words = (word.lower() for text in texts for word in _WORD.findall(text))
    return dict.fromkeys(part for word in words for part in (word, *(word.split("-") if "-" in word else ())))


@lru_cache(maxsize=1024)
def _free_names(taken: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """First and last names that are dealt out as reference names, those that are not taken if there are any."""
    women, men = (dealt(gender, _RACE) for gender in reversed(GENDERS))
    firsts = tuple(name for pair in zip(women, men, strict=False) for name in pair)
    lasts = dealt_last(_RACE)
    free = [tuple(name for name in names if name.lower() not in taken) for names in (firsts, lasts)]
    return free[0] or firsts, free[1] or lasts
