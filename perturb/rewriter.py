"""Rewriting one text from one group to another with a lexicon."""

from __future__ import annotations

import copy
import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from tod_bias.perturb.context import fits, in_name, is_singular_they, phrase_spans
from tod_bias.perturb.english import NO_WORD, article_for, edited, like, possessive, previous_word, starts_sentence
from tod_bias.perturb.lexicon import Lexicon
from tod_bias.perturb.pronouns import SUBJECT, THEY, Edit, agreement, is_misspelt, role
from tod_bias.perturb.tables import words

_PREFIXES = words("prefixes")
_SUFFIXES = words("suffixes")
_LEFT = re.compile(r"([^\W_]+)-$")
_RIGHT = re.compile(r"-([^\W_]+)")
_QUOTATION = re.compile(r"(?:^|[\s(])['‘]")
_SUFFIX = re.compile(r"['’][sS]?(?!\w)")
_LAST_WORD = re.compile(r"[ -][^ -]+$|['’][^\W_]*$")
_FREE = re.compile(r"[ -]")
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)


class Mention(NamedTuple):
    """A word of a text that mentions a group."""

    start: int
    end: int
    row: int
    """Number of the paradigm in the lexicon."""
    slot: int
    """Number of the form in the paradigm."""
    group: str
    """Group whose column has the mention."""
    lexical: str
    """The form as the lexicon writes it."""
    text: str
    """Text of the mention."""


class _Entry(NamedTuple):
    row: int
    slot: int
    group: str
    lexical: str


