"""``tod-bias report``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.checks import result_of
from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import TodBiasError
from tod_bias.report.kinds import AUDIT, kind_of


class ReportOutput(OutputOptions):
    """Output of the page."""

    out: Path | None = None
    """Folder for report.html and figures/, or an .html file; by default the run's own folder, for several runs the
    nearest folder that holds them all (of runs/a and runs/b: runs)."""


@command("tod-bias report runs/before runs/after --out runs")
def report(*folders: Path, output: ReportOutput) -> None:
    """Write report.html again from a run's folder, or one page of several runs of attribute side by side.

    Accepts the folders of attribute, compare and recommend audit. For the folder of another command it names the page
    or file to look at. Nothing is run. Any runs can be shown side by side, without tests between them; `tod-bias
    compare` tests two runs on the same dialogues.

    Args:
        folders: Folders that commands wrote; several: runs of attribute.
    """
    if not folders:
        raise TodBiasError("report: give the folder of a run, e.g. runs/demo")
    if len(folders) == 1 and kind_of(folders[0]) is AUDIT:
        from tod_bias.recommenders.lmrec.audit import report_again

        page, is_new = report_again(folders[0], output.out), True
    else:
        if unknown := [folder for folder in folders if kind_of(folder) is None]:
            result_of(unknown[0].resolve())  # says what is wrong with it
        from tod_bias.report.again import report_on  # heavy imports come after what may go wrong at once

        page, is_new = report_on(folders, output.out)
    if not output.quiet:
        print(f"Report: {page}" + ("" if is_new else " (as its command wrote it)"))
