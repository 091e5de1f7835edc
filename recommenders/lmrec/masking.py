"""Masking of what should not matter: names, places, gendered relations (Shen §3.5).

The same masking serves both sides: queries at test time (*neutralisation*) and reviews at training time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tod_bias.perturb.names.people import mask_people
from tod_bias.recommenders.lmrec.templates import TemplateSet, load_templates, word_list

MASK = "[MASK]"
"""Stands for the tokenizer's own mask token."""


class Neutraliser:
    """Replaces the names of people, places, gendered relations and gendered pronouns by ``[MASK]``.

    A place of several words becomes one mask, so that all substitutions of a template give the same text. Names are
    those that :func:`~tod_bias.perturb.names.people.mask_people` finds, and capitalised names of the templates anywhere
    (Precious, Raven). Relations and places count in any case; ``neutral_words.txt`` holds pronouns and further
    relations.

    Args:
        words: names, relations and places; those of the package by default.
    """

    def __init__(self, words: TemplateSet | None = None) -> None:
        words = words or load_templates()
        named = (entry.word for entry in words.names)
        other = [entry.word for entry in (*words.relationships, *words.locations)]
        further = word_list("neutral_words.txt")
        self._pattern = re.compile(rf"\b(?:{_any(named)}|(?i:{_any([*other, *further])}))\b")

    def __call__(self, text: str) -> str:
        """The text without what it says about people and places."""
        return self._pattern.sub(MASK, mask_people(text, MASK))


def _any(words: Iterable[str]) -> str:
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word) for word in longest_first) or r"(?!)"


def name_masker(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern of venue names, with or without what follows a dash (``Tin Drum - Midtown``), in any case."""
    every = set()
    for name in names:
        every |= {name.strip(), re.split(r"\s+[-–—]\s+", name.strip())[0]}
    return re.compile(rf"(?<!\w)(?:{_any(name for name in every if len(name) > 2)})(?!\w)", re.IGNORECASE)
