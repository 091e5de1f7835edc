"""Files of saved recommendations, whoever wrote them: CSV, TSV or Parquet, a row a recommended item."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.documents import check_columns, check_plain
from tod_bias.errors import RecommenderError, repeated
from tod_bias.recommenders.lmrec.venue import LEVELS, price_amount, price_level, split_categories

if TYPE_CHECKING:
    import pandas as pd

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


@dataclass(frozen=True)
class ListFormat:
    """How saved recommendations are to be read."""

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
        RecommenderError: the file cannot be read so; it names the file and the line.
    """

    frame, lines = _table(path, reading.columns)
    place = _Places(path, lines)
    frame["rank"] = _parse(frame["rank"], place, _rank)
    if "price" in frame:
        convert = _level if reading.price_levels is None else price_amount
        frame["price"] = [math.nan if p is None else float(p) for p in _parse(frame["price"], place, convert)]
    if "categories" in frame:
        cells = [
            tuple(cell) if isinstance(cell, list | tuple | np.ndarray) else cell if isinstance(cell, str) else ()
            for cell in frame["categories"]
        ]
        split = {cell: split_categories(cell, reading.separators) for cell in set(cells)}
        frame["categories"] = [split[cell] for cell in cells]
    for column in frame.columns.difference(["rank", "price", "categories"]):
        frame[column] = frame[column].fillna("").astype(str).str.strip()
    _check_filled(frame, place)
    if city is not None:
        frame["city"] = city
    elif "city" not in frame:
        frame["city"] = path.stem
    return frame.assign(rank=_ranks(frame, place))


def _check_filled(frame: pd.DataFrame, place: _Places) -> None:
    """Raises RecommenderError for an empty cell where each must say something."""
    for column in map(str, frame):
        name = column.split(":")[0]
        if name not in ("query", "label", "substitution", "city") or not (empty := frame[column].eq("")).any():
            continue
        first = int(np.argmax(empty))
        reason = f"the column {column!r} is empty"
        if name == "label":
            subject = f"substitution {frame['substitution'][first]!r}" if "substitution" in frame else "this query"
            reason = f"{subject} is in no label; write {NO_GROUP!r} for queries of no group"
        raise RecommenderError(f"{place[first]}: {reason}")


def _ranks(frame: pd.DataFrame, place: _Places) -> pd.Series:
    """Ranks from 1, also where a city's lists are counted from 0.

    Raises:
        RecommenderError: most lists of such a city begin at 1.
    """
    lowest = frame.groupby("city", sort=False)["rank"].transform("min")
    lists = [name for name in ("city", "query", "label") if name in frame]
    begins = frame.groupby(lists, sort=False)["rank"].agg(["min", "idxmin"])
    of_city = lowest[begins["idxmin"]].to_numpy() == 0
    if (later := of_city & (begins["min"].to_numpy() > 0)).sum() * 2 > of_city.sum():
        first = int(begins["idxmin"].to_numpy()[later][0])
        raise RecommenderError(
            f"{place[first]}: this list begins at rank {frame['rank'][first]}, like most, and others at 0; count all "
            "from 0, or all from 1"
        )
    return frame["rank"] + (lowest == 0)


def into_levels(frame: pd.DataFrame, bounds: Sequence[float]) -> tuple[pd.DataFrame, list[str]]:
    """Amounts as price levels, city by city, and notes that say where they part.

    Args:
        frame: rows of all cities, with amounts under ``price``; it is not changed.
        bounds: the dearest amount of each level but the last; none of them for the quartiles of the items of a city,
            every one once, neutral lists left out.
    """
    levels, notes = frame["price"].to_numpy(dtype=float).copy(), []
    named = [name for name in ("item_id", "item") if name in frame]
    part = frame[frame["price"].notna() & (frame["label"].ne("neutral") if "label" in frame else True)]
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


class _Places:
    """Where a row stands, written when it is asked for."""

    def __init__(self, path: Path, lines: Sequence[int]) -> None:
        self._path, self._lines = path, lines

    def __getitem__(self, row: int) -> str:
        return f"{self._path}, line {self._lines[row]}"


def _parse(cells: pd.Series, place: _Places, convert: Any) -> list[Any]:
    known: dict[Any, Any] = {}
    made = []
    for row, cell in enumerate(cells):
        if cell not in known:
            try:
                known[cell] = convert(cell)
            except ValueError as error:
                raise RecommenderError(f"{place[row]}: {error}") from error
        made.append(known[cell])
    return made


def _level(cell: object) -> int | None:
    try:
        return price_level(cell)
    except ValueError as error:
        try:
            price_amount(cell)
        except ValueError:
            raise error from None
        raise ValueError(f"{error}; amounts take --price-levels quartiles, or 15,30,60") from None


