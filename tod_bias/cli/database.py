"""``tod-bias database``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import (
    check_datapath,
    check_pipeline_of,
    chosen,
    folder_of,
    perturbers_of,
    pipeline_of,
    unused,
)
from tod_bias.cli.options import (
    AXES,
    Axes,
    AxisLexicons,
    Corpus,
    Datapath,
    MaxDialogues,
    NameSlots,
    Out,
    PipelineOption,
    Protect,
    Quiet,
    Seed,
    Split,
    SplitOption,
    Tellings,
)
from tod_bias.errors import MissingSplitError, TodBiasError
from tod_bias.report.console import Console

database = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    help="Write a corpus' results as a database; check whose calls a database has no rows for.",
)


@database.callback()
def write(
    context: typer.Context,
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    splits: Annotated[str | None, typer.Option(help="Splits, joined by commas; by default all that are there.")] = None,
    tools: Annotated[Path | None, typer.Option(help="Also write the APIs as OpenAI's function schemas (JSON).")] = None,
    out: Annotated[Path | None, typer.Option(help="The SQLite file; by default CORPUS.sqlite.")] = None,
    seed: Annotated[int, typer.Option(hidden=True, help="Nothing is drawn here.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Write all results of all calls of a corpus into an SQLite file, a table a service, for SqlDb.

    tod-bias database check tells whose calls a database has no rows for.
    """
    if context.invoked_subcommand is not None:
        unused(context, f"give it after {context.invoked_subcommand}", *context.params)
        return
    check_datapath(context)
    from tod_bias.dialogues.corpora import SPLITS, has_splits, load_corpus

    wanted = chosen("--splits", splits) if splits is not None else list(SPLITS if has_splits(corpus) else SPLITS[:1])
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
        write_json(tools, corpus_functions(corpus, datapath, dialogues), named=True)
    if not quiet:
        Console().print(services_table(services))
        typer.echo(f"Database: {path}" + (f"   Tools: {tools}" if tools is not None else ""))


@database.command()
def check(
    context: typer.Context,
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    axes: Axes = AXES,
    tellings: Tellings = None,
    name_slots: NameSlots = None,
    lexicon: AxisLexicons = None,
    protect: Protect = None,
    pipeline: PipelineOption = None,
    component: Annotated[str, typer.Option(help="Name of the database in the pipeline.")] = "db",
    call: Annotated[str, typer.Option(help="Name of the component whose calls it looks up.")] = "api_call",
    source: Annotated[
        str | None,
        typer.Option(
            "--database",
            help="Instead of a pipeline: a lookup table (.jsonl), an SQLite file or a URL of SQLAlchemy. By default "
            "the table of the corpus' own calls.",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="A finished run of attribute: the calls that its system made are asked too.")
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Whose calls find no rows, fewer or poorer ones than the same dialogue's when it is told as somebody else.

    Writes database.json (counts) and missing.jsonl: calls with the rows that they should find, as a lookup table.
    """
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample as sampled
    from tod_bias.dialogues.text import json_line
    from tod_bias.files import write_json, write_lines
    from tod_bias.report.record import read_turns
    from tod_bias.results import AuditResult
    from tod_bias.studies.database_check import OWN_ARMS, check_database, made_in

    check_datapath(context)
    chosen("--axes", axes)
    if source is not None and pipeline is not None:
        raise TodBiasError("give either --pipeline or --database, not both")
    if pipeline is not None or (source is None and corpus == "demo"):
        stages = check_pipeline_of(corpus, pipeline, (None, None, None), None, {})
        for option, name in (("--component", component), ("--call", call)):
            if name not in stages:
                raise TodBiasError(f"{option} {name}: the pipeline has none of this name; it has {', '.join(stages)}")
    else:
        why = "of a pipeline or a --run; without either nobody has a name"
        unused(context, why, "component", *(() if run is not None else ("call",)))
    if run is not None and call not in (names := AuditResult.load(run).stages):
        raise TodBiasError(f"--call {call}: {run} has no such component; it has {', '.join(names)}")
    turns = None if run is None else read_turns(run, OWN_ARMS)
    if run is not None and turns is None:
        raise TodBiasError(f"--run {run}: holds no turns.parquet; repeat the run's command to write it again")
    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    perturbers = perturbers_of(axes, lexicon, protected=protect or (), name_slots=name_slots)
    asked = _database(corpus, source, pipeline, component, whole)
    folder = folder_of(out, corpus)
    made = {key: calls for one in perturbers for key, calls in made_in(turns, one.name, call).items()}
    found = check_database(
        asked, sampled(whole, max_dialogues, seed), perturbers,
        name=component, call=call, seed=seed, tellings=tellings, made=made,
    )  # fmt: skip
    write_json(folder / "database.json", found.to_json())
    write_lines(folder / "missing.jsonl", (json_line(one.to_json()) for one in found.lacks if one.is_missing))
    if not quiet:
        Console().print(found.table())
        missing = sum(one.is_missing for one in found.lacks)
        typer.echo(f"{missing:,} calls with missing rows: {folder / 'missing.jsonl'}")


def _database(corpus: str, source: str | None, pipeline: str | None, component: str, dialogues: Sequence[Any]) -> Any:
    """The component that looks calls up."""
    from tod_bias.systems.stages.database import LookupDb
    from tod_bias.systems.stages.sql import SqlDb

    if source is not None:
        return LookupDb(source) if source.endswith(".jsonl") else SqlDb(source)
    if pipeline is None and corpus != "demo":
        return LookupDb.from_dialogues(dialogues)
    stages = pipeline_of(corpus, pipeline, (None, None, None), dialogues, None, {}).stages
    return stages[component]
