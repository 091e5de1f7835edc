"""Masking of what should not matter: names, places, gendered relations (Shen §3.5).

The same masking serves both sides: queries at test time (*neutralisation*) and reviews at training time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tod_bias.perturb.english import edited
from tod_bias.perturb.names.mentions import Unaccented, is_dish_or_place
from tod_bias.perturb.names.people import name_places
from tod_bias.recommenders.lmrec.templates import TemplateSet, load_templates, word_list

MASK = "[MASK]"
"""Stands for the tokenizer's own mask token."""


class Neutraliser:
    """Replace names of people, places, gendered relations and gendered pronouns by ``[MASK]``.

    Accents make no difference. A place of several words becomes one mask, so that all substitutions of a template give
    the same text. Names are those that :func:`~tod_bias.perturb.names.people.name_places` finds: the package's first
    names, and other names if the words around them show a person. Names of the templates are masked wherever they are
    capitalised and no dish or venue (Precious, Raven). An unlisted name without such words stays. Relations and places
    count in any case; ``neutral_words.txt`` holds pronouns and further relations.

    Args:
        words: names, relations and places; those of the package by default.
    """

    def __init__(self, words: TemplateSet | None = None) -> None:
        words = words or load_templates()
        other = [entry.word for entry in (*words.relationships, *words.locations)]
        further = word_list("neutral_words.txt")
        self._names = re.compile(rf"\b(?:{_any(_plain(entry.word) for entry in words.names)})\b")
        self._others = re.compile(rf"\b(?:{_any(map(_plain, (*other, *further)))})\b", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        """Return the text without the words about people and places."""
        plain = Unaccented(text)
        places = [
            place
            for place in (match.span() for match in self._names.finditer(plain.text))
            if not is_dish_or_place(plain.text, *place)
        ]
        places += [match.span() for match in self._others.finditer(plain.text)]
        places = [*(plain.original(*place) for place in places), *name_places(text)]
        return edited(text, dict.fromkeys(_apart(places), MASK))


def _plain(word: str) -> str:
    return Unaccented(word).text


def _apart(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield places that do not overlap, the longer ones first."""
    held: set[int] = set()
    for start, end in sorted(places, key=lambda place: place[0] - place[1]):
        if held.isdisjoint(range(start, end)):
            held |= set(range(start, end))
            yield start, end


def _any(words: Iterable[str]) -> str:
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word) for word in longest_first) or r"(?!)"


def name_masker(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern of venue names, with or without what follows a dash (``Tin Drum - Midtown``), in any case."""
    every = set()
    for name in names:
        every |= {name.strip(), re.split(r"\s+[-–—]\s+", name.strip())[0]}
    return re.compile(rf"(?<!\w)(?:{_any(name for name in every if len(name) > 2)})(?!\w)", re.IGNORECASE)
