"""The folder that a run writes into: one run at a time.

A run holds a lock on the file :data:`LOCK` of its folder for as long as it works. The system releases it whenever the
process ends, also after a kill. Of the processes of one run (``accelerate launch``) the first holds it for all. A
folder that the run has made and leaves empty, as it was refused, is removed.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, SoftFileLock, Timeout

from tod_bias.errors import TodBiasError, shortened
from tod_bias.io.files import check_plain_file

LOCK = ".tod-bias.lock"
"""Name of the file in a run's folder that says who writes there; it is removed when the run ends."""


def writable(folder: str | Path) -> Path:
    """Create a folder if it is missing, and check that files can be written to it.

    Raises:
        TodBiasError: the folder cannot be made or written to.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # a name with a NUL
        reason = getattr(error, "strerror", None) or error
        raise TodBiasError(f"{folder}: cannot be made a folder for results ({reason}); choose another --out") from error
    return folder


@dataclass
class _Held:
    """A lock that this process holds."""

    folder: Path
    lock: FileLock
    process: int
    new: list[Path]
    """The folder and those above it that were made for this run, innermost first."""
    times: int = 1


_held: dict[str, _Held] = {}
_left: list[Path] = []
"""Folders that were let go as an interrupt came."""


def claimed(folder: str | Path) -> Path:
    """Return a :func:`writable` folder, locked until :func:`release` or the end of the process.

    Raises:
        TodBiasError: the folder cannot be made or written to, or another run writes into it.
    """
    folder = Path(folder)
    new = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    folder = writable(folder)
    place = os.path.realpath(folder)
    held = _held.get(place)
    if held is not None and held.process == os.getpid():
        held.times += 1
        return folder
    if os.environ.get("RANK", "0") == "0":  # the first process of a run claims for all of them
        _held[place] = _Held(folder, _locked(Path(place)), os.getpid(), [made.absolute() for made in new])
    return folder


def check_no_other_run(folder: str | Path, record: str, *more: str) -> None:
    """Raise if a folder has another command's report, which would be lost, or a link at a path that this command
    writes.

    Args:
        folder: for results; it may be new.
        record: the file that this command writes, e.g. ``compare.json``.
        more: further files that it writes.

    Raises:
        TodBiasError: the folder has the record of another command with a report, or a link, a pipe or a device at a
            path to be written.
    """
    for name, command in WITH_REPORT.items():
        if name != record and os.path.isfile(os.path.join(folder, name)):
            raise TodBiasError(
                f"{folder}: holds what {command} wrote, and its report would be lost; choose another --out"
            )
    for name in (record, *more, "report.html", "figures"):
        check_plain_file(Path(folder) / name)


WITH_REPORT = {
    "results.json": "attribute",
    "compare.json": "compare",
    "audit.json": "recommend audit",
    "associations.json": "associate",
}
"""Record that identifies a folder with a report, to the command that writes both."""


def shown(path: Path) -> Path:
    """Return a path as it is shown: relative to the current folder if it is below it."""
    try:
        return path.relative_to(Path.cwd())
    except (OSError, ValueError):  # it is gone, or elsewhere
        return path


@contextmanager
def held(folder: str | Path) -> Iterator[Path]:
    """:func:`claimed` for as long as the block lasts."""
    folder = claimed(folder)
    try:
        yield folder
    except KeyboardInterrupt:
        _left.append(folder)
        raise
    finally:
        _let_go(os.path.realpath(folder))


def unwritten(folder: str | Path) -> None:
    """Raise if another run is writing to a folder that is about to be read.

    Raises:
        TodBiasError: another run is writing; names it.
    """
    path = Path(folder) / LOCK
    if os.path.realpath(folder) in _held or not os.path.lexists(path):
        return
    check_plain_file(path)
    try:
        with FileLock(path, timeout=0):
            pass
    except Timeout:
        raise _taken(Path(folder)) from None
    except OSError:  # a folder that one may only read
        return


def claims() -> list[Path]:
    """The folders that this process holds, and in which an interrupted block left something, as they were named."""
    held_here = [held.folder for held in _held.values() if held.process == os.getpid()]
    return list(dict.fromkeys([*held_here, *(folder for folder in _left if folder.exists())]))


def release() -> None:
    """Let go of all folders that this process holds."""
    _left.clear()
    for place in list(_held):
        _held[place].times = 1
        _let_go(place)


def _let_go(place: str) -> None:
    held = _held.get(place)
    if held is None:
        return
    held.times -= 1
    if held.times > 0:
        return
    del _held[place]
    if held.process != os.getpid():  # a fork's copy: the lock is its parent's
        return
    with suppress(OSError):
        (Path(place) / LOCK).unlink(missing_ok=True)
    with suppress(OSError):
        held.lock.release()
    with suppress(OSError):  # a folder that is not empty stays, and those above it
        for made in held.new:
            made.rmdir()


def _locked(folder: Path) -> FileLock:
    """The lock of a folder, taken; its file says whose it is."""
    path = folder / LOCK
    check_plain_file(path)
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
        if not isinstance(lock, SoftFileLock):  # without locks of the filesystem's own the file itself is one
            path.write_text(json.dumps(_card()), encoding="utf-8")
    except Timeout:
        raise _taken(folder) from None
    except OSError as error:
        lock.release()
        raise TodBiasError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
    return lock


def _card() -> dict[str, Any]:
    """Return the record of the process that holds the lock."""
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": shlex.join(["tod-bias", *sys.argv[1:]]),
    }


def _taken(folder: Path) -> TodBiasError:
    try:
        card = json.loads((folder / LOCK).read_bytes()[:10_000])
        who = f"process {card['process']} on {card['host']}, since {card['since']}: {card['command']}"
    except (OSError, ValueError, RecursionError, TypeError, KeyError):  # it is being written, or is no card
        who = ""
    run = f"another run ({shortened(who, 350)})" if who else "another run"
    return TodBiasError(f"{folder}: {run} writes here; wait for it, or choose another --out")
