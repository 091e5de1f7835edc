"""People in a dialogue: found by slots, introductions and addresses, ids and e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, zip_longest
from typing import Any, NamedTuple

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.dealing import number_of
from tod_bias.perturb.english import edited
from tod_bias.perturb.names.forms import WORD, NameForms, is_last_name, listed, written_like
from tod_bias.perturb.names.mentions import Unaccented, is_dish_or_place, is_interjection, mentioned
from tod_bias.perturb.names.resources import GENDERS, RACES, by_first, by_last, dealt, dealt_last
from tod_bias.perturb.names.slots import NameSlots, is_thing, name_slots


@dataclass(frozen=True)
class Person:
    """Somebody who is named in a dialogue."""

    first: str
    """The first name, as it is usually written."""
    last: str = ""
    """Last name; empty if none is given."""
    origin: str = "text"
    """Source in which the person was found first: ``slot``, ``text`` or ``id``."""
    user: bool = False
    """True for the user: by a slot of the user's name, their introduction, or an address by the system."""

    @property
    def name(self) -> str:
        """First and last name in lower case."""
        return f"{self.first} {self.last}".strip().lower()

    @property
    def gender(self) -> str:
        """``man``, ``woman`` or empty if the first name does not determine it."""
        known = by_first().get(self.first.lower())
        return "" if known is None else known.gender

    @property
    def race(self) -> str:
        """Race by first and last name; empty if they determine none, or two."""
        first, last = by_first().get(self.first.lower()), by_last().get(self.last.lower())
        races = {known.race for known in (first, last) if known is not None and known.race}
        return races.pop() if len(races) == 1 else ""


def people(dialogue: Dialogue, slots: NameSlots | None = None) -> tuple[Person, ...]:
    """The people who are named in a dialogue, each once: users first, then who is named most, then who is named first.

    Args:
        dialogue: any.
        slots: which slots hold names; the package's where left out (:func:`~tod_bias.perturb.names.slots.name_slots`).
    """
    known = name_slots() if slots is None else slots
    named_in: list[Person] = []
    expects_name = False
    for turn in dialogue.turns:
        for number, (speaker, text) in enumerate(turn.utterances):
            if text:
                named_in += in_text(text, speaker, expects_name=expects_name and number == 0)
        for step in turn.steps:
            for record in (step.call, *step.results):
                named_in += _in_slots(record, known)
        expects_name = "name" in turn.response
    if any(person.origin == "text" for person in named_in):
        things = [value.lower() for turn in dialogue.turns for slot, value in turn.values if is_thing(slot, known)]
        named_in = [person for person in named_in if person.origin != "text" or not _is_among(person, things)]
    return _merged(named_in)


def _is_among(person: Person, things: Sequence[str]) -> bool:
    """True if the name is a thing's, or a person's in a slot of things (a singer, a doctor)."""
    if person.last:
        return any(person.name in value for value in things)
    first = person.first.lower()
    return not person.user and any(first in value and first in _LETTERS.findall(value) for value in things)


def _merged(named_in: Iterable[Person]) -> tuple[Person, ...]:
    """Each person once; a first name alone is whoever bears it with a last name."""
    merged: dict[tuple[str, str], list[Any]] = {}
    for person in named_in:
        first, last = person.first.lower(), person.last.lower()
        key = (first, last)
        if key not in merged:
            if not last:
                key = next((known for known in merged if known[0] == first), key)
            elif (first, "") in merged:  # now the last name is known
                held = merged.pop((first, ""))
                held[0] = Person(held[0].first, person.last, held[0].origin, held[0].user)
                merged[key] = held
        held = merged.setdefault(key, [person, 0, len(merged)])
        held[1] += 1
        if person.user and not held[0].user:
            held[0] = Person(held[0].first, held[0].last, held[0].origin, True)
    ranked = sorted(merged.values(), key=lambda held: (not held[0].user, -held[1], held[2]))
    return tuple(
        replace(held[0], first=_spelt(held[0].first, by_first()), last=_spelt(held[0].last, by_last()))
        for held in ranked
    )


def _spelt(name: str, known: Mapping[str, Any]) -> str:
    """Return a name in its usual spelling if it was typed in lower case, capitals or a mixture."""
    if name[:1].isupper() and name[1:2].islower():
        return name
    return known[name.lower()].name if name.lower() in known else name.title()


# --- slots

