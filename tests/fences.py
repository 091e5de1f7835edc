"""Code blocks of Markdown files, and what commands they hold."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """One code block."""

    language: str
    title: str
    """The file that it is, where it is one."""
    code: str
    place: str
    """``FILE:LINE``."""


def fences(path: Path) -> Iterator[Fence]:
    text = path.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        title = re.search(r'title="([^"]*)"', found[3])
        line = text.count("\n", 0, found.start()) + 1
        yield Fence(found[2], title[1] if title else "", textwrap.dedent(found[4]), f"{path.relative_to(ROOT)}:{line}")


def commands(code: str) -> Iterator[list[str]]:
    """The commands of a block for a shell, as words; comments are gone, lines that end in a backslash joined."""
    for line in re.sub(r"\$\([^)]*\)", "FOLDER", code.replace("\\\n", " ")).split("\n"):
        for part in line.split(" && "):
            words = shlex.split(part, comments=True)
            if words:
                yield [word for word in words if word != "…"]  # and so on
