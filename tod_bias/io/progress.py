"""Progress on stderr; stdout carries results only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_SECONDS_BETWEEN_LINES = 30.0


class Bar(Protocol):
    """Progress bar of long work."""

    def advance(self, amount: float = 1) -> None:
        """Count further units as done."""

    def describe(self, text: str) -> None:
        """Change the text before the bar."""


class _Silent:
    def advance(self, amount: float = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class _Rich:
    """Bar that appears once the work has taken some seconds."""

    def __init__(self, console: Console, total: float, text: str, after: float) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=after > 0)
        self._task = self.progress.add_task(text, total=total)
        self._from = time.monotonic() + after
        self.advance(0)

    def advance(self, amount: float = 1) -> None:
        self.progress.advance(self._task, amount)
        if not self.progress.live.is_started and time.monotonic() >= self._from:
            self.progress.start()

    def describe(self, text: str) -> None:
        self.progress.update(self._task, description=text)


class _ProgressLines:
    """Progress for a log file or a batch job: a line now and then instead of a bar that moves."""

    def __init__(self, total: float, text: str) -> None:
        self._total, self._text, self._done = total, text, 0.0
        self._begun = self._last_line = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            passed = timedelta(seconds=round(now - self._begun))
            print(f"{self._text}: {self._done:.0f} of {self._total:.0f} after {passed}", file=sys.stderr, flush=True)

    def describe(self, text: str) -> None:
        self._text = text


@contextmanager
def progress_bar(total: float, text: str, *, show: bool, after: float = 0.0) -> Iterator[Bar]:
    """Return a bar of ``total`` units on stderr (lines if stderr is not a terminal), or nothing if ``show`` is false.

    With ``after`` a bar appears after that many seconds, and is removed at the end: for work in many pieces, most of
    them short.
    """
    if not show:
        yield _Silent()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines(total, text)
        return
    bar = _Rich(console, total, text, after)
    try:
        yield bar
    finally:
        if bar.progress.live.is_started:
            bar.progress.stop()
