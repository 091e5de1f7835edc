"""``tod-bias export``."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

from tod_bias.cli.arguments import load_axes, load_dialogues
from tod_bias.cli.options import command
from tod_bias.config import ExportConfig, Options, OutputOptions
from tod_bias.io.files import write_lines
from tod_bias.io.folder import writable
from tod_bias.report.console import echo

FILE = "counterfactuals.jsonl"


class ExportOptions(Options):
    """Options of the command itself."""

    chat: bool = False
    """Dialogues as OpenAI messages."""


class ExportOutput(OutputOptions):
    """Where dialogues go."""

    out: Path | None = None
    """Folder for counterfactuals.jsonl; by default they go to standard output."""


@command("tod-bias export --corpus dialogues.jsonl --axes gender,placebo --chat --out runs/export")
def export(*, config: ExportConfig, how: ExportOptions, output: ExportOutput) -> None:
    """Write the counterfactual dialogues that attribute runs with the same options, the originals among them.

    Each has what joins it to its original: id, variant, axis, groups and terms. For systems that cannot be called from
    here (save their responses for attribute --responses), and to look at.
    """
    from tod_bias.audit.export import export_counterfactuals
    from tod_bias.dialogues.text import json_line

    _, dialogues = load_dialogues(config.corpus, config.seed)
    records = export_counterfactuals(
        dialogues,
        load_axes(config.axes),
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
