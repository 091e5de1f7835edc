"""Where a word of the lexicon stands: whether its row's conditions hold, and whether it is part of a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tod_bias.perturb.english import NO_WORD, next_word, previous_word, starts_sentence
from tod_bias.perturb.lexicon import Condition, Paradigm
from tod_bias.perturb.words import words

_POSSESSIVES = words("possessives")
_NOT_NAMES = words("not-names")
_DESCRIBING = words("describing")
_PERSON = words("person")
_PERSON_PLURALS = words("person-plurals")


def is_person(word: str) -> bool:
    """Whether ``word`` is one of the nouns for people that the ``person-next`` condition knows."""
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
    if before.text.lower() in _DESCRIBING or before.text.isdigit():
        before = previous_word(text, before.start)
    key = before.text.lower()
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
        found = who in ("i", "he", "she", "they", "we", "you") or is_person(who)
    else:
        found = key in subject
    after = next_word(text, end)
    return found and (after is NO_WORD or _key(after.text) in ("and", "so", "but", "or"))


_TESTS: dict[str, Callable[[str, int, int, frozenset[str]], bool]] = {
    "next": _next,
    "not-next": lambda text, start, end, words: not _next(text, start, end, words),
    "prev": _previous,
    "not-prev": lambda text, start, end, words: not _previous(text, start, end, words),
    "person-next": _person_next,
    "name-next": _name_next,
    "possessed": _possessed,
    "predicate": _predicate,
    "in-names": lambda text, start, end, words: True,
}


def holds(condition: Condition, text: str, start: int, end: int) -> bool:
    """Whether ``condition`` holds for the word at ``start:end``."""
    return _TESTS[condition.name](text, start, end, condition.words)


def fits(paradigm: Paradigm, text: str, start: int, end: int) -> bool:
    """Whether all conditions of the row hold for the word at ``start:end``."""
    return all(holds(condition, text, start, end) for condition in paradigm.context)


def in_name(paradigm: Paradigm, text: str, start: int, end: int) -> bool:
    """Whether the word at ``start:end`` looks like a part of a name, such as "Girl" in "Girl In Red".

    It does if it is capitalised and a neighbour in the middle of the sentence is too, or if the whole text is a title
    of several capitalised words. Titles, and relatives followed by one name ("Aunt Jenny"), are exempt.
    """
    word = text[start:end]
    if not word[:1].isupper() or paradigm.in_names or text.isupper():
        return False
    before, after = previous_word(text, start), next_word(text, end)
    if _is_name(before.text) and not starts_sentence(text, before.start):
        return True
    if paradigm.pos == "title":
        return False
    if _is_name(after.text):
        return paradigm.pos != "kin" or _is_name(next_word(text, after.end).text)
    return before is not NO_WORD and text.istitle() and len(word) > 2


def _is_name(word: str) -> bool:
    return word[:1].isupper() and word not in _NOT_NAMES


def phrase_spans(text: str, lowered: str, phrases: Iterable[str]) -> list[tuple[int, int]]:
    """Where the phrases stand in ``text`` as whole words: in any case, or exactly where a phrase has few letters.

    A phrase of one word, or of words such as "he is" only, would protect ordinary text if its case did not count.
    """
    spans = []
    for phrase in phrases:
        exact = case_counts(phrase)
        where, what = (text, phrase) if exact else (lowered, phrase.lower())
        start = where.find(what)
        while start >= 0:
            end = start + len(what)
            if not where[start - 1 : start].isalnum() and not where[end : end + 1].isalnum():
                spans.append((start, end))
            start = where.find(what, start + 1)
    return spans


_COMMON = words("common")


def case_counts(phrase: str) -> bool:
    """Whether a phrase is so ordinary that only its exact capitals protect it."""
    words = phrase.split()
    return len(words) < 2 or all(word.lower() in _COMMON for word in words)