class Recogniser:
    """Finds the lexicon words of chosen groups in texts.

    Args:
        lexicon: the words.
        groups: of the words.
        written: True to find also the forms that are only written (marked ``~``), as the inverse of a rewrite needs.
        protected: phrases that never mention a group, in addition to the lexicon's.
        strict_they: True to read "they" as one person only if the text is explicit.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        groups: Iterable[str],
        *,
        written: bool = False,
        protected: Iterable[str] = (),
        strict_they: bool = False,
    ) -> None:
        self.lexicon = lexicon
        self._strict_they = strict_they
        self._entries: dict[str, list[_Entry]] = {}
        for row, paradigm in enumerate(lexicon.paradigms):
            for group in groups:
                for forms in paradigm.cells.get(group, ()):
                    for slot, form in enumerate(forms):
                        if form.mention or written:
                            entries = self._entries.setdefault(form.text.lower().replace("-", " "), [])
                            entries.append(_Entry(row, slot, group, form.text))
        self._pattern = re.compile(_alternation(self._entries))
        self._protected = [(phrase, phrase.lower()) for phrase in dict.fromkeys((*lexicon.protected, *protected))]

    def may_mention(self, text: str) -> bool:
        """True if a word of the lexicon is in ``text`` at all, mention or not; cached, and so cheap."""
        return _holds(self._pattern.pattern, text)

    def mentions(self, text: str, protected: Iterable[str] = ()) -> Iterator[Mention]:
        """The mentions in ``text`` from left to right, outside of protected phrases and names."""
        if not self.may_mention(text):
            return
        lowered = _lowered(text)
        spans: list[tuple[int, int]] | None = None
        position = 0
        while match := self._pattern.search(lowered, position):
            start, end = match.span()
            entry = self._entry(text, start, end, _FREE.sub(" ", match[0]).replace("’", "'"))
            while entry is None and (cut := _LAST_WORD.search(lowered, start, end)):  # "kid friendly"; "men's"
                end = cut.start()
                entry = self._entry(text, start, end, _FREE.sub(" ", lowered[start:end]).replace("’", "'"))
            position = end
            if entry is None:
                continue
            if spans is None:
                phrases = [phrase for phrase, low in self._protected if low in lowered]
                spans = phrase_spans(text, lowered, (*phrases, *protected))
            mention = Mention(start, end, *entry, text[start:end])
            is_protected = any(first < end and start < last for first, last in spans)
            if not is_protected:
                yield mention

    def _entry(self, text: str, start: int, end: int, key: str) -> _Entry | None:
        if not _free_of_hyphens(text, start, end):
            return None
        entries = self._entries.get(key, ())
        for entry in entries:
            paradigm = self.lexicon.paradigms[entry.row]
            if paradigm.pos == "pronoun":
                slots = frozenset(
                    other.slot for other in entries if (other.row, other.group) == (entry.row, entry.group)
                )
                if len(slots) > 1 and role(text, start, end, slots) != entry.slot:
                    continue
                if slots == {SUBJECT} and is_misspelt(text, start, end):
                    continue
                subject = paradigm.cells[entry.group][0][SUBJECT].text
                if subject == THEY and not is_singular_they(text, start, strict=self._strict_they):
                    continue
            if fits(paradigm, entry.slot, text, start, end) and not in_name(paradigm, text, start, end):
                return entry
        return None


@lru_cache(maxsize=1 << 18)
def _holds(pattern: str, text: str) -> bool:
    return re.search(pattern, _lowered(text)) is not None


def _lowered(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def _alternation(keys: Iterable[str]) -> str:
    longest_first = sorted(keys, key=lambda key: (-len(key), key))
    parts = (re.escape(key).replace("\\ ", "[ -]").replace("'", "['’]") for key in longest_first)
    # A word in an identifier (find_restaurant) is none; in _emphasis_ it is.
    return r"(?<![^\W_])(?<![^\W_]_)(?:" + "|".join(parts) + r")(?!_?[^\W_])"


def _free_of_hyphens(text: str, start: int, end: int) -> bool:
    left = _LEFT.search(text, max(0, start - 20), start)
    right = _RIGHT.match(text, end)
    return (not left or left[1].lower() in _PREFIXES) and (not right or right[1].lower() in _SUFFIXES)


def _without_period(text: str, end: int, old: str, new: str) -> Iterator[Edit]:
    """Yield the removal of the period of an abbreviated title ("Mr.") if the new title is a full word ("Miss")."""
    if text[end : end + 1] == "." and _VOWEL.search(new) and not _VOWEL.search(old):
        yield end, end + 1, ""


@lru_cache(maxsize=64)
def _first_quotation(text: str) -> int:
    """Return the end of the first mark that opens a quotation; a place beyond the text if there is none."""
    match = _QUOTATION.search(text)
    return match.end() if match else len(text) + 1


Choose = Callable[[Mention, str], str | None]
"""The form to write for a mention, given the first one of its cell; None: the mention stays."""


class TextRewriter:
    """Rewrites the words of one group into those of another.

    Args:
        lexicon: the words.
        source: the group whose words are rewritten.
        target: the group they are rewritten to.
        protected: phrases that are not rewritten, in addition to the lexicon's.
        inverse: undo the rewriter from ``target`` to ``source``: forms that are only written count as words too.
        strict_they: True to read "they" as one person only if the text is explicit.
    """

    names: tuple[str, ...] = ()
    """Further phrases to leave alone."""
    _choices: tuple[Choose, ...] = ()

    def __init__(
        self,
        lexicon: Lexicon,
        source: str,
        target: str,
        *,
        protected: Iterable[str] = (),
        inverse: bool = False,
        strict_they: bool = False,
    ) -> None:
        self.source, self.target = lexicon.pair(source, target)
        self.lexicon = lexicon
        self.recogniser = Recogniser(
            lexicon, [self.source], written=inverse, protected=protected, strict_they=strict_they
        )

    def within(self, names: tuple[str, ...]) -> TextRewriter:
        """Return this rewriter with the names of one dialogue protected."""
        rewriter = copy.copy(self)
        rewriter.names = names
        return rewriter

    def choosing(self, choose: Choose) -> TextRewriter:
        """Return this rewriter with other forms, or without some of its mentions."""
        rewriter = copy.copy(self)
        rewriter._choices = (*self._choices, choose)
        return rewriter

    def only(self, rows: Collection[int] | None) -> TextRewriter:
        """Return this rewriter with some of its paradigms; None for all."""
        return self if rows is None else self.choosing(lambda mention, form: form if mention.row in rows else None)

    def mentions(self, text: str) -> Iterator[tuple[Mention, str]]:
        """Every mention that is rewritten, with the form it becomes."""
        for mention in self.recogniser.mentions(text, self.names):
            cell = self.lexicon.paradigms[mention.row].cells.get(self.target)
            form = None if cell is None else cell[0][mention.slot].text
            for choose in self._choices:
                form = None if form is None else choose(mention, form)
            if form is not None:
                yield mention, form

    def __call__(self, text: str) -> str:
        """Rewrite ``text``; every byte that is not part of a mention or agrees with one stays."""
        if not self.recogniser.may_mention(text):
            return text
        chosen = list(self.mentions(text))
        return edited(text, self.changes(text, chosen)) if chosen else text

    def changes(self, text: str, chosen: Iterable[tuple[Mention, str]]) -> dict[tuple[int, int], str]:
        """Return the changes for mentions and their new forms: start and end to the new text."""
        edits: dict[tuple[int, int], str] = {}
        taken: list[tuple[int, int]] = []  # sorted
        for mention, form in chosen:
            for start, end, new in self.edits(text, mention, form):
                place = bisect(taken, (start, end))
                if not any(start < last and first < end for first, last in taken[max(0, place - 1) : place + 1]):
                    taken.insert(place, (start, end))
                    edits[start, end] = new
        return edits

    def edits(self, text: str, mention: Mention, form: str) -> Iterator[Edit]:
        """Yield the changes of one mention and of the words that agree with it: start, end and the new text."""
        start, end, old = mention.start, mention.end, mention.text
        paradigm = self.lexicon.paradigms[mention.row]
        new = self.cased(text, mention, form)
        yield start, end, new
        if paradigm.pos == "pronoun":
            theirs = [paradigm.cells[group][0][SUBJECT].text == THEY for group in (mention.group, self.target)]
            if mention.slot == SUBJECT and theirs[0] != theirs[1]:
                yield from agreement(text, start, end, to_they=theirs[1])
            return
        if paradigm.pos == "title":
            yield from _without_period(text, end, old, new)
        suffix = _SUFFIX.match(text, end)
        if suffix:
            is_plural = mention.slot == 1 and paradigm.pos in ("noun", "kin")
            quoted = suffix[0] in "'’" and _first_quotation(text) <= start
            changed = possessive(suffix[0], old, new, is_plural=is_plural, quoted=quoted)
            if changed != suffix[0]:
                yield suffix.start(), suffix.end(), changed
        article = previous_word(text, start)
        if article is not NO_WORD and text[start - 1] != "-":
            agreeing = article_for(article.text, old, new)
            if agreeing != article.text:
                yield article.start, article.end, agreeing

    def cased(self, text: str, mention: Mention, form: str) -> str:
        """A form in the capitals and with the hyphens of the mention that it replaces."""
        return like(form, mention.text, mention.lexical, at_start=starts_sentence(text, mention.start))
