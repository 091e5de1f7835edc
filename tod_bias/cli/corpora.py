"""Commands for dialogues and texts: ``tod-bias export`` and ``perturb``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tod_bias.cli.options import check_datapath, check_used, command, lexicons, load_axes, load_dialogues
from tod_bias.config import CorpusOptions, ExportConfig, Options, OutputOptions, PerturberOptions, TermOptions
from tod_bias.errors import MissingSplitError, TodBiasError
from tod_bias.io.documents import bounded_lines, utf8
from tod_bias.io.files import write_json, write_lines
from tod_bias.io.folder import writable
from tod_bias.report.console import Console, echo

COUNTERFACTUALS_FILE = "counterfactuals.jsonl"


class ExportOptions(Options):
    """Options of the command itself."""

    chat: bool = False
    """Dialogues as OpenAI messages."""
    database: Path | None = None
    """Write the results of all recorded calls into this SQLite file instead, a table per service, for SqlDb."""
    tools: Path | None = None
    """Write the APIs of all recorded calls as OpenAI's function schemas (JSON) instead, or as well as --database."""


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
    if how.database is not None or how.tools is not None:
        _write_calls(config.corpus, how, quiet=output.quiet)
        return
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
    write_lines(writable(output.out) / COUNTERFACTUALS_FILE, chain([first], lines))
    if not output.quiet:
        echo(f"Counterfactuals: {output.out / COUNTERFACTUALS_FILE}   {_NEXT}", err=True)


def _write_calls(corpus: CorpusOptions, how: ExportOptions, *, quiet: bool) -> None:
    """Write the results and the APIs of the calls that a corpus has recorded, of all its splits unless one is named."""
    from tod_bias.dialogues.calls import called
    from tod_bias.dialogues.corpora import has_splits
    from tod_bias.systems.tables import services_of, services_table, write_database

    is_whole = not corpus.given_of("split") and has_splits(corpus.corpus)
    dialogues = _dialogues_of_all_splits(corpus) if is_whole else load_dialogues(corpus, 0)[0]
    services = services_of(dialogues)
    if how.database is not None:
        write_database(services, how.database)
    if how.tools is not None:
        write_json(how.tools, called(dialogues), named=True)
    if not quiet:
        Console().print(services_table(services))
        written = {"Database": how.database, "Tools": how.tools}
        print("   ".join(f"{what}: {path}" for what, path in written.items() if path is not None))


def _dialogues_of_all_splits(corpus: CorpusOptions) -> list[Any]:
    """Return the dialogues of all splits that are there."""
    from tod_bias.dialogues.corpora import SPLITS, load_corpus

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


_NEXT = (
    "Next: save the system's responses to them, a line {id, turn, variant, response} each, for tod-bias attribute "
    "--responses FILE with the same options"
)


class PerturbOptions(PerturberOptions, TermOptions):
    """Rewriting of the text."""

    title = "Rewriting"

    axis: str = "gender"
    """gender, age, race, another axis of terms or names, or a file with one (FILE.yaml)."""
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
    check_used([axis], {"model": options.perturber})
    rewriting = load_axis(axis, model=options.perturber, lexicon=lexicons(options, [axis]).get(axis))
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
