"""The English that rewriting needs: plurals, articles, capitals, possessives and neighbouring words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_WORD = r"[^\W_]+(?:['’.-][^\W_]+)*['’]?"
_NEXT = re.compile(rf"[ \t]+({_WORD})")
_PREVIOUS = re.compile(rf"({_WORD})[ \t]+$")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\"“”…•\n]['’)]?)[\s\"“'‘(*-]*$")
# Exceptions to the first letter: "a" before the first group of words, "an" before the second
_CONSONANT_SOUND = re.compile(r"(?:u(?:ni(?!n|m)|s[ae]|ti|k\b)|eu|one|once)", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"(?:hour|honest|hono|heir)", re.IGNORECASE)


class WordAt(NamedTuple):
    """A word of a text and its place."""

    text: str
    start: int
    end: int


NO_WORD = WordAt("", -1, -1)


def next_word(text: str, end: int) -> WordAt:
    """The word that follows position ``end`` after blanks only; :data:`NO_WORD` where punctuation comes first."""
    match = _NEXT.match(text, end)
    return WordAt(match[1], match.start(1), match.end(1)) if match else NO_WORD


def previous_word(text: str, start: int) -> WordAt:
    """Return the word before position ``start`` with only blanks between; :data:`NO_WORD` if there is none."""
    match = _PREVIOUS.search(text, max(0, start - 60), start)
    return WordAt(match[1], match.start(1), match.end(1)) if match else NO_WORD


def starts_sentence(text: str, start: int) -> bool:
    """True if a sentence, a quotation or the text starts at ``start``."""
    return bool(_SENTENCE_START.search(text, max(0, start - 12), start))


def plural(noun: str) -> str:
    """The regular plural."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(?:s|x|z|ch|sh)$", noun) else "s")


def plain_form(word: str) -> str:
    """A form without its capitals and hyphens: "African-American" and "african american" are one word."""
    return word.lower().replace("-", " ").replace("’", "'")


def takes_an(word: str) -> bool:
    """True if the indefinite article before ``word`` is "an"."""
    if _VOWEL_SOUND.match(word):
        return True
    return word[:1].lower() in set("aeiou") and not _CONSONANT_SOUND.match(word)


def article_for(article: str, old: str, new: str) -> str:
    """The article before ``new``, given the one before ``old``: changed only where their first sounds differ."""
    if article.lower() not in ("a", "an") or takes_an(old) == takes_an(new):
        return article
    if takes_an(new):
        return article[0] + ("N" if article == "A" and new.isupper() and len(new) > 1 else "n")
    return article[0]


def like(new: str, old: str, lexical: str, *, at_start: bool) -> str:
    """Return ``new``, a lexicon form, in the capitals and with the hyphens of ``old``, a spelling of ``lexical``."""
    if "-" in old and "-" not in lexical:
        new = "-".join(new.rsplit(" ", 1))
    elif "-" in lexical and "-" not in old:
        new, lexical = new.replace("-", " "), lexical.replace("-", " ")
    if old == lexical:
        return new[:1].upper() + new[1:] if at_start and old[:1].isupper() else new
    if old.isupper() and len(old) > 1:
        return new.upper()
    if old.islower() and not lexical.islower():
        return new.lower()
    return _capitalised(new, old) if old[:1].isupper() else new


def _capitalised(new: str, old: str) -> str:
    """``new`` with a capital, in every word where all words of ``old`` have one."""
    if not re.search(r"[ -]", old) or not all(part[:1].isupper() for part in re.split(r"[ -]", old)):
        return new[:1].upper() + new[1:]
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"([ -])", new))


def possessive(suffix: str, old: str, new: str, *, is_plural: bool, quoted: bool) -> str:
    """Return the suffix after ``new``, given the suffix (``'s``, ``'`` or nothing) after ``old``.

    A bare apostrophe after a singular, or inside single quotes, is taken for a closing quote and kept.
    """
    if not suffix or not is_plural or quoted:
        return suffix
    mark = suffix[0]
    if new.lower().endswith("s"):
        return mark
    return mark + ("S" if old.isupper() else "s")


def edited(text: str, edits: Mapping[tuple[int, int], str]) -> str:
    """Return a text with other words in some places, which do not overlap: (start, end) to the new text."""
    parts, position = [], 0
    for (start, end), new in sorted(edits.items()):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
