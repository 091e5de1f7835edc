"""Pages of runs, and of several runs side by side: what the templates of :mod:`tod_bias.report.rendering` show."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from tod_bias.audit.record import read_runs
from tod_bias.errors import TodBiasError
from tod_bias.io.files import check_plain_file, subfolder, write_text
from tod_bias.report import notation
from tod_bias.report.cards import cards_of
from tod_bias.report.leading import leading_rows
from tod_bias.report.notation import (
    count,
    is_matched,
    mark,
    p_cell,
    shown_gap,
    side,
    with_interval,
)
from tod_bias.report.rendering import FIGURES, REPORT, TEMPLATES, render_page
from tod_bias.report.section import Section, claim_in, few, marks, minus, section_of, slug, unique
from tod_bias.report.side_by_side import Compared, compare
from tod_bias.results import (
    AuditResult,
    AxisResult,
    RunError,
)
from tod_bias.statistics.needed import ENOUGH_TERMS


def write_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` from run folders; several are compared side by side.

    Args:
        folders: run folders, each with ``results.json``.
        out: the folder to write to, or an ``.html`` file; ``None`` writes into the run's own folder, or for several
            runs into the folder that holds them all.

    Returns:
        The path of the report.

    Raises:
        RunError: a folder cannot be read as a run, or the report cannot be written.
    """
    runs = read_runs(folders)
    path = _destination([run.folder for run in runs], out)
    is_named = out is not None and path == out
    taken: set[str] = set()
    try:
        if not is_named:
            check_plain_file(path)
        pictures = subfolder(path.parent, FIGURES)
        names = [unique(slug(run.name), taken) for run in runs]
        sections = [
            section_of(run, name, pictures if len(runs) == 1 else subfolder(pictures, name))
            for run, name in zip(runs, names, strict=True)
        ]
        compared = compare(sections, pictures) if len(sections) > 1 else None
        write_text(path, render(sections, compared), named=is_named)
    except TodBiasError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror or error}); choose another --out") from error
    return path


def render(sections: Sequence[Section], compared: Compared | None = None) -> str:
    """The report as HTML text.

    Args:
        sections: the runs.
        compared: how they differ, for several.
    """
    numbers = (
        notation.fixed,
        notation.interval,
        notation.with_interval,
        notation.p_cell,
        notation.p_text,
        notation.percent,
        notation.count,
    )
    return render_page(
        TEMPLATES / "report.html.j2",
        {
            **{function.__name__: _typeset(function) for function in numbers},
            "mark": mark,
            "marks": marks,
            "few": few,
            "prose": prose,
            "reference": notation.reference,
        },
        sections=sections,
        compared=compared,
        is_matched=is_matched,
        shown_gap=shown_gap,
        side=side,
        ENOUGH_TERMS=ENOUGH_TERMS,
    )


def prose(text: str) -> Markup:
    """A sentence of a reading as HTML: `stage` as code, ``a>b`` with an arrow, true minus signs, intervals whole."""
    html = re.sub(r"(?<=\w)&gt;(?=\w)", "&nbsp;→&nbsp;", str(escape(text)))
    html = re.sub(r"`([^`]*)`", r"<code>\1</code>", html)
    html = re.sub(r"\[[-+\d][^\]<]{,40}\]", lambda interval: interval[0].replace(" ", "&nbsp;"), html)
    return Markup(minus(html))  # escaped above


def _destination(folders: Sequence[Path], out: Path | None) -> Path:
    if out is not None:
        return out if out.suffix == ".html" else out / REPORT
    if len(folders) == 1:
        return folders[0] / REPORT
    return Path(os.path.commonpath([folder.parent for folder in folders])) / REPORT


def _typeset(function: Callable[..., str]) -> Any:
    return lambda *args, **options: minus(function(*args, **options))


def html(result: AuditResult) -> str:
    """Return the findings and the groups of each axis as HTML, without scripts or styles.

    Args:
        result: of an audit.
    """
    tables = [(row, _rows(result, row)) for row in leading_rows(result) if row.groups]
    return render_page(TEMPLATES / "notebook.html.j2", cards=cards_of(result), tables=tables)


def _rows(result: AuditResult, row: AxisResult) -> list[tuple[str, ...]]:
    rows = []
    for group in row.groups.values():
        gap = shown_gap(row, group)
        numbers = count(group.dialogues), with_interval(group.score), with_interval(gap, sign=True)
        rows.append((group.name, *map(minus, numbers), p_cell(gap.p), claim_in(result, row, group.name)))
    return rows
