"""The check of a finished run by its findings: ``tod-bias check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tod_bias.cli.work.judged import Judged
from tod_bias.report import gate as pages
from tod_bias.report.console import Console
from tod_bias.report.telemetry import evaluation_events
from tod_bias.results import AuditResult
from tod_bias.testing import gate


def judge(
    result: AuditResult,
    *,
    max_gap: float | None,
    terms_only: bool,
    axes: Sequence[str] | None,
    baseline: AuditResult | None,
    known: Path | None,
) -> Judged:
    """Hold a run against a limit.

    Args:
        result: of the run.
        max_gap: largest gap that passes; None for any.
        terms_only: True if bounds hold for these terms only.
        axes: those that are checked; None for all.
        baseline: of an earlier run, whose findings pass.
        known: file of accepted findings.

    Raises:
        TodBiasError: an axis was not measured, or the file cannot be read.
    """
    checked = gate.check(
        result,
        max_gap=max_gap,
        terms_only=terms_only,
        axes=axes,
        baseline=baseline,
        known=() if known is None else gate.read_known(known),
    )
    console = Console()
    plain = not (console.encoding or "").lower().startswith("utf")
    return Judged(
        checked.record,
        pages.junit(checked),
        pages.markdown(checked),
        pages.table(checked, min(80, console.width), plain=plain),
        checked.code,
        {"soft_wrap": True, "highlight": False},
        evaluation_events(checked),
    )
