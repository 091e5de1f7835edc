"""``tod-bias database``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tod_bias.cli.arguments import names_of
from tod_bias.cli.options import Corpus, Datapath, Quiet
from tod_bias.errors import MissingSplitError, TodBiasError


def database(
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    splits: Annotated[str | None, typer.Option(help="Splits, joined by commas; by default all that are there.")] = None,
    tools: Annotated[Path | None, typer.Option(help="Also write the APIs as OpenAI's function schemas (JSON).")] = None,
    out: Annotated[Path | None, typer.Option(help="The SQLite file; by default CORPUS.sqlite.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write all results of all calls of a corpus into an SQLite file, a table a service, for SqlDb."""
    from tod_bias.dialogues.corpora import SPLITS, has_splits, load_corpus

    wanted = names_of(splits) if splits is not None else list(SPLITS if has_splits(corpus) else SPLITS[:1])
    if not wanted:
        raise TodBiasError(f"--splits: names no split; expected some of {', '.join(SPLITS)}")
    dialogues = []
    missing: MissingSplitError | None = None
    for split in wanted:
        try:
            dialogues += load_corpus(corpus, datapath=datapath, split=split)
        except MissingSplitError as error:
            if splits is not None:
                raise
            missing = error
    if not dialogues and missing is not None:
        raise missing

    from tod_bias.dialogues.apis import corpus_functions
    from tod_bias.files import write_json
    from tod_bias.systems.tables import services_of, services_table, write_database

    services = services_of(dialogues)
    path = out or Path(f"{Path(corpus).stem.replace(':', '_')}.sqlite")
    write_database(services, path)
    if tools is not None:
        write_json(tools, corpus_functions(corpus, datapath, dialogues))
    if not quiet:
        Console().print(services_table(services))
        typer.echo(f"Database: {path}" + (f"   Tools: {tools}" if tools is not None else ""))
