"""Tables that users have, read with one line for what is wrong in them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.errors import TodBiasError
from tod_bias.io.documents import check_columns, check_plain, loads, text_lines, utf8

if TYPE_CHECKING:
    import pandas as pd


def csv_rows(path: Path, delimiters: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield the header and the rows of a CSV file, each with the line on which it ends; blank lines are left out.

    Args:
        path: of a text in UTF-8.
        delimiters: possible separators of columns; the first one in the header is used.

    Raises:
        TodBiasError: the file cannot be read, is not CSV, or a row has more or fewer cells than the header.
    """
    width = 0
    try:
        delimiter = check_columns(path, *delimiters)
        with utf8(path), path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                for cells in reader:
                    place = f"{path}, line {reader.line_num}"
                    if cells and width and len(cells) != width:
                        raise TodBiasError(f"{place}: {len(cells)} cells; the header has {width}")
                    if cells:
                        yield reader.line_num, cells if width else [name.strip() for name in cells]
                        width = width or len(cells)
            except csv.Error as error:
                raise TodBiasError(f"{path}, line {reader.line_num}: not CSV: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"{path}: cannot be read as a table of text: {error}") from error
    if not width:
        raise TodBiasError(f"{path}: is empty; expected a header and rows")


def delimiters_of(path: Path) -> str:
    """Return the possible separators of columns, by the ending of a file's name; spreadsheets use ; where , is the
    decimal sign."""
    return "\t" if path.suffix == ".tsv" else ",;\t"


def read_frame(path: str | Path) -> pd.DataFrame:
    """Read a CSV, TSV or Parquet file as a frame; the cells of a text stay texts.

    Args:
        path: of the file; the ending of its name determines the format.

    Raises:
        TodBiasError: the file cannot be read.
    """
    import pandas as pd

    file = Path(path)
    try:
        if file.suffix == ".parquet":
            check_plain(file)
            return pd.read_parquet(file, engine="pyarrow")
        delimiter = check_columns(file, *delimiters_of(file))
        with utf8(file):
            return pd.read_csv(file, sep=delimiter, dtype=str)
    except (OSError, ValueError) as error:  # pandas' own parsing errors are ValueErrors
        raise TodBiasError(f"{file}: cannot be read as a table: {' '.join(str(error).split())}") from error


def json_lines(path: Path, needed: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON Lines file, each with its place.

    Args:
        path: of the file.
        needed: keys that each object must have, with a text.

    Raises:
        TodBiasError: the file cannot be read, or a line is not such an object.
    """
    try:
        for number, line in text_lines(path, "utf-8"):
            place = f"{path}, line {number}"
            try:
                record = loads(line)
            except json.JSONDecodeError as error:
                raise TodBiasError(f"{place}: not JSON: {error.msg}, column {error.colno}") from error
            if not isinstance(record, dict) or not all(isinstance(record.get(name), str) for name in needed):
                raise TodBiasError(f"{place}: expected an object with texts for {', '.join(needed)}")
            yield place, record
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"{path}: cannot be read: {error}") from error
