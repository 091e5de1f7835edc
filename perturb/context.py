"""Context of a lexicon word: the conditions of its row, and names that contain it.

A name is what capitals show to be one, what is protected, and what a slot of names of things holds (``artist``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.english import NO_WORD, next_word, previous_word, starts_sentence
from tod_bias.perturb.lexicon import Condition, Paradigm
from tod_bias.perturb.tables import words

_POSSESSIVES = words("possessives")
_NOT_NAMES = words("not-names")
_DESCRIBING = words("describing")
_PERSON = words("person")
_PERSON_PLURALS = words("person-plurals")
_COMMON = words("common")
_BEFORE_TITLES = words("before-titles")
_STARTERS = words("starters") | words("not-a-noun-phrase") | words("possessives") | words("modals")
_DETERMINERS = words("determiners") | _POSSESSIVES
_GROUPS = words("groups")
_HAVING = words("having")
_OWNERS = words("owners")
_NUMBERS = words("numbers")
_ENTITY_SLOTS, _PERSON_SLOTS = words("entity-slots"), words("person-slots")
_PARTS = re.compile(r"[\W_]+")
_LIST = re.compile(r"\s*,\s*")
_WORDS = re.compile(r"[^\W\d_]+")
_UNIT = r"(?:year|yr|month|week|day)s?"
_NUMBER = rf"(?:\d+|{'|'.join(sorted(_NUMBERS))})"
_YEARS_BEFORE = re.compile(rf"\b{_UNIT}[ -]$", re.IGNORECASE)
_AGE_BEFORE = re.compile(rf"\b{_UNIT}[ -]old,? (?:(?!and\b|or\b)[\w-]+ )?$", re.IGNORECASE)
_AGE_AFTER = re.compile(
    rf",?(?: \(| (?:(?:who|that) )?(?:is|are) | (?:under|over) | ){_NUMBER}[ -]{_UNIT}[ -]old\b|,? aged \d",
    re.IGNORECASE,
)
_NON_BINARY = re.compile(r"\b(?:themself|non-?binary|enby|genderqueer|mx)\b", re.IGNORECASE)


def is_person(word: str) -> bool:
    """True if ``word`` is one of the nouns for people of the ``person-next`` condition."""
    word = re.sub(r"['’]s?$", "", word.lower())
    return word in _PERSON or word in _PERSON_PLURALS or (word.endswith("s") and word[:-1] in _PERSON)


def _key(word: str) -> str:
    return word.lower().replace("’", "'").rstrip(".'")


def _next(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    return _key(next_word(text, end).text) in words


def _previous(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    return _key(previous_word(text, start).text) in words


def _person_next(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    after = next_word(text, end)
    if after.text.lower() in _DESCRIBING and not is_person(after.text):
        after = next_word(text, after.end)
    elif after.text.lower() in _DESCRIBING and is_person(next_word(text, after.end).text):
        return True
    return after is not NO_WORD and is_person(after.text)


def _name_next(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    after = next_word(text, end + 1 if text[end : end + 1] == "." else end)
    return after.text[:1].isupper() and after.text not in _NOT_NAMES


def _possessed(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    before = previous_word(text, start)
    if before.text.lower() in _DESCRIBING or before.text.isdigit() or before.text.lower() in _NUMBERS:
        before = previous_word(text, before.start)
    key = before.text.lower()
    if key in _HAVING:  # "I have two children", but "do you have 3 child seats"
        owner = previous_word(text, before.start).text.lower().replace("’", "'")
        counted = previous_word(text, start).text.lower()
        return owner in _OWNERS and (counted.isdigit() or counted in _NUMBERS) and _alone(text, start, end, words)
    return key in _POSSESSIVES or key.endswith(("'s", "’s", "s'", "s’"))


def _predicate(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    before = previous_word(text, start)
    for _ in range(2):
        if before.text.lower() in ("very", "too", "so", "quite", "not", "pretty", "still", "getting", "a", "bit"):
            before = previous_word(text, before.start)
    subject = {"i'm": "i", "he's": "he", "she's": "he", "they're": "they", "we're": "we", "you're": "we"}
    key = before.text.lower().replace("’", "'")
    if key in ("am", "is", "are", "was", "were"):
        who = previous_word(text, before.start).text.lower()
        is_subject = who in ("i", "he", "she", "they", "we", "you") or is_person(who)
    else:
        is_subject = key in subject
    after = next_word(text, end)
    return is_subject and (after is NO_WORD or _key(after.text) in ("and", "so", "but", "or"))


def _no_stated_age(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    """True if no age in numbers precedes ("70 year old …", including its "old") or follows ("…, aged 70")."""
    before = max(0, start - 40)
    return not (
        _AGE_BEFORE.search(text, before, start)
        or (text[start:end].lower().startswith("old") and _YEARS_BEFORE.search(text, before, start))
        or _AGE_AFTER.match(text, end)
    )


def _determined(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    before = previous_word(text, start).text
    key = before.lower().replace("’", "'")
    return key in _DETERMINERS or key in _DESCRIBING or key.endswith("'s") or before.isdigit()


def _alone(text: str, start: int, end: int, words: frozenset[str]) -> bool:
    after = next_word(text, end)
    return after is NO_WORD or after.text.lower() in _STARTERS


_TESTS: dict[str, Callable[[str, int, int, frozenset[str]], bool]] = {
    "next": _next,
    "not-next": lambda text, start, end, words: not _next(text, start, end, words),
    "prev": _previous,
    "not-prev": lambda text, start, end, words: not _previous(text, start, end, words),
    "person-next": _person_next,
    "not-person-next": lambda text, start, end, words: not _person_next(text, start, end, words),
    "name-next": _name_next,
    "possessed": _possessed,
    "predicate": _predicate,
    "no-stated-age": _no_stated_age,
    "determined": _determined,
    "alone": _alone,
    "capitalised": lambda text, start, end, words: text[start:end][:1].isupper(),
    "in-names": lambda text, start, end, words: True,
}


def holds(condition: Condition, text: str, start: int, end: int) -> bool:
    """True if ``condition`` holds for the word at ``start:end``."""
    return _TESTS[condition.name](text, start, end, condition.words)


def fits(paradigm: Paradigm, slot: int, text: str, start: int, end: int) -> bool:
    """True if all conditions of the row hold for its form number ``slot`` at ``start:end``."""
    return all(
        holds(condition, text, start, end)
        for condition in paradigm.context
        if condition.name != "determined" or not slot
    )


def in_name(paradigm: Paradigm, text: str, start: int, end: int) -> bool:
    """True if the word at ``start:end`` looks like a part of a name, such as "Girl" in "Girl In Red".

    The word and the next or previous one must be capitalised. At the start of a sentence, common first words such as
    "My" in "My Mom" do not count. Titles, and relatives followed by one name ("Aunt Jenny"), are exempt.
    """
    word = text[start:end]
    if not word[:1].isupper() or text.isupper():
        return False
    before, after = previous_word(text, start), next_word(text, end)
    first = starts_sentence(text, before.start) and (paradigm.in_names or before.text.lower() in _STARTERS)
    if _is_name(before.text) and not first:
        return True
    if paradigm.in_names or paradigm.pos == "title":
        return False
    if _is_name(after.text):
        further = next_word(text, after.end)
        business = after.text.endswith(("'s", "’s")) and (further is NO_WORD or further.text.lower() in _STARTERS)
        return paradigm.pos != "kin" or business or _is_name(further.text)
    return False


def _is_name(word: str) -> bool:
    return word[:1].isupper() and word not in _NOT_NAMES


class _Phrase(NamedTuple):
    text: str
    any_case: bool
    common: bool


@lru_cache(maxsize=1 << 14)
def _phrase(phrase: str) -> _Phrase:
    several = " " in phrase or "-" in phrase
    common = several and all(word.lower() in _COMMON for word in phrase.split())
    return _Phrase(phrase.lower() if several else phrase, several, common)


def phrase_spans(text: str, lowered: str, phrases: Iterable[str]) -> list[tuple[int, int]]:
    """Return the places of phrases in ``text`` as whole words, in any capitals.

    A phrase of one word ("Queen"), or of very common words only ("He Is"), would protect ordinary text. It must occur
    in its own capitals, or look like a title if it consists of common words.
    """
    spans = []
    for what, any_case, common in map(_phrase, phrases):
        where = lowered if any_case else text
        start = where.find(what)
        while start >= 0:
            end = start + len(what)
            whole = not where[start - 1 : start].isalnum() and not where[end : end + 1].isalnum()
            if whole and (not common or _looks_like_title(text, start, end)):
                spans.append((start, end))
            start = where.find(what, start + 1)
    return spans


def _looks_like_title(text: str, start: int, end: int) -> bool:
    capital = re.search(r"[ '-][A-Z](?!['’ ]|$)", text[start:end])
    return capital is not None or previous_word(text, start).text.lower() in _BEFORE_TITLES


def is_singular_they(text: str, start: int, *, strict: bool) -> bool:
    """True if "they" at ``start`` may be one person, judged by the same text only.

    ``strict`` requires an explicit word ("non-binary", "themself"). Otherwise the last named entity must not be a
    group, or a thing such as a restaurant.
    """
    if strict:
        return _NON_BINARY.search(text) is not None
    for word in reversed(_WORDS.findall(text, 0, start)):
        key = word.lower()
        if key in _PERSON:
            return True
        if key in _GROUPS or key in _PERSON_PLURALS or (key.endswith("s") and key[:-1] in (_PERSON | _GROUPS)):
            return False
    return True


@lru_cache(maxsize=4096)
def is_entity_slot(slot: str) -> bool:
    """True if the values of a slot are names of things or places (``restaurant_name``, ``artist``, ``from_station``).

    Slots with the user's word for a person (``recipient_name``: "Mom") do not count.
    """
    parts = set(_PARTS.split(slot.lower()))
    return not parts.isdisjoint(_ENTITY_SLOTS) and parts.isdisjoint(_PERSON_SLOTS)


def entity_names(dialogue: Dialogue, may_mention: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the names in a dialogue's calls and results that hold a word for which ``may_mention`` is true, each once.

    Values at any depth are read; the innermost slot decides, and a list's values belong to the list's slot.
    A name of three words or more also gives its first two, which is how people shorten it ("Uncle Yu's" for "Uncle
    Yu's Szechuan"). A value that lists several names ("A, B") gives each of them too, as utterances hold them apart.
    """
    values = dict.fromkeys(value for turn in dialogue.turns for slot, value in turn.values if is_entity_slot(slot))
    names: dict[str, None] = {}
    for value in values:
        if may_mention(value):
            parts = value.split()
            short = " ".join(parts[:2]) if len(parts) > 2 and parts[0].lower() not in ("the", "a") else ""
            listed = _LIST.split(value) if "," in value else ()
            names |= dict.fromkeys((value, *(part for part in (short, *listed) if part and may_mention(part))))
    return tuple(names)
