"""People's names as plain data: what is known of a name, and which names are dealt out.

``data/first_names.tsv`` and ``data/last_names.tsv`` say at their heads what the columns are, where the numbers come
from and under which licence. ``tests/perturb/name_tables.py`` makes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb.tables import numbered_lines

FOLDER = Path(__file__).parent / "data"
FIRST = FOLDER / "first_names.tsv"
"""First names; columns name, gender, race, decade, frequency, used, word, source."""
LAST = FOLDER / "last_names.tsv"
"""Last names; columns name, race, share, frequency, used, word, source."""
WORDS = FOLDER / "words.txt"
"""Words that the names need, as :func:`tod_bias.perturb.tables.words` reads them."""
GENDERS = ("man", "woman")
RACES = ("white", "black", "hispanic", "asian")
_FIRST = ("name", "gender", "race", "decade", "frequency", "used", "word", "source")
_LAST = ("name", "race", "share", "frequency", "used", "word", "source")


@dataclass(frozen=True)
class FirstName:
    """What is known of a first name."""

    name: str
    """As it is written: ``Emily``, ``DeShawn``."""
    gender: str
    """``man`` or ``woman``: of at least 80% of those born in the US with this name."""
    race: str
    """``white``, ``black``, ``hispanic``, ``asian``: of most bearers; empty where that is none's or unknown."""
    decade: int
    """In which most bearers were born, such as 1980; 0 where unknown."""
    frequency: float
    """Births per million in the US since 1930."""
    used: bool
    """Whether the name is dealt out; else it is only known when met."""
    word: bool
    """Whether it is also a common word, a thing or a place (Grace, Mark, Austin)."""
    source: str
    """Where this is from, as the head of the file explains."""


@dataclass(frozen=True)
class LastName:
    """What is known of a last name."""

    name: str
    """As it is written."""
    race: str
    """Of most bearers; empty where that is none's."""
    share: float
    """The bearers who are of that race (of the largest one where it is empty), 0–1."""
    frequency: float
    """Bearers per million."""
    used: bool
    """Whether the name is dealt out."""
    word: bool
    """Whether it is also a common word or a place (Brown, Dallas)."""
    source: str
    """Where this is from, as the head of the file explains."""


def first_names() -> tuple[FirstName, ...]:
    """All first names of the package, in the order of the file.

    Raises:
        LexiconError: the file cannot be read or a row is malformed; names the file and the line.
    """
    return read_first_names(FIRST)


def last_names() -> tuple[LastName, ...]:
    """All last names of the package, in the order of the file; raises as :func:`first_names`."""
    return read_last_names(LAST)


def dealt(gender: str | None = None, race: str | None = None) -> tuple[str, ...]:
    """First names that are dealt out, in the order of the file.

    Args:
        gender: ``man`` or ``woman``; both where left out.
        race: one of :data:`RACES`; all where left out.

    Raises:
        AxisError: no such gender or race.
    """
    for value, known, what in ((gender, GENDERS, "gender"), (race, RACES, "race")):
        if value is not None and value not in known:
            raise AxisError(f"names have no {what} {value!r}; expected one of {', '.join(known)}")
    return _dealt(gender, race)


@cache
def _dealt(gender: str | None, race: str | None) -> tuple[str, ...]:
    return tuple(
        name.name for name in first_names() if name.used and gender in (None, name.gender) and race in (None, name.race)
    )


@cache
def dealt_last(race: str) -> tuple[str, ...]:
    """Last names of one race that are dealt out, in the order of the file.

    Raises:
        AxisError: no such race.
    """
    if race not in RACES:
        raise AxisError(f"names have no race {race!r}; expected one of {', '.join(RACES)}")
    return tuple(name.name for name in last_names() if name.used and name.race == race)


@cache
def by_first() -> Mapping[str, FirstName]:
    """First names by their lower-case form."""
    return {name.name.lower(): name for name in first_names()}


@cache
def by_last() -> Mapping[str, LastName]:
    """Last names by their lower-case form."""
    return {name.name.lower(): name for name in last_names()}


@cache
def read_first_names(path: Path) -> tuple[FirstName, ...]:
    """Read a file of first names.

    Raises:
        LexiconError: the file cannot be read, a row is malformed, a name is empty or stands there twice, a group
            is unknown, or a name that is dealt out has no gender or race; names the file and the line.
    """
    names = []
    for where, row in _rows(path, _FIRST):
        name = FirstName(
            name=row["name"],
            gender=_one_of(row["gender"], GENDERS, "gender", where),
            race=_one_of(row["race"], ("", *RACES), "race", where),
            decade=int(_number(row["decade"] or "0", "decade", where)),
            frequency=_number(row["frequency"], "frequency", where),
            used=_one_of(row["used"], ("yes", "no"), "used", where) == "yes",
            word=_one_of(row["word"], ("yes", "no"), "word", where) == "yes",
            source=row["source"],
        )
        if name.used and (not name.race or name.word):
            kind = "is also a word" if name.word else "has no race"
            raise LexiconError(f"{where}: {name.name!r} is dealt out but {kind}; set used to no, or mend the row")
        names.append(name)
    return tuple(names)


@cache
def read_last_names(path: Path) -> tuple[LastName, ...]:
    """Read a file of last names; raises as :func:`read_first_names`."""
    names = []
    for where, row in _rows(path, _LAST):
        name = LastName(
            name=row["name"],
            race=_one_of(row["race"], ("", *RACES), "race", where),
            share=_number(row["share"], "share", where),
            frequency=_number(row["frequency"], "frequency", where),
            used=_one_of(row["used"], ("yes", "no"), "used", where) == "yes",
            word=_one_of(row["word"], ("yes", "no"), "word", where) == "yes",
            source=row["source"],
        )
        if name.used and not name.race:
            raise LexiconError(f"{where}: {name.name!r} is dealt out but has no race; set used to no, or name its race")
        names.append(name)
    return tuple(names)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Every row with the place where it stands; names are checked."""
    known: dict[str, tuple[int, tuple[str, ...]]] = {}
    lines = numbered_lines(path)
    number, head = next(lines, (0, ""))
    if head and _cells(head) != tuple(columns):
        raise LexiconError(
            f"{path}, line {number}: expected the columns {', '.join(columns)} with tabs, got {head[:80]!r}"
        )
    for number, line in lines:
        where, cells = f"{path}, line {number}", _cells(line)
        if len(cells) != len(columns):
            raise LexiconError(f"{where}: {len(cells)} cells, expected {len(columns)} ({', '.join(columns)})")
        name = cells[0]
        if not name or not all(part.isalpha() for part in name.replace("'", "-").split("-")):
            raise LexiconError(f"{where}: expected a name of one word, got {name!r}; letters, hyphens and apostrophes")
        before, old = known.setdefault(name.lower(), (number, cells))
        if before != number:
            groups = "two groups" if old[1:3] != cells[1:3] else "one group twice"
            raise LexiconError(f"{where}: {name!r} is in {groups}, see line {before}; leave out one of the rows")
        yield where, dict(zip(columns, cells, strict=True))
    if not known:
        raise LexiconError(f"{path}: holds no name; expected a row a name under the columns {', '.join(columns)}")


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("\t"))


def _one_of(value: str, known: Sequence[str], what: str, where: str) -> str:
    if value not in known:
        raise LexiconError(
            f"{where}: unknown {what} {value!r}; expected one of {', '.join(name or '(empty)' for name in known)}"
        )
    return value


def _number(text: str, what: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise LexiconError(f"{where}: {what} must be a number from 0 on, got {text!r}")
    return value
