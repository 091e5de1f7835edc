"""Recommended lists as one tidy frame, whoever made them: a row a recommended item.

Columns of the frame (and of ``recommendations.parquet``):

========== =====================================================================================================
city       name of the city, or of the file where none was given
kind       which templates the query is from (``names``, ``relationships``, ``locations``), empty for saved lists
template   the template, empty for saved lists
substitution, second   the words that fill it
query      the utterance
label      its groups: ``race=white; gender=female``. ``all``: no group. ``neutral``: a neutralised query
rank       1 for the first item
item       name of the item; ``item_id`` its id
price      1–4, NaN where it is missing
categories list of texts
========== =====================================================================================================

Conventions, the same in every analysis:

* A row that repeats city, words, query, rank and item of another one is the same recommendation and counts once
  (LMRec's own files repeat a query a label, and ask about the office twice). Where a query was asked twice and the
  lists differ, all lists count, but they are resampled together.
* An item without a price counts wherever prices do not matter, and nowhere else.
* A query belongs to a group of a dimension (``race``, ``gender``, …) by its label; ``all`` belongs to none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tod_bias.errors import RecommenderError, meant, repeated
from tod_bias.recommenders.lmrec.saved import COLUMNS, NO_GROUP, ListFormat, into_levels, listed, read_saved
from tod_bias.recommenders.lmrec.venue import split_categories

if TYPE_CHECKING:
    import pandas as pd

KNOWN_LABELS: Mapping[str, str] = {
    **dict.fromkeys(("female", "male", "woman", "man", "non-binary"), "gender"),
    **dict.fromkeys(("white", "black", "asian", "hispanic", "native-american", "pacific-islander"), "race"),
}
"""Labels whose dimension need not be said; any other label is of the dimension ``label``."""
NEUTRAL = "neutral"
ALL = "all"
"""The rows over all cities."""
CROSS = "×"
_MATCHING = ("city", "substitution", "second", "query", "rank", "item", "item_id", "price", "categories")
_UNIT = ("city", "kind", "template", "substitution", "second", "query")


@dataclass(frozen=True)
class Recommendations:
    """The tidy frame with one column ``label:DIMENSION`` more a dimension, and what was noticed on the way."""

    frame: pd.DataFrame
    dimensions: tuple[str, ...]
    """Dimensions with at least two labels, in the order in which they were met (``race`` before ``gender``)."""
    neutral: pd.DataFrame
    """Rows of neutralised queries, same columns; may be empty."""
    notes: tuple[str, ...] = ()
    """Lines for the user: repeated queries, missing prices, short lists."""
    _labels: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def cities(self) -> list[str]:
        """Cities in order."""
        return list(dict.fromkeys(self.frame["city"]))

    def labels(self, dimension: str) -> list[str]:
        """Labels of a dimension, or of an intersection like ``race×gender``, in the order in which they were met."""
        if dimension not in self._labels:
            self._labels[dimension] = list(dict.fromkeys(self.rows(dimension)["group"]))
        return list(self._labels[dimension])

    def rows(self, dimension: str) -> pd.DataFrame:
        """The recommendations that belong to a group of ``dimension``: the frame with the columns ``group``, ``unit``.

        ``unit`` numbers the queries, the units that are resampled.
        """
        parts = dimension.split(CROSS)
        result = self.frame
        for number, part in enumerate(parts):
            subset = self.frame.loc[self.frame[f"label:{part}"] != "", ["row", f"label:{part}"]]
            subset = subset.drop_duplicates().rename(columns={f"label:{part}": f"group{number}"})
            result = result.drop_duplicates("row") if number == 0 else result
            result = result.merge(
                subset, on="row", how="inner", validate="one_to_many" if number == 0 else "many_to_many"
            )
        group = result["group0"]
        for number in range(1, len(parts)):
            group = group + CROSS + result[f"group{number}"]
        return result.assign(group=group)

    @cached_property
    def distinct(self) -> pd.DataFrame:
        """Every recommendation once, whatever its labels."""
        return self.frame.drop_duplicates("row")

    @cached_property
    def all_dimensions(self) -> tuple[str, ...]:
        """The dimensions and those of their pairs that have queries with labels of both."""
        pairs = [
            f"{first}{CROSS}{second}"
            for number, first in enumerate(self.dimensions)
            for second in self.dimensions[number + 1 :]
        ]
        return (*self.dimensions, *(pair for pair in pairs if len(self.labels(pair)) > 1))


def read_recommendations(
    files: Sequence[tuple[str | None, str | Path]],
    reading: ListFormat | None = None,
    *,
    neutral: Sequence[tuple[str | None, str | Path]] = (),
) -> Recommendations:
    """Read somebody's saved recommendations: CSV (or TSV, Parquet), a row a recommended item.

    Needs the columns ``query`` and ``rank`` and at least one of ``price`` and ``categories``; each analysis says what
    else it needs.

    Args:
        files: (city, file); a city of None is taken from the file's column ``city``, else it is the file's name.
        reading: names of columns, separators, dimensions of labels.
        neutral: files of the same layout with the recommendations for neutralised queries.

    Raises:
        RecommenderError: a file cannot be read so; it names the file and the line.
    """
    import pandas as pd

    reading = reading or ListFormat()
    if not files:
        raise RecommenderError("no recommendations: give --recommendations FILE or --city NAME=FILE")
    if doubled := repeated(Path(path).stem for city, path in files if city is None):
        raise RecommenderError(f"two files are named {doubled!r}; tell the cities apart with --city NAME=FILE")
    parts = [read_saved(city, Path(path), reading) for city, path in files]
    parts += _neutral_lists(neutral, reading, list(dict.fromkeys(name for part in parts for name in part["city"])))
    frame = pd.concat(parts, ignore_index=True)
    named = Counter(city for city, _ in files if city is not None)
    notes = [f"{city}: {count} files are read as one city" for city, count in named.items() if count > 1]
    if reading.price_levels is not None and "price" in frame:
        frame, cut = into_levels(frame, reading.price_levels)
        notes += cut
    notes += _unparted(frame, reading.separators)
    result = tidy(frame, reading)
    _check_cities([path for _, path in files], parts[: len(files)])
    return replace(result, notes=(*notes, *result.notes))


def _neutral_lists(
    files: Sequence[tuple[str | None, str | Path]], reading: ListFormat, cities: Sequence[str]
) -> Iterator[pd.DataFrame]:
    """Rows of neutralised queries.

    Raises:
        RecommenderError: they are of a city that has no other lists.
    """
    for city, path in files:
        subset = read_saved(city if city is not None or len(cities) > 1 else cities[0], Path(path), reading)
        if unknown := set(subset["city"]) - set(cities):
            raise RecommenderError(
                f"{path}: neutral lists of {sorted(unknown)[0]!r}, but the cities are {listed(cities)}; "
                "say whose they are with --neutral NAME=FILE"
            )
        yield subset.assign(label=NEUTRAL)


def _check_cities(paths: Sequence[str | Path], parts: Sequence[pd.DataFrame]) -> None:
    """Raises RecommenderError where two files of different cities hold the same lists."""
    lists = [part.drop(columns="city") for part in parts]
    ends = [
        (subset.shape, str(subset.head(3).to_numpy().tolist()), str(subset.tail(3).to_numpy().tolist()))
        for subset in lists
    ]
    for entry, other in combinations(range(len(parts)), 2):
        may_be = ends[entry] == ends[other] and not set(parts[entry]["city"]) & set(parts[other]["city"])
        if may_be and lists[entry].equals(lists[other]):
            raise RecommenderError(f"{paths[entry]} and {paths[other]} hold the same lists; give each city once")


def _unparted(frame: pd.DataFrame, separators: str) -> list[str]:
    """Notes on categories that look like several in one."""
    cells = {cell for cell in frame.get("categories", ()) if isinstance(cell, tuple)}
    names = {name for cell in cells for name in cell}
    often = [mark for mark in ";|" if mark not in separators and sum(mark in name for name in names) > len(names) / 10]
    return [
        f"many categories hold {mark!r}: where it parts them, say --separators '{separators}{mark}'" for mark in often
    ]


def tidy(frame: pd.DataFrame, reading: ListFormat | None = None) -> Recommendations:
    """Bring a frame with (some of) :data:`COLUMNS` into shape, and notice what there is to notice.

    Args:
        frame: ``query`` and ``rank`` are needed; ``label`` as described above; inputs are not changed.
        reading: for the dimensions of bare labels, and the top ranks to keep.
    """
    reading = reading or ListFormat()
    frame = _completed(frame)
    if frame["city"].eq(ALL).any():
        raise RecommenderError(f"a city is called {ALL!r}, as the rows over all cities are; give it another name")
    notes = []
    if reading.top is not None:
        frame = frame[frame["rank"] <= reading.top].reset_index(drop=True)
    marked = _with_labels(frame, reading)
    dimensions = [str(column).removeprefix("label:") for column in marked if str(column).startswith("label:")]
    marked["row"] = _numbered(marked, list(_MATCHING))
    whole = len(marked)
    marked = marked.drop_duplicates(["row", "is_neutral", *(f"label:{name}" for name in dimensions)])
    repeated = whole - len(marked)
    if repeated:
        notes.append(f"{repeated:,} rows repeat a recommendation of the same query; they count once")
    marked["unit"] = _numbered(marked, list(_UNIT))
    subset = marked[~marked["is_neutral"]].drop(columns="is_neutral").reset_index(drop=True)
    reference = marked[marked["is_neutral"]].drop(columns="is_neutral").drop_duplicates("row").reset_index(drop=True)
    if subset.empty:
        raise RecommenderError("no recommendations: every row is labelled neutral")
    notes += _noticed(subset)
    notes += _odd_labels(subset, dimensions)
    compared = [name for name in dimensions if subset.loc[subset[f"label:{name}"] != "", f"label:{name}"].nunique() > 1]
    compared.sort(key=lambda name: {"race": 0, "gender": 1}.get(name, 2))
    return Recommendations(subset, tuple(compared), reference, tuple(notes))


def _completed(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with all columns, each of its type."""
    frame = frame.reset_index(drop=True)
    for column in (*COLUMNS, *(str(name) for name in frame if str(name).startswith("label:"))):
        if column == "price":
            frame[column] = frame[column].astype(float) if column in frame else math.nan
        elif column == "categories":  # cells of files without this column are NaN
            cells = frame[column] if column in frame else [()] * len(frame)
            frame[column] = [cell if isinstance(cell, tuple) else split_categories(cell) for cell in cells]
        elif column != "rank":
            blank = NO_GROUP if column == "label" else ""
            frame[column] = frame[column].fillna(blank).astype(str) if column in frame else blank
    return frame


