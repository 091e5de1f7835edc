"""ParlAI's datapath: where the corpora lie, and reading their JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tod_bias import documents
from tod_bias.errors import CorpusError


def corpus_folder(datapath: Path | None, corpus: str, name: str) -> Path:
    """The folder ``name`` of a corpus in ``datapath``.

    Raises:
        CorpusError: no datapath was given, or it has no such folder.
    """
    if datapath is None:
        raise CorpusError(f"corpus {corpus!r} needs --datapath, a folder that holds {name}/ in ParlAI's layout")
    folder = datapath / name
    if not folder.is_dir():
        raise CorpusError(f"{folder}: no such folder; --datapath must hold {name}/ in ParlAI's layout")
    return folder


def read_json(path: Path, kind: type) -> Any:
    """The content of a JSON file that holds a ``list`` or a ``dict``.

    Raises:
        CorpusError: it cannot be read, or holds something else.
    """
    try:
        content = documents.read_json(path)
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, kind):
        raise CorpusError(f"{path}: expected a {kind.__name__}, got {type(content).__name__}")
    return content


def joined(value: str | list[str]) -> str:
    """A slot's value as text: several values sorted and joined by a comma, as ParlAI writes them."""
    return value if isinstance(value, str) else ", ".join(sorted(str(part).strip() for part in value))
