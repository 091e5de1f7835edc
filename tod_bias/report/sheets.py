"""Blocks of every report: statements (findings in words) and sheets (tables), for a terminal, a page and CSV files."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from tod_bias.io.files import replacing
from tod_bias.report.console import Console
from tod_bias.report.notation import fixed, p_cell, percent
from tod_bias.results import DIFFERENT, DISPARITY, EQUIVALENT, INCONCLUSIVE, NO_DIFFERENCE, PLACEBO_VERDICT, THESE_TERMS

WIDE = 100
"""Width of a terminal from which intervals are on the line of their values."""
_ANSWERS = {
    **dict.fromkeys(DIFFERENT, "difference"),
    THESE_TERMS: "difference, with these terms",
    NO_DIFFERENCE: "no difference",
    EQUIVALENT: "equivalent",
    INCONCLUSIVE: "not enough data",
    PLACEBO_VERDICT: "control",
    "": "not enough data",
}
_LOOKS = {DISPARITY: "claim", THESE_TERMS: "terms", NO_DIFFERENCE: "good", EQUIVALENT: "same", INCONCLUSIVE: "open"}
_UNICODE = {DISPARITY: "✗", THESE_TERMS: "~", EQUIVALENT: "✓", NO_DIFFERENCE: "✓"}
_ASCII = {DISPARITY: "x", THESE_TERMS: "~", EQUIVALENT: "=", NO_DIFFERENCE: "="}
_STYLES = {DISPARITY: "bold red", THESE_TERMS: "yellow", EQUIVALENT: "green", NO_DIFFERENCE: "green"}


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


@dataclass(frozen=True)
class Statement:
    """One finding of one or several groups, in words."""

    verdict: str
    axis: str
    """The axis, dimension or attribute."""
    sentence: str = ""
    """The finding; empty if :attr:`answer` states it."""
    stages: Sequence[str] = ()
    """The components in which the difference arises."""
    details: Sequence[str] = ()
    """Lines that say what happens, or what is missing for a claim."""

    @property
    def answer(self) -> str:
        """The kind of answer, in two or three words."""
        return _ANSWERS.get(self.verdict, self.verdict)

    @property
    def look(self) -> str:
        """Class in the style sheet."""
        return _LOOKS.get(self.verdict, "")

    @property
    def is_difference(self) -> bool:
        """True if a difference is claimed, of the group or of these terms."""
        return self.verdict in DIFFERENT

    def lines(self, column: int, width: int, *, plain: bool = False) -> Iterator[Text]:
        """Yield the lines of a terminal: the mark of the verdict, the axis, the finding and, to the right, the stages.

        Args:
            column: width of the column of axes, in characters.
            width: of the terminal, in characters.
            plain: True if the terminal shows ASCII only.
        """
        indent, stages = " " * (column + 3), ", ".join(self.stages)
        begin = f"{mark(self.verdict, plain=plain)} {self.axis:<{column}} "
        first, *rest = folded(self.sentence or self.answer, indent, width - len(stages) - 2, begin)
        gap = " " * max(2, width - len(first) - len(stages))
        style = _STYLES.get(self.verdict, "")
        for line in (f"{first}{gap}{stages}".rstrip(), *rest):
            yield Text(ascii_of(line) if plain else line, style=style)
        for detail in self.details:
            for line in folded(detail, indent, width):
                yield Text(ascii_of(line) if plain else line)


def print_statements(said: Sequence[Statement], console: Console, more: int = 0) -> None:
    """Print the first difference of each axis with its first detail, then all that is open in one paragraph.

    Args:
        said: the statements, differences first.
        console: of the terminal.
        more: number of further differences in the report.
    """
    plain, width = not (console.encoding or "").lower().startswith("utf"), min(80, console.width)
    differences = [some for some in said if some.is_difference]
    leading = list({some.axis: some for some in reversed(differences)}.values())[::-1]
    column = column_of(some.axis for some in leading)
    lines: list[Text] = []
    for some in leading:
        lines += replace(some, details=some.details[:1]).lines(column, width, plain=plain)
    if more := more + len(differences) - len(leading):
        lines.append(Text(f"{' ' * (column + 3)}and {more} more in the report"))
    if unproven := [f"{some.axis}: {some.sentence or some.answer}" for some in said if not some.is_difference]:
        shown = "; ".join(unproven)
        lines += map(Text, folded(ascii_of(shown) if plain else shown, "  ", width, f"{mark('', plain=plain)} "))
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def column_of(axes: Iterable[str]) -> int:
    """Return the width of the column that holds these axes."""
    return max(map(len, axes), default=0) + 1


def mark(verdict: str, *, plain: bool = False) -> str:
    """Return the mark of a verdict: ``✗``, ``~`` (these terms only), ``✓`` or ``?``; ``plain``: in ASCII."""
    return (_ASCII if plain else _UNICODE).get(verdict, "?")


def folded(text: str, indent: str, width: int, first: str | None = None) -> list[str]:
    """Return a text in lines of at most ``width`` characters, all indented.

    Args:
        text: on one line.
        indent: begins every line.
        width: in characters, with the indent.
        first: begins the first line instead.
    """
    lines = textwrap.wrap(text, max(20, width - len(indent)), break_on_hyphens=False) or [""]
    return [f"{indent if number or first is None else first}{line}" for number, line in enumerate(lines)]


def ascii_of(text: str) -> str:
    """Return a text for a terminal without Unicode."""
    marks = {"→": "->", "“": '"', "”": '"', "…": "...", "✓": "=", "✗": "x", "×": "x", "–": "-", "−": "-"}
    for sign, plain in marks.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode("ascii")
