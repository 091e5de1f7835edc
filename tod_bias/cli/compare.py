"""``tod-bias compare``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.arguments import check_folder, check_metrics, config_of, folder_of, user_metrics
from tod_bias.cli.options import command
from tod_bias.config import CompareConfig, OutputOptions, RunNames
from tod_bias.io.folder import check_no_other_run
from tod_bias.report.console import Console, echo


class CompareOutput(OutputOptions):
    """Where the comparison goes."""

    out: Path | None = None
    """Folder for compare.json and report.html; by default runs/compare."""


@command("tod-bias compare runs/before runs/after --margin 0.02")
def compare(before: Path, after: Path, /, *, names: RunNames, config: CompareConfig, output: CompareOutput) -> None:
    """Compare two runs on the same dialogues; write compare.json and report.html.

    Each counterfactual of one run is paired with the same one of the other. The change of the quality, and of every
    pooled difference, contribution and group, is called better, worse, equivalent (within --margin), changed (it is
    shown, but not whether for better or worse) or inconclusive. The systems may differ in anything; dialogues, axes,
    design, seed, history and metrics must be the same. No component is called.

    Args:
        before: A finished run's folder.
        after: Another's, of the same dialogues rewritten in the same ways.
    """
    from tod_bias.results import AuditResult

    metrics = names.analysis.metrics
    check_metrics(metrics or ())
    records = AuditResult.load(before), AuditResult.load(after)
    if metrics is None and all(user_metrics(config_of(run, names)) for run in (before, after)):
        metrics = config_of(before, names).analysis.metrics
    check_no_other_run(check_folder(output.out, "compare"), "compare.json")

    from tod_bias.audit import comparison
    from tod_bias.report.answer import in_lines
    from tod_bias.report.changes import table  # heavy imports come after what may go wrong at once
    from tod_bias.report.changes_page import write_changes

    result = comparison.compare(
        before,
        after,
        axes=names.axes.axes if names.axes.given_of("axes") else None,
        metrics=metrics,
        config=config,
    )
    path = result.save(folder_of(output.out, "compare"))
    page = write_changes(result, path.parent, records)
    if not output.quiet:
        for name, record in zip(("before", "after"), records, strict=True):
            lines = [f"{axis}: {text}" for axis, texts in in_lines(record).items() for text in texts]
            echo(f"{name:<7} {(chr(10) + ' ' * 8).join(lines) or 'no difference is claimed'}")
        Console().print(table(result))
        print(f"Results: {path}   Report: {page}")
