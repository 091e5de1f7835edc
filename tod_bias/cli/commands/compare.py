"""``tod-bias compare``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.checks import check_folder, check_metrics, refuse, result_of, user_metrics
from tod_bias.cli.configuration import config_of
from tod_bias.cli.options import command
from tod_bias.config import CompareConfig, OutputOptions, RunNames
from tod_bias.io.folder import check_no_other_run

ASSOCIATIONS = "associations.json"


class CompareOutput(OutputOptions):
    """Folder for the comparison."""

    out: Path | None = None
    """Folder for compare.json and report.html; by default runs/compare."""


@command("tod-bias compare runs/before runs/after --margin 0.02")
def compare(before: Path, after: Path, /, *, names: RunNames, config: CompareConfig, output: CompareOutput) -> None:
    """Compare two runs on the same dialogues; write compare.json and report.html.

    Two audits of associate of the same sets are compared by every metric, in comparison.json.

    Pairs each counterfactual of one run with the same counterfactual of the other. The change of the quality, and of
    every pooled difference, contribution and group, is called better, worse, equivalent (within --margin), changed (a
    change is shown, but not its direction) or inconclusive. The systems may differ; dialogues, axes, design, seed,
    history and metrics must be the same. No component is called.

    Args:
        before: A finished run's folder.
        after: The folder of another run on the same dialogues, rewritten in the same way.
    """
    if all((run / ASSOCIATIONS).is_file() for run in (before, after)):
        refuse(names, names.given(), "for runs of attribute; these are audits of embeddings")
        refuse(config, ("margin", "quality_margin"), "for runs of attribute; these are audits of embeddings")
        from tod_bias.cli.work.compare_embeddings import compare_associations

        compare_associations(before, after, config.permutations, config.seed, output.out, quiet=output.quiet)
        return
    metrics = names.analysis.metrics
    check_metrics(metrics or ())
    records = result_of(before), result_of(after)
    if metrics is None and all(user_metrics(config_of(run, names)) for run in (before, after)):
        metrics = config_of(before, names).analysis.metrics
    check_no_other_run(check_folder(output.out, "compare"), "compare.json")

    from tod_bias.cli.work.compare_audits import compare_runs  # heavy imports come after what may go wrong at once

    axes = names.axes.axes if names.axes.given_of("axes") else None
    compare_runs(records, axes, metrics, config, output.out, quiet=output.quiet)
