"""``tod-bias associate``: reads options, calls the library, prints. Heavy imports stay inside the functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from tod_bias.cli.arguments import check_files
from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import EmbeddingsError
from tod_bias.io.files import write_json
from tod_bias.io.folder import check_no_other_run, claimed, writable
from tod_bias.recommenders.embeddings.settings import AssociationRequest, AssociationStatistics, AuditSettings
from tod_bias.report.console import Console
from tod_bias.report.sheets import print_sheets
from tod_bias.report.statements import column_of


class AssociationOutput(OutputOptions):
    """Where results go."""

    out: Path = Path("runs/association")
    """Folder for the results."""


@command("tod-bias associate --embeddings model.npz --users users.csv --attribute gender --out runs/embeddings")
def associate(*, request: AssociationRequest, how: AuditSettings, output: AssociationOutput) -> None:
    """Audit a recommender's embeddings for associations with an attribute of its users (Beattie).

    Give a file of embeddings and one of users' attributes: --embeddings model.npz --users users.csv --attribute gender.
    Writes associations.json, entities.parquet, directions.npz, tables, figures and report.html.
    """
    if request.embeddings is None:
        raise EmbeddingsError("no embeddings to audit; give --embeddings FILE")
    if request.sets is not None and request.test is not None:
        raise EmbeddingsError("--sets names E and P: leave out --test")
    from tod_bias.recommenders.embeddings.readers import check_file

    check_files(request.sets, request.users, request.items, request.interactions, request.pairs)
    check_file(request.embeddings)
    check_no_other_run(output.out, "associations.json")
    claimed(output.out)

    from tod_bias.recommenders.embeddings.study import audit_request, write_audit

    result = audit_request(request, how, show_progress=not output.quiet)
    write_audit(result, output.out)
    if not output.quiet:
        _print(result.record)
        print(f"Results: {output.out / 'associations.json'}   Report: {output.out / 'report.html'}")


def _print(run: Mapping[str, Any]) -> None:
    """Print the findings of an audit, R-RIPA by direction, and what limits them."""
    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.reading import remarks, statements

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


def _print_changes(comparison: Mapping[str, Any]) -> None:
    from tod_bias.recommenders.embeddings import tables

    console = Console()
    for sentence in comparison["reading"]:
        console.print(Text(sentence))
    console.print()
    print_sheets([tables.changes(comparison, short=True)])


class ComparisonOutput(OutputOptions):
    """Where the comparison goes."""

    out: Path | None = None
    """Folder for comparison.json; by default the second."""


@associate.command
@command("tod-bias associate compare runs/plain runs/fair")
def compare(before: Path, after: Path, /, *, how: AssociationStatistics, output: ComparisonOutput) -> None:
    """Compare two audits of the same sets: every metric, its change in %, and whether it is significant.

    Args:
        before: Results that changes are relative to: a folder.
        after: Results of the other training.
    """
    nothing = "no results of tod-bias associate can be read; give folders written with --out"
    check_files(before, after, otherwise=nothing)
    from tod_bias.recommenders.embeddings.comparison import NAME, compare, load_run

    runs = load_run(before), load_run(after)
    names = [str(run.record.get("name", folder)) for run, folder in zip(runs, (before, after), strict=True)]
    if names[0] == names[1]:
        names = [str(before), str(after)]
    comparison = compare(
        *runs,
        permutations=how.permutations,
        resamples=how.bootstrap,
        seed=how.seed,
        names=(names[0], names[1]),
    )
    path = writable(output.out or after) / NAME
    write_json(path, comparison)
    if not output.quiet:
        _print_changes(comparison)
        print(f"Results: {path}")
