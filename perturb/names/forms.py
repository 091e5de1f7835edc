"""Places of a name in a text: the name in every form of writing, separated from words that only look like it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tod_bias.perturb.english import edited
from tod_bias.perturb.names.resources import by_first, by_last, listed

WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"
"""A word of letters, with hyphens."""


_INTRODUCED = re.compile(
    r"(?:\bn\w{1,3}es?(?:\s*['’]s|\s+is|\s+of|\s+was|\s*:)?|\bcalled|\bcall\s+me|\bi\s+am|\bi['’]?m|\bthis\s+is),?\s+$",
    re.I,
)
_CUE = re.compile(
    r"(?:^|\W)(?:it['’]?s|that['’]s|hi|hello|hey|dear|thanks|thank\s+you|mr\.?|mrs\.?|ms\.?|miss|user|customer|patient|ok|okay|"
    r"sure|welcome|sorry|great|yes|bye|goodbye),?\s+$",
    re.IGNORECASE,
)
_FOR = re.compile(r"\b(?:for|under|with|by|from|and)\s+$", re.IGNORECASE)
_NAMED = re.compile(r"\bnames?(?:\s*['’]s|\s+is|\s+of|\s+was|\s*:)?,?\s+$", re.IGNORECASE)
_NO_NAME = re.compile(r"\s+(?:it|the|this|that|my|your|down|off|up|as|a|an|me|be|you)\b|\s*-", re.IGNORECASE)
_ENDS = re.compile(
    r"\s*(?:[,.!?;:)\]\"]|$)|['’]s\b|\s+(?:and|please|here|speaking|calling|from|at|thank|thanks|is|was|has|would|wants|got|i)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"['’]s\b|\s+(?:is|was|has|had|and|or|here|speaking|calling|from|wants|needs|would|said|likes|loves|got|gets|not|with|will|"
    r"could|should|is|was|wo|does|did|has|ca)(?:n['’]t)?\b|\s+\d",
    re.IGNORECASE,
)
_COMMA = re.compile(r"\s*(?:[,.!?:)]|$)")
_SUCH = re.compile(
    r"\b(?:the|a|an|some|any|no|your|my|our|their|his|her|this|these|in|near|around|visit|visiting)\s+$", re.I
)
_WHEN = re.compile(
    r"\b(?:in|until|till|by|on|before|after|next|last|early|late|mid|since|of|for|to|from|through)\s+$", re.I
)
_BEFORE = re.compile(rf"({WORD})\.?\s+$")
_AFTER = re.compile(rf"\s+({WORD})")
_FAMILY = re.compile(r"\s+(?:party|family|household|residence|account|reservation|booking)\b")
_SECOND = re.compile(rf",\s+({WORD})")
_POSSESSED = re.compile(rf"['’]s?\s+({WORD})")
_POSSESSIVE = re.compile(r"['’]s?(?=\s*(?:[.,!?;]|$))")
_AT = re.compile(r"\b(?:at|to|near|called|named|into|inside|outside|try|tried|love|about|is)\s+$", re.IGNORECASE)
_SURNAME = re.compile(r"\b(?:last name|surname|family name)(?:\s+is|['’]s|:)?\s+$", re.IGNORECASE)
_TITLES = frozenset({"mr", "mrs", "ms", "miss", "mx"})
_EDGES = " \t\r\n.,!?;:\"'()"


def is_last_name(word: str) -> bool:
    """True if a capitalised word after a first name is probably a last name."""
    return word[:1].isupper() and word.lower() in by_last() and word.lower() not in listed("not last")


@dataclass(frozen=True)
class NameForms:
    """A person's name, with the rules that find it in texts.

    Ordinary first names are found in every writing: ``Angela``, ``ANGELA``, ``angela``, ``Angela's``, in ids and e-mail
    addresses. A name that is also a word, a place or a month is found if it is addressed, introduced or alone and, with
    a capital, inside a sentence. A last name is found after the first name or its initial, after a title, in ids, and
    alone if it is not a word.
    """

    first: str
    """The first name."""
    last: str = ""
    """Last name; empty if unknown."""
    relatives: frozenset[str] = frozenset()
    """Last names, in lower case, that may follow the first name as well."""
    protected: tuple[str, ...] = ()
    """Phrases that are not mentions: names of things and places that contain the name."""
    finds_last: bool = True
    """True to look for the last name alone too; otherwise only for the first name."""
    last_values: frozenset[str] = field(default=frozenset())
    """Whole strings that are the last name, as a slot of last names holds it, although it is a word."""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        first, last = re.escape(self.first), re.escape(self.last)
        parts = [f"(?P<first>{first})"]
        if self.last and self.finds_last:
            parts.append(f"(?P<last>{last})")
        if self.last and len(self.first) > 1:
            parts.append(rf"(?P<initial>{re.escape(self.first[0])})(?=\.?\s*\b{last}(?![^\W\d_]))")
        return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(parts)})(?![^\W\d_]|['’]t\b)", re.IGNORECASE)  # I don't

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """One of them, in lower case, is in every text that holds a form of the name."""
        return (self.first.lower(), *((self.last.lower(),) if self.last else ()))

    @cached_property
    def _first_is_word(self) -> bool:
        known = by_first().get(self.first.lower())
        return known is not None and known.word

    @cached_property
    def _last_is_word(self) -> bool:
        known = by_last().get(self.last.lower())
        return known is not None and known.word

    @cached_property
    def _guard(self) -> re.Pattern[str] | None:
        whole = {self.first.lower(), f"{self.first} {self.last}".lower(), self.last.lower()}
        phrases = {phrase for phrase in self.protected if phrase.strip().lower() not in whole}
        if not phrases:
            return None
        ordered = sorted(phrases, key=lambda phrase: (-len(phrase), phrase))
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, ordered))})(?!\w)", re.IGNORECASE)

    def may_stand_in(self, text: str) -> bool:
        """A quick check: False where no form of the name is in the text."""
        lower = text.lower()
        return any(key in lower for key in self.keys)

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the places of the name: start, end and part (``first``, ``last`` or ``initial``)."""
        if not self.may_stand_in(text):
            return
        guarded = [guard.span() for guard in self._guard.finditer(text)] if self._guard else []
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if any(left <= start and end <= right for left, right in guarded):
                continue
            part = str(match.lastgroup)
            spot = _Spot(text, start, end)
            stands = self._is_last if part == "last" else _is_initial if part == "initial" else self._is_first
            if stands(spot):
                yield start, end, part

    def _is_first(self, spot: _Spot) -> bool:
        if spot.is_in_address:
            return "@" in spot.token or any(sign.isdigit() for sign in spot.token) or self._has_last(spot.token)
        if spot.is_joined or spot.leader.lower() in listed("prefixes") or self._is_code(spot):
            return False
        follower = spot.follower
        if spot.stripped == self.first.lower() or self._is_followed_by_last(follower.lower()):
            return True
        if _is_thing(follower) or is_last_name(follower) or _follows_first(spot) or not _may_possess(spot):
            return False
        return not self._first_is_word or _is_named(spot)

    def _is_followed_by_last(self, follower: str) -> bool:
        return bool(follower) and (follower in self.relatives or follower == self.last.lower())

    def _is_code(self, spot: _Spot) -> bool:
        """True if it is a code and not a name: MIA is an airport."""
        is_code = spot.name.isupper() and self.first.lower() in listed("codes")
        return is_code and (len(spot.stripped) < 4 or not spot.text.isupper())

    def _is_last(self, spot: _Spot) -> bool:
        if spot.is_in_address:
            return any(sign.isdigit() for sign in spot.token) or self.first.lower() in spot.token.lower()
        if spot.is_joined:
            return False
        if spot.stripped == self.last.lower():
            return not self._last_is_word or spot.text in self.last_values
        leader = spot.leader.lower()
        if leader and leader in {*_TITLES, self.first.lower(), self.first[0].lower()}:
            return True
        if leader in listed("prefixes"):
            return False
        if _SURNAME.search(spot.before):
            return True
        return spot.name[0].isupper() and self._is_last_inside(spot)

    def _is_last_inside(self, spot: _Spot) -> bool:
        """True if a capitalised word is the last name alone in a text."""
        leader, follower = spot.leader.lower(), spot.follower
        if spot.leader[:1].isupper() and leader in by_first():
            return True  # a relative
        if leader == "dear" or _FAMILY.match(spot.after) or self._precedes_first(spot.after):
            return True
        if follower[:1].isupper() and follower.lower() not in listed("not last"):
            return False
        return not self._last_is_word and follower not in listed("things")

    def _precedes_first(self, after: str) -> bool:
        """True if the first name follows after a comma: "Walsh, Emily"."""
        match = _SECOND.match(after)
        return match is not None and match[1].lower() == self.first.lower()

    def _has_last(self, token: str) -> bool:
        return bool(self.last) and self.last.lower() in token.lower()


