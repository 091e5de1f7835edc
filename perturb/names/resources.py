"""People's names as plain data: what is known of a name, and which names are dealt out.

``data/first_names.tsv`` and ``data/last_names.tsv`` say at their heads what the columns are, where the numbers come
from and under which licence. ``projects/rewriting/name_tables.py`` makes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tod_bias.perturb.tables import numbered_lines, words

FOLDER = Path(__file__).parent / "data"
FIRST = FOLDER / "first_names.tsv"
LAST = FOLDER / "last_names.tsv"
WORDS = FOLDER / "words.txt"
"""Words that the names need, as :func:`tod_bias.perturb.tables.words` reads them."""
MENTIONS = FOLDER / "mentions.txt"
"""Words around names, and words that only look like names, in the same form."""
GENDERS = ("man", "woman")
RACES = ("white", "black", "hispanic", "asian")


@dataclass(frozen=True)
class KnownName:
    """Facts about a first or a last name."""

    name: str
    """Name as it is written: ``Emily``, ``DeShawn``."""
    gender: str
    """Gender of at least 80% of those born in the US with this first name; empty for a last name."""
    race: str
    """One of :data:`RACES`, that of most bearers; empty if mixed or unknown."""
    used: bool
    """True if the name is dealt; otherwise it is only recognised."""
    word: bool
    """True if it is also a common word, a thing or a place (Grace, Mark, Austin)."""
    source: str
    """Source of the entry, explained at the head of the file."""


@cache
def first_names() -> tuple[KnownName, ...]:
    """Return the first names of the package, in the order of the file."""
    return _read(FIRST)


@cache
def last_names() -> tuple[KnownName, ...]:
    """Return the last names of the package, in the order of the file."""
    return _read(LAST)


def _read(path: Path) -> tuple[KnownName, ...]:
    lines = (line.split("\t") for _, line in numbered_lines(path))
    columns = next(lines)
    rows = (dict(zip(columns, cells, strict=True)) for cells in lines)
    return tuple(
        KnownName(
            row["name"], row.get("gender", ""), row["race"], row["used"] == "yes", row["word"] == "yes", row["source"]
        )
        for row in rows
    )


@cache
def dealt(gender: str | None = None, race: str | None = None) -> tuple[str, ...]:
    """First names that are dealt out, in the order of the file.

    Args:
        gender: ``man`` or ``woman``; both where left out.
        race: one of :data:`RACES`; all where left out.
    """
    return tuple(
        name.name for name in first_names() if name.used and gender in (None, name.gender) and race in (None, name.race)
    )


@cache
def dealt_last(race: str) -> tuple[str, ...]:
    """Last names of one race that are dealt out, in the order of the file."""
    return tuple(name.name for name in last_names() if name.used and name.race == race)


@cache
def by_first() -> Mapping[str, KnownName]:
    """First names by their lower-case form."""
    return {name.name.lower(): name for name in first_names()}


@cache
def by_last() -> Mapping[str, KnownName]:
    """Last names by their lower-case form."""
    return {name.name.lower(): name for name in last_names()}


@cache
def listed(section: str) -> frozenset[str]:
    """One list of ``data/words.txt``."""
    return words(section, WORDS)


@cache
def mention_words(section: str) -> frozenset[str]:
    """One list of ``data/mentions.txt``."""
    return words(section, MENTIONS)
