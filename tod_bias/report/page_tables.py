"""Tables of pages, as screen readers, keyboards and phones need them.

A header cell has a scope, and every other cell names its column, because a phone shows a row as a list. Templates make
them with ``table([…])`` and the macro ``grid`` of ``parts.html.j2``, which can be focused to be scrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

Cell = object
"""Content of a cell; with a class of its own a tuple, ``(content, class)``."""


@dataclass(frozen=True)
class PageColumn:
    """A column of a table."""

    head: str = ""
    """Text or markup of the header cell; a line break stays one."""
    kind: str = ""
    """Class of the cells in the style sheet."""

    @property
    def label(self) -> str:
        """The header as plain text, on one line."""
        return Markup(escape(self.head)).striptags()


@dataclass(frozen=True)
class PageTable:
    """A table with a header."""

    columns: tuple[PageColumn, ...]

    @property
    def head(self) -> Markup:
        """The header."""
        cells = [
            _element("th" if column.label else "td", _broken(column.head), _class(column.kind), column.label and "col")
            for column in self.columns
        ]
        return Markup("<thead><tr>{}</tr></thead>").format(Markup("").join(cells))

    def row(self, cells: Sequence[Cell], kind: str = "", *, is_named: bool = True) -> Markup:
        """Return a row.

        Args:
            cells: contents, in the order of the columns.
            kind: class of the row.
            is_named: True if the first cell names the row; an empty one names nothing.
        """
        made = []
        for number, (column, cell) in enumerate(zip(self.columns, cells, strict=True)):
            content, own = cell if isinstance(cell, tuple) else (cell, column.kind)
            text = escape(content).strip()
            names = is_named and not number and bool(text)
            label = column.label if number else ""
            attributes = _class(own) + (Markup(' data-label="{}"').format(label) if label else Markup(""))
            made.append(_element("th" if names else "td", text, attributes, "row" if names else ""))
        return Markup("<tr{}>{}</tr>\n").format(_class(kind), Markup("").join(made))


def page_table(columns: Sequence[str | tuple[str, str]]) -> PageTable:
    """Return a table with these headers, each with the class of its cells if it has one."""
    return PageTable(tuple(PageColumn(*((column,) if isinstance(column, str) else column)) for column in columns))


def name_row(name: object, content: object, kind: str = "") -> Markup:
    """Return a row of a table without a header: a name, and what it names.

    Args:
        name: of the row.
        content: its only cell.
        kind: class of both cells.
    """
    return PageTable((PageColumn(kind=kind),) * 2).row([name, content])


def _element(tag: str, content: Markup, attributes: Markup, scope: str) -> Markup:
    scoped = Markup(' scope="{}"').format(scope) if scope else Markup("")
    return Markup("<{0}{1}{2}>{3}</{0}>").format(tag, scoped, attributes, content)


def _class(kind: str) -> Markup:
    return Markup(' class="{}"').format(kind) if kind else Markup("")


def _broken(text: str) -> Markup:
    return Markup("<br>").join(escape(text).split("\n"))
