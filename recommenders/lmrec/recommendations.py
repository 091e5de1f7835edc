"""Recommended lists as one tidy frame, a row per recommended item, from a model or from a saved CSV, TSV or Parquet.

Columns of the frame (and of ``recommendations.parquet``):

========== =====================================================================================================
city       name of the city; the name of the file if none was given
kind       kind of the query's templates (``names``, ``relationships``, ``locations``), empty for saved lists
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

* A row that repeats city, words, query, rank and item of another row counts once (LMRec's own files repeat a query for
  each label, and ask about the office twice). If a query was asked twice and the lists differ, all lists count, but
  they are resampled together.
* An item without a price counts in all analyses except those of prices.
* A query belongs to a group of a dimension (``race``, ``gender``, …) by its label; ``all`` belongs to none.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError, meant, repeated
from tod_bias.recommenders.files import csv_rows, delimiters_of, read_frame
from tod_bias.recommenders.lmrec.venue import LEVELS, price_amount, price_level, split_categories

COLUMNS = (
    *("city", "kind", "template", "substitution", "second", "query", "label"),
    *("rank", "item", "item_id", "price", "categories"),
)
"""Columns of the tidy frame, in order."""
ALIASES: Mapping[str, str] = {
    "example_label": "substitution",
    "secondary_example_label": "second",
    "secondary_label": "label:second relationship",
    "input_sentence": "query",
    "recommended_item": "item",
}
"""Columns of the LMRec authors' own files, taken where a file has no column of our name."""
NO_GROUP = "all"
"""The label of queries of no group."""
NEUTRAL = "neutral"
"""The label of neutralised queries."""
_FILLED = ("query", "label", "substitution", "city")
"""Columns that must say something in every row."""
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
class ListFormat:
    """Form of saved recommendations."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """File's column → ours (one of :data:`COLUMNS`, or ``label:DIMENSION`` for a further label column)."""
    separators: str = ","
    """Every character separates categories."""
    dimensions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Dimension → its labels, where a label is not among :data:`KNOWN_LABELS` or means something else."""
    top: int | None = None
    """Keep ranks up to this one; None for all."""
    price_levels: Sequence[float] | None = None
    """Prices are amounts: three ascending bounds, each the dearest of a level; none of them (``()``): the quartiles of
    a city's items. None: prices are levels already."""


def read_saved(city: str | None, path: Path, reading: ListFormat) -> pd.DataFrame:
    """A file's rows under our names of columns; ranks from 1, prices and categories parsed.

    Args:
        city: whose lists they are; None takes it from the file's column ``city``, else the file's name.
        path: CSV, TSV or Parquet.
        reading: names of columns and separators.

    Raises:
        TodBiasError: the file cannot be read so; it names the file and the line.
    """
    frame, lines = _table(path, reading.columns)

    frame["rank"] = _parsed(frame["rank"], _rank, path, lines)
    if "price" in frame:
        convert = _level if reading.price_levels is None else price_amount
        frame["price"] = pd.Series(_parsed(frame["price"], convert, path, lines), dtype=float)
    if "categories" in frame:
        cells = [tuple(cell) if isinstance(cell, list | np.ndarray) else cell for cell in frame["categories"]]
        split = {cell: split_categories(cell, reading.separators) for cell in set(cells)}
        frame["categories"] = [split[cell] for cell in cells]
    for column in frame.columns.difference(["rank", "price", "categories"]):
        frame[column] = frame[column].fillna("").astype(str).str.strip()
        empty = frame[column].eq("")
        if column.split(":")[0] in _FILLED and empty.any():
            hint = f"; write {NO_GROUP!r} for queries of no group" if column.startswith("label") else ""
            raise RecommenderError(f"{path}, line {lines[int(np.argmax(empty))]}: no {column}{hint}")
    if city is not None or "city" not in frame:
        frame["city"] = city if city is not None else path.stem
    return frame.assign(rank=frame["rank"] + (frame.groupby("city")["rank"].transform("min") == 0))


def _parsed(cells: pd.Series, convert: Callable[[Any], Any], path: Path, lines: Sequence[int]) -> list[Any]:
    known: dict[Any, Any] = {}
    for row, cell in enumerate(cells):
        if cell not in known:
            try:
                known[cell] = convert(cell)
            except ValueError as error:
                raise RecommenderError(f"{path}, line {lines[row]}: {error}") from error
    return [known[cell] for cell in cells]


