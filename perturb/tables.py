"""Reading the plain tables and word lists of this package: the lines that count, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tod_bias.errors import LexiconError
from tod_bias.io.documents import LARGEST_LIST, read_text

WORDS = Path(__file__).parent / "lexicons" / "words.txt"
"""The word lists of the English rules: sections, each a name in brackets followed by words."""


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


def read_table(path: Path, read: Callable[[list[str]], None]) -> None:
    """Give ``read`` the cells of every line that counts, which tabs separate.

    Raises:
        LexiconError: the file cannot be read, or ``read`` raises a ValueError; names the file and the line.
    """
    for number, line in numbered_lines(path):
        try:
            read([cell.strip() for cell in line.split("\t")])
        except LexiconError:
            raise  # of another file, which is named
        except ValueError as error:
            raise LexiconError(f"{path}, line {number}: {error}") from None


def expect(condition: bool, message: str) -> None:
    """Raises ValueError with the message where the condition does not hold; readers add file and line."""
    if not condition:
        raise ValueError(message)


@cache
def _sections(path: Path) -> dict[str, frozenset[str]]:
    sections: dict[str, set[str]] = {}
    name = ""
    for number, line in numbered_lines(path):
        if line.startswith("[") and line.rstrip().endswith("]"):
            name = line.strip()[1:-1]
        elif not name:
            raise LexiconError(f"{path}, line {number}: words before the first [section]")
        else:
            sections.setdefault(name, set()).update(line.split())
    return {section: frozenset(listed) for section, listed in sections.items()}


def words(section: str, path: Path = WORDS) -> frozenset[str]:
    """The words of one section of a file.

    Raises:
        LexiconError: the file cannot be read or has no such section.
    """
    sections = _sections(path)
    if section not in sections:
        raise LexiconError(f"{path}: no section [{section}]; it has {', '.join(sorted(sections))}")
    return sections[section]
