"""``tod-bias perturb``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tod_bias.cli.arguments import check_used, lexicons
from tod_bias.cli.options import command
from tod_bias.config import OutputOptions, PerturberOptions, TermOptions
from tod_bias.errors import TodBiasError
from tod_bias.io.documents import bounded_lines, utf8
from tod_bias.io.files import write_lines
from tod_bias.io.folder import writable
from tod_bias.report.console import echo


class PerturbOptions(PerturberOptions, TermOptions):
    """How text is rewritten."""

    title = "Rewriting"

    axis: str = "gender"
    """gender, age, race, or another axis of terms or names."""
    source: str
    """Group whose terms are rewritten."""
    target: str
    """Group that they are rewritten to."""


class PerturbOutput(OutputOptions):
    """Where lines go."""

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
