"""``tod-bias mitigate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import Field

from tod_bias.cache import FILE
from tod_bias.cli import arguments
from tod_bias.cli.options import command
from tod_bias.config import AuditConfig, MarginOptions, Names, OutputOptions, RunOverrides
from tod_bias.report.console import Console, echo


class MitigateOptions(MarginOptions):
    """Fixes, and how small a gap must become."""

    title = "Mitigation"

    guards: Annotated[Names, MinLen(1)] = ("canonical",)
    """Guards to try: canonical, neutral, vote."""
    metric: str | None = None
    """The metric that decides; by default that of the run's first finding."""
    margin: Annotated[float, Field(gt=0)] = 0.02
    """Largest gap, and largest loss of the metric, that may remain."""
    terms_only: bool = False
    """Take the terms as they are if they are too few for a claim about groups."""


class MitigateOutput(OutputOptions):
    """Where results go."""

    out: Path | None = None
    """Folder for the results; by default RUN/mitigation."""


@command("tod-bias mitigate runs/mine")
def mitigate(run: Path, /, *, how: MitigateOptions, output: MitigateOutput, overrides: RunOverrides) -> int:
    """Try a guard and the missing rows on the stages that a run names for a gap.

    Every fix is measured alone, as the run was. Prints what remains of the gaps, what quality costs, and the lines to
    add to the pipeline file. Writes mitigation.json, and missing.jsonl (rows that a lookup table lacks). Exit code 1
    if no fix helps on an axis.

    Args:
        run: A finished run of attribute: its folder.
    """
    from tod_bias.folder import claimed, unwritten

    unwritten(run)
    from tod_bias.results import AuditResult, check_claims

    result = AuditResult.load(run)
    config = arguments.config_of(run, overrides)
    names = arguments.axes_of(run, result, overrides, config)
    arguments.check_metrics(config.analysis.metrics or ())
    metric = how.metric or result.leading_metric
    check_claims(result, names, metric)
    from tod_bias.files import subfolder  # heavy imports come after what may go wrong at once

    trials = list(
        _trials(run, result, config, arguments.load_axes(config.axes, names, config.system.device), how, metric)
    )
    folder = claimed(subfolder(run, "mitigation") if output.out is None else output.out)
    _write(folder, trials, result, how, metric, quiet=output.quiet)
    claims = {axis: metrics for axis in names if (metrics := result.claimed_metrics(axis))}
    helped = {trial.axis for trial in trials if trial.helps}
    for axis, metrics in claims.items():
        if metric not in metrics:
            echo(f"axis {axis}: claimed by {', '.join(metrics)} only; choose it with --metric", err=True)
        elif axis not in helped:
            echo(f"axis {axis}: no fix that was tried helps", err=True)
    return int(any(metric in metrics and axis not in helped for axis, metrics in claims.items()))


def _write(folder: Path, trials: Sequence[Any], result: Any, how: MitigateOptions, metric: str, *, quiet: bool) -> None:
    """Write all trials, and print them with the lines to add."""
    from tod_bias.dialogues.text import json_line
    from tod_bias.files import write_json, write_lines
    from tod_bias.report import mitigation as pages

    about = {"metric": metric, "margin": how.margin, "terms_only": how.terms_only}
    tried = [trial.model_dump(mode="json") for trial in trials]
    record = {"schema": 3, "run": result.name, **about, "trials": tried}
    write_json(folder / "mitigation.json", record)
    if missing := [lack.record for trial in trials if trial.helps for lack in trial.missing]:
        write_lines(folder / "missing.jsonl", map(json_line, missing))
    if not quiet:
        Console().print(pages.table(record))
        print(pages.lines(trial for trial in tried if trial["helps"]))


def _trials(run: Path, result: Any, config: AuditConfig, axes: list[Any], how: MitigateOptions, metric: str) -> Any:
    from tod_bias.mitigation.trials import Trials

    arguments.check_system(config.corpus.corpus, config.system)
    whole, dialogues = arguments.load_dialogues(config.corpus, result.config.seed)
    system = arguments.load_system(config.corpus.corpus, config.system, whole)
    options = {
        "cache": result.folder / FILE,
        "cluster": config.analysis.cluster,
        "max_failures": config.run.max_failures,
    }
    by_name, metrics = {axis.name: axis for axis in axes}, arguments.user_metrics(config)
    return Trials(result, system, dialogues, by_name, metric, how.guards, how.margin, how.terms_only, metrics, options)
