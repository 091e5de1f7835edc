"""Plain text from one group to another: ``tod-bias perturb``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from tod_bias.cli.work.axes import check_used, lexicons
from tod_bias.config import TermOptions
from tod_bias.errors import TodBiasError
from tod_bias.io.documents import bounded_lines, utf8
from tod_bias.io.files import write_lines
from tod_bias.io.folder import writable
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.neural import NeuralAxis
from tod_bias.report.console import echo


def load_rewriting(options: TermOptions, axis: str, model: str | None) -> Axis:
    """Return the axis that rewrites the text.

    Args:
        options: name lexicons.
        axis: by name.
        model: checkpoint of a neural perturber; None for rules.

    Raises:
        TodBiasError: the axis is unknown, or an option is invalid.
    """
    check_used([axis], {"model": model})
    return load_axis(axis, model=model, lexicon=lexicons(options, [axis]).get(axis))


def rewrite_file(axis: Axis, file: Path | None, out: Path | None, groups: tuple[str, str], *, quiet: bool) -> None:
    """Rewrite a text, a line in, a line out.

    Args:
        axis: that rewrites.
        file: the text; None for standard input.
        out: file for the lines; None for standard output.
        groups: source and target.
        quiet: print nothing.

    Raises:
        TodBiasError: the axis has no such group, or a file cannot be read or written.
    """
    axis.rewrite_texts([], *groups)  # mistakes are named before the text is read
    if not isinstance(axis, NeuralAxis):
        _write((axis.rewrite_texts([line], *groups)[0] for line in _lines(file)), out)
        return
    _write(iter(axis.rewrite_texts(list(_lines(file)), *groups)), out)
    if not quiet:
        echo(axis.summary, err=True)


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
