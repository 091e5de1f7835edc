"""Commands for dialogues and texts: ``tod-bias export``, ``perturb``, ``words`` and ``database``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import MinLen

from tod_bias.cli.options import (
    check_datapath,
    check_system,
    check_used,
    command,
    config_of,
    folder_of,
    lexicons,
    load_axes,
    load_dialogues,
    load_system,
    refuse,
)
from tod_bias.config import (
    ADVANCED,
    DEMO,
    AuditConfig,
    BootstrapOptions,
    CorpusOptions,
    CorpusSource,
    ExportConfig,
    LexiconOptions,
    Names,
    Options,
    OutputOptions,
    PerturberOptions,
    Seeded,
    SystemOverrides,
    TermOptions,
    VariantOptions,
)
from tod_bias.errors import MissingSplitError, TodBiasError, repeated
from tod_bias.io.documents import bounded_lines, utf8
from tod_bias.io.files import write_json, write_lines
from tod_bias.io.folder import writable
from tod_bias.report.console import Console, echo

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from tod_bias.mitigation.missing_rows import DatabaseCheck


FILE = "counterfactuals.jsonl"


class ExportOptions(Options):
    """Options of the command itself."""

    chat: bool = False
    """Dialogues as OpenAI messages."""


class ExportOutput(OutputOptions):
    """File for the dialogues."""

    out: Path | None = None
    """Folder for counterfactuals.jsonl; by default they go to standard output."""


@command("tod-bias export --corpus dialogues.jsonl --axes gender --chat --out runs/export")
def export(*, config: ExportConfig, how: ExportOptions, output: ExportOutput) -> None:
    """Write the counterfactual dialogues that attribute runs with the same options, the originals among them.

    Each has what joins it to its original: id, variant, axis, groups and terms. For systems that cannot be called from
    here (save their responses for attribute --responses), and to look at.
    """
    from tod_bias.audit.design import export_counterfactuals
    from tod_bias.dialogues.text import json_line

    _, dialogues = load_dialogues(config.corpus, config.seed)
    records = export_counterfactuals(
        dialogues,
        load_axes(config.axes, config.axes.audited),
        config.design,
        seed=config.seed,
        chat=how.chat,
        left_out=lambda reason: echo(f"({reason})", err=True),
    )
    lines = map(json_line, records)
    if output.out is None:
        sys.stdout.writelines(lines)
        return
    first = next(lines)  # what cannot be read is found before anything is made
    write_lines(writable(output.out) / FILE, chain([first], lines))
    if not output.quiet:
        echo(f"Counterfactuals: {output.out / FILE}   {_NEXT}", err=True)


_NEXT = (
    "Next: save the system's responses to them, a line {id, turn, variant, response} each, for tod-bias attribute "
    "--responses FILE with the same options"
)


class PerturbOptions(PerturberOptions, TermOptions):
    """Rewriting of the text."""

    title = "Rewriting"

    axis: str = "gender"
    """gender, age, race, or another axis of terms or names."""
    source: str
    """Group whose terms are rewritten."""
    target: str
    """Group that they are rewritten to."""


class PerturbOutput(OutputOptions):
    """Output of the lines."""

    out: Path | None = None
    """File for the lines; by default standard output."""


@command("tod-bias perturb --axis gender --source woman --target man notes.txt")
def perturb(file: Path | None = None, /, *, options: PerturbOptions, output: PerturbOutput) -> None:
    """Rewrite plain text from one group to another, a line in, a line out. Whole dialogues: tod-bias export.

    Args:
        file: Text, a line each; by default standard input.
    """
    from tod_bias.perturb.loading import load_axis
    from tod_bias.perturb.neural import NeuralAxis

    axis, source, target = options.axis, options.source, options.target
    terms: dict[str, Any] = {"lexicon": lexicons(options, [axis]).get(axis), "protected": options.protect}
    check_used([axis], {"model": options.perturber})
    rewriting = load_axis(axis, model=options.perturber, **terms)
    rewriting.rewrite_texts([], source, target)  # mistakes are named before the text is read
    if not isinstance(rewriting, NeuralAxis):
        _write((rewriting.rewrite_texts([line], source, target)[0] for line in _lines(file)), output.out)
        return
    _write(iter(rewriting.rewrite_texts(list(_lines(file)), source, target)), output.out)
    if not output.quiet:
        echo(rewriting.summary, err=True)


def _lines(file: Path | None) -> Iterator[str]:
    if file is None:
        try:
            yield from bounded_lines(sys.stdin)
        except (OSError, UnicodeDecodeError) as error:
            raise TodBiasError(f"standard input: cannot be read: {error}") from error
        return
    try:
        with utf8(file), open(file, encoding="utf-8-sig", newline="") as stream:
            yield from bounded_lines(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"{file}: cannot be read: {error}") from error


def _write(lines: Iterator[str], path: Path | None) -> None:
    if path is None:
        sys.stdout.writelines(lines)
        return
    first = list(islice(lines, 1))  # what cannot be read is found before anything is made
    if not path.exists():
        writable(path.parent)
    write_lines(path, chain(first, lines), named=True)


class WordsAxes(LexiconOptions):
    """The axes whose terms are counted."""

    axes: Annotated[Names, MinLen(1)] = ("gender", "age", "race")
    """Axes, joined by commas; your own as module:name."""


class CountedCorpora(CorpusOptions):
    """Corpora to count in."""

    corpus: str = DEMO
    """As for attribute; several, joined by commas, are shown side by side."""


class WordsConfig(Seeded):
    """Corpora, axes and settings of the counts."""

    corpus: CountedCorpora = CountedCorpora()
    axes: WordsAxes = WordsAxes()
    intervals: BootstrapOptions = BootstrapOptions()


@command("tod-bias words --corpus demo,dialogues.jsonl --axes gender --out runs/words")
def words(*, config: WordsConfig, output: OutputOptions) -> None:
    """Count the words and dialogues that mention each group, by speaker (Su Fig. 2).

    Writes words.csv, words.json and figures/words.svg, which replace those of an earlier command in the folder. Several
    corpora get a subfolder each, and figures/corpora.svg compares them.
    """
    axes = load_axes(config.axes)
    names = list(dict.fromkeys(name.strip() for name in config.corpus.corpus.split(",")))
    if not all(names):
        raise TodBiasError(f"--corpus {config.corpus.corpus}: a name is missing before or after a comma")
    if doubled := repeated(Path(name).stem for name in names):
        raise TodBiasError(
            f"--corpus: two corpora are called {doubled!r}, and each has a folder by its name; rename one"
        )
    corpora = {}
    for name in names:
        _, corpora[name] = load_dialogues(config.corpus.model_copy(update={"corpus": name}), config.seed)
    folder = folder_of(output.out, config.corpus.corpus if len(names) == 1 else "corpora")

    import tod_bias.audit.mentions  # heavy imports come after what may go wrong at once
    from tod_bias.report.words import write_corpora, write_shares

    results = {}
    for name, dialogues in corpora.items():
        results[name] = tod_bias.audit.mentions.word_statistics(
            dialogues,
            axes,
            bootstrap=config.intervals.bootstrap,
            seed=config.seed,
            corpus={"name": name, "split": config.corpus.split},
        )
        place = _folder_of(folder, name, names)
        write_shares(results[name], place)
        results[name].save(place)
    if len(names) > 1:
        write_corpora(results, folder)
    if not output.quiet:
        _print(results, folder)


def _folder_of(folder: Path, name: str, names: Sequence[str]) -> Path:
    """Return the folder for the results of one corpus."""
    return folder if len(names) == 1 else folder / Path(name).stem


def _print(results: Mapping[str, Any], folder: Path) -> None:
    from tod_bias.report.words import corpora_table, table

    (first, *others) = results.values()
    Console().print(corpora_table(results) if others else table(first))
    names = ("words.csv", "words.svg") if not others else ("*/words.csv", "corpora.svg")
    print(f"Results: {folder / names[0]}   Figure: {folder / 'figures' / names[1]}")


class DatabaseOptions(CorpusSource):
    """Results to write."""

    splits: Names | None = None
    """Splits, joined by commas; all by default."""


class DatabaseOutput(OutputOptions):
    """Output of ``tod-bias database``."""

    out: Path | None = None
    """The SQLite file; by default CORPUS.sqlite."""
    tools: Path | None = None
    """Also write the APIs as OpenAI's function schemas (JSON)."""


