"""Third-person pronouns: which role "her" and "his" play, and the verb forms that go with "they"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tod_bias.perturb.english import NO_WORD, WordAt, next_word, previous_word
from tod_bias.perturb.tables import words

SUBJECT, OBJECT, DETERMINER, POSSESSIVE, REFLEXIVE = range(5)
"""The order of a pronoun's forms in a lexicon."""
THEY = "they"
"""The subject form that takes the verb of the plural."""

Edit = tuple[int, int, str]

# After "her" these words show an object ("call her at noon"), after "his" a possessive without a noun ("one of his").
_NOT_A_NOUN_PHRASE = words("not-a-noun-phrase")
_CAUSATIVES = words("causatives")
_HELPING = words("helping")
_BASE_VERBS = words("base-verbs")
_GIVING = words("giving")
_BACK = words("back")
_HOMEWARD = words("homeward")
_SEEING = words("seeing")
_DEEDS = words("deeds")
_NOT_BEFORE_SUBJECT = words("not-before-subject")
_AFTER_THE = words("after-the")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)\b", re.IGNORECASE)
_GIVEN = re.compile(
    r"[ \t]+(?:[$£€]|(?:a|an|some|the|this|that)\b|\d[\d,.]*(?:[ \t]+(?:dollars?|bucks|pounds|euros?|usd)\b|$|[.?!]))",
    re.I,
)
_ADVERBS = words("adverbs")
_PLURAL = {
    "is": "are",
    "was": "were",
    "has": "have",
    "does": "do",
    "isn't": "aren't",
    "wasn't": "weren't",
    "hasn't": "haven't",
    "doesn't": "don't",
    "isnt": "arent",
    "wasnt": "werent",
    "hasnt": "havent",
    "doesnt": "dont",
    "goes": "go",
    "ain't": "ain't",
}
_SINGULAR = {plural: singular for singular, plural in _PLURAL.items()}
_MODALS = words("modals")
_PAST = words("past")
_NOT_PAST = words("not-past")
_PARTICIPLES = words("participles")
_THIRD_PERSON = words("third-person")
_BASE_FORMS = words("base-forms")
_BREAK = re.compile(
    r"[.?!;:\n]|\b(?:which|that|who|whom|where|he|she|they|we|i|because|if|when|while|since)\b"
    r"|\b(?:it|you)(?=['’]|[ \t]+(?:is|was|are|were|has|have|do|does|will|would|can|could|should|must|looks?)\b)",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"\b(?:and|or|but)[ \t]+(?:(?:also|then|always|never|really|still|only|usually)[ \t]+)*([\w'’]+)", re.I
)


def role(text: str, start: int, end: int, slots: frozenset[int]) -> int:
    """The role of the pronoun at ``start:end``, among the roles that its form can have."""
    if len(slots) == 1:
        return next(iter(slots))
    if slots == {OBJECT, DETERMINER}:
        return OBJECT if _is_object(text, start, end) else DETERMINER
    if slots == {DETERMINER, POSSESSIVE}:
        return POSSESSIVE if _stands_alone(text, end) else DETERMINER
    return min(slots)


def _stands_alone(text: str, end: int) -> bool:
    after = next_word(text, end)
    if after is NO_WORD:
        return not re.match(r"[ \t]*[\"“‘(#$\d]", text[end:])
    return after.text.lower().replace("’", "'") in _NOT_A_NOUN_PHRASE


def _is_object(text: str, start: int, end: int) -> bool:
    before = previous_word(text, start).text.lower().replace("’", "'")
    if before in _CAUSATIVES:
        return True
    if before in _GIVING and _GIVEN.match(text, end):
        return True
    if _stands_alone(text, end):
        return True
    after = next_word(text, end)
    verb = after.text.lower()
    if verb == text[start:end].lower():
        return True  # "gave her her ticket"
    if verb == "back":
        return before in _GIVING or before in _BACK
    if verb == "home":
        return before in _HOMEWARD
    if before in _SEEING and verb in _DEEDS:
        return _stands_alone(text, after.end) and next_word(text, after.end).text.lower() != "of"
    return before in _HELPING and verb in _BASE_VERBS


