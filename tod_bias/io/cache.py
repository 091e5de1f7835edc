"""The cache: outputs of stages and models in an SQLite file that survives a killed run."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tod_bias.errors import TodBiasError
from tod_bias.io.files import check_plain_file
from tod_bias.io.sqlite import BESIDE, opened, said

CACHE_FILE = "cache.sqlite"
"""Its name in a run's folder."""
_TABLE = "outputs (key TEXT PRIMARY KEY, output TEXT) WITHOUT ROWID"
_CHUNK = 500
"""Keys in one query; SQLite takes at least 999 parameters."""


class Cache:
    """Key to text, in memory or, with a path, in an SQLite file that threads and processes may share.

    Raises:
        TodBiasError: the file is no SQLite file, holds anything but outputs or cannot be written, or it is a link, a
            pipe or a device.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._memory: dict[str, str] = {}
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self.path = path
        if path is None:
            return
        for ending in ("", *BESIDE):
            check_plain_file(f"{path}{ending}")
        is_new = not Path(path).exists()
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._database = opened(path, timeout=60, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
            self._database.commit()
            schema = [str(sql) for (sql,) in self._database.execute("SELECT sql FROM sqlite_master LIMIT 2")]
        except (sqlite3.Error, OSError) as error:
            if is_new:  # an empty file is no use to anybody
                with suppress(OSError):
                    Path(path).unlink(missing_ok=True)
            raise self._unusable(error) from error
        if schema != [f"CREATE TABLE {_TABLE}"]:
            self._database.close()
            raise TodBiasError(f"{path}: holds more than outputs, or another table; remove it or choose another --out")

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the texts of those keys that are in the cache."""
        wanted = list(keys)
        texts = {key: self._memory[key] for key in wanted if key in self._memory}
        if self._database is not None:
            missing = [key for key in wanted if key not in texts]
            try:
                with self._lock:
                    for chunk in _chunks(missing):
                        marks = ",".join("?" * len(chunk))
                        rows = self._database.execute(f"SELECT key, output FROM outputs WHERE key IN ({marks})", chunk)
                        texts.update(rows)
            except sqlite3.Error as error:
                raise self._unusable(error) from error
            if odd := next((type(text).__name__ for text in texts.values() if type(text) is not str), None):
                kind = {"NoneType": "nothing", "bytes": "bytes"}.get(odd, "a number")
                raise TodBiasError(f"{self.path}: is damaged: an output in it is {kind}, no text; remove it")
        return texts

    def put(self, texts: Mapping[str, str]) -> None:
        """Keep texts, also in the file if there is one; a killed process writes all of them or none."""
        if self._database is None:
            self._memory.update(texts)
            return
        try:
            with self._lock, self._database:
                self._database.executemany("INSERT OR REPLACE INTO outputs VALUES (?, ?)", texts.items())
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def clear(self) -> None:
        """Remove all texts. The file remains, because another process may have it open."""
        self._memory.clear()
        if self._database is not None:
            try:
                with self._lock, self._database:
                    self._database.execute("DELETE FROM outputs")
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def remember(self, texts: Mapping[str, str]) -> None:
        """Keep texts in memory only: another process has written them to its file."""
        self._memory.update(texts)

    def _unusable(self, error: Exception) -> TodBiasError:
        advice = "make room, what is cached stays" if "full" in str(error) else "remove it or choose another --out"
        return TodBiasError(f"{self.path}: cannot be used as a cache ({said(error)}); {advice}")


def clear(path: str | Path) -> None:
    """Empty a cache file if it exists; a file that is not a readable cache is removed.

    Raises:
        TodBiasError: the file cannot be changed.
    """
    if not os.path.lexists(path):
        return
    check_plain_file(path)
    try:
        Cache(path).clear()
    except TodBiasError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError | OSError):  # locked, no room
            raise
        for file in Path(path).parent.glob(f"{Path(path).name}*"):
            file.unlink()


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _CHUNK] for start in range(0, len(keys), _CHUNK))