class _Spot:
    """A possible place of a name in a text, with its surroundings."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end
        self.name, self.before, self.after = text[start:end], text[:start], text[end:]
        self.token = _token(text, start, end)
        self.is_in_address = "@" in self.token or "_" in self.token
        self.is_joined = _joined(self.before, self.after)
        self.stripped = text.strip(_EDGES).lower()
        """The whole text, without punctuation around it."""

    @cached_property
    def _leader(self) -> re.Match[str] | None:
        return _BEFORE.search(self.before)

    @property
    def leader(self) -> str:
        """Previous word; empty if there is none."""
        return self._leader[1] if self._leader else ""

    @property
    def is_led_on(self) -> bool:
        """True if the previous word is capitalised and neither ends nor opens a sentence."""
        leader = self._leader
        if leader is None or not leader[1][0].isupper() or leader[0].rstrip()[-1] == ".":
            return False
        return not _opens(self.before[: leader.start()])

    @property
    def follower(self) -> str:
        """Next word; empty if there is none."""
        match = _AFTER.match(self.after)
        return match[1] if match else ""


def _is_initial(spot: _Spot) -> bool:
    return spot.name.isupper() and not spot.before.endswith(("'", "’", "-"))


def _follows_first(spot: _Spot) -> bool:
    """True if another first name precedes: the word is that person's last name."""
    leader = spot.leader.lower()
    return spot.is_led_on and leader in by_first() and leader not in listed("not last") and not spot.text.isupper()


