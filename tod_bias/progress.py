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
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_SECONDS_BETWEEN_LINES = 30.0


class Bar(Protocol):
    """What long work reports to."""

    def advance(self, amount: float = 1) -> None:
        """So many more units are done."""

    def describe(self, text: str) -> None:
        """Change the text before the bar."""


class _Silent:
    def advance(self, amount: float = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class _Rich:
    def __init__(self, progress: Progress, total: float, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(text, total=total)

    def advance(self, amount: float = 1) -> None:
        self._progress.advance(self._task, amount)

    def describe(self, text: str) -> None:
        self._progress.update(self._task, description=text)


class _ProgressLines:
    """For a log file or a batch job: a line now and then instead of a bar that moves."""

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


class _Late:
    """A bar that is only shown when the work turns out to take long."""

    def __init__(self, total: float, text: str, after: float, console: Console) -> None:
        self._total, self._text, self._after, self._console = total, text, after, console
        self._begun = time.monotonic()
        self._done = 0.0
        self._bar: _Rich | None = None
        self.progress: Progress | None = None

    def advance(self, amount: float = 1) -> None:
        self._done += amount
        if self._bar is not None:
            self._bar.advance(amount)
        elif time.monotonic() - self._begun >= self._after:
            self.progress = Progress(*_columns(), console=self._console, transient=True)
            self.progress.start()
            self._bar = _Rich(self.progress, self._total, self._text)
            self._bar.advance(self._done)

    def describe(self, text: str) -> None:
        self._text = text
        if self._bar is not None:
            self._bar.describe(text)


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )


@contextmanager
def progress_bar(total: float, text: str, *, show: bool, after: float = 0.0) -> Iterator[Bar]:
    """A bar of ``total`` units on stderr (lines where stderr is no terminal), or nothing where ``show`` is false.

    With ``after`` a bar appears after so many seconds, and goes when the work is done: for work that comes in many
    pieces, most of them short.
    """
    if not show:
        yield _Silent()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines(total, text)
        return
    if after:
        late = _Late(total, text, after, console)
        try:
            yield late
        finally:
            if late.progress is not None:
                late.progress.stop()
        return
    with Progress(*_columns(), console=console) as progress:
        yield _Rich(progress, total, text)
