"""The comparison of two runs of attribute: ``tod-bias compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tod_bias.audit.comparison import compare
from tod_bias.cli.checks import folder_of
from tod_bias.config import CompareConfig
from tod_bias.report.changes import summary, write_changes
from tod_bias.report.console import Console
from tod_bias.results import AuditResult


def compare_runs(
    runs: tuple[AuditResult, AuditResult],
    axes: Sequence[str] | None,
    metrics: Sequence[str] | None,
    config: CompareConfig,
    out: Path | None,
    *,
    quiet: bool,
) -> None:
    """Compare two runs, write compare.json and report.html, and print a summary.

    Args:
        runs: before and after.
        axes: those to compare; None for all.
        metrics: likewise.
        config: margins, permutations and seed.
        out: folder for the comparison.
        quiet: print nothing.
    """
    result = compare(*runs, axes=axes, metrics=metrics, config=config)
    path = result.save(folder_of(out, "compare"))
    page = write_changes(result, path.parent, runs)
    if not quiet:
        console = Console()
        plain = not (console.encoding or "").lower().startswith("utf")
        for line in summary(result, min(80, console.width), plain=plain):
            console.print(line, soft_wrap=True, highlight=False)
        print(f"Results: {path}   Report: {page}")
