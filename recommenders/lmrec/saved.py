"""Files of saved recommendations, whoever wrote them: CSV, TSV or Parquet, a row a recommended item."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError, repeated
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
