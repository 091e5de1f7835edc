"""The report of an audit of recommendations: one HTML file that holds its figures and main tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.files import check_plain_file
from tod_bias.recommenders.lmrec.reading import LIMITS, captions
from tod_bias.report.page import FIGURES, REPORT, draw, write_page
from tod_bias.report.sheets import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = Path(__file__).parent / "templates" / "audit.html.j2"


def write_report(
    folder: Path, sheets: Sequence[Sheet], figures: Mapping[str, Figure], record: Mapping[str, Any]
) -> Path:
    """Write ``report.html`` and ``figures/*.svg``.

    Args:
        folder: where to.
        sheets: the main tables.
        figures: by file name without ending.
        record: the content of ``audit.json``.
    """
    check_plain_file(folder / REPORT)
    drawn = [
        (captions(name), draw(figure, folder / FIGURES / f"{name}.svg", captions(name)))
        for name, figure in figures.items()
    ]
    level = f"{record['inference']['level']:.0%}"
    return write_page(
        folder / REPORT, _TEMPLATE, record=record, level=level, figures=drawn, sheets=sheets, limits=LIMITS
    )
