"""The folder that a run writes into: one run at a time.

A run holds a lock on the file :data:`LOCK` of its folder for as long as it works. The system lets go of it when the
process ends, however it ends, so none is left by a kill. Where the filesystem has no locks, the file itself is one, and
is known to be left over when its process is gone. The processes of one run (``accelerate launch``) share the folder. A
folder that the run has made and leaves empty, as it was refused, is removed.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import secrets
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tod_bias.errors import TodBiasError, shortened
from tod_bias.files import check_own_file

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".tod-bias.lock"
"""Name of the file in a run's folder that says who writes there; it is removed when the run ends."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
"""What filesystems without locks say."""
_TRIES = 100


def writable(folder: str | Path) -> Path:
    """Make a folder where there is none yet, and make sure that files can be written into it.

    Raises:
        TodBiasError: it cannot be made or written to.
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
    stream: int | None
    """File descriptor of the lock; None where the filesystem has no locks."""
    process: int
    is_new: bool
    """Whether the folder was made for this run."""
    times: int = 1


_held: dict[str, _Held] = {}
_left: list[Path] = []
"""Folders that were let go as an interrupt came."""


def claimed(folder: str | Path) -> Path:
    """:func:`writable`, and nobody else's until :func:`release` or the end of the process.

    Raises:
        TodBiasError: it cannot be made or written to, or another run writes into it.
    """
    is_new = not os.path.lexists(folder)
    folder = writable(folder)
    place = os.path.realpath(folder)
    held = _held.get(place)
    if held is not None and held.process == os.getpid():
        held.times += 1
        return folder
    if os.environ.get("RANK", "0") == "0":
        _held[place] = _Held(folder, _lock(Path(place)), os.getpid(), is_new)
    else:  # the first process of a run claims for all of them
        _check_others(Path(place))
    return folder


def check_own(folder: str | Path, own: str, *more: str) -> None:
    """See to it that a folder does not hold another command's report, which would be lost, or a link where this one
    writes.

    Args:
        folder: for results; it may be new.
        own: the record that this command writes, e.g. ``compare.json``.
        more: further files that it writes.

    Raises:
        TodBiasError: there is the record of another command with a report, or a link, a pipe or a device where this one
            writes.
    """
    for name, command in WITH_REPORT.items():
        if name != own and os.path.isfile(os.path.join(folder, name)):
            raise TodBiasError(
                f"{folder}: holds what {command} wrote, and its report would be lost; choose another --out"
            )
    for name in (own, *more, "report.html", "figures"):
        check_own_file(Path(folder) / name)


WITH_REPORT = {
    "results.json": "attribute",
    "compare.json": "compare",
    "audit.json": "recommend audit",
    "associations.json": "associate",
}
"""The record that tells a folder with a report to the command that writes both."""


def promised(folder: str | Path) -> Path:
    """:func:`claimed` where the folder is there; else only made sure that it can be made, which is left for later.

    Raises:
        TodBiasError: it cannot be made or written to, or another run writes into it.
    """
    folder = Path(folder)
    try:
        folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return writable(folder)
    else:
        return claimed(folder)
    there = next(place for place in folder.absolute().parents if os.path.lexists(place))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return folder
    return writable(folder)


def shown(path: Path) -> Path:
    """A path as it is told: from the current folder on, where it lies below it."""
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
    """See to it that no other run writes into a folder just now, which is about to be read.

    Raises:
        TodBiasError: one does; says which.
    """
    owner = _read(Path(folder) / LOCK)
    if owner and owner.get("process") != os.getpid() and not _is_left(owner):
        raise _taken(Path(folder), owner)


def claims() -> list[Path]:
    """The folders that this process holds, and in which an interrupted block left something, as they were named."""
    own = [held.folder for held in _held.values() if held.process == os.getpid()]
    return list(dict.fromkeys([*own, *(folder for folder in _left if folder.exists())]))


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
    if held.stream is not None:
        with suppress(OSError):
            os.close(held.stream)
    if held.is_new:
        with suppress(OSError):  # it holds something
            os.rmdir(place)


def _lock(folder: Path) -> int | None:
    """A descriptor of the locked file; None where there are no locks."""
    path = folder / LOCK
    for _ in range(_TRIES):
        if fcntl is None:
            _lock_by_file(folder)
            return None
        check_own_file(path)
        try:
            stream = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise TodBiasError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
        try:
            # a record lock: forked children do not inherit it, and NFS knows it
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(path, stream):  # its owner removed it between our open and our lock
                os.close(stream)
                continue
            os.ftruncate(stream, 0)
            os.write(stream, _card())
            return stream
        except OSError as error:
            os.close(stream)
            if error.errno in _NO_LOCKS:
                _lock_by_file(folder)
                return None
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise _taken(folder, _owner_of(path)) from error
            raise TodBiasError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
    raise _taken(folder, _read(path))


def _lock_by_file(folder: Path) -> None:
    """Take the lock where only the file's existence can say that somebody has it."""
    path = folder / LOCK
    for _ in range(_TRIES):
        check_own_file(path)
        try:
            stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            owner = _read(path)
            if owner and not _is_left(owner):
                raise _taken(folder, owner) from None
            if not owner and time.time() - path.stat().st_mtime < 1:  # it is being written
                time.sleep(0.05)
                continue
            path.unlink(missing_ok=True)
            continue
        except OSError as error:
            raise TodBiasError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
        os.write(stream, _card())
        os.close(stream)
        return
    raise _taken(folder, _read(path))