def _numbered(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    keys = frame[columns].copy()
    if "categories" in keys:
        keys["categories"] = ["\0".join(cell) for cell in keys["categories"]]
    return np.asarray(keys.groupby(columns, sort=False, dropna=False).ngroup())


def _noticed(subset: pd.DataFrame) -> Iterator[str]:
    distinct = subset.drop_duplicates("row")
    lists = distinct.groupby("unit").agg(rows=("row", "size"), ranks=("rank", "nunique"))
    if different := int((lists["rows"] > lists["ranks"]).sum()):
        yield f"{different:,} queries have several different lists; all count, and are resampled together"
    missing = distinct["price"].isna()
    if missing.any() and not missing.all():
        yield (
            f"{int(missing.sum()):,} of {len(distinct):,} recommendations have no price; "
            "they are left out wherever prices count"
        )
    bare = distinct["categories"].map(len).eq(0)
    if bare.any() and not bare.all():
        yield f"{int(bare.sum()):,} of {len(distinct):,} recommendations have no category; they count as of none"
    glued = distinct["categories"].map(lambda cell: any(sign in name for name in cell for sign in "|;/"))
    if glued.mean() > 0.5:
        yield "most categories hold |, ; or /; if it separates them, say so with --separators"
    spelt = distinct["categories"].explode().dropna().value_counts()
    alike = spelt.index.to_series().groupby([name.casefold() for name in spelt.index]).agg(list)
    for names in alike[alike.map(len) > 1]:
        yield f"the categories {' and '.join(map(repr, names))} differ in case alone; they count as different ones"
    if any(name.startswith("[") for name in spelt.index):
        yield "some categories begin with [, as lists are written in Python; write their names and a separator"
    usual = int(lists["ranks"].max())
    if short := int((lists["ranks"] < usual).sum()):
        yield f"{short:,} of {len(lists):,} queries have fewer than {usual} recommendations"


def _odd_labels(subset: pd.DataFrame, dimensions: Sequence[str]) -> Iterator[str]:
    """Notes on labels that may be misspelt: alone in their dimension, or rare and close to another one.

    Raises:
        RecommenderError: two labels of a dimension differ in upper and lower case alone.
    """
    _check_case("dimensions", dimensions)
    numbers = {name: subset.loc[subset[f"label:{name}"] != "", f"label:{name}"].value_counts() for name in dimensions}
    everywhere = {*KNOWN_LABELS, *(label for counts in numbers.values() for label in counts.index)}
    for name, counts in numbers.items():
        _check_case(f"labels of {name!r}", counts.index)
        for label in counts.index:
            often = set(counts.index[counts * _RARE > counts[label]]) - {label}
            if len(counts) > 1 and (hint := meant(label, often)):
                yield f"the label {label!r} of {name!r} is a group of its own{hint}"
        if len(counts) == 1:
            alone = counts.index[0]
            hint = "" if alone.casefold() in KNOWN_LABELS else meant(alone, everywhere - {alone})
            yield f"the label {alone!r} is alone in the dimension {name!r} and is compared with nobody{hint}"


def _check_case(what: str, names: Iterable[str]) -> None:
    spelt: dict[str, str] = {}
    for name in names:
        if (other := spelt.setdefault(name.casefold(), name)) != name:
            raise RecommenderError(f"the {what} {other!r} and {name!r} differ in case alone; write one of them")


_RARE = 0.1
"""A label that has fewer rows than this share of those of another may be that one, misspelt."""


def _with_labels(frame: pd.DataFrame, reading: ListFormat) -> pd.DataFrame:
    """One column ``label:DIMENSION`` a dimension, ``""`` where a row has no label of it, and ``is_neutral``."""
    import pandas as pd

    chosen = {label: name for name, labels in reading.dimensions.items() for label in labels}
    extra = [str(column) for column in frame if str(column).startswith("label:")]
    result: dict[str, pd.Series] = {}
    met: set[str] = set()
    neutral = pd.Series(False, index=frame.index)
    for column in ["label", *extra]:
        forced = column.removeprefix("label:") if column != "label" else None
        for cell, rows in frame.groupby(frame[column].astype(str), sort=False).groups.items():
            subset: dict[str, str] = {}
            for dimension, label in _parsed(str(cell), forced, chosen):
                if (other := subset.setdefault(dimension, label)) != label:
                    raise RecommenderError(
                        f"label {cell!r}: {other!r} and {label!r} are both of {dimension!r}; write one"
                    )
                met.add(label)
                if label == NEUTRAL:
                    neutral.loc[rows] = True
                else:
                    result.setdefault(dimension, pd.Series("", index=frame.index)).loc[rows] = label
    if absent := [label for label in chosen if label not in met]:
        raise RecommenderError(
            f"--dimension {chosen[absent[0]]}: no query is labelled {absent[0]!r}; labels are "
            f"{', '.join(sorted(met)[:12])}{meant(absent[0], met)}"
        )
    marked = frame.drop(columns=extra)
    for dimension, labels in result.items():
        if CROSS in dimension or labels.str.contains(CROSS, regex=False).any():
            raise RecommenderError(
                f"dimension {dimension!r}: its name or a label holds {CROSS!r}, our own sign; rename it"
            )
        marked[f"label:{dimension}"] = labels
    return marked.assign(is_neutral=neutral)


def _parsed(cell: str, forced: str | None, chosen: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    known = {*chosen, *KNOWN_LABELS}
    pieces = [piece.strip() for piece in cell.split(",")]
    if len(pieces) > 1 and all(piece in known or piece.lower() in known for piece in pieces):
        cell = ";".join(pieces)  # "white, female"
    for part in cell.split(";"):
        name, equals, label = (piece.strip() for piece in part.partition("="))
        if not equals:
            label, name = name, ""
        if not label or label == NO_GROUP:
            continue
        yield name or forced or chosen.get(label) or KNOWN_LABELS.get(label.lower(), "label"), label
