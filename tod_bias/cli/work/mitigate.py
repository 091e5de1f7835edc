"""Trials of fixes for the findings of a run: ``tod-bias mitigate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.audit.record import signature_of
from tod_bias.cli.configuration import config_of
from tod_bias.cli.work.axes import axes_of, load_axes
from tod_bias.cli.work.loading import check_system, load_dialogues, load_system
from tod_bias.config import AuditConfig, SystemOverrides
from tod_bias.dialogues.text import json_line
from tod_bias.errors import TodBiasError
from tod_bias.io.files import subfolder, write_json, write_lines
from tod_bias.io.folder import claimed
from tod_bias.metrics.choice import metric
from tod_bias.mitigation.trials import Trials
from tod_bias.perturb.guard import MODES
from tod_bias.report.answer import alike
from tod_bias.report.console import echo
from tod_bias.report.mitigation import shown_trials
from tod_bias.results import AuditResult


def try_fixes(
    run: Path,
    result: AuditResult,
    overrides: SystemOverrides,
    guards: Sequence[str],
    out: Path | None,
    *,
    has_references: bool,
    quiet: bool,
) -> int:
    """Try the fixes, write the trials, and print what remains of each finding.

    Args:
        run: folder.
        result: of the run.
        overrides: the options that are given now.
        guards: those to try.
        out: folder for the results; by default one in the run's.
        has_references: True if the recorded responses judge the cost of a fix.
        quiet: print nothing.

    Returns:
        The exit code: 1 if no fix helps for a finding.

    Raises:
        TodBiasError: the run has no such axis, there is no such guard, or the system cannot be loaded.
    """
    config = config_of(run, overrides)
    names = axes_of(run, result, overrides, config)
    axes = {axis.name: axis for axis in load_axes(config.axes, names, config.system.device)}
    if unknown := [axis for axis in axes if axis not in result.axes]:
        raise TodBiasError(f"--axes {unknown[0]}: the run has no axis of this name; it has {', '.join(result.axes)}")
    if unknown := [mode for mode in guards if mode not in MODES]:
        raise TodBiasError(f"--guards: unknown guard {unknown[0]!r}; expected some of {', '.join(MODES)}")
    findings = alike([some for some in result.findings if some.is_difference and some.axis in axes])
    if not findings:
        print(f"{run} has no finding, so there is nothing to mitigate")
        return 0
    first = [some[0] for some in findings]
    trials = [] if result.is_recorded else list(_trials(result, config, axes, first, guards, has_references))
    folder = claimed(out or subfolder(run, "mitigation"))
    named = dict(zip(axes, names, strict=True))
    _write_trials(folder, trials, findings, result, named, quiet=quiet)
    return int(any(not any(trial.helps and trial.finding == some for trial in trials) for some in first))


def _trials(
    result: Any,
    config: AuditConfig,
    axes: Mapping[str, Any],
    findings: Sequence[Any],
    guards: Sequence[str],
    has_references: bool,
) -> Any:
    """Return the trials of a run's fixes."""
    check_system(config.corpus.corpus, config.system, config.corpus.world)
    whole, dialogues = load_dialogues(config.corpus, result.config.seed)
    system = load_system(config.corpus.corpus, config.system, whole, config.corpus.world)
    requested = config.analysis.metrics
    metrics = None if requested is None else [metric(name) for name in requested]
    options = {"cluster": config.analysis.cluster, "max_failures": config.run.max_failures}
    return Trials(
        result,
        system,
        dialogues,
        {finding.axis: axes[finding.axis] for finding in findings},
        findings,
        guards,
        metrics,
        has_references,
        options,
    )


def _write_trials(
    folder: Path,
    trials: Sequence[Any],
    findings: Sequence[Sequence[Any]],
    result: Any,
    named: Mapping[str, str],
    *,
    quiet: bool,
) -> None:
    """Write all trials, and print them with the lines to add."""
    tried = [trial.model_dump(mode="json") for trial in trials]
    signature = result.signature | signature_of({})
    record = {"schema": 4, "run": result.name, "trials": tried, "signature": signature}
    write_json(folder / "mitigation.json", record)
    if missing := [lack.record for trial in trials if trial.helps for lack in trial.missing]:
        write_lines(folder / "missing.jsonl", map(json_line, missing))
    if not quiet:
        for line in shown_trials(trials, findings, result, named):
            echo(line)
