"""``tod-bias export``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.options import command
from tod_bias.config import ExportConfig, Options, OutputOptions


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
    from tod_bias.cli.work.export import write_calls, write_counterfactuals

    if how.database is not None or how.tools is not None:
        write_calls(config.corpus, how.database, how.tools, quiet=output.quiet)
    else:
        write_counterfactuals(config, output.out, is_chat=how.chat, quiet=output.quiet)
