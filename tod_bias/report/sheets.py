"""Tables for the terminal, a page and CSV files: the same rows in all three."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from tod_bias.io.files import replacing
from tod_bias.report.console import Console
from tod_bias.report.notation import fixed, p_cell, percent

WIDE = 100
"""Width of a terminal from which intervals are on the line of their values."""


@dataclass(frozen=True)
class Value:
    """A number with its 95% interval; shares are shown as percentages."""

    value: float | None
    ci: Sequence[float] | None = None
    decimals: int = 3
    sign: bool = False
    is_share: bool = False

    def __str__(self) -> str:
        def show(number: float | None) -> str:
            return percent(number) if self.is_share else fixed(number, self.decimals, sign=self.sign)

        return show(self.value) + (f" [{show(self.ci[0])}, {show(self.ci[1])}]" if self.ci else "")


@dataclass(frozen=True)
class Probability:
    """A p-value."""

    value: float | None

    def __str__(self) -> str:
        return p_cell(self.value)


@dataclass(frozen=True)
class Sheet:
    """One table: its rows hold text, :class:`Value` and :class:`Probability`."""

    name: str
    """File name of its CSV, without ending."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    dim: tuple[int, ...] = ()
    """Rows of metrics that are not to be used."""

    def save(self, folder: Path) -> None:
        """Write the CSV; a value with an interval takes three columns, ``…``, ``…_low`` and ``…_high``."""
        wide = [any(isinstance(row[place], Value) and row[place].ci for row in self.rows) for place in self._places]
        header = [
            text
            for name, is_wide in zip((column.removesuffix(" [95%]") for column in self.columns), wide, strict=True)
            for text in ((name, f"{name}_low", f"{name}_high") if is_wide else (name,))
        ]
        with replacing(folder / f"{self.name}.csv") as path, path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(header)
            for row in self.rows:
                cells: list[Any] = []
                for cell, is_wide in zip(row, wide, strict=True):
                    number = cell.value if isinstance(cell, Value | Probability) else cell
                    cells.append("" if number is None else number)
                    if is_wide:
                        cells += list(cell.ci) if isinstance(cell, Value) and cell.ci else ["", ""]
                writer.writerow(cells)

    @property
    def _places(self) -> range:
        return range(len(self.columns))


def new_table(title: str, padding: tuple[int, int] | tuple[int, int, int, int] = (0, 1)) -> Table:
    """An empty table of a terminal, as all of the project's look.

    Args:
        title: above it.
        padding: of the cells, as in CSS.
    """
    return Table(
        title=title,
        title_justify="left",
        title_style="italic",
        box=box.SIMPLE_HEAD,
        padding=padding,
        pad_edge=False,
    )


def on_terminal(sheet: Sheet, width: int) -> Table:
    """Lay out a sheet for a terminal; on narrow ones, intervals are below their values."""
    view = new_table(sheet.title)
    for place, column in enumerate(sheet.columns):
        numbers = any(isinstance(row[place], Value | Probability) for row in sheet.rows)
        view.add_column(column, justify="right" if numbers else "left", overflow="fold", no_wrap=not numbers)
    for number, row in enumerate(sheet.rows):
        cells = [str(cell) if width >= WIDE else str(cell).replace(" [", "\n[") for cell in row]
        view.add_row(*map(Text, cells), style="dim" if number in sheet.dim else "")
    return view


def print_sheets(sheets: Iterable[Sheet]) -> None:
    """Print tables on the terminal; those without rows are left out."""
    console = Console()
    for sheet in sheets:
        if sheet.rows:
            console.print(on_terminal(sheet, console.width))
