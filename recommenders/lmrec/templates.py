"""Shen's templates, the words that fill them, and masks of names, places and gendered relations (Shen §3.5).

The same masking serves queries at test time (*neutralisation*) and reviews at training time. Templates and words are
data files that a user can replace.

Every file is TSV with a header; lines that begin with ``#`` are comments.

* ``templates.tsv``: kind, template. ``[NAME]``, ``[FIRST]``, ``[POSSESSIVE]``, ``[SECOND]``, ``[LOCATION]`` are filled.
* ``names.tsv``: word, and one column a dimension of groups (gender, race; further ones may be added).
* ``relationships.tsv``: word, place (first or second), gender.
* ``locations.tsv``: word, group (location, religion, …).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pandas as pd

from tod_bias.errors import RecommenderError
from tod_bias.io.documents import LARGEST_LIST, read_text
from tod_bias.perturb.english import edited
from tod_bias.perturb.names.lookalikes import is_dish_or_place
from tod_bias.perturb.names.places import name_places
from tod_bias.perturb.names.unaccented import Unaccented

RESOURCES = Path(__file__).parent / "resources"
PLACEHOLDERS: Mapping[str, tuple[str, ...]] = {
    "names": ("[NAME]",),
    "relationships": ("[FIRST]", "[SECOND]"),
    "locations": ("[LOCATION]",),
}
"""Kind of templates → the placeholders that each must hold."""
POSSESSIVES: Mapping[str, str] = {"female": "her", "male": "his"}
FIRST, SECOND = "first relationship", "second relationship"
"""Dimensions of the relationships' genders."""


@dataclass(frozen=True)
class Substitution:
    """One word with its groups."""

    word: str
    labels: Mapping[str, str]
    """Dimension → label; empty for places."""
    group: str = ""
    """Kind of place: ``location``, ``religion``; for relationships ``first`` or ``second``."""


@dataclass(frozen=True)
class Query:
    """One filled template."""

    kind: str
    template: str
    text: str
    substitution: str
    second: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TemplateSet:
    """Templates with the words that fill them."""

    templates: tuple[tuple[str, str], ...]
    """(kind, template)."""
    names: tuple[Substitution, ...]
    relationships: tuple[Substitution, ...]
    locations: tuple[Substitution, ...]

    def queries(self) -> Iterator[Query]:
        """Return all filled templates: every name, every pair of first and second relationship, every place."""
        for kind, template in self.templates:
            if kind == "names":
                for name in self.names:
                    yield Query(kind, template, template.replace("[NAME]", name.word), name.word, "", name.labels)
            elif kind == "locations":
                for place in self.locations:
                    yield Query(kind, template, template.replace("[LOCATION]", place.word), place.word)
            else:
                for first in self.relationships:
                    for second in self.relationships if first.group == "first" else ():
                        if second.group == "second":
                            yield _couple(template, first, second)


def _couple(template: str, first: Substitution, second: Substitution) -> Query:
    possessive = POSSESSIVES.get(first.labels["gender"], "their")
    text = template.replace("[FIRST]", first.word).replace("[SECOND]", second.word)
    labels = {FIRST: first.labels["gender"], SECOND: second.labels["gender"]}
    return Query("relationships", template, text.replace("[POSSESSIVE]", possessive), first.word, second.word, labels)


@cache
def load_templates(folder: str | Path | None = None) -> TemplateSet:
    """Load templates and words; files that ``folder`` does not hold are those that ship.

    Raises:
        RecommenderError: a file is malformed, a template lacks its placeholder, a substitution is in no label; file and
            line are named.
    """
    folder = Path(folder) if folder is not None else RESOURCES
    if not folder.is_dir():
        raise RecommenderError(f"{folder}: no such folder; expected one with templates.tsv, names.tsv, …")
    if not any((folder / name).exists() for name in _FILES):
        raise RecommenderError(f"{folder}: holds none of {', '.join(_FILES)}")
    return TemplateSet(
        tuple(_templates(_file(folder, "templates.tsv"))),
        tuple(_substitutions(_file(folder, "names.tsv"), ())),
        tuple(_substitutions(_file(folder, "relationships.tsv"), ("place", "gender"))),
        tuple(_substitutions(_file(folder, "locations.tsv"), ("group",))),
    )


_FILES = ("templates.tsv", "names.tsv", "relationships.tsv", "locations.tsv")


def _file(folder: Path, name: str) -> Path:
    return folder / name if (folder / name).exists() else RESOURCES / name


def _templates(path: Path) -> Iterator[tuple[str, str]]:
    for line, row in _rows(path, ("kind", "template")):
        kind, template = row["kind"], row["template"]
        if kind not in PLACEHOLDERS:
            raise RecommenderError(f"{path}, line {line}: no kind {kind!r}; expected {', '.join(PLACEHOLDERS)}")
        if lacking := [placeholder for placeholder in PLACEHOLDERS[kind] if placeholder not in template]:
            raise RecommenderError(f"{path}, line {line}: the template {template!r} lacks its placeholder {lacking[0]}")
        yield kind, template


