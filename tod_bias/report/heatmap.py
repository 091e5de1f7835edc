"""Every two groups of an axis as coloured cells: their gaps, and Su's fairscore by source and target (Fig. 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tod_bias.report.notation import TERMS_ONLY, fixed
from tod_bias.report.palette import GRID, MUTED, diverging, fixed_figure, place, strip, styled, text_on, text_width
from tod_bias.report.reading import DAGGER, FEW_NOTE, has_few, is_starred, sides
from tod_bias.results import ALPHA, AxisResult, Gap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_GROUPS = 16
"""With more groups, cells cannot be read, and the report shows only the table."""
_WIDE, _HIGH, _LINE = 0.84, 0.4, 0.15
_SMALL = 7.5


def paired_groups(axis_result: AxisResult) -> list[str]:
    """The names that occur in pairs: groups in their order, then any others."""
    named = [name for pair in axis_result.pairs.values() for name in (pair.source, pair.target)]
    groups = [group.name for group in axis_result.groups.values() if group.name in named]
    return list(dict.fromkeys([*groups, *named]))


def largest_gap(axis_results: Sequence[AxisResult]) -> float:
    """The end of the scale of colours for all axes of a metric: the largest gap, for ratios at most 1."""
    values = [abs(pair.value or 0.0) for axis_result in axis_results for pair in axis_result.pairs.values()]
    largest = max(values, default=0.0) or 1.0
    return min(1.0, largest) if any(axis_result.scale == "ratio" for axis_result in axis_results) else largest


@dataclass(frozen=True)
class Cell:
    """A cell of a heatmap."""

    value: float
    """Decides its colour."""
    text: str
    bold: bool = False


def heatmap(axis_result: AxisResult, limit: float) -> Figure:
    """The group of the row against that of the column; the two halves differ only in sign.

    A claimed gap is bold with a star; a dagger marks few dialogues that are rewritten for both.

    Args:
        axis_result: of an axis and metric, with pairs.
        limit: the end of the scale of colours (:func:`largest_gap`).
    """
    names = paired_groups(axis_result)
    cells = {}
    for pair in axis_result.pairs.values():
        if pair.value is not None:
            claimed = is_starred(axis_result, pair)
            cells[pair.target, pair.source] = Cell(pair.value, _cell(pair, claimed=claimed), claimed)
    notes = _notes(axis_result, names, axis_result.pairs)
    return _drawn(names, cells, limit, "the row's group against the column's", notes)


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
    cells = {(name, name): Cell(0.0, "0") for name in names} | {
        (pair.source, pair.target): Cell(pair.value or 0.0, fixed(pair.value) + DAGGER * has_few(pair.dialogues))
        for pair in known
    }
    notes = [f"{DAGGER} {FEW_NOTE}"] * few + ["n/a: no dialogue of the row's group"] * (len(cells) < len(names) ** 2)
    limit = max(cell.value for cell in cells.values()) or 1.0
    return _drawn(names, cells, limit, "row: source; column: target", notes)


@styled
def _drawn(
    names: Sequence[str], cells: Mapping[tuple[str, str], Cell], limit: float, title: str, notes: Sequence[str]
) -> Figure:
    """Coloured cells.

    Args:
        names: of rows and of columns.
        cells: by row and column; n/a where one is missing, nothing on the diagonal.
        limit: the end of the scale of colours on both sides of 0.
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
    norm = Normalize(-limit, limit)
    corners, colours = [], []
    for row, of_row in enumerate(names):
        for column, of_column in enumerate(names):
            cell = cells.get((of_row, of_column))
            if cell is None:
                if of_row != of_column:
                    panel.text(column + 0.5, row + 0.5, "n/a", ha="center", va="center", color=MUTED, fontsize=_SMALL)
                continue
            colour = diverging()(norm(cell.value))
            x, y = column + 0.03, row + 0.04
            corners.append([(x, y), (x + 0.94, y), (x + 0.94, y + 0.92), (x, y + 0.92)])
            colours.append(colour)
            weight = "bold" if cell.bold else "normal"
            panel.text(
                column + 0.5, row + 0.5, cell.text, ha="center", va="center", color=text_on(colour), weight=weight
            )
    panel.add_collection(PolyCollection(corners, facecolors=colours, edgecolors=GRID, linewidths=0.5))
    panel.set_xticks([place_of + 0.5 for place_of in range(size)], labels)
    panel.set_yticks([place_of + 0.5 for place_of in range(size)], rows)
    panel.xaxis.tick_top()
    strip(panel, keep=())
    inches, down = figure.get_size_inches()
    figure.text(0.1 / inches, 1 - 0.05 / down, title, color=MUTED, va="top")
    figure.text(0.1 / inches, 0.04 / down, "\n".join(notes), fontsize=_SMALL, color=MUTED, va="bottom", linespacing=1.3)
    return figure


def _cell(pair: Gap, *, claimed: bool) -> str:
    number = fixed(pair.value, sign=True).replace("-", "−")
    marks = {"*": claimed, TERMS_ONLY: pair.is_of_terms_only, DAGGER: has_few(pair.dialogues)}
    return number + "".join(mark for mark, applies in marks.items() if applies)


def _notes(axis_result: AxisResult, names: Sequence[str], pairs: Mapping[str, Gap]) -> list[str]:
    """What the signs in the cells mean, one line per sign that occurs."""
    more, less = sides(axis_result.metric.better, counterfactual=axis_result.metric.counterfactual)
    notes = {
        f"+ the row is {more}, − {less}": True,
        f"* p < {ALPHA:g} over all claims": any(is_starred(axis_result, pair) for pair in axis_result.pairs.values()),
        f"{DAGGER} {FEW_NOTE}": any(has_few(pair.dialogues) for pair in axis_result.pairs.values()),
        f"{TERMS_ONLY} of these terms only, no claim about groups": any(
            pair.is_of_terms_only for pair in axis_result.pairs.values()
        ),
        "n/a: no dialogue is rewritten for both": any(
            source != target and f"{source}>{target}" not in pairs for source in names for target in names
        ),
    }
    return [note for note, applies in notes.items() if applies]


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
