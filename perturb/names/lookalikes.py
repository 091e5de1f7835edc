"""Words that only look like names: interjections, dishes and places."""

from __future__ import annotations

import re
from functools import cache

from tod_bias.perturb.names.resources import by_first, by_last, listed, mention_words

_DETERMINED = re.compile(
    r"(?:^|[^\w'’])(?:the|an?|this|these|those|some|any|another|every|each|no|house|half|one|two|three|four|"
    r"chicken|beef|turkey|shrimp|salmon|kale|classic|eggs?|oysters?|bananas?|steak|peach|crab|bloody)\s+$",
    re.IGNORECASE,
)
_NEXT = re.compile(r"[\s-]+([^\W\d_]+)")
_PREVIOUS = re.compile(r"([^\W\d_]+(?:['’][^\W\d_]+)?)\.?\s+$")
_PLACE = re.compile(
    r"['’]s(?=\s*(?:[,.!?;:)]|$)|\s+(?:was|were|has|had|anytime|again|for|on|at|and|or|is|instead|before|after|"
    r"because|"
    r"but|when|every|all|this|last|in|more|less|costs?|serves?|makes?|does|would|will)\b)"
)
_OWNED = re.compile(r"['’]s\s+([A-Z][^\W\d_]+)")
_AUXILIARY = re.compile(
    r"\s+(?:not|never|be|definitely|have|i|you|we|they|certainly|absolutely|surely|come|return|go|try)\b", re.I
)


def is_interjection(text: str, start: int, end: int) -> bool:
    """True if a listed name is a dish ("Caesar"), or a word alone or in capitals: "Heaven.", "5 STAR"."""
    name = text[start:end]
    known = by_first().get(name.lower())
    if name.lower() in mention_words("foods") or name.lower() in mention_words("common"):
        return True
    if known is None or not known.word:
        return False
    opens = not text[:start].rstrip() or text[:start].rstrip()[-1] in ".!?:\n"
    return (name.isupper() and not text.isupper()) or (opens and bool(re.match(r"\s*[.!]", text[end:])) and start > 0)


def is_dish_or_place(text: str, start: int, end: int) -> bool:
    """True if a word that may be a name is a dish, drink, venue or place: "the Caesar", "Virginia ham", "at Joey's"."""
    before, name, after = text[max(0, start - 40) : start], text[start:end].lower(), text[end : end + 40]
    follower, owned, previous = _NEXT.match(after), _OWNED.match(after), _PREVIOUS.search(before)
    word = follower[1] if follower else ""
    if (owned and _is_kind_of_thing(owned[1])) or _is_kind_of_thing(word):
        return True
    if {f"{_bare(previous[1])} {name}" if previous else "", f"{name} {word.lower()}"} & _dishes():
        return True
    if _DETERMINED.search(before) and not (word[:1].isupper() and word.lower() in by_last()):
        return True
    is_verb = name in ("will", "may", "mark") and _AUXILIARY.match(after)
    return bool(is_verb or _PLACE.match(after))


def _is_kind_of_thing(word: str) -> bool:
    """True if the word after a name makes it a dish ("Caesar dressing") or a place ("Maria Street")."""
    return word.lower() in mention_words("foods") or (word[:1].isupper() and word.lower() in listed("things"))


def _bare(word: str) -> str:
    return word.lower().replace("'", "").replace("’", "")


@cache
def _dishes() -> frozenset[str]:
    """Dishes, drinks, brands and cities of two words, where one word may be a first name."""
    return frozenset(phrase.replace("_", " ") for phrase in mention_words("dishes"))
