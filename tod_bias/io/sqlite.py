"""Open untrusted SQLite files: no code from the schema, no access to other files, a time limit for each statement."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

LONGEST = 60.0
"""Seconds of a query: this project's look up keys or rows, in milliseconds."""
_LARGEST = 1 << 28
"""Bytes of a value and of a row; what is computed when it is read could have a gigabyte."""
_STEPS = 10_000
"""Steps of SQLite's machine between two checks of the clock and of signals: well below a millisecond."""
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names another file, which SQLite removes when it has rolled back."""
BESIDE = ("-journal", "-wal", "-shm")
"""Endings of the files that SQLite keeps next to a database."""


def opened(path: str | Path, address: str | None = None, **options: Any) -> sqlite3.Connection:
    """Open a connection to a file.

    Args:
        path: of the file.
        address: SQLite's URI of it, with settings.
        options: of :func:`sqlite3.connect`.

    Raises:
        sqlite3.Error: the file cannot be opened.
        OSError: a companion file is not a regular file, or is an interrupted change that names another file.
    """
    for file in (Path(f"{path}{ending}") for ending in BESIDE):
        if os.path.lexists(file) and not file.is_file():
            raise OSError(errno.EPERM, f"{file.name} next to it is not a regular file")
    journal = Path(f"{path}{BESIDE[0]}")
    if journal.exists() and journal.stat().st_size > len(_NAMES_ANOTHER):
        with journal.open("rb") as stream:
            stream.seek(-len(_NAMES_ANOTHER), os.SEEK_END)
            if stream.read() == _NAMES_ANOTHER:
                raise OSError(errno.EPERM, f"{journal.name} next to it names another file, which would be removed")
    if address is not None:
        options["uri"] = True
    connection = sqlite3.connect(address or path, **options)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    _limit_time(connection)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def _limit_time(connection: sqlite3.Connection) -> None:
    """Interrupt each statement after :data:`LONGEST` seconds, and let Ctrl-C interrupt it at any time."""
    begun = time.monotonic()

    def begin(_: str) -> None:
        nonlocal begun
        begun = time.monotonic()

    connection.set_trace_callback(begin)  # SQLite calls it at the start of each statement
    connection.set_progress_handler(lambda: time.monotonic() - begun > LONGEST, _STEPS)


def said(error: BaseException) -> str:
    """Return the message of an SQLite error, or why a query was stopped."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return f"a query was interrupted, or did not end within {LONGEST:g} seconds"
    return getattr(error, "strerror", None) or str(error)


def foreign(connection: sqlite3.Connection) -> str:
    """Return the first object of a file that runs code when it is read or written, as ``view 'x'``; empty if there is
    none.

    Raises:
        sqlite3.Error: the file is not an SQLite file.
    """
    virtual = "type = 'table' AND sql LIKE 'create%virtual%table%using%'"
    query = f"SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR {virtual} LIMIT 1"
    for kind, name in connection.execute(query):
        return f"{kind if kind != 'table' else 'virtual table'} {str(name)!r:.80}"
    computed = (
        "SELECT m.name, x.name FROM sqlite_master m, pragma_table_xinfo(m.name) x "
        "WHERE m.type = 'table' AND x.hidden IN (2, 3) LIMIT 1"
    )
    for table, column in connection.execute(computed):
        return f"computed column {str(table) + '.' + str(column)!r:.80}"
    return ""
