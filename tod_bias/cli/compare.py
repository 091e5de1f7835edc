"""``tod-bias compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.arguments import check_folder, check_metrics, chosen, folder_of, names_of
from tod_bias.cli.options import Bootstrap, Quiet, Seed
from tod_bias.folder import check_own
from tod_bias.report.console import Console
from tod_bias.statistics.needed import MOST_RESAMPLES


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A finished run's folder.")],
    after: Annotated[
        Path, typer.Argument(metavar="AFTER", help="Another's, of the same dialogues told in the same ways.")
    ],
    axes: Annotated[str | None, typer.Option(help="Axes, joined by commas; by default all, equal in both.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Metrics, joined by commas; your own as module:Class. By default all.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="Changes of disparities up to this, e.g. 0.02, are equivalent where that is shown."),
    ] = None,
    quality_margin: Annotated[
        float | None, typer.Option(help="The same for scores, in the metric's units; by default as --margin.")
    ] = None,
    bootstrap: Bootstrap = 1000,
    permutations: Annotated[
        int, typer.Option(min=1, max=MOST_RESAMPLES, help="Flips of the tests, at the most.")
    ] = 10_000,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.json and report.html; by default runs/compare.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Two runs on the same dialogues, paired by dialogue and telling; writes compare.json and report.html.

    What changed in quality, in every disparity, contribution and group: better, worse, equivalent (within --margin),
    changed (shown, but not on which side of 0) or inconclusive. The systems may differ in anything; dialogues, axes,
    design, seed, history and metrics may not. Nothing is run.
    """
    from tod_bias.results import AuditResult

    check_metrics(metrics)
    records = AuditResult.load(before), AuditResult.load(after)
    check_own(check_folder(out, "compare"), "compare.json")

    from tod_bias.report.changes import table  # heavy imports come after what may go wrong at once
    from tod_bias.report.changes_page import write_changes
    from tod_bias.studies import comparison

    result = comparison.compare(
        before,
        after,
        axes=None if axes is None else chosen("--axes", axes),
        metrics=None if metrics is None else names_of(metrics),
        margin=margin,
        quality_margin=quality_margin,
        bootstrap=bootstrap,
        permutations=permutations,
        seed=seed,
    )
    path = result.save(folder_of(out, "compare"))
    page = write_changes(result, path.parent, records)
    if not quiet:
        Console().print(table(result))
        typer.echo(f"Results: {path}   Report: {page}")
