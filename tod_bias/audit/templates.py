"""Templates: dialogues that are equal but for names, numbers, values of calls and terms of groups.

Dialogues that are filled in from one template are answered alike, so a system's error on the template is an error on
all of them. They are one cluster (Abadie, Athey, Imbens and Wooldridge 2023 on when to cluster). A template is found by
its skeleton: the words of all user turns, with a blank for everything that a template's author would fill in. Two
skeletons of many words that differ in a single word belong to one template as well, since values of slots that no call
holds, such as "italian", are not known to be values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tod_bias.audit.checks import TEMPLATES, ClusterOf
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.axis import SelectedDialogue
from tod_bias.perturb.lexicon import Lexicon, load_lexicon, read_lexicon
from tod_bias.perturb.lexicon import axes as lexicon_axes
from tod_bias.perturb.names.resources import first_names, last_names
from tod_bias.perturb.placebo import NEUTRAL

_BLANK = "_"
"""Stands for one or several words that are filled in."""
_FEWEST_WORDS = 3
"""Words besides blanks that a skeleton needs; "Yes" or "To London" is no template."""
_ENOUGH_WORDS = 8
"""Words, blanks included, from which two skeletons that differ in one word are one template; "book a table" and
"cancel a table" are two."""
_LONGEST_VALUE = 60
"""Characters of a value of a call that is looked for in what the user says; longer texts are not filled in."""
_TOKEN = re.compile(r"\d[\d.,:/-]*(?:st|nd|rd|th|am|pm)?\b|[^\W\d_]+(?:['’-][^\W\d_]+)*|[.!?]")
_NUMBERS = re.compile(
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|first|second|third|am|pm|monday|tuesday|wednesday|"
    "thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|"
    "december|today|tomorrow|tonight|morning|afternoon|evening|noon"
)
"""Words for numbers and times."""
_CAPITALISED = frozenset(("i", "i'm", "i'd", "i'll", "i've"))
"""Words that are capitalised without being names."""


@dataclass(frozen=True)
class Templates:
    """A kind of clusters: the template of a dialogue."""

    by_dialogue: Mapping[str, str]
    """Id of a dialogue to the name of its template."""

    def __call__(self, dialogue: Dialogue) -> str:
        """Return the template of a dialogue."""
        return self.by_dialogue[dialogue.id]

    @property
    def is_any_shared(self) -> bool:
        """True if two dialogues share a template."""
        return len(set(self.by_dialogue.values())) < len(self.by_dialogue)

    @classmethod
    def of(cls, dialogues: Sequence[Dialogue], selected: Iterable[SelectedDialogue] = ()) -> Templates:
        """Find the templates of some dialogues.

        Args:
            dialogues: the corpus.
            selected: the dialogues that are rewritten along any axis, with the terms that are rewritten.
        """
        terms: dict[str, set[str]] = {}
        for dialogue, candidates in selected:
            terms.setdefault(dialogue.id, set()).update(candidate.term.lower() for candidate in candidates)
        skeletons = [skeleton(dialogue, terms.get(dialogue.id, ())) for dialogue in dialogues]
        names = _joined(skeletons)
        return cls({dialogue.id: str(name) for dialogue, name in zip(dialogues, names, strict=True)})


def with_templates(
    kinds: Sequence[tuple[str, ClusterOf]], dialogues: Sequence[Dialogue], selected: Iterable[SelectedDialogue] = ()
) -> list[tuple[str, ClusterOf]]:
    """Return kinds of clusters, with that of templates if any dialogues share one.

    Args:
        kinds: of clusters.
        dialogues: the corpus.
        selected: the dialogues that are rewritten along any axis, with the terms that are rewritten.
    """
    templates = Templates.of(dialogues, selected)
    return [*kinds, (TEMPLATES, templates)] if templates.is_any_shared else list(kinds)


def skeleton(dialogue: Dialogue, terms: Collection[str] = ()) -> tuple[str, ...]:
    """Return the words of all user turns, in lower case, with a blank for what a template's author would fill in.

    Blanks stand for numbers, values of the dialogue's calls and results, terms and neutral words of the shipped
    lexicons, people's names, and capitalised words within a sentence. Neighbouring blanks are one.

    Args:
        dialogue: the dialogue.
        terms: that express a group in it, in addition to those of the shipped lexicons.

    Returns:
        Words, each turn followed by a line break; empty if fewer than three words are left.
    """
    values = {
        value.lower()
        for turn in dialogue.turns
        for _, value in turn.values
        if len(value) > 1 and len(value) <= _LONGEST_VALUE
    }
    shipped, of_dialogue = _shipped_terms(), Phrases.of([*values, *terms])
    words: list[str] = []
    for turn in dialogue.turns:
        words += [*_words_of(of_dialogue.blanked(shipped.blanked(turn.user))), "\n"]
    known = [word for word in words if word not in (_BLANK, "\n")]
    return tuple(words) if len(known) >= _FEWEST_WORDS else ()


def _words_of(text: str) -> list[str]:
    """Return the words of one turn, neighbouring blanks as one."""
    words: list[str] = []
    starts = True
    for token in re.findall(rf"{_BLANK}+|{_TOKEN.pattern}", text.replace("’", "'")):
        if token in (".", "!", "?"):
            starts = True
            continue
        lowered = token.lower()
        is_name = token[0].isupper() and lowered not in _CAPITALISED and (not starts or lowered in _names())
        if token[0] == _BLANK or token[0].isdigit() or _NUMBERS.fullmatch(lowered) or is_name:
            lowered = _BLANK
        starts = False
        if lowered == "an":
            lowered = "a"
        if not (lowered == _BLANK and words and words[-1] == _BLANK):
            words.append(lowered)
    return words


def _joined(skeletons: Sequence[tuple[str, ...]]) -> list[int]:
    """Return (dialogues,) the number of each dialogue's template, in the order of their first dialogues.

    Skeletons are joined if they are equal, or if they are long and differ in one word.
    """
    parent = list(range(len(skeletons)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    first: dict[tuple[object, ...], int] = {}
    for number, words in enumerate(skeletons):
        if not words:
            continue
        keys: list[tuple[object, ...]] = [words]
        if words not in first and len(words) >= _ENOUGH_WORDS:
            keys += [(place, hash(words[:place]), hash(words[place + 1 :]), len(words)) for place in range(len(words))]
        for key in keys:
            # a key for each word with the word left out: skeletons that share one differ in that word at the most
            parent[root(number)] = root(first.setdefault(key, number))
    order: dict[int, int] = {}
    return [order.setdefault(root(number), len(order)) for number in range(len(skeletons))]


_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Phrases:
    """Phrases that are found in texts as whole words; a pattern of thousands of them would be slow."""

    by_first: Mapping[str, Sequence[tuple[str, ...]]]
    """First word to the phrases, the longest first, all in lower case."""

    @classmethod
    def of(cls, phrases: Iterable[str]) -> Phrases:
        """Make an index of some phrases."""
        by_first: dict[str, list[tuple[str, ...]]] = {}
        for words in {tuple(_WORD.findall(phrase.lower())) for phrase in phrases}:
            if words:
                by_first.setdefault(words[0], []).append(words)
        return cls({first: sorted(some, key=len, reverse=True) for first, some in by_first.items()})

    def blanked(self, text: str) -> str:
        """Return a text with a blank for each phrase."""
        matches = [*_WORD.finditer(text)]
        words = [match[0].lower() for match in matches]
        parts, end, place = [], 0, 0
        while place < len(words):
            known = self.by_first.get(words[place], ())
            length = next((len(some) for some in known if tuple(words[place : place + len(some)]) == some), 0)
            if length:
                parts += [text[end : matches[place].start()], f" {_BLANK * 2} "]
                end = matches[place + length - 1].end()
            place += length or 1
        return "".join([*parts, text[end:]]) if parts else text


@cache
def _shipped_terms() -> Phrases:
    """Return all forms in the shipped lexicons and among the neutral words."""
    lexicons: list[Lexicon] = [*map(load_lexicon, lexicon_axes()), read_lexicon(NEUTRAL, "placebo")]
    return Phrases.of(
        form.text
        for lexicon in lexicons
        for paradigm in lexicon.paradigms
        for alternatives in paradigm.cells.values()
        for some in alternatives
        for form in some
    )


@cache
def _names() -> frozenset[str]:
    """Return the people's names that the package knows and that are no common words, in lower case."""
    counts = Counter(name.name.lower() for name in (*first_names(), *last_names()) if not name.word)
    return frozenset(counts)
