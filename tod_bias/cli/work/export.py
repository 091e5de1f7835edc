"""What ``tod-bias export`` writes: counterfactual dialogues, or the results and APIs of recorded calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rich.table import Table

from tod_bias.audit.design import export_counterfactuals
from tod_bias.cli.checks import check_datapath
from tod_bias.cli.work.axes import load_axes
from tod_bias.cli.work.loading import load_dialogues
from tod_bias.config import CorpusOptions, ExportConfig
from tod_bias.dialogues.calls import called
from tod_bias.dialogues.corpora import SPLITS, has_splits, load_corpus
from tod_bias.dialogues.text import json_line
from tod_bias.errors import MissingSplitError, TodBiasError
from tod_bias.io.files import write_json, write_lines
from tod_bias.io.folder import writable
from tod_bias.report.console import Console, echo
from tod_bias.systems.tables import Service, services_of

COUNTERFACTUALS_FILE = "counterfactuals.jsonl"
_NEXT = (
    "Next: save the system's responses to them, a line {id, turn, variant, response} each, for tod-bias attribute "
    "--responses FILE with the same options"
)


def write_counterfactuals(config: ExportConfig, out: Path | None, *, is_chat: bool, quiet: bool) -> None:
    """Write all originals and counterfactuals.

    Args:
        config: the options.
        out: folder for the file; None for standard output.
        is_chat: write dialogues as OpenAI messages.
        quiet: print nothing.
    """
    _, dialogues = load_dialogues(config.corpus, config.seed)
    records = export_counterfactuals(
        dialogues,
        load_axes(config.axes, config.axes.audited),
        config.design,
        seed=config.seed,
        chat=is_chat,
        left_out=lambda reason: echo(f"({reason})", err=True),
    )
    lines = map(json_line, records)
    if out is None:
        sys.stdout.writelines(lines)
        return
    first = next(lines)  # what cannot be read is found before anything is made
    write_lines(writable(out) / COUNTERFACTUALS_FILE, chain([first], lines))
    if not quiet:
        echo(f"Counterfactuals: {out / COUNTERFACTUALS_FILE}   {_NEXT}", err=True)


def write_calls(corpus: CorpusOptions, database: Path | None, tools: Path | None, *, quiet: bool) -> None:
    """Write the results and the APIs of the calls that a corpus has recorded, of all its splits unless one is named.

    Args:
        corpus: names the corpus.
        database: SQLite file for the results.
        tools: JSON file for the APIs.
        quiet: print nothing.

    Raises:
        TodBiasError: a file cannot be written, or nothing is recorded.
    """
    is_whole = not corpus.given_of("split") and has_splits(corpus.corpus)
    dialogues = _dialogues_of_all_splits(corpus) if is_whole else load_dialogues(corpus, 0)[0]
    services = services_of(dialogues)
    if database is not None:
        try:
            from tod_bias.systems.database_file import write_database
        except ImportError as error:
            raise TodBiasError(f"a database needs the package sqlalchemy ({error}); pip install sqlalchemy") from error
        write_database(services, database)
    if tools is not None:
        write_json(tools, called(dialogues), named=True)
    if not quiet:
        Console().print(_services_table(services))
        written = {"Database": database, "Tools": tools}
        print("   ".join(f"{what}: {path}" for what, path in written.items() if path is not None))


def _dialogues_of_all_splits(corpus: CorpusOptions) -> list[Any]:
    """Return the dialogues of all splits that are there."""
    check_datapath(corpus)
    dialogues: list[Any] = []
    missing: MissingSplitError | None = None
    for split in SPLITS:
        try:
            dialogues += load_corpus(corpus.corpus, datapath=corpus.datapath, split=split)
        except MissingSplitError as error:
            missing = error
    if not dialogues and missing is not None:
        raise missing
    return dialogues


def _services_table(services: Sequence[Service]) -> Table:
    """Return service, APIs, rows and columns, to be printed."""
    table = Table("service", "APIs", "rows", "columns", box=None)
    for service in services:
        table.add_row(service.name, str(len(service.apis)), f"{len(service.rows):,}", str(len(service.columns)))
    return table