@command("tod-bias database --corpus dialogues.jsonl --out results.sqlite --tools tools.json")
def database(*, source: DatabaseOptions, output: DatabaseOutput) -> None:
    """Write the results of all recorded calls into an SQLite file, a table per service, for SqlDb.

    tod-bias database check finds the groups whose calls have no rows in a database.
    """
    check_datapath(source)
    dialogues = _dialogues(source)

    from tod_bias.dialogues.calls import called
    from tod_bias.systems.tables import services_of, services_table, write_database

    corpus, tools = source.corpus, output.tools
    services = services_of(dialogues)
    path = output.out or Path(f"{Path(corpus).stem.replace(':', '_')}.sqlite")
    write_database(services, path)
    if tools is not None:
        write_json(tools, called(dialogues), named=True)
    if not output.quiet:
        Console().print(services_table(services))
        print(f"Database: {path}" + (f"   Tools: {tools}" if tools is not None else ""))


def _dialogues(source: DatabaseOptions) -> list[Any]:
    """Return the dialogues of the requested splits, or of all."""
    from tod_bias.dialogues.corpora import SPLITS, has_splits, load_corpus

    wanted = source.splits or (SPLITS if has_splits(source.corpus) else SPLITS[:1])
    dialogues: list[Any] = []
    missing: MissingSplitError | None = None
    for split in wanted:
        try:
            dialogues += load_corpus(source.corpus, datapath=source.datapath, split=split)
        except MissingSplitError as error:
            if source.splits:
                raise
            missing = error
    if not dialogues and missing is not None:
        raise missing
    return dialogues


