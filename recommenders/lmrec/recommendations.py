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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError, meant, repeated
from tod_bias.recommenders.lmrec.saved import COLUMNS, NEUTRAL, NO_GROUP, ListFormat, into_levels, read_saved
from tod_bias.recommenders.lmrec.venue import split_categories

KNOWN_LABELS: Mapping[str, str] = {
    **dict.fromkeys(("female", "male", "woman", "man", "non-binary"), "gender"),
    **dict.fromkeys(("white", "black", "asian", "hispanic", "native-american", "pacific-islander"), "race"),
}
"""Labels whose dimension need not be said; any other label is of the dimension ``label``."""
ALL = "all"
"""The rows over all cities."""
CROSS = "×"
COUPLE = "couple"
"""The dimension of two people who are mentioned as a couple: of the same gender or not (Shen §4.6)."""
_FIRST, _SECOND = ("first relationship", "gender"), "second relationship"
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
        if dimension == COUPLE:
            return self._couples()
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

    def _couples(self) -> pd.DataFrame:
        """The recommendations for two people, by whether both are of one gender; the columns ``group0`` and ``group1``
        hold the genders."""
        first = next(name for name in _FIRST if name in self.dimensions)
        rows = self.rows(f"{first}{CROSS}{_SECOND}")
        return rows.assign(group=np.where(rows["group0"] == rows["group1"], "one gender", "two genders").astype(object))

    @cached_property
    def distinct(self) -> pd.DataFrame:
        """Every recommendation once, whatever its labels."""
        return self.frame.drop_duplicates("row")

    @cached_property
    def all_dimensions(self) -> tuple[str, ...]:
        """The dimensions, those of their pairs that have queries with labels of both, and couples if there are any."""
        pairs = [CROSS.join(pair) for pair in combinations(self.dimensions, 2)]
        couples = [COUPLE] if any(name in self.dimensions for name in _FIRST) and _SECOND in self.dimensions else []
        return (*self.dimensions, *(name for name in (*pairs, *couples) if len(self.labels(name)) > 1))

    def saved(self) -> pd.DataFrame:
        """The frame of ``recommendations.parquet``, neutral rows included; it can be read and audited again."""
        rows = self.frame.copy()
        label = pd.Series("", index=rows.index)
        for name in (str(column) for column in rows if str(column).startswith("label:")):
            part = name.removeprefix("label:") + "=" + rows[name]
            label = label.where(rows[name] == "", label.where(label == "", label + "; ") + part)
        rows["label"] = label.where(label != "", NO_GROUP)
        parts = [rows, self.neutral.assign(label=NEUTRAL)]
        whole = pd.concat([part[list(COLUMNS)] for part in parts if len(part)], ignore_index=True)
        lists = pd.Series([list(cell) for cell in whole["categories"]], index=whole.index, dtype=object)
        return whole.assign(categories=lists, rank=whole["rank"].astype(int))


def read_recommendations(
    files: Sequence[tuple[str | None, str | Path]], reading: ListFormat | None = None
) -> Recommendations:
    """Read saved recommendations: CSV (or TSV, Parquet), a row per recommended item.

    Needs the columns ``query`` and ``rank`` and at least one of ``price`` and ``categories``; each analysis reports
    further needs.

    Args:
        files: (city, file); a city of None is taken from the file's column ``city``, else it is the file's name.
        reading: names of columns, separators, dimensions of labels.

    Raises:
        TodBiasError: a file cannot be read in this format; names the file and the line.
    """
    reading = reading or ListFormat()
    if doubled := repeated(Path(path).stem for city, path in files if city is None):
        raise RecommenderError(f"two files are named {doubled!r}; name the cities with --city NAME=FILE")
    parts = [read_saved(city, Path(path), reading) for city, path in files]
    lists = [(path, part.drop(columns="city")) for (_, path), part in zip(files, parts, strict=True)]
    for (first, rows), (second, others) in combinations(lists, 2):
        if rows.equals(others):
            raise RecommenderError(f"{first} and {second} hold the same lists; give each city once")
    frame = pd.concat(parts, ignore_index=True)
    named = Counter(city for city, _ in files if city is not None)
    notes = [f"{city}: {count} files are read as one city" for city, count in named.items() if count > 1]
    if reading.price_levels is not None and "price" in frame:
        levels, cut = into_levels(frame, reading.price_levels)
        frame = levels.assign(amount=frame["price"])
        notes += cut
    result = tidy(frame, reading)
    return replace(result, notes=(*notes, *_mean_amounts(result), *result.notes))


