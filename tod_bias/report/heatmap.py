"""Su's fairscore by source and target as coloured cells (Fig. 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tod_bias.report.notation import fixed
from tod_bias.report.palette import GRID, MUTED, fixed_figure, place, rising, strip, styled, text_on, text_width
from tod_bias.report.reading import DAGGER, FEW_NOTE, has_few
from tod_bias.results import AxisResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_GROUPS = 16
"""With more groups, cells cannot be read, and the report shows only the table."""
_WIDE, _HIGH, _LINE = 0.84, 0.4, 0.15
_SMALL = 7.5


def su_heatmap(axis_result: AxisResult) -> Figure:
    """Su's Fig. 5: the fairscore (eq. 1) of dialogues of the row's group that are rewritten for the column's.

    Args:
        axis_result: of an axis and metric, with Su's numbers by pair.
    """
    su = axis_result.su
    known = [pair for pair in ([] if su is None else su.pairs.values()) if pair.value is not None]
    named = {name for pair in known for name in (pair.source, pair.target)}
    names = [*(name for name in axis_result.groups if name in named)] or sorted(named)
    few = any(has_few(pair.dialogues) for pair in known)
    cells = {(name, name): (0.0, "0") for name in names} | {
        (pair.source, pair.target): (pair.value or 0.0, fixed(pair.value) + DAGGER * has_few(pair.dialogues))
        for pair in known
    }
    notes = [f"{DAGGER} {FEW_NOTE}"] * few + ["n/a: no dialogue of the row's group"] * (len(cells) < len(names) ** 2)
    limit = max(value for value, _ in cells.values()) or 1.0
    return _drawn(names, cells, limit, "row: source; column: target", notes)


@styled
def _drawn(
    names: Sequence[str],
    cells: Mapping[tuple[str, str], tuple[float, str]],
    limit: float,
    title: str,
    notes: Sequence[str],
) -> Figure:
    """Coloured cells.

    Args:
        names: of rows and of columns.
        cells: value, which decides the colour, and text, by row and column; n/a where one is missing.
        limit: the value of the darkest colour.
        title: above the figure.
        notes: lines below it.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    labels = [_folded(name, _WIDE - 0.1, 3) for name in names]
    rows = [_folded(name, 1.6, 2) for name in names]
    left = max(text_width(row) for row in rows) + 0.25
    above = 0.34 + _LINE * max(label.count("\n") + 1 for label in labels)
    size = len(names)
    wide = max(left + _WIDE * size + 0.1, 0.2 + max([text_width(note, _SMALL) for note in notes], default=0.0))
    figure = fixed_figure(wide, above + _HIGH * size + 0.14 + _LINE * len(notes))
    panel = place(figure, left, above, _WIDE * size, _HIGH * size)
    panel.set_xlim(0, size)
    panel.set_ylim(size, 0)
    norm = Normalize(0, limit)
    corners, colours = [], []
    for row, of_row in enumerate(names):
        for column, of_column in enumerate(names):
            cell = cells.get((of_row, of_column))
            if cell is None:
                panel.text(column + 0.5, row + 0.5, "n/a", ha="center", va="center", color=MUTED, fontsize=_SMALL)
                continue
            value, text = cell
            colour = rising()(norm(value))
            x, y = column + 0.03, row + 0.04
            corners.append([(x, y), (x + 0.94, y), (x + 0.94, y + 0.92), (x, y + 0.92)])
            colours.append(colour)
            panel.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=text_on(colour))
    panel.add_collection(PolyCollection(corners, facecolors=colours, edgecolors=GRID, linewidths=0.5))
    panel.set_xticks([place_of + 0.5 for place_of in range(size)], labels)
    panel.set_yticks([place_of + 0.5 for place_of in range(size)], rows)
    panel.xaxis.tick_top()
    strip(panel, keep=())
    inches, down = figure.get_size_inches()
    figure.text(0.1 / inches, 1 - 0.05 / down, title, color=MUTED, va="top")
    figure.text(0.1 / inches, 0.04 / down, "\n".join(notes), fontsize=_SMALL, color=MUTED, va="bottom", linespacing=1.3)
    return figure


def _folded(name: str, inches: float, most: int) -> str:
    """A name in so many lines of so many inches, broken after hyphens and underscores; what is longer is cut."""
    lines = [""]
    for part in re.findall(r"[^-_ ]+[-_ ]*|[-_ ]+", name):
        while text_width(part) > inches and len(part) > 1:  # a long word is broken where the line ends
            end = next(end for end in range(len(part), 0, -1) if text_width(part[:end]) <= inches or end == 1)
            lines.append(part[:end])
            part = part[end:]
        if lines[-1] and text_width(lines[-1] + part) > inches:
            lines.append("")
        lines[-1] += part
    lines = [line for line in lines if line]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1].rstrip()[:-1]}…"]
    return "\n".join(lines) or name
