"""Lexicons: plain TSV files of the words that mention a group, and their forms for other groups.

One row is one paradigm; ``docs/reference/rewriting.md`` describes the layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb.english import plural
from tod_bias.perturb.tables import expect, read_table

FOLDER = Path(__file__).parent / "lexicons"
"""The lexicons that ship with the package; the name of a ``.tsv`` file there is the name of an axis."""

SLOTS = {"noun": 2, "kin": 2, "verb": 3, "pronoun": 5, "title": 1, "adj": 1, "word": 1}
"""Part of speech to the number of forms of one alternative."""
NO_AXES = frozenset({"neutral"})
"""Lexicons that are not axes: :mod:`tod_bias.perturb.placebo` draws from ``neutral``."""
_NOT_GROUPS = ("pos", "context", "notes")
"""Columns other than groups."""
WITH_WORDS = ("next", "not-next", "prev", "not-prev")
"""Conditions of the ``context`` column that take words after a colon."""
CONDITIONS: tuple[str, ...] = (
    *WITH_WORDS,
    "person-next",
    "not-person-next",
    "name-next",
    "possessed",
    "predicate",
    "determined",
    "no-stated-age",
)
CONDITIONS += ("alone", "capitalised", "in-names")
"""Conditions that a row may have."""
MOST = 200
"""Groups of an axis: every dialogue is rewritten for every other one."""
LONGEST = 100
"""Maximum characters of a group's name, which is shown in every table and figure."""


@dataclass(frozen=True)
class Form:
    """One word form of one group in a paradigm."""

    text: str
    """Text as in the lexicon; it may have spaces and hyphens."""
    mention: bool = True
    """True if the form itself mentions the group (``False``: written only, marked ``~``)."""
    written: bool = True
    """True if T writes the form (``False``: a mention only, such as another spelling, marked ``!``)."""


@dataclass(frozen=True)
class Condition:
    """One requirement of the ``context`` column."""

    name: str
    """One of :data:`CONDITIONS`."""
    words: frozenset[str] = frozenset()
    """The words, lower case, for the conditions that take some."""


@dataclass(frozen=True)
class Paradigm:
    """One row of a lexicon."""

    pos: str
    """One of :data:`SLOTS`."""
    cells: Mapping[str, tuple[tuple[Form, ...], ...]]
    """Group to its alternatives; groups without a word are left out."""
    context: tuple[Condition, ...] = ()
    """Conditions of the row; all must hold."""
    notes: str = ""
    """The lexicon author's remark."""

    @cached_property
    def in_names(self) -> bool:
        """True if the row applies even next to capitalised words."""
        return any(condition.name == "in-names" for condition in self.context)

    @cached_property
    def choices(self) -> Mapping[str, Mapping[str, tuple[Form, ...]]]:
        """Group to the alternatives that are written, each by the term that it is: its first form in lower case."""
        choices: dict[str, dict[str, tuple[Form, ...]]] = {group: {} for group in self.cells}
        for group, cell in self.cells.items():
            for forms in (forms for forms in cell if forms[0].written):
                choices[group].setdefault(forms[0].text.lower(), forms)
        return choices

    @cached_property
    def _terms(self) -> Mapping[tuple[str, str], str]:
        terms: dict[tuple[str, str], str] = {}
        for group, cell in self.cells.items():
            for forms in cell:
                for form in forms:
                    terms.setdefault((group, form.text.lower()), forms[0].text.lower())
        return terms

    def term(self, group: str, form: str) -> str | None:
        """The term that a form of a group is of: "wife" for "Wives"; None where the row does not hold the form."""
        return self._terms.get((group, form.lower()))


