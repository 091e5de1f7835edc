"""Rules of a dialect: a TSV file, one row a rule.

::

    @attributes  standard  aae
    @words  kin  mom dad brother
    @map    bare  works=work  sounds=sound
    id      does                   pattern                replacement  conditions  source
    person  no -s after "it"       (it|that) ({bare})     \\1 {bare:2}              Green 2002

Tabs stand between columns, ``#`` starts a comment line. A pattern is a regular expression that matches whole words, in
any case; ``{name}`` in it is any word of a list, or any key of a map. A replacement holds ``\\1`` (what a group
matched) and ``{name:1}`` (what the map makes of it). Conditions are joined by ``;``: ``rate: 0.5`` (the share of
dialogues whose speaker has the rule), ``question`` or ``statement`` (the sentence ends in a question mark, or does
not), ``not: …`` (a regular expression that the sentence must not hold).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tod_bias.errors import LexiconError
from tod_bias.perturb.tables import expect, read_table

FOLDER = Path(__file__).parent / "rules"
"""The rules that ship with the package; ``aae.tsv`` there is the axis ``dialect:aae``."""
DIALECT = "dialect:"
"""What the axes' names begin with."""
COLUMNS = ("id", "does", "pattern", "replacement", "conditions", "source")
"""Of a file of rules; all but ``conditions`` must be filled."""

