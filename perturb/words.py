"""Word lists: those of ``lexicons/words.txt``, which the English rules use, and of other files of that form."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tod_bias.errors import LexiconError

FILE = Path(__file__).parent / "lexicons" / "words.txt"
"""Sections, each a name in brackets followed by words; ``#`` starts a comment line."""


@cache
def _sections(path: Path) -> dict[str, frozenset[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LexiconError(f"{path}: cannot be read: {error}") from error
    sections: dict[str, set[str]] = {}
    name = ""
    for number, line in enumerate(lines, start=1):
        if line.startswith("[") and line.rstrip().endswith("]"):
            name = line.strip()[1:-1]
        elif line.strip() and not line.startswith("#"):
            if not name:
                raise LexiconError(f"{path}, line {number}: words before the first [section]")
            sections.setdefault(name, set()).update(line.split())
    return {section: frozenset(found) for section, found in sections.items()}


def words(section: str, path: Path = FILE) -> frozenset[str]:
    """The words of one section of a file.

    Raises:
        LexiconError: the file cannot be read or has no such section.
    """
    sections = _sections(path)
    if section not in sections:
        raise LexiconError(f"{path}: no section [{section}]; it has {', '.join(sorted(sections))}")
    return sections[section]