@dataclass(frozen=True)
class Lexicon:
    """Paradigms of one axis."""

    axis: str
    """The axis's name."""
    groups: tuple[str, ...]
    """Groups in the order of the columns."""
    paradigms: tuple[Paradigm, ...]
    """Paradigms in the order of the rows; the first that fits a word in its context is used."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of groups."""
    scope: str = "attribute"
    """The default scope of rewrites: ``attribute`` or ``word``."""
    protected: tuple[str, ...] = ()
    """Phrases that never mention a group, from ``@protect`` lines."""
    reference: str = ""
    """Group whose terms a guard writes for all groups (``@reference``); empty: the first."""
    unguarded: frozenset[str] = frozenset()
    """Terms whose rows a guard leaves out (``@unguarded``), as they would merge other words."""
    distinct: bool = False
    """True if the alternatives of an adjective are different things ("Italian, French") and not synonyms, so that two
    of them in a dialogue become two words (``@distinct``)."""

    def group(self, name: str) -> str:
        """The group called ``name``, by its own name or an alias, in any case.

        Raises:
            AxisError: there is none.
        """
        if name in self.groups:
            return name
        key = _plain(name)
        key = self.aliases.get(key, key)
        if key in self.groups:
            return key
        like = [group for group in self.groups if _plain(group) == key]
        if len(like) != 1:
            raise AxisError(f"axis {self.axis!r} has no group {name!r}; it has {', '.join(self.groups)}")
        return like[0]

    def terms(self, form: str, source: str, target: str) -> tuple[str, str]:
        """The term that a form of one group is of, and the first that the same row has for another group."""
        for paradigm in self.paradigms:
            term = paradigm.term(source, form)
            if term is not None and target in paradigm.choices:
                return term, next(iter(paradigm.choices[target]))
        return form, form

    def forms(self) -> Iterator[tuple[int, int, str]]:
        """Every form: its row, its slot, and how it is written."""
        for row, paradigm in enumerate(self.paradigms):
            for forms in (forms for cell in paradigm.cells.values() for forms in cell):
                yield from ((row, slot, form.text) for slot, form in enumerate(forms))

    @property
    def content(self) -> list[object]:
        """The rows, for signatures: what decides rewrites, without remarks."""
        return [
            (
                row.pos,
                sorted(row.cells.items()),
                [(condition.name, sorted(condition.words)) for condition in row.context],
            )
            for row in self.paradigms
        ]

    def pair(self, source: str, target: str) -> tuple[str, str]:
        """Return both groups by their own names.

        Raises:
            AxisError: one is unknown, or they are the same.
        """
        pair = self.group(source), self.group(target)
        if pair[0] == pair[1]:
            raise AxisError(f"axis {self.axis!r}: source and target are both {pair[0]!r}; choose two groups")
        return pair


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def axes() -> tuple[str, ...]:
    """The axes whose lexicons ship with the package; :func:`tod_bias.perturb.loading.axes` names all."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.tsv") if path.stem not in NO_AXES))


def load_lexicon(axis: str, path: str | Path | None = None) -> Lexicon:
    """Load the lexicon of a shipped axis, or the one in a file of the same layout.

    Raises:
        LexiconError: the file cannot be read; names the file and the line.
    """
    return _shipped(axis) if path is None else read_lexicon(Path(path), axis)


@cache
def _shipped(axis: str) -> Lexicon:
    return read_lexicon(FOLDER / f"{axis}.tsv", axis)


_DIRECTIVES: Mapping[str, tuple[int, float, str]] = {
    "@alias": (2, 2, "the other name and the group"),
    "@scope": (1, 1, "'attribute' or 'word'"),
    "@reference": (1, 1, "a group"),
    "@unguarded": (1, math.inf, "words"),
    "@distinct": (0, 0, "nothing else"),
    "@protect": (1, math.inf, "phrases"),
    "@include": (1, 1, "a file name"),
}
"""Lines other than rows: minimum and maximum number of cells, and their content."""


def read_lexicon(path: Path, axis: str | None = None) -> Lexicon:
    """Read a lexicon file; the axis is called like the file where no other name is given.

    Raises:
        LexiconError: the file cannot be read or a row is malformed; names the file and the line.
    """
    reading = _LexiconReading(path)
    read_table(path, reading.read)
    try:
        return reading.lexicon(axis or path.stem)
    except ValueError as error:
        raise LexiconError(f"{path}: {error}") from None


class _LexiconReading:
    """Lexicon while its file is read; raises ValueError for mistakes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] = []
        self._rows: list[Paradigm] = []
        self._cells: dict[str, list[str]] = {head: [] for head in _DIRECTIVES}

    def read(self, cells: list[str]) -> None:
        """One line."""
        head, *rest = cells
        if head in _DIRECTIVES:
            least, most, what = _DIRECTIVES[head]
            expect(least <= len(rest) <= most, f"expected {head!r} and {what}, joined by tabs")
            expect(head != "@scope" or rest[0] in ("attribute", "word"), f"expected {head!r} and {what}")
            self._cells[head] += rest or [head]
            if head == "@include":
                other = read_lexicon(self._path.parent / rest[0])
                self._rows += other.paradigms
                self._cells["@alias"] += (cell for pair in other.aliases.items() for cell in pair)
                self._cells["@protect"] += other.protected
        elif not self._columns:
            self._columns = _header(cells)
        else:
            self._rows.append(_paradigm(cells, self._columns))

    def lexicon(self, axis: str) -> Lexicon:
        """The whole."""
        cells, where = self._cells, "see docs/reference/rewriting.md for the layout"
        expect(bool(self._columns), f"holds no header; {where}")
        expect(bool(self._rows), f"holds no rows; {where}")
        groups = tuple(column for column in self._columns if column not in _NOT_GROUPS)
        aliases = dict(zip(map(str.lower, cells["@alias"][::2]), cells["@alias"][1::2], strict=True))
        for group in (*aliases.values(), *cells["@reference"]):
            expect(group in groups, f"@alias or @reference names {group!r}, which is not a column")
        return Lexicon(
            axis,
            groups,
            tuple(self._rows),
            aliases,
            scope=["attribute", *cells["@scope"]][-1],
            protected=tuple(cells["@protect"]),
            reference=["", *cells["@reference"]][-1],
            unguarded=frozenset(map(str.lower, cells["@unguarded"])),
            distinct=bool(cells["@distinct"]),
        )