def into_levels(frame: pd.DataFrame, bounds: Sequence[float]) -> tuple[pd.DataFrame, list[str]]:
    """Convert amounts to price levels, city by city, and return notes on the bounds.

    Args:
        frame: rows of all cities, with amounts under ``price``; it is not changed.
        bounds: the largest amount of each level but the last; empty for the quartiles of a city's distinct items,
            without neutral lists.
    """
    levels, notes = frame["price"].to_numpy(dtype=float).copy(), []
    named = [name for name in ("item_id", "item") if name in frame]
    part = frame[frame["price"].notna() & (frame["label"].ne(NEUTRAL) if "label" in frame else True)]
    for city in dict.fromkeys(frame["city"]):
        items = part[part["city"] == city]
        items = items.drop_duplicates([*named, "price"]) if named else items
        cuts = np.array(bounds) if len(bounds) else np.quantile(items["price"], (0.25, 0.5, 0.75)) if len(items) else ()
        if not len(cuts):
            continue
        here = frame["city"].eq(city).to_numpy() & ~np.isnan(levels)
        levels[here] = LEVELS[0] + np.searchsorted(cuts, levels[here], side="left")
        shown = ", ".join(f"{cut:g}" for cut in cuts)
        notes.append(f"{city}: prices are amounts, cut into four levels after {shown}")
    return frame.assign(price=levels), notes


def _level(cell: object) -> int | None:
    try:
        return price_level(cell)
    except ValueError as error:
        raise ValueError(f"{error}; amounts take --price-levels quartiles, or 15,30,60") from error


def _rank(cell: object) -> int:
    try:
        number = float(str(cell))
    except ValueError:
        number = math.nan
    if not (0 <= number < 1e9 and number == int(number)):
        raise ValueError(f"rank {str(cell)!r}: expected a whole number, 0 or 1 for the first item")
    return int(number)


_NEEDED = {
    "no column 'query'": ("query",),
    "no column 'rank'": ("rank",),
    "neither a column 'price' nor 'categories'": ("price", "categories"),
    "neither a column 'label' nor 'substitution', so no groups can be compared": ("label", "substitution"),
}
"""Notes on a file without some columns."""


def _names(path: Path, header: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """File's column → ours: as mapped, else our names, else those of LMRec's files."""
    _check_mapping(path, header, columns)
    names = dict(columns)
    for name in header:
        meaning = name if _is_ours(name) else ALIASES.get(name)
        if meaning is not None and meaning not in names.values():
            names.setdefault(name, meaning)
    if doubled := repeated(name for name in header if name in names):
        raise RecommenderError(f"{path}, line 1: two columns are {doubled!r}; expected one")
    kinds = {ours.split(":")[0] for ours in names.values()}
    for lacking, needed in _NEEDED.items():
        if kinds.isdisjoint(needed):
            mapping = ",".join(f"NAME={name}" for name in needed)
            raise RecommenderError(
                f"{path}, line 1: {lacking}; columns are {', '.join(header)}; name it with --columns {mapping}"
            )
    return names


def _check_mapping(path: Path, header: Sequence[str], columns: Mapping[str, str]) -> None:
    for theirs, ours in columns.items():
        if not _is_ours(ours):
            raise RecommenderError(f"--columns {theirs}={ours}: no {ours!r}; expected one of {', '.join(COLUMNS)}")
        if theirs not in header:
            raise RecommenderError(f"{path}, line 1: no column {theirs!r}; columns are {', '.join(header)}")
    if doubled := repeated(columns.values()):
        raise RecommenderError(f"--columns: two columns are {doubled!r}; expected one")


def _is_ours(name: str) -> bool:
    return name in COLUMNS or name.startswith("label:")


def _table(path: Path, columns: Mapping[str, str]) -> tuple[pd.DataFrame, Sequence[int]]:
    """The columns that have a meaning, under our names, and the line on which each row ends."""
    lines: Sequence[int]
    if path.suffix == ".parquet":
        frame = read_frame(path)
        frame.columns = frame.columns.map(str)
        cells: dict[str, Any] = {
            ours: frame[theirs].to_numpy(dtype=object)
            for theirs, ours in _names(path, frame.columns.tolist(), columns).items()
        }
        lines = range(2, len(frame) + 2)
    else:
        rows = csv_rows(path, delimiters_of(path))
        _, header = next(rows)
        names = _names(path, header, columns)
        lines, known = array("q"), dict[str, str]()  # equal cells are one object
        cells = {ours: [] for ours in names.values()}
        wanted = [(header.index(theirs), cells[ours].append) for theirs, ours in names.items()]
        for line, row in rows:
            for index, add in wanted:
                add(known.setdefault(row[index], row[index]))
            lines.append(line)
    if not len(lines):
        raise RecommenderError(f"{path}: holds no recommendation, only a header")
    return pd.DataFrame(cells, dtype=object), lines


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
        raise RecommenderError(
            f"a city is called {ALL!r}, a name that is reserved for the rows over all cities; rename it"
        )
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
            for dimension, label in _parsed_labels(str(cell), forced, chosen):
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


def _parsed_labels(cell: str, forced: str | None, chosen: Mapping[str, str]) -> Iterator[tuple[str, str]]:
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
