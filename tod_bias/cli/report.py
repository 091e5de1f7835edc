"""``tod-bias report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.arguments import names_of
from tod_bias.cli.options import (
    Quiet,
)


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Folders that commands wrote; several: runs of attribute.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for report.html and figures/, or an .html file; by default the run's own folder, for several "
            "runs the nearest folder that holds them all (of runs/a and runs/b: runs)."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Metrics of your own, module:Class by commas, by which turns are shown as examples."),
    ] = None,
    seed: Annotated[int, typer.Option(hidden=True, help="Nothing is drawn here.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Write report.html again from a run's folder, or one page of several runs of attribute side by side.

    Takes the folders of attribute, compare and recommend audit. Of every other command's folder it says where the page
    lies that the command wrote, or what to look at where there is none. Nothing is run. Runs may be put side by side
    whatever they are of; that tests nothing between them. `tod-bias compare` does, for two runs on the same dialogues.
    """
    from tod_bias.metrics.choice import metric
    from tod_bias.report.kinds import AUDIT, kind_of, report_on

    if len(folders) == 1 and kind_of(folders[0]) is AUDIT:
        from tod_bias.recommenders.lmrec.kept_audit import report_again

        page, is_new = report_again(folders[0], out), True
    else:
        page, is_new = report_on(folders, out, [metric(name) for name in names_of(metrics or "")])
    if not quiet:
        typer.echo(f"Report: {page}" + ("" if is_new else " (as its command wrote it)"))