_SEPARATOR = re.compile(r"\s*(?:,|;|&|/|\band\b)\s*", re.IGNORECASE)
_NAME = re.compile(rf"{WORD}(?:['’]{WORD})?(?:\s+(?:[A-Za-z]\.?\s+)?{WORD}(?:['’]{WORD})?)?")
_IN_ID = re.compile(r"(?<![^\W_])([a-z]+)_([a-z]+)_\d{2,}(?![^\W_])")
_IN_EMAIL = re.compile(r"(?<![^\W_])([A-Za-z]+)[._]([A-Za-z]+?)\d*@")


def _in_slots(record: Mapping[str, Any], slots: NameSlots) -> list[Person]:
    people: list[Person] = []
    parts: dict[str, list[str]] = {"first": [], "last": []}
    for slot, value in record.items():
        if isinstance(value, str):
            kind = slots.kind(slot)
            if kind in parts:
                parts[kind].append(value.strip())
            elif kind in ("id", "email"):
                people += _in_ids(value, only_known=False)
            elif kind:
                people += named(value, user=kind == "user")
        elif value.__class__ is dict or isinstance(value, Mapping):
            people += _in_slots(value, slots)
        elif value.__class__ is list:
            for item in value:
                if isinstance(item, str | Mapping):
                    people += _in_slots({slot: item}, slots)
    pairs = zip_longest(parts["first"], parts["last"][: len(parts["first"])], fillvalue="")
    return people + [Person(first, last, "slot") for first, last in pairs if _NAME.fullmatch(first)]


def named(value: str, *, user: bool, origin: str = "slot") -> Iterator[Person]:
    """The people in a value of a slot of names: ``"Angela"``, ``"angela brown"``, ``"Ben, John and Mark"``."""
    for part in _SEPARATOR.split(value.strip(" .!?\"'")):
        if _NAME.fullmatch(part):
            words = part.split()
            first, last = words[0], words[-1] if len(words) > 1 else ""
            if first.lower() in by_first() or (last and first.lower() not in listed("not last")):
                yield Person(first, last, origin, user)


def _in_ids(text: str, *, only_known: bool) -> Iterator[Person]:
    for pattern in (_IN_ID, _IN_EMAIL):
        for match in pattern.finditer(text):
            if not only_known or match[1].lower() in by_first():
                yield Person(match[1].capitalize(), match[2].capitalize(), "id", True)


# --- texts

_SURE = re.compile(
    rf"\b(?:(?:my|full|first|the|her|his|their|whose|customer['’]?s?)\s+(?:first\s+|full\s+)?name(?:\s*['’]?s|\s+is|\s+was)?(?:\s*:)?|names?\s*['’]?s|name\s+is|"
    rf"(?:under|in|by)\s+(?:the|my)\s+name(?:\s+of)?|under\s+the\s+name|call\s+me|i\s+go\s+by)\s*:?\s+"
    rf"(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?",
    re.IGNORECASE,
)
_LIKELY = re.compile(
    rf"\b(?:this\s+is|it\s+is|it['’]?s|i\s+am|i['’]?m|under|book(?:ed|ing)?\s+for)\s+(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?",
    re.IGNORECASE,
)
_HERE = re.compile(
    rf"(?:^|[,.!?:;-]\s*|\b(?:hi|hello|hey)\s+)(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?\s+(?:here|speaking|calling)\b",
    re.I,
)
_ADDRESS = re.compile(
    rf"\b(?:hi|hello|hey|dear|thanks|thank\s+you|welcome|good\s+(?:morning|afternoon|evening|day|bye)|goodbye|bye|sure|ok|okay|"
    rf"alright|great|perfect|sorry|yes|no|of\s+course|please|absolutely|certainly)(?:\s+back)?(?:\s+again)?,?\s+"
    rf"(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?\s*(?=[,.!?;:]|$|\s(?:how|what|i|your|you|we|the|and|let)\b)",
    re.IGNORECASE,
)
_VOCATIVE = re.compile(rf",\s+(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?\s*[.!?]*\s*$", re.IGNORECASE)
_SIGNED = re.compile(
    rf"(?:(?:^|\s)[-–—]\s?|(?:^|[.!?,\n])\s*(?:best|regards|sincerely|cheers|love|yours)(?:\s+(?:regards|wishes|truly))?,?\s+)"
    rf"(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?[.\s]*$",
    re.IGNORECASE,
)
_WHOLE = re.compile(rf"\s*(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?\s*[.!,]*\s*", re.IGNORECASE)
_ANSWER = re.compile(rf"\s*(?P<first>{WORD})(?:\s+(?P<last>{WORD}))?\s*(?=[.!,])")
_COMPANION = re.compile(
    rf"\b(?:for(?:\s+me\s+and)?|help|take|bring|invite|(?:me|i|myself)\s+and|think|that|ask|tell|call|text|email|pay|"
    rf"(?:send|give|transfer|message)(?:\s+(?:it|this|that|money|\$?\d+(?:\s+dollars)?))?(?:\s+to)?|under)\s+"
    rf"(?P<first>(?-i:[A-Z]){WORD}|(?-i:[A-Z])[^\W\d_]+)(?:\s+(?P<last>{WORD}))?",
    re.IGNORECASE,
)
_BELONGINGS = "account|name|phone|number|birthday|reservation|booking|ticket|order|address|appointment|email"
_OWNER = re.compile(
    rf"\b(?P<first>(?-i:[A-Z])[^\W\d_]+)(?:\s+(?P<last>{WORD}))?['’]s\s+(?:{_BELONGINGS})\b",
    re.IGNORECASE,
)
_CLOSES = re.compile(
    r"\s*(?:[,.!?;:)]|$)|\s+(?:and|or|calling|speaking|here|from|at|with|for|please|i|thanks|thank)\b", re.I
)