def _header(parts: Sequence[str]) -> list[str]:
    groups = [part for part in parts if part not in _NOT_GROUPS]
    expect(parts[0] == "pos", f"the header must start with 'pos', got {parts[0]!r}")
    expect(len(groups) >= 2, "the header must name at least two groups")
    expect(len(groups) <= MOST, f"the header names {len(groups):,} groups, expected {MOST} at the most")
    longest = max(map(len, groups))
    expect(longest <= LONGEST, f"a group's name has {longest:,} characters, expected {LONGEST} at the most")
    expect(len(set(parts)) == len(parts) and all(parts), "the header has an empty or repeated column")
    return list(parts)


def _paradigm(parts: Sequence[str], columns: Sequence[str]) -> Paradigm:
    expect(len(parts) <= len(columns), f"expected at most {len(columns)} columns, got {len(parts)}")
    cells: dict[str, tuple[tuple[Form, ...], ...]] = {}
    pos, context, notes = "", "", ""
    for column, text in zip(columns, parts, strict=False):  # trailing empty columns may be left out
        if column == "pos":
            pos = text
            expect(pos in SLOTS, f"unknown part of speech {pos!r}; expected one of {', '.join(SLOTS)}")
        elif column == "context":
            context = text
        elif column == "notes":
            notes = text
        elif text not in ("", "-"):
            cells[column] = tuple(_alternative(part, pos, column) for part in text.split(","))
            expect(cells[column][0][0].written, f"column {column!r}: the first word is written, so it takes no '!'")
    expect(len(cells) >= 2, "a row needs words for at least two groups")
    forms = [form for cell in cells.values() for alternative in cell for form in alternative]
    expect(any(form.mention for form in forms), "all forms are marked '~'")
    return Paradigm(pos, cells, tuple(_conditions(context)), notes)


def _alternative(text: str, pos: str, column: str) -> tuple[Form, ...]:
    forms = []
    for part in text.split("/"):
        word = part.strip()
        mark = word[:1] if word[:1] in ("~", "!") else ""
        word = word.removeprefix(mark).strip()
        expect(bool(word), f"column {column!r}: empty word in {text.strip()!r}")
        forms.append(Form(word, mention=mark != "~", written=mark != "!"))
    if SLOTS[pos] == 2 and len(forms) == 1:
        forms.append(replace(forms[0], text=plural(forms[0].text)))
    expect(
        len(forms) == SLOTS[pos],
        f"column {column!r}: {text.strip()!r} has {len(forms)} forms, a {pos} has {SLOTS[pos]}, joined by '/'",
    )
    return tuple(forms)


def _conditions(text: str) -> Iterator[Condition]:
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, words = part.partition(":")
        name = name.strip()
        expect(name in CONDITIONS, f"unknown context {name!r}; expected one of {', '.join(CONDITIONS)}")
        takes_words = name in WITH_WORDS
        count = "some" if takes_words else "no"
        expect(takes_words == bool(colon and words.split()), f"context {name!r} takes {count} words after a colon")
        yield Condition(name, frozenset(words.lower().split()))
