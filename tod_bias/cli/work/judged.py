"""The result of a check, made fit for files and for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType


@dataclass(frozen=True)
class Judged:
    """The result of a check, as it is written and printed."""

    record: Any
    """Content of check.json."""
    junit: str
    """Content of a JUnit file."""
    markdown: str
    """A summary in Markdown."""
    table: RenderableType
    """Content of the terminal."""
    code: int
    """The exit code."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the console that prints the table."""
    events: Any = None
    """Events of OpenTelemetry; None if there are none of this kind of check."""
