"""The audit of lists of recommendations: ``tod-bias recommend audit``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from tod_bias.cli.recommender_options import AuditInference
from tod_bias.recommenders.lmrec.audit import audit, save
from tod_bias.recommenders.lmrec.recommendations import CROSS, Recommendations
from tod_bias.recommenders.lmrec.results import Audit
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.report.console import Console
from tod_bias.report.notation import count
from tod_bias.report.sheets import print_statements
from tod_bias.statistics.settings import Inference


def audit_lists(
    recommendations: Recommendations,
    source: Mapping[str, Any],
    how: AuditInference,
    templates: Path | None,
    out: Path,
    *,
    has_figures: bool,
    quiet: bool,
) -> None:
    """Audit lists, write the results, and print the findings.

    Args:
        recommendations: the lists.
        source: where they come from, for the record.
        how: options of intervals and p-values.
        templates: folder of the user's own templates.
        out: folder for the results.
        has_figures: draw the figures and write the report.
        quiet: print nothing.
    """
    inference = Inference(
        level=how.level, resamples=how.bootstrap, permutations=how.permutations, correction="bh", seed=how.seed
    )
    result = audit(recommendations, inference, source=source, words=load_templates(templates))
    save(result, recommendations, out, figures=has_figures)
    if not quiet:
        _print(result)
        print(f"Report: {out / 'report.html'}" if has_figures else f"Results: {out}")


def _print(result: Audit) -> None:
    """Print the first finding of each dimension, and the notes; crossed dimensions are in the report."""
    record = result.record
    numbers = f"{count(record['recommendations'])} recommendations for {count(record['queries'])} queries"
    console = Console()
    console.print(Text(f"{numbers}; {', '.join(record['cities'])}\n", style="bold"))
    crossed = sum(said.is_difference for said in result.statements if CROSS in said.axis)
    print_statements([said for said in result.statements if CROSS not in said.axis], console, crossed)
    console.print()
    for note in record["notes"]:
        console.print(Text(f"Note: {note}.", style="dim"))
