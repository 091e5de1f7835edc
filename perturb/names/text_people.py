"""People who are named in texts: patterns of the words around a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tod_bias.perturb.names.forms import WORD, is_last_name
from tod_bias.perturb.names.person import Person
from tod_bias.perturb.names.resources import by_first, by_last, listed
from tod_bias.perturb.names.slot_people import in_ids

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
_LAST_WORDS = 200
"""Characters of a text that hold its last words: a sign-off and a name."""
LETTERS = re.compile(r"[^\W\d_]{2,}")
_TO_BLANKS = {code: " " for code in range(128) if not chr(code).isalpha()}
_GOES_ON = re.compile(r"(?:and|i|i['’]?m|here|calling|speaking|please)\b", re.IGNORECASE)


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
        yield from in_ids(text, only_known=True)
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


def _may_name(text: str, lower: str) -> bool:
    """A quick check: whether a word may be a name; one that is also a word is none in lower case."""
    known = by_first()
    words = lower.translate(_TO_BLANKS).split() if lower.isascii() else LETTERS.findall(lower)
    if known.keys().isdisjoint(words):
        return False
    for word in LETTERS.findall(text):
        name = known.get(word.lower())
        if name is not None and (not name.word or word[0].isupper()):
            return True
    return False


def _last(match: re.Match[str], text: str) -> str:
    """The last name behind a first one, where the second word is one."""
    first, last = match["first"], match["last"] or ""
    if not last or last.lower() in listed("not last"):
        return ""
    if last.lower() in listed("things") and not _is_introduced(match):
        return ""
    if first[0].isupper() and last[0].isupper():
        return last
    known = by_last().get(last.lower())
    if not last.isupper() and last[0].islower() and known is not None:
        return last if not known.word or _ends(match.end("last"), text) else ""
    return ""


def _is_introduced(match: re.Match[str]) -> bool:
    """True for a last name that is also a thing, such as Hill or Park, behind "my name is"."""
    return match.re is _SURE and match["last"][0].isupper() and match["last"].lower() in by_last()


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
    before = LETTERS.findall(text[max(0, match.start() - 30) : match.start()] + " ")
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
    if match["last"] and match["last"][0].isupper() and not (_last(match, text) and is_last_name(match["last"])):
        return match["last"].lower() in listed("not last")  # "for Emily Please", not "for Maria Street"
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
