"""The report of an audit: one HTML file, the figures as SVG, the tables as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.files import check_plain_file, subfolder
from tod_bias.recommenders.embeddings import figures, tables
from tod_bias.recommenders.embeddings.audit import Associations
from tod_bias.recommenders.embeddings.reading import LIMITS, comparison_reading, reading
from tod_bias.report.page import FIGURES, REPORT, draw, write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = Path(__file__).parent / "templates" / "association.html.j2"


def write_report(
    runs: Sequence[tuple[str, Associations]], folder: str | Path, comparison: Mapping[str, Any] | None = None
) -> Path:
    """Write ``report.html``, ``figures/*.svg`` and ``tables/*.csv``.

    Args:
        runs: one training, or two with their comparison; name and audit.
        folder: where to.
        comparison: the content of ``comparison.json``.
    """
    place = Path(folder)
    sheets = tables.sheets(runs)
    if comparison is not None:
        sheets = [tables.changes(comparison), *sheets, tables.label_changes(comparison)]
    check_plain_file(place / REPORT)
    for name in (FIGURES, "tables"):
        subfolder(place, name)
    drawn = [
        (title, draw(figure, place / FIGURES / f"{name}.svg", title))
        for name, (title, figure) in _figures(runs, comparison).items()
    ]
    for sheet in sheets:
        sheet.save(place / "tables")
    first = runs[0][1]
    return write_page(
        place / REPORT,
        _TEMPLATE,
        attribute=first["attribute"],
        sets=first["sets"],
        notes=list(dict.fromkeys(note for _, run in runs for note in run["notes"])),
        drawn=drawn,
        sheets=sheets,
        verdicts=[(name, reading(run), run["flags"]) for name, run in runs],
        changed=comparison_reading(comparison, runs[1][1]) if comparison is not None else [],
        limits=LIMITS,
    )


def _figures(
    runs: Sequence[tuple[str, Associations]], comparison: Mapping[str, Any] | None
) -> dict[str, tuple[str, Figure]]:
    result: dict[str, tuple[str, Figure]] = {}
    for number, (name, run) in enumerate(runs):
        if run.picture is not None:
            suffix = f"_{number + 1}" if len(runs) > 1 else ""
            title = f"Latent space{': ' + name if len(runs) > 1 else ''} (Beattie Figs. 1 and 2)"
            result[f"latent_space{suffix}"] = (title, figures.latent_space(run.picture, run["sets"]))
    frames = [(name, run.entities, run["sets"]) for name, run in runs]
    result["eaa"] = ("EAA of the test sets; thick lines are means", figures.association(frames))
    result["r_ripa"] = ("R-RIPA by bias direction (Beattie Table 3)", figures.r_ripa(runs))
    if all(any("audience_deciles" in entry for entry in run["classification"].values()) for _, run in runs):
        result["deciles"] = ("Labels of items by audience (Beattie Table 4)", figures.deciles(runs))
    if comparison is not None:
        result["changes"] = ("Change of every metric", figures.changes(comparison))
    return result