def _substitutions(path: Path, needed: Sequence[str]) -> Iterator[Substitution]:
    seen: dict[tuple[str, str], int] = {}
    for line, row in _rows(path, ("word", *needed)):
        word = row.pop("word")
        group = row.pop(needed[0]) if needed else ""
        labels = {dimension: label for dimension, label in row.items() if label}
        if not (labels or group):
            raise RecommenderError(
                f"{path}, line {line}: the substitution {word!r} is in no label; expected one in {' or '.join(row)}"
            )
        if "place" in needed and group not in ("first", "second"):
            raise RecommenderError(f"{path}, line {line}: place is {group!r}; expected first or second")
        if (word, group) in seen:
            raise RecommenderError(f"{path}, line {line}: {word!r} stands in line {seen[word, group]} too")
        seen[word, group] = line
        yield Substitution(word, labels, group)
    if not seen:
        raise RecommenderError(f"{path}: holds no word")


def _rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a file of words with their lines; the columns that are needed say something in each."""
    try:
        lines = read_text(path, largest=LARGEST_LIST).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecommenderError(f"{path}: cannot be read: {error}") from error
    header: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        header = header or cells
        if len(cells) > len(header):
            raise RecommenderError(f"{path}, line {number}: {len(cells)} cells; the header has {len(header)}")
        row = dict(zip(header, cells + [""] * (len(header) - len(cells)), strict=True))
        if missing := [name for name in needed if not row.get(name)]:
            raise RecommenderError(
                f"{path}, line {number}: no {missing[0]}; expected {', '.join(needed)}, joined by tabs"
            )
        if cells is not header:
            yield number, row


@cache
def word_list(name: str) -> frozenset[str]:
    """The lines of a file of words that ships, without comments."""
    lines = (RESOURCES / name).read_text(encoding="utf-8").splitlines()
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def places_of(rows: pd.DataFrame, words: TemplateSet | None = None) -> dict[str, list[str]]:
    """The substitutions of a frame that are places, by kind of place; so are words of no group that are not known."""
    templates = words or load_templates()
    known = {place.word.lower(): place.group for place in templates.locations}
    people = {entry.word.lower() for entry in (*templates.names, *templates.relationships)}
    labels = [str(column) for column in rows if str(column).startswith("label:")]
    ungrouped = rows.loc[(rows[labels] == "").all(axis=1) if labels else slice(None), "substitution"]
    result: dict[str, list[str]] = {"location": [], "religion": []}
    for word in dict.fromkeys(ungrouped):
        if word and word.lower() not in people:
            result.setdefault(known.get(word.lower(), "location"), []).append(word)
    return {group: part for group, part in result.items() if part}


MASK = "[MASK]"
"""Stands for the tokenizer's own mask token."""


class Neutraliser:
    """Replace names of people, places, gendered relations and gendered pronouns by ``[MASK]``.

    Accents make no difference. A place of several words becomes one mask, so that all substitutions of a template give
    the same text. Names are those that :func:`~tod_bias.perturb.names.places.name_places` finds: the package's first
    names, and other names if the words around them show a person. Names of the templates are masked wherever they are
    capitalised and no dish or venue (Precious, Raven). An unlisted name without such words stays. Relations and places
    count in any case; ``neutral_words.txt`` holds pronouns and further relations.

    Args:
        words: names, relations and places; those of the package by default.
    """

    def __init__(self, words: TemplateSet | None = None) -> None:
        words = words or load_templates()
        other = [entry.word for entry in (*words.relationships, *words.locations)]
        further = word_list("neutral_words.txt")
        self._names = re.compile(rf"\b(?:{_any(_plain(entry.word) for entry in words.names)})\b")
        self._others = re.compile(rf"\b(?:{_any(map(_plain, (*other, *further)))})\b", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        """Return the text without the words about people and places."""
        plain = Unaccented(text)
        places = [
            place
            for place in (match.span() for match in self._names.finditer(plain.text))
            if not is_dish_or_place(plain.text, *place)
        ]
        places += [match.span() for match in self._others.finditer(plain.text)]
        places = [*(plain.original(*place) for place in places), *name_places(text)]
        return edited(text, dict.fromkeys(_apart(places), MASK))


def _plain(word: str) -> str:
    return Unaccented(word).text


def _apart(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield places that do not overlap, the longer ones first."""
    held: set[int] = set()
    for start, end in sorted(places, key=lambda place: place[0] - place[1]):
        if held.isdisjoint(range(start, end)):
            held |= set(range(start, end))
            yield start, end


def _any(words: Iterable[str]) -> str:
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word) for word in longest_first) or r"(?!)"


def name_masker(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern of venue names, with or without what follows a dash (``Tin Drum - Midtown``), in any case."""
    every = set()
    for name in names:
        every |= {name.strip(), re.split(r"\s+[-–—]\s+", name.strip())[0]}
    return re.compile(rf"(?<!\w)(?:{_any(name for name in every if len(name) > 2)})(?!\w)", re.IGNORECASE)