def _check_others(folder: Path) -> None:
    """See to it that the folder is not another run's, from a process that is not the first of its run."""
    owner = _read(folder / LOCK)
    if owner and owner.get("launch") != _launch() and not _is_left(owner):
        raise _taken(folder, owner)


def _is_at(path: Path, stream: int) -> bool:
    try:
        there, here = os.lstat(path), os.fstat(stream)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _card() -> bytes:
    """Who holds the lock."""
    command = shlex.join(["tod-bias", *sys.argv[1:]]) if sys.argv else ""
    card = {
        "run": secrets.token_hex(4),
        "process": os.getpid(),
        "started": _start_of(os.getpid()),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "launch": _launch(),
        "command": shortened(command, 200),
    }
    return json.dumps(card).encode()


def _launch() -> str:
    """What the processes of one run have in common, under ``accelerate launch`` or ``torchrun``."""
    return "|".join(os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"))


def _start_of(process: int) -> str:
    """When a process of this machine began, in the kernel's ticks; numbers of processes are used again."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _read(path: Path) -> dict[str, Any]:
    """What the lock's file says; empty where it says nothing."""
    try:
        stream = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for its writer
        try:
            found = json.loads(os.read(stream, 10_000)) if stat.S_ISREG(os.fstat(stream).st_mode) else {}
        finally:
            os.close(stream)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _owner_of(path: Path) -> dict[str, Any]:
    """What the lock's file says, which its owner may be writing just now."""
    for _ in range(_TRIES // 10):
        if found := _read(path):
            return found
        time.sleep(0.05)
    return {}


def _is_left(owner: dict[str, Any]) -> bool:
    """Whether the process that wrote a lock is known to be gone; of another machine that cannot be known."""
    if owner.get("host") != platform.node():
        return False
    process = owner.get("process")
    if not isinstance(process, int) or process <= 0:
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return bool(owner.get("started")) and _start_of(process) not in ("", owner["started"])


def _taken(folder: Path, owner: dict[str, Any]) -> TodBiasError:
    who = "another run"
    if owner:
        who = (
            f"run {owner.get('run')} (process {owner.get('process')} on {owner.get('host')}, since "
            f"{owner.get('since')}: {owner.get('command')})"
        )
    advice = "wait for it, or choose another --out"
    if owner and owner.get("host") != platform.node():
        advice += f"; if it runs no longer, remove {folder / LOCK}"
    return TodBiasError(f"{folder}: {shortened(who, 350)} writes here; {advice}")