_NAME = re.compile(r"\{([a-z][a-z_]*)\}")
_RATE = re.compile(r"0?\.\d*[1-9]\d*|1(?:\.0*)?")
_PART = re.compile(r"\\(\d)|\{([a-z][a-z_]*):(\d)\}|([^\\{]+)|(.)", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """One rule of a dialect."""

    id: str
    """Its name, and the name of its cluster."""
    does: str
    """What it does, in words."""
    pattern: re.Pattern[str]
    """What it applies to, inside of one sentence."""
    replacement: tuple[tuple[str, int, Mapping[str, str] | None], ...]
    """Parts of what is written: a text, or (where it is empty) a group's number and the map that it goes through."""
    source: str
    """Where it is attested."""
    rate: float = 1.0
    """Share of dialogues whose speaker has it, 0 to 1."""
    question: bool | None = None
    """Whether the sentence must be a question; None: it may."""
    never: re.Pattern[str] | None = None
    """What the sentence must not hold."""

    def written(self, match: re.Match[str]) -> str:
        """What takes the place of a match, in its capitals and with its apostrophes."""
        parts = []
        for text, group, words in self.replacement:
            part = text if text else match[group] or ""
            parts.append(words[_plain(part)] if words is not None else part)
        new, old = "".join(parts), match[0]
        if "’" in old:
            new = new.replace("'", "’")
        return new[:1].upper() + new[1:] if old[:1].isupper() else new


@dataclass(frozen=True)
class Dialect:
    """All rules of an axis."""

    axis: str
    """``dialect:aae``."""
    groups: tuple[str, str]
    """What is rewritten, and what it becomes."""
    rules: tuple[Rule, ...]
    """In the order in which they apply; later ones see what earlier ones wrote."""

    @cached_property
    def digest(self) -> str:
        """A hash of the rules."""
        facts = [
            (rule.id, rule.pattern.pattern, repr(rule.replacement), rule.rate, rule.question, rule.never)
            for rule in self.rules
        ]
        return blake2b(repr((self.groups, facts)).encode("utf-8"), digest_size=6).hexdigest()


def dialects() -> tuple[str, ...]:
    """The shipped axes."""
    return tuple(sorted(DIALECT + file.stem for file in FOLDER.glob("*.tsv")))


def load_dialect(axis: str, path: str | Path | None = None) -> Dialect:
    """The rules of a shipped axis, or those in a file.

    Raises:
        LexiconError: the file cannot be read; names the file and the line.
    """
    return _shipped(axis) if path is None else read_dialect(Path(path), axis)


@cache
def _shipped(axis: str) -> Dialect:
    return read_dialect(FOLDER / f"{axis.removeprefix(DIALECT)}.tsv", axis)


def read_dialect(path: Path, axis: str) -> Dialect:
    """Read a file of rules.

    Raises:
        LexiconError: the file cannot be read or a row is malformed; names the file and the line.
    """
    reading = _DialectReading()
    read_table(path, reading.read)
    if not reading.groups or not reading.rules:
        missing = "rules" if reading.groups else "line '@attributes'"
        raise LexiconError(f"{path}: holds no {missing}; see docs/reference/rewriting.md for the layout")
    standard, dialect = reading.groups
    return Dialect(axis, (standard, dialect), tuple(reading.rules.values()))


class _DialectReading:
    """A file of rules as far as it is read; raises ValueError where something is wrong."""

    def __init__(self) -> None:
        self.groups: tuple[str, ...] = ()
        self.rules: dict[str, Rule] = {}
        self._lists: dict[str, str] = {}
        """Name of a list or map to the pattern of its words."""
        self._maps: dict[str, dict[str, str]] = {}
        self._has_header = False

    def read(self, cells: list[str]) -> None:
        """One line."""
        head, *rest = cells
        if head == "@attributes":
            self.groups = tuple(rest)
            expect(len(rest) == len(set(rest)) == 2 and all(rest), "expected '@attributes' and two names")
        elif head in ("@words", "@map"):
            self._list(head, rest)
        elif head.startswith("@"):
            raise ValueError(f"unknown line {head!r}; expected @attributes, @words or @map")
        elif not self._has_header:
            self._has_header = True
            expect(tuple(cells) == COLUMNS, f"the header must be {' '.join(COLUMNS)}, joined by tabs")
        else:
            rule = self._rule(cells)
            expect(rule.id not in self.rules, f"a second rule {rule.id!r}")
            self.rules[rule.id] = rule

    def _list(self, head: str, rest: list[str]) -> None:
        what = "its words, joined by blanks" if head == "@words" else "pairs word=form"
        expect(len(rest) > 1 and any(rest[1:]), f"expected {head!r}, a name and {what}")
        name, *parts = rest
        expect(_NAME.fullmatch("{" + name + "}") is not None, f"a list's name is lower-case letters, got {name!r}")
        expect(name not in self._lists, f"a second list {name!r}")
        words = [word for part in parts for word in part.lower().split()] if head == "@words" else []
        if head == "@map":
            self._maps[name] = dict(_pair(part) for part in parts if part)
            words = list(self._maps[name])
        longest_first = sorted(words, key=lambda word: (-len(word), word))
        self._lists[name] = "|".join(re.escape(word).replace("\\ ", " ") for word in longest_first)

    def _rule(self, parts: list[str]) -> Rule:
        expect(len(parts) == len(COLUMNS), f"expected {len(COLUMNS)} columns ({', '.join(COLUMNS)}), got {len(parts)}")
        for name, part in zip(COLUMNS, parts, strict=True):
            expect(bool(part) or name == "conditions", f"the column {name!r} is empty")
        id_, does, text, replacement, conditions, source = parts
        pattern = _compiled(text, self._lists, "the pattern")
        written = tuple(self._replacement(replacement, pattern))
        return Rule(id_, does, pattern, written, source, **self._conditions(conditions))

    def _replacement(self, text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, Mapping[str, str] | None]]:
        for group, name, of, plain, stray in _PART.findall(text):
            expect(not stray, f"replacement: expected text, \\1 or {{name:1}}, got {stray!r}")
            number = int(group or of or 0)
            expect(bool(plain) or 1 <= number <= pattern.groups, f"replacement: the pattern has no group {number}")
            expect(not name or name in self._maps, f"replacement: no map {name!r} above")
            yield plain, number, self._maps[name] if name else None

    def _conditions(self, text: str) -> dict[str, Any]:
        conditions: dict[str, Any] = {}
        for condition in filter(None, (part.strip() for part in text.split(";"))):
            key, _, value = (part.strip() for part in condition.partition(":"))
            if key == "rate":
                expect(_RATE.fullmatch(value) is not None, f"a rate is above 0 and at most 1, got {value!r}")
                conditions["rate"] = float(value)
            elif key in ("question", "statement") and not value:
                conditions["question"] = key == "question"
            elif key == "not" and value:
                conditions["never"] = _compiled(value, self._lists, "the condition")
            else:
                raise ValueError(f"unknown condition {condition!r}; expected rate: 0.5, question, statement or not: …")
        return conditions


def _pair(part: str) -> tuple[str, str]:
    word, equals, form = part.lower().partition("=")
    expect(bool(word and equals and form), f"expected word=form, got {part!r}")
    return word, form


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")


def _compiled(pattern: str, lists: Mapping[str, str], what: str) -> re.Pattern[str]:
    for name in _NAME.findall(pattern):
        expect(name in lists, f"{what}: no list {name!r} above; there is {', '.join(sorted(lists)) or 'none'}")
    full = _NAME.sub(lambda match: f"(?:{lists[match[1]]})", pattern).replace("'", "['’]")
    try:
        return re.compile(rf"(?<![^\W_])(?:{full})(?![^\W_])", re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{what} is no regular expression: {error}") from None
