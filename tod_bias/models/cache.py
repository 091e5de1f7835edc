"""What has been generated, in an SQLite file that survives a killed run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from tod_bias.errors import TodBiasError

_CHUNK = 500
"""Keys in one query; SQLite takes at least 999 parameters."""


class GenerationCache:
    """Key to text, in memory and, with a path, in an SQLite file shared by processes.

    Raises:
        TodBiasError: the file is no SQLite file or cannot be written.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._memory: dict[str, str] = {}
        self._database: sqlite3.Connection | None = None
        self.path = path
        if path is None:
            return
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=60)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS generations (key TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID"
            )
            self._database.commit()
        except (sqlite3.Error, OSError) as error:
            raise TodBiasError(
                f"{path}: cannot be used as generation cache ({error}); remove it or choose another --out"
            ) from error

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        """The texts of those keys that are known."""
        wanted = list(keys)
        missing = [key for key in wanted if key not in self._memory]
        if self._database is not None:
            for chunk in batched_list(missing, _CHUNK):
                marks = ",".join("?" * len(chunk))
                rows = self._database.execute(f"SELECT key, text FROM generations WHERE key IN ({marks})", chunk)
                self._memory.update(rows)
        return {key: self._memory[key] for key in wanted if key in self._memory}

    def put(self, texts: Mapping[str, str]) -> None:
        """Remember texts, in the file too; all of them or, where the process dies, none."""
        self._memory.update(texts)
        if self._database is not None:
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO generations VALUES (?, ?)", texts.items())

    def remember(self, texts: Mapping[str, str]) -> None:
        """Remember texts in memory only: another process has written them."""
        self._memory.update(texts)


def batched_list(items: list[str], size: int) -> Iterable[list[str]]:
    """Lists of ``size`` items, the last one shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))
