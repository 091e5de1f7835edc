"""Reading the plain tables of this folder: the lines that count, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tod_bias.documents import LARGEST_LIST, read_text
from tod_bias.errors import LexiconError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are neither empty nor comments (``#``), each with its number from 1.

    Raises:
        LexiconError: the file cannot be read, or is larger than a list of words is; names it.
    """
    try:
        text = read_text(path, largest=LARGEST_LIST)
    except (OSError, UnicodeDecodeError) as error:
        raise LexiconError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def expect(condition: bool, message: str) -> None:
    """Raises ValueError with the message where the condition does not hold; readers add file and line."""
    if not condition:
        raise ValueError(message)
