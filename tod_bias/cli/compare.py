"""``tod-bias compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tod_bias.cli.arguments import check_folder, check_metrics, config_of, folder_of, user_metrics
from tod_bias.cli.options import command
from tod_bias.config import InferenceOptions, MarginOptions, OutputOptions, RunNames, Seeded
from tod_bias.folder import check_no_other_run
from tod_bias.report.console import Console


class CompareOptions(Seeded, InferenceOptions, MarginOptions):
    """How changes are estimated."""

    quality_margin: Annotated[float, Field(gt=0)] | None = None
    """The same for scores, in the metric's units; by default as --margin."""


class CompareOutput(OutputOptions):
    """Where the comparison goes."""

    out: Path | None = None
    """Folder for compare.json and report.html; by default runs/compare."""


@command("tod-bias compare runs/before runs/after --margin 0.02")
def compare(before: Path, after: Path, /, *, names: RunNames, options: CompareOptions, output: CompareOutput) -> None:
    """Two runs on the same dialogues, paired by dialogue and counterfactual; writes compare.json and report.html.

    What changed in quality, in every disparity, contribution and group: better, worse, equivalent (within --margin),
    changed (shown, but not on which side of 0) or inconclusive. The systems may differ in anything; dialogues, axes,
    design, seed, history and metrics may not. Nothing is run.

    Args:
        before: A finished run's folder.
        after: Another's, of the same dialogues rewritten in the same ways.
    """
    from tod_bias.results import AuditResult

    metrics = list(names.analysis.metrics) if names.analysis.given_of("metrics") else None
    check_metrics(metrics or ())
    records = AuditResult.load(before), AuditResult.load(after)
    if metrics is None and all(user_metrics(config_of(run, names)) for run in (before, after)):
        metrics = list(config_of(before, names).analysis.metrics)
    check_no_other_run(check_folder(output.out, "compare"), "compare.json")

    from tod_bias.audit import comparison
    from tod_bias.report.changes import table  # heavy imports come after what may go wrong at once
    from tod_bias.report.changes_page import write_changes

    result = comparison.compare(
        before,
        after,
        axes=names.axes.axes if names.axes.given_of("axes") else None,
        metrics=metrics,
        margin=options.margin,
        quality_margin=options.quality_margin,
        bootstrap=options.bootstrap,
        permutations=options.permutations,
        seed=options.seed,
    )
    path = result.save(folder_of(output.out, "compare"))
    page = write_changes(result, path.parent, records)
    if not output.quiet:
        Console().print(table(result))
        print(f"Results: {path}   Report: {page}")
