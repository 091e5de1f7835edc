"""Terminal for tables; control characters in texts from files have no effect on it."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import rich.console
from rich.console import ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    """A text whose control characters, escapes of a terminal and turns of the direction of writing can be seen.

    Joiners and non-joiners (U+200C, U+200D) stay: some languages are written with them.

    >>> shown("a" + chr(27) + "[31m" + chr(0x202E))
    'a␛[31m�'
    """
    return _STEERING.sub(lambda match: chr(0x2400 + ord(match[0])) if match[0] < " " else "\ufffd", text)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines with texts of files and servers, made visible by :func:`shown`."""
    print(shown(text), file=sys.stderr if err else sys.stdout)


class ShownFormatter(logging.Formatter):
    """Log lines, :func:`shown`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return shown(super().format(record))


class Console(rich.console.Console):
    """Rich's console, on which all text is :func:`shown`; styles are the program's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.push_render_hook(_Shown())


class _Shown(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return the renderables in their shown form."""
        return [_Cleaned(renderable) for renderable in renderables]


class _Cleaned:
    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else segment._replace(text=shown(segment.text))
