"""``tod-bias report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.options import (
    Quiet,
)


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders that hold a results.json.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for report.html and figures/; by default the run's own, for several runs the folder that "
            "holds them all."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(hidden=True, help="Nothing is drawn here.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Rebuild report.html from run folders; several are compared side by side, in the folder that holds them all."""
    from tod_bias.report.html import write_report

    page = write_report(folders, out)
    if not quiet:
        typer.echo(f"Report: {page}")