def is_misspelt(text: str, start: int, end: int) -> bool:
    """True if the subject pronoun at ``start:end`` is a misspelt article: "at he moment", "confirm he following"."""
    before = previous_word(text, start).text.lower().replace("’", "'")
    if before in _NOT_BEFORE_SUBJECT:
        return True
    if text[start:end] != "he":
        return False
    after = next_word(text, end).text
    if after in _AFTER_THE or _ORDINAL.match(after):
        return True
    named = after[:1].isupper() and after[1:2].islower() and not after.startswith(("I'", "I’"))
    return named and before not in _MODALS and before not in _PLURAL  # "recommend you he Andes Cafe"


def _plural_verb(verb: str) -> str:
    if verb in _PLURAL:
        return _PLURAL[verb]
    if verb in _PAST or not verb.endswith("s") or verb.endswith(("ss", "us", "is")) or "'" in verb:
        return verb
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    return verb[:-2] if re.search(r"(?:ss|sh|ch|x|zz|[^aeiou]o)es$", verb) else verb[:-1]


def _singular_verb(verb: str) -> str:
    if verb in _SINGULAR:
        return _SINGULAR[verb]
    if verb in _MODALS or verb in _PAST or "'" in verb or not verb.isalpha():
        return verb
    if (verb.endswith("ed") and verb not in _NOT_PAST) or verb.endswith(("ing", "ly")):
        return verb
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(?:ss|sh|ch|x|zz|[^aeiou]o)$", verb) else "s")


def _cased(new: str, old: str) -> str:
    if old.isupper() and len(old) > 1:
        return new.upper()
    new = new.replace("'", "’") if "’" in old else new
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def agreement(text: str, start: int, end: int, *, to_they: bool) -> Iterator[Edit]:
    """The changes to the verbs of the subject pronoun at ``start:end`` when it becomes, or stops being, "they"."""
    contraction = re.match(r"['’](s|re|ve)\b", text[end:], re.I)
    if contraction:
        yield from _contracted(text, end, contraction[1], to_they=to_they)
        return
    before = previous_word(text, start)
    question = re.fullmatch(r"(how|what|where|who|when|why)['’]s", before.text, re.IGNORECASE)
    if to_they and question:
        yield before.start + len(question[1]), before.end, " are"
        return
    after = _verb_after(text, end)
    verb, key = _plain(after.text), _plain(before.text)
    auxiliaries = _PLURAL if to_they else _SINGULAR
    if key in auxiliaries:
        if previous_word(text, before.start).text.lower() in ("it", "this", "that"):  # "it was she who called"
            return
        finite = verb in (_THIRD_PERSON if to_they else _BASE_FORMS)
        if key not in ("goes", "go") and not (finite and key in ("is", "was", "are", "were")):
            yield before.start, before.end, _cased(auxiliaries[key], before.text)
            return
    if key in _MODALS or after is NO_WORD:
        return
    new = _plural_verb(verb) if to_they else _singular_verb(verb)
    if new != verb:
        yield after.start, after.end, _cased(new, after.text)
    yield from _joined(text, after.end, to_they=to_they)


def _contracted(text: str, end: int, contraction: str, *, to_they: bool) -> Iterator[Edit]:
    """The change to a verb that is joined to the pronoun ("she's"), and to verbs that share the subject."""
    verb, verb_end = contraction.lower(), end + 1 + len(contraction)
    if to_they and verb == "s":
        new = "ve" if next_word(text, verb_end).text.lower() in _PARTICIPLES else "re"
    elif not to_they and verb in ("re", "ve"):
        new = "s"
    else:
        return
    yield end, verb_end, text[end] + (new.upper() if contraction.isupper() else new)
    yield from _joined(text, verb_end, to_they=to_they)


def _verb_after(text: str, end: int) -> WordAt:
    """The verb behind a subject, adverbs passed over."""
    after = next_word(text, end)
    for _ in range(3):
        word = after.text.lower()
        if word in _ADVERBS or (word.endswith("ly") and word not in ("apply", "fly", "reply", "rely", "supply")):
            after = next_word(text, after.end)
    return after


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")


def _joined(text: str, start: int, *, to_they: bool) -> Iterator[Edit]:
    """Verbs that share the subject: "she lives here and *works* there"."""
    stop = _BREAK.search(text, start)
    for match in _JOINED.finditer(text, start, stop.start() if stop else len(text)):
        verb = match[1].lower().replace("’", "'")
        if verb in (_THIRD_PERSON if to_they else _BASE_FORMS):
            new = _plural_verb(verb) if to_they else _singular_verb(verb)
            if new != verb:
                yield match.start(1), match.end(1), _cased(new, match[1])
