"""Facts of a turn as the table of turns keeps them, read as paths with values, lists, texts and calls.

A path names a place in what a component puts out:

* ``book_table.party_size``: an argument of a call (``writer/argument.route`` if the tool is a stage of that name);
* ``find_hotel/result[].price``: a field of the results of a call; ``*`` stands for all tools together;
* ``triage.seen_by``, ``slots[].fee``, ``slots[0].fee``: fields of the output of a stage, of all items of a list, and of
  its first item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from tod_bias.dialogues.text import is_prose

Leaf = str | int | float | bool
"""A value without parts."""
_TOKENS = re.compile(r"\d+(?:\x00\d+)*|[^\W_]+(?:['’\-][^\W_]+)*|[.?!\n]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MARK = re.compile(r"(?<=\d)[.,](?=\d)")
_ENDS = frozenset(".?!\n")
_LONGEST_NUMBER = 15
"""Characters of a number; a longer one is a word, such as an id."""
LONGEST_PHRASE = 6
"""Words of a phrase that is part of a sentence."""
LONGEST_SENTENCE = 14
"""Words of a sentence that is a phrase as a whole."""
_UNSAFE_IN_PATH = re.compile(r"[%,=\[\]./:\x00-\x1f]")
ANY = "*"
"""Stands for every tool: an event that several tools show is rare in each of them."""
_ARGUMENT = "/argument"
"""End of the root of the arguments of a tool that is a component."""
_RESULT = "/result"
"""End of the root of a tool's results."""
_SHORT_TEXT = 40
"""Characters of a text that may be one of few values, such as the name of an intent."""


def escaped(text: str) -> str:
    """Return a value or phrase as part of the name of an event, without commas, line breaks and spaces at its ends."""
    made = "".join(letter if letter.isprintable() and letter not in "%," else quote(letter) for letter in text)
    inside = made.strip()
    start = len(made) - len(made.lstrip())
    return quote(made[:start]) + inside + quote(made[start + len(inside) :])


def unescaped(text: str) -> str:
    """Undo :func:`escaped`."""
    return unquote(text)


def _key(name: str) -> str:
    """Return the name of a field as a part of a path."""
    made = _UNSAFE_IN_PATH.sub(lambda match: f"%{ord(match[0]):02X}", name)
    return "".join(letter if letter.isprintable() else quote(letter) for letter in made)


@dataclass(frozen=True)
class CallFact:
    """One call of a tool."""

    tool: str
    by: str
    """Stage that made the call."""
    at: str
    """Stage that carried it out."""
    arguments: Mapping[str, Any]
    failure: str
    """Reason of a failure; empty for a call that was carried out."""
    results: int
    """Number of results."""
    named: int
    """Number of results that the response names."""
    place: float = 0.0
    """Place among the steps of the turn."""


class Facts:
    """Facts of one turn.

    Args:
        text: as :func:`tod_bias.systems.facts.facts_text` writes it; empty for a turn without any.

    Raises:
        ValueError, TypeError, LookupError: the text is none that a run writes.
    """

    def __init__(self, text: str) -> None:
        record = json.loads(text) if text else {}
        self.calls = tuple(CallFact(*entry) for entry in record.get("calls", ()))
        """Calls of tools, in order."""
        self.failure = str(record.get("failure", ""))
        """Reason for which the turn failed; empty if it came to its end."""
        speaker, response = record.get("response", ("", ""))
        self.response = str(response)
        """Text that the user reads."""
        self.stage_of: dict[str, str] = {"": str(speaker)}
        """Root of a path, or of a text, to the stage whose output it is; the response's root is empty."""
        self.place_of: dict[str, float] = {"": float("inf")}
        """Root to its first place among the steps of the turn; the response comes last."""
        self.texts: dict[str, str] = {"": self.response}
        """Path to text, of outputs that have no structure and of prose in those that have one; several are joined."""
        self.fields: dict[str, list[Leaf]] = {}
        """Path to the values there, in order."""
        self.lists: dict[str, list[str]] = {}
        """Path of a list to its items as JSON."""
        self.roots_of_tools: set[str] = set()
        """Roots of the arguments and results of tools, whose fields are those of the tool."""
        self.objects: dict[str, int] = {}
        """Path of a mapping to how often it occurs."""
        for name, stage, said, place in record.get("said", ()):
            root = _key(name)
            self._begin(root, stage, place)
            self._add_text(root, said)
            if 0 < len(said) <= _SHORT_TEXT:
                self.fields.setdefault(root, []).append(said)
        for call in self.calls:
            root = _key(call.tool) + (_ARGUMENT if call.tool == call.at else "")  # its output has the tool's name
            self._begin(root, call.by, call.place)
            self.stage_of[ANY] = call.by
            self.roots_of_tools.add(root)
            self._read(root, call.arguments)
            self._read(ANY, call.arguments)
        for name, stage, value, place in record.get("out", ()):
            tool, slash, rest = name.rpartition("/")
            root = f"{_key(tool)}{_RESULT}" if slash + rest == _RESULT else _key(name)
            self._begin(root, stage, float("inf") if place is None else place)
            self._read(root, value, with_texts=place is not None)
            if root.endswith(_RESULT):
                self.stage_of[f"{ANY}{_RESULT}"] = stage
                self.roots_of_tools.add(root)
                self._read(f"{ANY}{_RESULT}", value)

    def _begin(self, root: str, stage: str, place: float) -> None:
        self.stage_of[root] = stage
        self.place_of.setdefault(root, place)

    def _add_text(self, path: str, text: str) -> None:
        self.texts[path] = f"{self.texts[path]}\n{text}" if path in self.texts else text

    def _read(self, path: str, value: Any, *, with_texts: bool = True) -> None:
        """Read a value.

        Args:
            path: of the value.
            value: to be read.
            with_texts: False if the user reads its prose, which is the text of the response.
        """
        if isinstance(value, Mapping):
            self.objects[path] = self.objects.get(path, 0) + 1
            for name, item in value.items():
                self._read(f"{path}.{_key(str(name))}", item, with_texts=with_texts)
        elif isinstance(value, list):
            items = [json.dumps(item, ensure_ascii=False, sort_keys=True) for item in value]
            self.lists.setdefault(path, []).extend(items)
            for place, item in enumerate(value):
                self._read(f"{path}[]", item, with_texts=with_texts)
                if not place:
                    self._read(f"{path}[0]", item, with_texts=False)
        elif value is not None and value != "":
            self.fields.setdefault(path, []).append(value)
            if with_texts and isinstance(value, str) and is_prose(value) and not path.startswith(ANY):
                self._add_text(path, value)

    @property
    def tools(self) -> list[str]:
        """Tools that are called, each once."""
        return list(dict.fromkeys(call.tool for call in self.calls))

    def calls_of(self, tool: str) -> list[CallFact]:
        """Return the calls of a tool, or of all tools for :data:`ANY`."""
        return [call for call in self.calls if tool in (ANY, call.tool)]

    def stage(self, path: str) -> str:
        """Return the stage whose output a path or text belongs to; empty if none is known."""
        return self.stage_of.get(root_of(path), "")

    def place(self, path: str) -> float:
        """Return the place among the steps of the turn at which a path is put out; infinity for the response."""
        return self.place_of.get(root_of(path), float("inf"))

    def text(self, path: str) -> str | None:
        """Return the text at a path, also a value that is no prose: another variant may have a sentence there."""
        if path in self.texts:
            return self.texts[path]
        values = [value for value in self.fields.get(path, ()) if isinstance(value, str)]
        return "\n".join(values) if values else None

    def said(self, path: str) -> SaidText | None:
        """Return the text at a path as words; None if there is none."""
        text = self.text(path)
        return None if text is None else said_text(text)