def _mean_amounts(result: Recommendations) -> Iterator[str]:
    """Yield the average amounts of the groups' lists, if prices were amounts before they became levels."""
    for dimension in result.dimensions if "amount" in result.frame else ():
        means = result.rows(dimension).groupby("group", sort=False)["amount"].mean().dropna()
        listed = ", ".join(f"{label} {mean:.2f}" for label, mean in means.items())
        yield f"{dimension}: the mean price is {listed}; tests are of the levels"


def tidy(frame: pd.DataFrame, reading: ListFormat | None = None) -> Recommendations:
    """Normalise a frame with (some of) :data:`COLUMNS`, and collect notes.

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
    labels = {name: [label for label in subset[f"label:{name}"].unique() if label] for name in dimensions}
    labels = {name: of_dimension for name, of_dimension in labels.items() if of_dimension}
    notes += [*_empty_labels(frame["label"]), *_noticed(subset), *_lone_labels(labels)]
    compared = [name for name, of_dimension in labels.items() if len(of_dimension) > 1]
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
    """Notes on lists, prices and categories."""
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
    yield from _joined(distinct["categories"])
    if any(name.startswith("[") for cell in distinct["categories"] for name in cell):
        yield "some categories begin with [, as lists are written in Python; write their names and a separator"
    usual = int(lists["ranks"].max())
    if short := int((lists["ranks"] < usual).sum()):
        yield f"{short:,} of {len(lists):,} queries have fewer than {usual} recommendations"


def _joined(cells: pd.Series) -> Iterator[str]:
    """Notes on signs that may separate categories; names of some hold ``/``."""
    for sign, most in (("|", 0), (";", 0), ("/", 0.5)):
        joined = [name for cell in cells for name in cell if sign in name]
        if len(joined) > most * len(cells):
            yield (
                f"{joined[0]!r} and others look like several categories; if {sign} separates them, give "
                f"--separators '{sign}'"
            )


def _empty_labels(cells: pd.Series) -> Iterator[str]:
    """A note on rows in which a dimension has no label: ``origin=``."""
    empty = cells.str.extract(r"([^;,=]+)=\s*(?:[;,]|$)", expand=False).dropna().str.strip()
    for dimension, number in empty.value_counts().items():
        rows = "row" if number == 1 else "rows"
        yield f"empty labels ({dimension}=) in {number:,} {rows}, not compared with any group in {dimension!r}"


def _lone_labels(labels: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Notes on labels that are alone in their dimension, and may be misspelt.

    Raises:
        RecommenderError: two dimensions, or two labels of one, differ in upper and lower case alone.
    """
    for what, names in (("dimensions", list(labels)), *((f"labels of {name!r}", labels[name]) for name in labels)):
        if doubled := repeated(name.casefold() for name in names):
            raise RecommenderError(f"two {what} differ in case alone: {doubled!r}; write one of them")
    known = {*KNOWN_LABELS, *(label for of_dimension in labels.values() for label in of_dimension)}
    for name, (label, *others) in labels.items():
        if not others:
            hint = "" if label.casefold() in KNOWN_LABELS else meant(label, known - {label})
            yield f"the label {label!r} is alone in the dimension {name!r} and is not compared with any group{hint}"


def _with_labels(frame: pd.DataFrame, reading: ListFormat) -> pd.DataFrame:
    """One column ``label:DIMENSION`` a dimension, ``""`` where a row has no label of it, and ``is_neutral``."""
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