class LookupOptions(VariantOptions, Seeded):
    """Calls to look up, and their database."""

    database: str | None = None
    """Instead of a pipeline: a lookup table (.jsonl), an SQLite file or a URL of SQLAlchemy; by default the table of
    the corpus' own calls."""
    stage: Annotated[str | None, ADVANCED] = None
    """Name of the database in the pipeline; by default the first LookupDb or SqlDb, or what the run gave calls to."""


@database.command
@command("tod-bias database check runs/mine")
def check(run: Path | None = None, /, *, how: LookupOptions, output: OutputOptions, overrides: SystemOverrides) -> None:
    """Find the calls that return no rows, or fewer than the same call of the dialogue rewritten for another group.

    Writes database.json (counts) and missing.jsonl: calls with the rows that they should find, as a lookup table.

    Args:
        run: A finished run of attribute: its corpus, axes and system, and the calls that its system made.
    """
    from tod_bias.audit.record import read_turns
    from tod_bias.dialogues.text import json_line
    from tod_bias.mitigation.missing_rows import UNSWAPPED_ARMS, calls_made, check_database

    config = AuditConfig.with_settings(None, overrides.given()) if run is None else config_of(run, overrides)
    seed = how.seed if how.given_of("seed") else config.seed
    _check_stage(run, config, how)
    turns = None if run is None else read_turns(run, UNSWAPPED_ARMS)
    if run is not None and turns is None:
        raise TodBiasError(f"{run}: holds no turns.parquet; repeat the run's command to write it again")
    whole, dialogues = load_dialogues(config.corpus, seed)
    axes = load_axes(config.axes)
    lookup, stage, call = _database(config, how, whole, turns)
    folder = folder_of(output.out, config.corpus.corpus)
    made = {key: calls for axis in axes for key, calls in calls_made(turns, axis.name, stage, call).items()}
    checked = check_database(
        lookup, dialogues, axes, name=stage, call=call, seed=seed, variants=how.variants, made=made
    )
    write_json(folder / "database.json", _record(checked))
    write_lines(
        folder / "missing.jsonl",
        (json_line(lack.record) for lack in checked.missing),
    )
    if not output.quiet:
        Console().print(_table(checked))
        print(f"{len(checked.missing):,} calls with missing rows: {folder / 'missing.jsonl'}")


