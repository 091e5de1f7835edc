"""Progress on stderr; stdout carries results only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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


@contextmanager
def progress_bar(total: float, text: str, *, show: bool) -> Iterator[Bar]:
    """A bar of ``total`` units on stderr, or nothing where ``show`` is false."""
    if not show:
        yield _Silent()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Rich(progress, total, text)
