"""Runs as a report takes them: read from their folders, under distinct names, and their turns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tod_bias.results import TURNS, AuditResult, RunError

if TYPE_CHECKING:
    import pandas as pd

ORIGINAL = "original"
"""The arm of ``turns.parquet`` that holds the run on the original dialogues."""
_NUMBERS = ("turn", "draw", "sample")
"""Columns of a table of turns that hold whole numbers."""


@dataclass(frozen=True)
class ReportedRun:
    """A run as read from its folder, with the name that a report gives it."""

    folder: Path
    name: str
    """The name it goes by in a report; unique among the runs that are compared."""
    result: AuditResult


def read_runs(folders: Sequence[str | Path]) -> list[ReportedRun]:
    """Read run folders, each once, under distinct names (the last parts of their paths).

    Raises:
        RunError: no folder is given, or one of them cannot be read.
    """
    unique = list(dict.fromkeys(Path(folder).resolve() for folder in folders))
    if not unique:
        raise RunError("no run folder given; name at least one, for example runs/demo")
    results = [AuditResult.load(folder) for folder in unique]
    return [ReportedRun(*row) for row in zip(unique, _names(unique), results, strict=True)]


def _names(folders: Sequence[Path]) -> list[str]:
    depth = 1
    while True:
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
        depth += 1


def check_turns(path: Path) -> bool:
    """True if there is a table of turns.

    Raises:
        RunError: the path is not a regular file.
    """
    if os.path.lexists(path) and not path.is_file():
        raise RunError(f"{path}: is not a regular file; remove it, or repeat the run's command")
    if not path.is_file():
        return False
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        fields = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return True  # said by what reads it
    for name in (name for name in _NUMBERS if name in fields.names):
        if not (pa.types.is_integer(kind := fields.field(name).type) or pa.types.is_null(kind)):
            raise RunError(f"{path}: column {name!r} holds no whole numbers; repeat the run's command")
    return True


def read_turns(folder: str | Path, arms: Sequence[str]) -> pd.DataFrame | None:
    """Read the turns of some arms of a run; ``None`` where the run saved no ``turns.parquet``.

    Args:
        folder: the run folder.
        arms: arm keys as in ``results.json``; :data:`ORIGINAL` for the run on the original dialogues.

    Raises:
        RunError: the file is not a regular file, no Parquet file, or has no column ``arm``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder) / TURNS
    if not check_turns(path):
        return None
    try:
        frame = pq.read_table(path, filters=[("arm", "in", list(arms))]).to_pandas()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{path}: cannot be read as a run's turns ({reason}); delete it or repeat the run") from error
    return frame
