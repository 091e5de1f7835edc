"""The audit of embeddings: ``tod-bias associate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from tod_bias.recommenders.embeddings import tables
from tod_bias.recommenders.embeddings.reading import remarks, statements
from tod_bias.recommenders.embeddings.settings import AssociationRequest, AuditSettings
from tod_bias.recommenders.embeddings.study import audit_request, write_audit
from tod_bias.report.console import Console
from tod_bias.report.sheets import column_of, print_sheets


def audit_embeddings(request: AssociationRequest, how: AuditSettings, out: Path, *, quiet: bool) -> None:
    """Audit embeddings, write the results, and print the findings.

    Args:
        request: names the files.
        how: settings of the audit.
        out: folder for the results.
        quiet: print nothing.
    """
    result = audit_request(request, how, show_progress=not quiet)
    write_audit(result, out)
    if not quiet:
        _print_associations(result.record)
        print(f"Results: {out / 'associations.json'}   Report: {out / 'report.html'}")


def _print_associations(run: Mapping[str, Any]) -> None:
    """Print the findings of an audit, R-RIPA by direction, and what limits them."""
    console = Console()
    sets = ", ".join(f"{part['size']:,} {part['name']}" for part in run["sets"].values())
    console.print(Text(f"{run['name']}: {sets}\n", style="bold"))
    for said in statements(run):
        for line in said.lines(column_of([run["attribute"]]), min(80, console.width)):
            console.print(line, soft_wrap=True, highlight=False)
    console.print()
    print_sheets([tables.r_ripa(run, short=True)])
    for text in (*remarks(run), *(f"Note: {note}." for note in run["notes"])):
        console.print(Text(text, style="dim"))
