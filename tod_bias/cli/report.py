"""``tod-bias report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tod_bias.cli.arguments import config_of, user_metrics
from tod_bias.cli.options import command
from tod_bias.config import MetricOptions, Options, OutputOptions
from tod_bias.imports import is_import

if TYPE_CHECKING:
    from tod_bias.metrics.metric import Metric


class ReportNames(Options):
    """Metrics of the user's own."""

    is_of_run = True

    analysis: MetricOptions = MetricOptions()


class ReportOutput(OutputOptions):
    """Where the page goes."""

    out: Path | None = None
    """Folder for report.html and figures/, or an .html file; by default the run's own folder, for several runs the
    nearest folder that holds them all (of runs/a and runs/b: runs)."""


def scorers(folders: Sequence[Path], names: ReportNames) -> list[Metric]:
    """The metrics of the user's own, which score turns too.

    Raises:
        RunError: a metric is named that no run has measured.
    """
    from tod_bias.metrics.choice import metric
    from tod_bias.report.record import read_runs
    from tod_bias.results import RunError

    if names.given():
        measured = dict.fromkeys(name for run in read_runs(folders) for name in run.result.metrics)
        for name in names.analysis.metrics or ():
            if (metric(name).name if is_import(name) else name) not in measured:
                where = ", ".join(map(str, folders))
                raise RunError(f"--metrics {name}: {where} has not measured it; it has {', '.join(measured)}")
    named = dict.fromkeys(name for folder in folders for name in user_metrics(config_of(folder, names)))
    return [metric(name) for name in named]


@command("tod-bias report runs/before runs/after --out runs")
def report(*folders: Path, names: ReportNames, output: ReportOutput) -> None:
    """Write report.html again from a run's folder, or one page of several runs of attribute side by side.

    Takes the folders of attribute, compare and recommend audit. Of every other command's folder it says where the page
    lies that the command wrote, or what to look at where there is none. Nothing is run. Runs may be put side by side
    whatever they are of; that tests nothing between them. `tod-bias compare` does, for two runs on the same dialogues.

    Args:
        folders: Folders that commands wrote; several: runs of attribute.
    """
    from tod_bias.errors import TodBiasError
    from tod_bias.report.kinds import AUDIT, kind_of, report_on

    if not folders:
        raise TodBiasError("report: give the folder of a run, e.g. runs/demo")
    if len(folders) == 1 and kind_of(folders[0]) is AUDIT:
        from tod_bias.recommenders.lmrec.audit import report_again

        page, is_new = report_again(folders[0], output.out), True
    else:
        page, is_new = report_on(list(folders), output.out, scorers(folders, names))
    if not output.quiet:
        print(f"Report: {page}" + ("" if is_new else " (as its command wrote it)"))
