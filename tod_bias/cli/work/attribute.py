"""The run of an audit: ``tod-bias attribute``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tod_bias.audit.analysis import attribute
from tod_bias.audit.checks import reasons_in
from tod_bias.cli.checks import cache_of
from tod_bias.cli.work.audited import Audited
from tod_bias.config import AuditConfig
from tod_bias.errors import IncompleteError, TodBiasError
from tod_bias.io.cache import CACHE_FILE
from tod_bias.io.folder import shown
from tod_bias.models.processes import is_first_process
from tod_bias.perturb.neural import NeuralAxis
from tod_bias.report.answer import may_be_mitigated
from tod_bias.report.console import Console, echo
from tod_bias.report.page import write_report
from tod_bias.report.terminal import print_answer, table
from tod_bias.results import AuditResult, RunError


def run_audit(config: AuditConfig, audited: Audited, *, is_verbose: bool, allow_unmeasured: bool, quiet: bool) -> None:
    """Run the audit, and write and show its results.

    Args:
        config: the options.
        audited: what the audit is of.
        is_verbose: print the tables too.
        allow_unmeasured: accept that nothing is measured.
        quiet: print nothing.

    Raises:
        TodBiasError: nothing is measured, or an axis has no result.
    """
    folder, axes = audited.folder, list(audited.axes)
    incomplete: IncompleteError | None = None
    is_again = (folder / CACHE_FILE).exists()
    cache = cache_of(folder, config.run.resume)
    perturbers = [axis for axis in axes if isinstance(axis, NeuralAxis)]
    for axis in perturbers:
        axis.keep_in(cache)
    try:
        result = attribute(
            audited.system,
            audited.dialogues,
            axes=axes,
            config=config,
            cache=cache,
            show_progress=not quiet,
        )
    except IncompleteError as error:
        result, incomplete = error.result, error
    if not is_first_process():
        return
    replaced = _replaced(folder, result)
    result.save(folder)
    page = write_report([folder])
    if not quiet:
        if is_verbose:
            Console().print(table(result))
        if is_again and (cached := sum(result.cost.cached.values())):
            of = sum(result.cost.distinct.values())
            echo(f"{cached:,} of {of:,} outputs are kept from an earlier run in this folder (--no-resume asks again)")
        print_answer(result, Console())
        fix = f"   Fix: tod-bias mitigate {shown(folder)}" if may_be_mitigated(result) else ""
        print(f"Report: {shown(page)}{fix}")
        print(f"Turns:  tod-bias view {shown(folder)}")
        for axis in perturbers:
            echo(f"({axis.summary})")
        if replaced:
            echo(f"(they replace those of another run, on {replaced}; --out keeps runs apart)", err=True)
    if (reasons := reasons_in(result)) and not allow_unmeasured:
        raise TodBiasError(f"nothing is measured: {'; '.join(reasons)}; or give --allow-unmeasured")
    if incomplete is not None:
        raise TodBiasError(f"{incomplete} (the other results are in {shown(folder / 'results.json')})") from incomplete


def _replaced(folder: Path, result: Any) -> str:
    """Return the axes of another run's results in a folder; empty if there are none, or those of this run."""
    try:
        old = AuditResult.load(folder)
    except RunError:
        return ""
    names = ("corpus", "stages", "metrics", "signature")
    before, after = (
        [*(getattr(run, name) for name in names), run.config.design, run.config.seed, set(run.axes)]
        for run in (old, result)
    )
    return "" if before == after else ", ".join(old.axes)
