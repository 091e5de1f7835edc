"""``tod-bias mitigate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tod_bias.cli import arguments
from tod_bias.cli.options import command
from tod_bias.config import AuditConfig, MarginOptions, Names, OutputOptions, RunOverrides
from tod_bias.errors import TodBiasError
from tod_bias.report.console import Console, echo


class MitigateOptions(MarginOptions):
    """Fixes, and how small a gap must become."""

    title = "Mitigation"

    guards: Names = ("canonical",)
    """Guards to try: canonical, neutral, vote."""
    metric: str | None = None
    """The metric that decides; by default that of each axis's first finding."""
    margin: Annotated[float, Field(gt=0)] = 0.02
    """Largest gap, and largest loss of quality, that may remain."""
    terms_only: bool = False
    """Take the terms as they are if they are too few for a claim about groups."""


class MitigateOutput(OutputOptions):
    """Where results go."""

    out: Path | None = None
    """Folder for the results; by default RUN/mitigation."""


@command("tod-bias mitigate runs/mine")
def mitigate(run: Path, /, *, how: MitigateOptions, output: MitigateOutput, overrides: RunOverrides) -> int:
    """Try a guard and the missing rows on each stage that a finding names.

    Every fix is measured alone, as the run was. Prints what remains of the gaps, what quality costs, and the lines to
    add to the pipeline file. Writes mitigation.json, and missing.jsonl (rows that a lookup table lacks). Exit code 1
    if no fix helps on an axis.

    Args:
        run: A finished run of attribute: its folder.
    """
    from tod_bias.io.folder import claimed, unwritten

    unwritten(run)
    from tod_bias.results import AuditResult, deciding_metrics

    result = AuditResult.load(run)
    config = arguments.config_of(run, overrides)
    arguments.check_metrics(config.analysis.metrics or ())
    deciding = deciding_metrics(result, arguments.axes_of(run, result, overrides, config), how.metric)
    from tod_bias.perturb.guard import MODES

    if unknown := [mode for mode in how.guards if mode not in MODES]:
        raise TodBiasError(f"--guards: unknown guard {unknown[0]!r}; expected some of {', '.join(MODES)}")
    from tod_bias.io.files import subfolder  # heavy imports come after what may go wrong at once

    trials = list(_trials(result, config, deciding, how))
    _write(claimed(output.out or subfolder(run, "mitigation")), trials, result, how, quiet=output.quiet)
    without = [axis for axis in deciding if not any(trial.helps and trial.axis == axis for trial in trials)]
    for axis in without:
        is_tried = any(trial.axis == axis for trial in trials)
        why = "no fix that was tried helps alone" if is_tried else "no stage accounts for the gap; declare more stages"
        echo(f"axis {axis}: {why}", err=True)
    return int(bool(without))


def _trials(result: Any, config: AuditConfig, deciding: Mapping[str, str], how: MitigateOptions) -> Any:
    """Return the trials of a run's fixes."""
    arguments.check_system(config.corpus.corpus, config.system)
    axes = arguments.load_axes(config.axes, tuple(deciding), config.system.device)
    whole, dialogues = arguments.load_dialogues(config.corpus, result.config.seed)
    system = arguments.load_system(config.corpus.corpus, config.system, whole)
    from tod_bias.audit.choices import all_metrics
    from tod_bias.mitigation.trials import Trials
    from tod_bias.testing.gate import Limits

    metrics, by_name = all_metrics(result, arguments.user_metrics(config)), {axis.name: axis for axis in axes}
    limits = Limits(how.margin, both_sides=True, terms_only=how.terms_only)
    options = {"cluster": config.analysis.cluster, "max_failures": config.run.max_failures}
    return Trials(result, system, dialogues, by_name, deciding, how.guards, limits, metrics, options)


def _write(folder: Path, trials: Sequence[Any], result: Any, how: MitigateOptions, *, quiet: bool) -> None:
    """Write all trials, and print them with the lines to add."""
    from tod_bias.dialogues.text import json_line
    from tod_bias.io.files import write_json, write_lines
    from tod_bias.report import mitigation as pages

    tried = [trial.model_dump(mode="json") for trial in trials]
    record = {"schema": 3, "run": result.name, "margin": how.margin, "terms_only": how.terms_only, "trials": tried}
    write_json(folder / "mitigation.json", record)
    if missing := [lack.record for trial in trials if trial.helps for lack in trial.missing]:
        write_lines(folder / "missing.jsonl", map(json_line, missing))
    if not quiet:
        Console().print(pages.table(record))
        print(pages.lines(trial for trial in tried if trial["helps"]))