def _record(checked: DatabaseCheck) -> dict[str, Any]:
    """Return the content of ``database.json``: counts by axis and group."""
    axes = {
        axis: {group: {"calls": n, "missing": _lacking(checked, axis, group)} for group, n in groups.items()}
        for axis, groups in checked.calls.items()
    }
    return {"schema": 2, "axes": axes}


def _lacking(checked: DatabaseCheck, axis: str, group: str) -> int:
    return sum((missing.axis, missing.group) == (axis, group) for missing in checked.missing)


def _table(checked: DatabaseCheck) -> Table:
    from tod_bias.report.sheets import new_table

    view = new_table("Distinct calls that find less than in another variant of the same dialogue")
    for name in ("axis", "group", "calls", "missing rows"):
        view.add_column(name, justify="left" if name in ("axis", "group") else "right")
    for axis, groups in checked.calls.items():
        if not groups:
            view.add_row(axis, "no call mentions it", "0", "")
        for group, calls in groups.items():
            view.add_row(axis, group, f"{calls:,}", f"{_lacking(checked, axis, group):,}")
    return view


def _stage_with_calls(turns: pd.DataFrame | None) -> str | None:
    """Return the stage of a run that gets calls as its argument; None if there is none."""
    from tod_bias.dialogues.values import API_NAME
    from tod_bias.systems.outputs import parse_call

    for text in () if turns is None else turns["steps"]:
        for name, argument, _ in json.loads(text):
            if argument is not None and isinstance(call := parse_call(argument), Mapping) and call.get(API_NAME):
                return str(name)
    return None


def _check_stage(run: Path | None, config: AuditConfig, how: LookupOptions) -> None:
    """Raise if the pipeline has no stage that --stage names."""
    from tod_bias.results import AuditResult

    if how.stage is None:
        return
    if how.database is None and _has_system(config):
        stages, where = check_system(config.corpus.corpus, config.system), "the pipeline"
    elif run is not None:
        stages, where = tuple(AuditResult.load(run).stages), str(run)
    else:
        refuse(how, ("stage",), "of a pipeline or a run; without either no stage has a name")
        return
    if how.stage not in stages:
        raise TodBiasError(f"--stage {how.stage}: {where} has none of this name; it has {', '.join(stages)}")


def _has_system(config: AuditConfig) -> bool:
    return config.system.is_named or config.corpus.corpus == DEMO


def _database(
    config: AuditConfig, how: LookupOptions, dialogues: Sequence[Any], turns: pd.DataFrame | None
) -> tuple[Any, str, str]:
    """The stage that looks calls up, its name, and the name of the stage whose output it reads."""
    from tod_bias.systems.pipeline import STANDARD
    from tod_bias.systems.stages.database import LookupDb
    from tod_bias.systems.stages.sql import SqlDb

    if how.database is None and _has_system(config):
        stages = load_system(config.corpus.corpus, config.system, dialogues).stages
        tables = [name for name, stage in stages.items() if isinstance(stage, (LookupDb, SqlDb))]
        name = how.stage or next(iter(tables), None) or _stage_with_calls(turns)
        if name is None:
            known = ", ".join(stages)
            raise TodBiasError(f"--stage: none of {known} is a LookupDb or SqlDb; name the one that is called")
        database: Any = stages[name]
        before = [*stages][max(0, [*stages].index(name) - 1)]
    else:
        before, db, _ = STANDARD
        name = how.stage or _stage_with_calls(turns) or db
        if how.database is None:
            database = LookupDb.from_dialogues(dialogues)
        else:
            database = LookupDb(how.database) if how.database.endswith(".jsonl") else SqlDb(how.database)
    return database, name, database.api_call if isinstance(database, (LookupDb, SqlDb)) else before
