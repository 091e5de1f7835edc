"""A run folder on disk: reading ``results.json`` and ``turns.parquet``, with errors that say what is wrong.

The numbers themselves are given their types by :mod:`tod_bias.report.outcome`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.documents import read_json
from tod_bias.errors import TodBiasError
from tod_bias.statistics.needed import MOST_COMPONENTS

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 2
"""The version of ``results.json`` that this module reads."""

RESULTS, TURNS = "results.json", "turns.parquet"

ORIGINAL = "original"
"""The arm of ``turns.parquet`` that holds the run on the original dialogues."""


class RunError(TodBiasError):
    """A run folder that cannot be reported: missing, incomplete, malformed, or of another schema."""


@dataclass(frozen=True)
class Run:
    """One run folder, read."""

    folder: Path
    """Where it lies."""
    name: str
    """The name it goes by in a report; unique among the runs that are compared."""
    results: Mapping[str, Any]
    """The content of ``results.json``."""


def read_results(folder: str | Path) -> dict[str, Any]:
    """Read and check ``results.json`` of a run folder.

    Raises:
        RunError: no such folder or file, not JSON, not the result of an attribution, or of another schema; one line.
    """
    folder = Path(folder)
    path = folder / RESULTS
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give the folder that a run wrote, for example runs/demo")
    if os.path.lexists(path) and not path.is_file():
        raise RunError(f"{path}: is no plain file, as a run's results are; repeat the run's command with another --out")
    if not path.is_file():
        if (folder / "report.html").is_file() and not (folder / TURNS).is_file():
            raise RunError(f"{folder}: holds no attribution; the report of what it holds is {folder / 'report.html'}")
        raise RunError(f"{folder}: holds no {RESULTS}; the run did not finish, repeat its command to resume it")
    try:
        results = read_json(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{path}: not JSON ({error}); repeat the run's command to write it again") from error
    if not isinstance(results, dict):
        raise RunError(f"{path}: expected a JSON object, got {type(results).__name__}; is this the file of a run?")
    schema = results.get("schema")
    if schema != SCHEMA:
        raise RunError(f"{path}: expected schema {SCHEMA}, got {schema!r}; report it with the version that wrote it")
    axes = results.get("axes")
    if not isinstance(axes, dict) or not axes:
        raise RunError(f"{path}: expected results under 'axes', got {axes!r:.40}; only runs of `attribute` have them")
    if empty := [axis for axis, records in axes.items() if not isinstance(records, dict) or not records]:
        raise RunError(f"{path}, axes.{empty[0]}: expected a record a metric, got {axes[empty[0]]!r:.40}")
    for key in _OBJECTS:
        if not isinstance(results.get(key), dict | None):
            raise RunError(f"{path}, {key}: expected an object, got {results[key]!r:.40}")
    names = results.get("pipeline")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise RunError(f"{path}, pipeline: expected a list of names, got {names!r:.40}")
    if names is not None and (len(names) > MOST_COMPONENTS or len(set(names)) < len(names)):
        raise RunError(
            f"{path}, pipeline: expected {MOST_COMPONENTS} components at the most, each once, got {len(names)}"
        )
    return results


_OBJECTS = ("corpus", "cost", "metrics", "signature", "left_out")


def read_runs(folders: Sequence[str | Path]) -> list[Run]:
    """Read run folders, each once, under names that tell them apart (the last parts of their paths).

    Raises:
        RunError: no folder is given, or one of them cannot be read.
    """
    unique = list(dict.fromkeys(Path(folder).resolve() for folder in folders))
    if not unique:
        raise RunError("no run folder given; name at least one, for example runs/demo")
    results = [read_results(folder) for folder in unique]
    return [Run(*row) for row in zip(unique, _names(unique), results, strict=True)]


def _names(folders: Sequence[Path]) -> list[str]:
    depth = 1
    while True:
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
        depth += 1


def check_turns(path: Path) -> bool:
    """Whether there is a table of turns.

    Raises:
        RunError: what is there is no plain file.
    """
    if os.path.lexists(path) and not path.is_file():
        raise RunError(f"{path}: is no plain file, as a run's turns are; remove it, or repeat the run's command")
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


_NUMBERS = ("turn", "draw", "sample")
"""Columns of a table of turns that are whole numbers."""


def read_whole(folder: str | Path) -> dict[str, Any]:
    """:func:`read_results`, with all that a run is measured again by.

    Raises:
        RunError: it cannot be read, or something is missing.
    """
    results = read_results(folder)
    if missing := [key for key in _NEEDED if results.get(key) is None]:
        raise RunError(f"{Path(folder) / RESULTS}: has no {missing[0]!r}; repeat the run's command to write it again")
    return results


_NEEDED = ("metrics", "pipeline", "corpus", "signature", "design", "seed", "history")


def read_turns(folder: str | Path, arms: Sequence[str]) -> pd.DataFrame | None:
    """Read the turns of some arms of a run; ``None`` where the run kept no ``turns.parquet``.

    Args:
        folder: the run folder.
        arms: arm keys as in ``results.json``; :data:`ORIGINAL` for the run on the original dialogues.

    Raises:
        RunError: the file is no plain file, no Parquet file, or has no column ``arm``.
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
