"""The comparison of two audits of embeddings: ``tod-bias compare``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from tod_bias.io.files import write_json
from tod_bias.io.folder import writable
from tod_bias.recommenders.embeddings import tables
from tod_bias.recommenders.embeddings.comparison import NAME, compare, load_run
from tod_bias.recommenders.embeddings.settings import AssociationStatistics
from tod_bias.report.console import Console
from tod_bias.report.sheets import print_sheets


def compare_associations(
    before: Path, after: Path, permutations: int, seed: int, out: Path | None, *, quiet: bool
) -> None:
    """Compare two audits of the same sets, write comparison.json and print it.

    Args:
        before: folder of results that changes are relative to.
        after: folder of the results of the other training.
        permutations: number of random permutations.
        seed: of permutations and resamples.
        out: folder for comparison.json; None for ``after``.
        quiet: print nothing.
    """
    how = AssociationStatistics(permutations=permutations, seed=seed)
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
    path = writable(out or after) / NAME
    write_json(path, comparison)
    if not quiet:
        _print_changes(comparison)
        print(f"Results: {path}")


def _print_changes(comparison: Mapping[str, Any]) -> None:
    console = Console()
    for sentence in comparison["reading"]:
        console.print(Text(sentence))
    console.print()
    print_sheets([tables.changes(comparison, short=True)])