def in_text(text: str, speaker: str = "user", *, expects_name: bool = False) -> Iterator[Person]:
    """Yield the people whom a text names by an introduction or an address, by an id or an e-mail address.

    Args:
        text: an utterance.
        speaker: ``user`` or ``system``: whoever introduces themselves to the system is the user, and so is whom the
            system addresses.
        expects_name: True if the system has just requested a name, so that a name alone counts.
    """
    is_user = speaker == "user"
    if "_" in text or "@" in text:
        yield from _in_ids(text, only_known=True)
    whole = _WHOLE.fullmatch(text) if is_user else None
    if whole and _is_all(whole, text, expects_name=expects_name):
        yield _person(whole, text, is_user)
        return
    lower = text.lower()
    may_name = _may_name(text, lower)
    if not may_name and "name" not in lower:
        return
    answer = _ANSWER.match(text) if expects_name and is_user else None
    if answer and _fits(answer, text):
        yield _person(answer, text, is_user)
    for cue in _CUES:
        if may_name or cue.is_sure:
            yield from cue.people(text, lower, is_user=is_user)


def _is_all(match: re.Match[str], text: str, *, expects_name: bool) -> bool:
    """True if a whole text is a name."""
    return _fits(match, text, sure=expects_name) and (expects_name or not match["last"] or bool(_last(match, text)))


_LAST_WORDS = 200
"""Characters of a text that hold its last words: a sign-off and a name."""


_LETTERS = re.compile(r"[^\W\d_]{2,}")
_TO_BLANKS = {code: " " for code in range(128) if not chr(code).isalpha()}


def _may_name(text: str, lower: str) -> bool:
    """A quick check: whether a word may be a name; one that is also a word is none in lower case."""
    known = by_first()
    words = lower.translate(_TO_BLANKS).split() if lower.isascii() else _LETTERS.findall(lower)
    if known.keys().isdisjoint(words):
        return False
    for word in _LETTERS.findall(text):
        name = known.get(word.lower())
        if name is not None and (not name.word or word[0].isupper()):
            return True
    return False


def _last(match: re.Match[str], text: str) -> str:
    """The last name behind a first one, where the second word is one."""
    first, last = match["first"], match["last"] or ""
    if not last or last.lower() in listed("not last") or last.lower() in listed("things"):
        return ""
    if first[0].isupper() and last[0].isupper():
        return last
    known = by_last().get(last.lower())
    if not last.isupper() and last[0].islower() and known is not None:
        return last if not known.word or _ends(match.end("last"), text) else ""
    return ""


_GOES_ON = re.compile(r"(?:and|i|i['’]?m|here|calling|speaking|please)\b", re.IGNORECASE)


def _ends(place: int, text: str) -> bool:
    rest = text[place:].lstrip(" ")
    return not rest or rest[0] in ".,!?;:\n" or bool(_GOES_ON.match(rest))


def _person(match: re.Match[str], text: str, user: bool) -> Person:
    return Person(match["first"], _last(match, text), "text", user)