def _may_possess(spot: _Spot) -> bool:
    """True unless a thing is called by the name ("Angela's Restaurant", "at Angela's")."""
    owned = _POSSESSED.match(spot.after)
    if not owned:
        return not (_POSSESSIVE.match(spot.after) and _AT.search(spot.before))
    thing = owned[1].lower()
    is_name = owned[1][0].isupper() and thing not in listed("not last") and not spot.text.isupper()
    return thing not in listed("things") and not is_name


def _is_thing(follower: str) -> bool:
    """True if the next word makes it the name of a thing ("Angela Street")."""
    return follower[:1].isupper() and follower.lower() in listed("things")


def _is_named(spot: _Spot) -> bool:
    """True if a name that is also a word is a name here."""
    is_time = spot.name.lower() in listed("times")
    if is_time and _is_date(spot):
        return False
    if _is_introduced(spot) or (_CUE.search(spot.before) and _ENDS.match(spot.after)):
        return True
    has_room = not is_time and spot.name.lower() not in listed("places")
    if has_room and _FOR.search(spot.before) and _COMMA.match(spot.after):
        return True
    return spot.name[0].isupper() and _has_capital_of_name(spot, is_time)


def _has_capital_of_name(spot: _Spot, is_time: bool) -> bool:
    """True if a capitalised word is capitalised because it is a name."""
    if spot.text.isupper() and len(spot.text) > len(spot.name) + 3:
        return False
    if _opens(spot.before):
        return bool(_COMMA.match(spot.after)) or (not is_time and bool(_VERB.match(spot.after)))
    is_place = spot.name.lower() in listed("places") and _WHEN.search(spot.before)
    return not is_time and not _SUCH.search(spot.before) and not is_place


def _is_date(spot: _Spot) -> bool:
    """True if the name of a month or day is one: "in May", "April 5"."""
    if re.match(r"\s*\d", spot.after):
        return True
    return not _NAMED.search(spot.before) and (bool(_WHEN.search(spot.before)) or not spot.name[0].isupper())


def _is_introduced(spot: _Spot) -> bool:
    """True if words that introduce a person precede: "my name is", "my brother"."""
    before, after = spot.before, spot.after
    if _INTRODUCED.search(before) and not _NO_NAME.match(after) and not _SUCH.search(before):
        return True
    return spot.leader.lower() in listed("kin") and (spot.name[0].isupper() or bool(_ENDS.match(after)))


def _token(text: str, start: int, end: int) -> str:
    """The run of signs without spaces that holds a place."""
    left = max(text.rfind(sign, 0, start) for sign in " \n\t\"'(<,;") + 1
    ends = [place for sign in " \n\t\"')>,;" if (place := text.find(sign, end)) >= 0]
    return text[left : min(ends, default=len(text))]


def _joined(before: str, after: str) -> bool:
    """True if a hyphen joins the name to another word."""
    return (before[-1:] == "-" and before[-2:-1].isalnum()) or (after[:1] == "-" and after[1:2].isalnum())


def _opens(before: str) -> bool:
    """True if a sentence opens after this text."""
    text = before.rstrip(" \t\"'“”(-–—*")
    return not text or text[-1] in ".!?\n:" or before.endswith("\n")


def written_like(old: str, new: str) -> str:
    """The new name in lower case or capitals where the old one is; else as it is written."""
    if old.islower():
        return new.lower()
    return new.upper() if len(old) > 1 and old.isupper() else new


@dataclass(frozen=True)
class Renaming:
    """One name for another, in any text."""

    forms: NameForms
    """The name that is there."""
    first: str
    """The first name that takes its place."""
    last: str = ""
    """The last name that takes its place; empty: it stays."""

    def may_change(self, text: str) -> bool:
        """A quick check: False where no form of the old name is in the text."""
        return self.forms.may_stand_in(text)

    def edits(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Every place of the old name, as start and end, with the new one."""
        if not self.may_change(text):
            return
        for start, end, part in self.forms.spans(text):
            old = text[start:end]
            if part == "initial":
                yield start, end, self.first[0] if self.first else old
            elif part == "last":
                yield start, end, written_like(old, self.last) if self.last else old
            else:
                yield start, end, written_like(old, self.first)

    def __call__(self, text: str) -> str:
        """The text with the new name in every place of the old one."""
        return edited(text, {(start, end): new for start, end, new in self.edits(text)})
