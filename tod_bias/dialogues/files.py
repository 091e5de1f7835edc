"""Dialogues in files: JSON lines, JSON, or a folder of them; in the form of this package or as chats."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tod_bias.dialogues.chat import dialogue_of, passed_over
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import json_line
from tod_bias.errors import CorpusError
from tod_bias.io.documents import LONGEST, loads, read_text, text_lines
from tod_bias.io.files import write_lines

log = logging.getLogger(__name__)
SUFFIXES = (".json", ".jsonl")
"""Suffixes of files of dialogues."""


def read_files(path: str | Path) -> Iterator[Dialogue]:
    """Read a file of dialogues, or all files of a folder in order of their names.

    A ``.json`` file holds one dialogue, a list of dialogues, or the messages of one chat. Any other file holds one
    dialogue per line; blank lines are skipped. A chat without an id is named after its file and its number.

    Raises:
        CorpusError: something cannot be read or an id occurs twice; names the file, and the line or the number of the
            dialogue.
    """
    path = Path(path)
    seen: dict[str, str] = {}
    odd: Counter[str] = Counter()
    for file, number, place, record in _all_records(path):
        try:
            dialogue = dialogue_of(record, f"{file.stem}_{number}")
        except ValueError as error:
            raise CorpusError(f"{file}, {place}: {error}") from error
        if dialogue.id in seen:
            raise CorpusError(f"{file}, {place}: dialogue id {dialogue.id!r} is already on {seen[dialogue.id]}")
        seen[dialogue.id] = place if file == path else f"{file.name}, {place}"
        odd.update(passed_over(record))
        yield dialogue
    for what, number in odd.items():
        log.warning("%s: in %d dialogue%s %s", path, number, "s" * (number != 1), what)


def _all_records(path: Path) -> Iterator[tuple[Path, int, str, Any]]:
    """Every JSON value of a file or a folder of files: file, number in it, place in words, value."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
        if not files:
            raise CorpusError(f"{path}: no {' or '.join(f'*{suffix}' for suffix in SUFFIXES)} there")
    for file in files:
        for number, (place, record) in enumerate(_records(file) if file.suffix == ".json" else _lines(file), start=1):
            yield file, number, place, record


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    begun = False
    try:
        for number, line in text_lines(path):
            place = f"line {number}"
            yield place, _parsed(line, f"{path}, {place}") if begun else _first_of_lines(line, path, place)
            begun = True
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _first_of_lines(line: str, path: Path, place: str) -> Any:
    """The JSON value of a file's first line; a chat may be a list of messages, another list holds all dialogues."""
    try:
        record = _parsed(line, f"{path}, {place}")
        is_array = isinstance(record, list) and not (record and isinstance(record[0], dict) and "role" in record[0])
    except CorpusError:
        if not line.startswith("["):
            raise
        is_array = True
    if is_array:
        raise CorpusError(f"{path}: is a JSON array, so its name must end in .json: {path.with_suffix('.json').name}")
    return record


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    content = _parsed(text, str(path))
    if len(text) > LONGEST and isinstance(content, dict):
        raise CorpusError(
            f"{path}: one dialogue of {len(text):,} characters, and one has {LONGEST:,} at the most; "
            "write several as a list, or one a line as .jsonl"
        )
    is_single = not isinstance(content, list) or (content and isinstance(content[0], dict) and "role" in content[0])
    for number, record in enumerate([content] if is_single else content, start=1):
        yield f"dialogue {number}", record


def _parsed(text: str, where: str) -> Any:
    """The JSON value of a text; the one place where files of dialogues are parsed."""
    try:
        return loads(text.rstrip(), unique=True)  # with a line break, the error would name line 2 of a line
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise CorpusError(f"{where}: not JSON: {error.msg}, {line}column {error.colno}") from error


def write_jsonl(dialogues: Iterable[Dialogue], path: str | Path) -> None:
    """Write one dialogue a line, UTF-8.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, (json_line(dialogue.to_json()) for dialogue in dialogues))