def root_of(path: str) -> str:
    """Return the part of a path that names the tool or stage."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


Sentence = tuple[str, ...]
"""Words in lower case; ``#`` stands for a number."""


@dataclass(frozen=True)
class SaidText:
    """A text as words."""

    sentences: tuple[Sentence, ...]
    numbers: tuple[tuple[float, ...], ...]
    """Numbers in each sentence, in order."""
    words: str
    """All words between spaces, sentences between bars, so that phrases can be looked up."""

    def has(self, phrase: str) -> bool:
        """Return whether the text has a phrase within a sentence."""
        return f" {phrase} " in self.words

    def numbers_in(self, phrase: str) -> list[float]:
        """Return the numbers in all occurrences of a phrase."""
        every = [number for numbers in self.numbers for number in numbers]
        in_phrases: list[float] = []
        wanted, count = f" {phrase} ", phrase.split().count("#")
        place = self.words.find(wanted)
        while place >= 0:
            before = self.words[: place + 1].split().count("#")
            in_phrases += every[before : before + count]
            place = self.words.find(wanted, place + 1)
        return in_phrases


@lru_cache(maxsize=1 << 10)
def said_text(text: str) -> SaidText:
    """Return a text as words; the variants and arms of a run repeat texts."""
    parts = [*_sentences(text)]
    words = " | ".join(" ".join(words) for words, _ in parts)
    return SaidText(
        tuple(tuple(words) for words, _ in parts), tuple(tuple(numbers) for _, numbers in parts), f" {words} "
    )


def phrases_in(sentence: Sentence) -> Iterator[str]:
    """Yield the phrases of a sentence: up to six words of it, and the whole of a short one."""
    lengths = [*range(1, min(LONGEST_PHRASE, len(sentence)) + 1)]
    lengths += [len(sentence)] if LONGEST_PHRASE < len(sentence) <= LONGEST_SENTENCE else []
    for length in lengths:
        for start in range(len(sentence) - length + 1):
            yield " ".join(sentence[start : start + length])


def _sentences(text: str) -> Iterator[tuple[list[str], list[float]]]:
    """Yield the words of each sentence, ``#`` for numbers, and the numbers."""
    words: list[str] = []
    numbers: list[float] = []
    for word in _tokens(text):
        if word in _ENDS:
            if words:
                yield words, numbers
            words, numbers = [], []
        elif len(word) <= _LONGEST_NUMBER and word[0].isdecimal() and word.replace(".", "").isdecimal():
            words.append("#")
            numbers.append(_value(word))
        else:
            words.append(word)
    if words:
        yield words, numbers


def _tokens(text: str) -> Iterator[str]:
    """Yield words, numbers and the marks that end sentences; a mark within a number ends none."""
    joined = _MARK.sub("\x00", _THOUSANDS.sub("", text.lower()))
    for token in _TOKENS.findall(joined):
        yield token.replace("\x00", ".")


def _value(word: str) -> float:
    try:
        return float(word)
    except ValueError:  # "10.12.2026"
        return float(word.replace(".", ""))
