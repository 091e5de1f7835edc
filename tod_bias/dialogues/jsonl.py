"""Dialogues in files of JSON lines, one dialogue a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import json_line
from tod_bias.errors import CorpusError


def write_jsonl(dialogues: Iterable[Dialogue], path: str | Path) -> None:
    """Write one dialogue a line, UTF-8."""
    with Path(path).open("w", encoding="utf-8") as file:
        for dialogue in dialogues:
            file.write(json_line(dialogue.to_json()))


def read_jsonl(path: str | Path) -> Iterator[Dialogue]:
    """Read one dialogue a line; blank lines are skipped.

    Raises:
        CorpusError: the file cannot be read, a line is malformed (names file and line), or an id stands twice.
    """
    path = Path(path)
    seen: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    dialogue = Dialogue.from_json(json.loads(line))
                except json.JSONDecodeError as error:
                    raise CorpusError(f"{path}, line {number}: not JSON: {error.msg}, column {error.colno}") from error
                except ValueError as error:
                    raise CorpusError(f"{path}, line {number}: {error}") from error
                except RecursionError as error:
                    raise CorpusError(f"{path}, line {number}: JSON that is nested too deeply") from error
                if dialogue.id in seen:
                    raise CorpusError(
                        f"{path}, line {number}: dialogue id {dialogue.id!r} is already on line {seen[dialogue.id]}"
                    )
                seen[dialogue.id] = number
                yield dialogue
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from error