def _is_full(match: re.Match[str], text: str) -> bool:
    """Two words with capitals behind "my name is": a name, whether it is known or not."""
    first, last = match["first"], match["last"] or ""
    return (
        match[0].lower().startswith("my ")
        and first[:1].isupper()
        and not first.isupper()
        and bool(_last(match, text))
        and first.lower() not in listed("not last")
        and not re.match(r"['’]s\b", text[match.end("last") :])
        and last[0].isupper()
    )


def _is_of_thing(match: re.Match[str], text: str) -> bool:
    """True if it is the name of a thing: "the event name is"."""
    before = _LETTERS.findall(text[max(0, match.start() - 30) : match.start()] + " ")
    return bool(before) and before[-1].lower() in listed("named things") and text[: match.start()].endswith(" ")


def _fits(match: re.Match[str], text: str, *, sure: bool = False) -> bool:
    """True if the words at the place of a name are a known first name; a name that is also a word needs more
    evidence."""
    first = match["first"]
    known = by_first().get(first.lower())
    if known is None or re.match(r"['’]s\b", text[match.end("first") :]):
        return False
    if sure:
        return not (first.lower() in listed("times") and re.match(r"\s+\d", text[match.end("first") :]))
    if first.islower() and len(first) < 3:
        return False  # it's al for today
    follower, last = match["last"] or "", _last(match, text)
    if not last and follower[:1].isupper() and follower.lower() not in listed("not last"):
        return False  # This is Angela Street
    return not known.word or _word_fits(first, last, match, text)


def _word_fits(first: str, last: str, match: re.Match[str], text: str) -> bool:
    """True if a first name that is also a word is a name at the place of a name."""
    if not first[0].isupper() or text.isupper():
        return False
    if last:
        return True
    is_time = first.lower() in listed("times") or first.lower() in listed("places")
    return not is_time and _ends(match.end("first"), text)


def _closes(match: re.Match[str], text: str) -> bool:
    place = match.end("last") if _last(match, text) else match.end("first")
    return bool(_CLOSES.match(text[place:]))


def _is_companion(match: re.Match[str], text: str) -> bool:
    """Find a person whom the text is about ("a table for Emily"): a known capitalised name that is not a word
    or place."""
    first = by_first().get(match["first"].lower())
    if first is None or first.word or not match["first"][0].isupper() or text.isupper():
        return False
    if match["last"] and match["last"][0].isupper() and not is_last_name(match["last"]):
        return match["last"].lower() in listed("not last")
    rest = text[match.end("first") :]
    return not re.match(r"['’]s\b", rest) or bool(re.match(rf"['’]s\s+(?:{_BELONGINGS})\b", rest))


def _fits_surely(match: re.Match[str], text: str) -> bool:
    return not _is_of_thing(match, text) and (_fits(match, text, sure=True) or _is_full(match, text))


def _fits_and_closes(match: re.Match[str], text: str) -> bool:
    return _fits(match, text) and _closes(match, text)


class _Cue(NamedTuple):
    """A way in which a text names somebody."""

    pattern: re.Pattern[str]
    fits: Callable[[re.Match[str], str], bool] = _fits
    needs: tuple[str, ...] = ()
    """Strings, one of which is in every text in which something is found."""
    is_sure: bool = False
    """True if unknown names are found too."""
    at_end: bool = False
    """True if only the last words are searched."""
    names_user: bool = True
    """True if the name is the user's when the user speaks."""
    by_listener: bool = False
    """True if the name is the user's when the system speaks."""

    def people(self, text: str, lower: str, *, is_user: bool) -> Iterator[Person]:
        """Whom a text names in this way, spoken by the user or not."""
        if self.needs and not any(word in lower for word in self.needs):
            return
        for match in self.pattern.finditer(text, max(0, len(text) - _LAST_WORDS) if self.at_end else 0):
            if self.fits(match, text):
                yield _person(match, text, self.names_user and is_user != self.by_listener)


_CUES = (
    _Cue(_SURE, _fits_surely, ("name", "call", "go"), is_sure=True),
    _Cue(_LIKELY, _fits_and_closes),
    _Cue(_HERE, needs=("here", "speaking", "calling")),
    _Cue(_ADDRESS, by_listener=True),
    _Cue(_VOCATIVE, at_end=True, by_listener=True),
    _Cue(_SIGNED, at_end=True),
    _Cue(_COMPANION, _is_companion, names_user=False),
    _Cue(_OWNER, _is_companion, ("'s", "’s"), names_user=False),
)


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
