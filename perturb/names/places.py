"""Places of people's names in a text, and the text under other names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product

from tod_bias.perturb.dealing import number_of
from tod_bias.perturb.english import edited
from tod_bias.perturb.names.forms import WORD, NameForms, is_last_name, written_like
from tod_bias.perturb.names.lookalikes import is_dish_or_place, is_interjection
from tod_bias.perturb.names.mentions import mentioned
from tod_bias.perturb.names.resources import GENDERS, RACES, by_first, dealt, dealt_last
from tod_bias.perturb.names.text_people import in_text
from tod_bias.perturb.names.unaccented import Unaccented

_FIRST_AND_NEXT = re.compile(rf"(?<![^\W_])(?=[A-Z])({WORD})(?=(?:\s+({WORD}))?)")
_LED_ON, _LEADS_ON = re.compile(r"[^\W\d_]*[a-z,] [A-Z][a-z]+ $"), re.compile(r" [A-Z][a-z]")


def name_places(text: str) -> dict[tuple[int, int], tuple[str, str]]:
    """Return every place of a person's name in a text: start and end to the first name in lower case and the part
    (``first``, ``last`` or ``initial``).

    A capitalised first name of the list counts unless it is a dish, a drink, a venue or a place ("the Caesar salad").
    One that is also a word, a place or a month counts if it is used as a name and is not among other capitalised words
    (Grace, but not Thai Basil). First names of no list, and names in lower case, count if the words around them show a
    person (:mod:`tod_bias.perturb.names.mentions`). Last names count after a first name, and at later places. Accents
    make no difference.
    """
    plain = Unaccented(text)
    places = _people_only(plain.text, _listed(plain.text))
    held = {sign for start, end in places for sign in range(start, end)}
    for start, end in mentioned(plain.text, list(places)):
        if held.isdisjoint(range(start, end)):
            places[start, end] = (plain.text[start:end].lower(), "first")
            held |= set(range(start, end))
    return {plain.original(*place): name for place, name in places.items()}


def _people_only(
    text: str, places: Mapping[tuple[int, int], tuple[str, str]]
) -> dict[tuple[int, int], tuple[str, str]]:
    """Leave out dishes and places; a last name stays if a first name before it does."""
    people = {
        place: (first, part)
        for place, (first, part) in places.items()
        if part != "first" or not (is_dish_or_place(text, *place) or is_interjection(text, *place))
    }
    firsts = {first for first, part in people.values() if part == "first"}
    return {place: (first, part) for place, (first, part) in people.items() if first in firsts}


def _listed(text: str) -> dict[tuple[int, int], tuple[str, str]]:
    """Places of listed and of introduced names."""
    lasts, in_lower_case = _names_in(text)
    places: dict[tuple[int, int], tuple[str, str]] = {}
    for first, last in lasts:
        is_word = not last and first in by_first() and by_first()[first].word
        for start, end, part in _forms(first, last).spans(text):
            is_title = is_word and (_LED_ON.search(text[:start]) or _LEADS_ON.match(text[end:]))
            if (text[start].isupper() and not is_title) or first in in_lower_case:
                places[start, end] = (first, part)
    return places


def _names_in(text: str) -> tuple[dict[tuple[str, str], None], set[str]]:
    """First names in lower case with the last names behind them, and those that are written in lower case."""
    names: dict[tuple[str, str], None] = {}
    for match in _FIRST_AND_NEXT.finditer(text):
        if match[1].lower() in by_first():
            names[match[1].lower(), match[2] if match[2] and is_last_name(match[2]) else ""] = None
    introduced = list(in_text(text))
    names |= dict.fromkeys((person.first.lower(), person.last) for person in introduced)
    return names, {person.first.lower() for person in introduced if person.first.islower()}


def under_other_names(text: str) -> Iterator[str]:
    """Yield a text that names a person once for every other group of gender and race, with names of that group.

    The group of the first name in the text is left out. The names are dealt by the text. Pronouns
    stay as they are.
    """
    places = name_places(text)
    firsts = [first for _, (first, part) in sorted(places.items()) if part == "first"]
    if not firsts:
        return
    known = by_first().get(firsts[0])
    for group in product(GENDERS, RACES):
        if known is not None and group == (known.gender, known.race):
            continue
        names, lasts = dealt(*group), dealt_last(group[1])
        start = number_of(text, *group)
        place = {first: start + number for number, first in enumerate(dict.fromkeys(firsts))}
        edits = {}
        for (left, right), (first, part) in places.items():
            number = place.get(first, start)
            new = lasts[number % len(lasts)] if part == "last" else names[number % len(names)]
            edits[left, right] = written_like(text[left:right], new[0] if part == "initial" else new)
        yield edited(text, edits)


@lru_cache(maxsize=1 << 15)
def _forms(first: str, last: str) -> NameForms:
    return NameForms(first, last)
