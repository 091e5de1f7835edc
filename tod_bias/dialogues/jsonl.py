"""Writing dialogues as JSON lines, one dialogue a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import json_line
from tod_bias.files import write_lines


def write_jsonl(dialogues: Iterable[Dialogue], path: str | Path) -> None:
    """Write one dialogue a line, UTF-8.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, (json_line(dialogue.to_json()) for dialogue in dialogues))