def _rank(cell: object) -> int:
    try:
        number = float(str(cell))
    except ValueError:
        number = math.nan
    if not (0 <= number < 1e9 and number == int(number)):
        raise ValueError(f"rank {str(cell)!r}: expected a whole number, 0 or 1 for the first item")
    return int(number)


def _names(path: Path, header: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """File's column → ours: as mapped, else our names, else those of LMRec's files."""
    _check_mapping(path, header, columns)
    names = dict(columns)
    needless = {name: name for name in header if name in COLUMNS or name.startswith("label:")}
    for theirs, ours in {**needless, **ALIASES}.items():
        if theirs in header and theirs not in names and ours not in names.values():
            names[theirs] = ours
    kinds = {ours.split(":")[0] for ours in names.values()}
    for needed, lacking in (
        (("query",), "no column 'query'"),
        (("rank",), "no column 'rank'"),
        (("price", "categories"), "neither a column 'price' nor 'categories'"),
        (("label", "substitution"), "neither a column 'label' nor 'substitution', so no groups can be compared"),
    ):
        if not kinds & set(needed):
            mapping = ",".join(f"NAME={name}" for name in needed)
            raise RecommenderError(
                f"{path}, line 1: {lacking}; columns are {listed(header)}; say which it is with --columns {mapping}"
            )
    return names


def _check_mapping(path: Path, header: Sequence[str], columns: Mapping[str, str]) -> None:
    for theirs, ours in columns.items():
        if ours not in COLUMNS and not ours.startswith("label:"):
            raise RecommenderError(f"--columns {theirs}={ours}: no {ours!r}; expected one of {', '.join(COLUMNS)}")
        if theirs not in header:
            raise RecommenderError(f"{path}, line 1: no column {theirs!r}; columns are {listed(header)}")
    if doubled := repeated(columns.values()):
        raise RecommenderError(f"--columns: two columns are named {doubled!r}; expected one")
    if doubled := repeated(name for name in header if name in columns or name in COLUMNS):
        raise RecommenderError(f"{path}, line 1: two columns are named {doubled!r}; expected one")


def listed(header: Sequence[str]) -> str:
    """Names in a row, for a message."""
    return ", ".join(name or "(unnamed)" for name in header)


def _table(path: Path, columns: Mapping[str, str]) -> tuple[pd.DataFrame, Sequence[int]]:
    """The columns that have a meaning, under our names, and the line on which each row ends."""
    import pandas as pd

    if path.suffix == ".parquet":
        try:
            check_plain(path)
            frame = pd.read_parquet(path, engine="pyarrow")
        except (OSError, ValueError) as error:
            raise RecommenderError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())}") from error
        frame.columns = frame.columns.map(str)
        names = _names(path, list(frame.columns), columns)
        lines: Sequence[int] = range(2, len(frame) + 2)
        result = pd.DataFrame(
            {ours: frame[theirs].to_numpy(dtype=object) for theirs, ours in names.items()}, dtype=object
        )
    else:
        cells, lines = _cells(path, columns)
        result = pd.DataFrame(cells)
    if result.empty:
        raise RecommenderError(f"{path}: holds no recommendation, only a header")
    return result, lines


def _cells(path: Path, columns: Mapping[str, str]) -> tuple[dict[str, list[str]], array[int]]:
    """The cells of a text by our names of columns, equal ones as one object, and the line on which each row ends."""
    lines, known = array("q"), dict[str, str]()
    try:
        # spreadsheets write semicolons where commas are decimal
        delimiter = check_columns(path, *("\t" if path.suffix == ".tsv" else ",;\t"))
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                header = [name.strip() for name in next(reader, [])]
                if not header:
                    raise RecommenderError(f"{path}: is empty; expected a header and a row a recommended item")
                names = _names(path, header, columns)
                cells: dict[str, list[str]] = {ours: [] for ours in names.values()}
                wanted = [(header.index(theirs), cells[ours].append) for theirs, ours in names.items()]
                for row in reader:
                    if not row:
                        continue
                    if len(row) != len(header):
                        raise RecommenderError(
                            f"{path}, line {reader.line_num}: {len(row)} cells; the header has {len(header)}"
                        )
                    for index, add in wanted:
                        add(known.setdefault(row[index], row[index]))
                    lines.append(reader.line_num)
            except csv.Error as error:
                raise RecommenderError(f"{path}, line {reader.line_num}: not CSV: {error}") from error
    except UnicodeDecodeError as error:
        raise RecommenderError(f"{path}: cannot be read: {error}; save it as a table of text in UTF-8") from error
    except OSError as error:
        raise RecommenderError(f"{path}: cannot be read: {error}") from error
    return cells, lines
