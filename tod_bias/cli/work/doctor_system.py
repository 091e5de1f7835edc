"""One conversation of a system: ``tod-bias doctor FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tod_bias.dialogues.corpora import DEMO, load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.values import API_NAME
from tod_bias.pipelines import AgentFile, check_pipeline
from tod_bias.report.console import echo

_TRIED = 200
"""Conversations of a corpus from which one is chosen."""


def try_system(file: Path, corpus: str, *, quiet: bool) -> tuple[dict[str, Any], str]:
    """Let a system answer the conversation of a corpus that calls most tools.

    Args:
        file: pipeline file.
        corpus: names the corpus; empty for the demo.
        quiet: print nothing.

    Returns:
        The calls of its stages, or the requests of an agent elsewhere: as JSON, and as text.

    Raises:
        TodBiasError: the file or the corpus cannot be read, or a stage fails.
    """
    pipeline = check_pipeline(file)
    dialogues = load_corpus(corpus or DEMO / "test.jsonl", max_dialogues=_TRIED)
    dialogue = max(dialogues, key=_tools_called)
    if isinstance(pipeline, AgentFile) and pipeline.agent.python is None and not quiet:
        echo(f"(waits up to {pipeline.agent.timeout:.0f} s for the agent's answer)", err=True)

    from tod_bias.cli.work import doctor_conversation  # heavy imports come after what may go wrong at once

    if isinstance(pipeline, AgentFile) and pipeline.upstream is not None:
        return doctor_conversation.requests_of(pipeline, file, dialogue)
    return doctor_conversation.calls_of(file, dialogue)


def _tools_called(dialogue: Dialogue) -> int:
    """Return the number of different tools in the recorded calls of a dialogue."""
    return len({call.get(API_NAME) for turn in dialogue.turns for call in turn.calls})
