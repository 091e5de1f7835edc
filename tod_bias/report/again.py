"""Reports of folders that commands wrote, made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.changes import Comparison
from tod_bias.report.changes import write_changes
from tod_bias.report.kinds import COMPARISON, kind_of
from tod_bias.report.page import write_report
from tod_bias.report.rendering import REPORT
from tod_bias.results import RESULTS, AuditResult, RunError


def report_on(folders: Sequence[Path], out: Path | None = None) -> tuple[Path, bool]:
    """Write the report of folders again, or find the page that their command wrote.

    Args:
        folders: one folder of any kind, or several of attributions, which are compared on one page.
        out: where to write it; as :func:`tod_bias.report.page.write_report`.

    Returns:
        The path of the page, and whether it was written now.

    Raises:
        RunError: there is no page, a folder cannot be read, or several are not all attributions.
    """
    kinds = [kind_of(folder) for folder in folders]
    for folder, kind in zip(folders, kinds, strict=True):
        if len(folders) > 1 and kind is not None and kind.file != RESULTS:
            raise RunError(
                f"{folder}: holds what {kind.command} wrote; report it alone, as only runs of attribute are compared"
            )
    if len(folders) != 1 or kinds[0] is None or kinds[0].file == RESULTS:
        return write_report(folders, out), True
    folder, kind = folders[0], kinds[0]
    if kind is COMPARISON:
        return _comparison(folder, out or folder), True
    page = folder / REPORT
    if not page.is_file():
        raise RunError(f"{folder}: holds what {kind.command} wrote ({kind.file}), and no report; {kind.otherwise}")
    if out is not None:
        raise RunError(f"{folder}: the report of {kind.command} is written by it alone; it is {page}, leave out --out")
    return page, False


def _comparison(folder: Path, out: Path) -> Path:
    result = Comparison.load(folder / COMPARISON.file)
    return write_changes(result, out, (_results(result.before), _results(result.after)))


def _results(folder: Any) -> AuditResult | None:
    """Return ``results.json`` of one of the compared runs; None if it is gone: the comparison has its numbers."""
    try:
        return AuditResult.load(folder)
    except RunError:
        return None
