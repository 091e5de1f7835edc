"""``tod-bias perturb``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.options import command
from tod_bias.config import OutputOptions, PerturberOptions, TermOptions


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
    from tod_bias.cli.work.perturb import load_rewriting, rewrite_file

    rewriting = load_rewriting(options, options.axis, options.perturber)
    rewrite_file(rewriting, file, output.out, (options.source, options.target), quiet=output.quiet)
