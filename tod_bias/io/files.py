"""Write files under a temporary name, then rename them.

A reader sees the old or the new content, never a part. A write that fails or is killed leaves the old content. Only a
killed process leaves a temporary file, ``.NAME.….part``.

A name that the program chose (``report.html`` in a run's folder) must be unused or a regular file: folders may come
from others, and a link in them could point to any file of the reader's. For a path that the user named, links are
followed, and pipes or devices are written to.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tod_bias.errors import TodBiasError

_ELSEWHERE = "choose another --out"
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device", stat.S_IFCHR: "a device"}
_REMOVE = "and nothing is written through one: remove it"


@contextmanager
def replacing(path: str | Path, *, named: bool = False) -> Iterator[Path]:
    """Yield a file to write to, which replaces ``path`` when the block ends without an error.

    Permissions are kept.

    Args:
        path: of the file.
        named: whether the user named this very file: links are followed, and a pipe or device is written into as it is.

    Raises:
        TodBiasError: the file cannot be written, or the program chose its name and it is not a regular file.
    """
    path = Path(path)
    part: Path | None = None
    try:
        if not named:
            check_plain_file(path)
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            yield path
            return
        target = Path(os.path.realpath(path)) if named else path
        part = _beside(target)
        yield part
        if mode is not None:
            part.chmod(stat.S_IMODE(mode))
        if not named:
            check_plain_file(path)
        os.replace(part, target)
    except OSError as error:
        raise cannot_be_written(path, error) from error
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def check_plain_file(path: str | Path) -> None:
    """Raise unless a path is free, or a regular file with a single name.

    Raises:
        TodBiasError: it is a link, a pipe or a device, or cannot be looked at.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise cannot_be_written(path, error) from error
    if stat.S_ISLNK(status.st_mode):
        problem = "a symbolic link"
    elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        problem = "a hard link, a file that has another name too"
    elif not (kind := _KINDS.get(stat.S_IFMT(status.st_mode), "")):
        return
    else:
        problem = kind
    raise TodBiasError(f"{path}: cannot be written (it is {problem}, {_REMOVE}); or {_ELSEWHERE}")


def subfolder(folder: str | Path, name: str) -> Path:
    """Return a subfolder with a name that the program chose; create it if it is missing.

    Raises:
        TodBiasError: the path is a link or not a folder, or the folder cannot be made.
    """
    place = Path(folder) / name
    check_plain_file(place)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_be_written(place, error) from error
    return place


def cannot_be_written(path: str | Path, error: Exception) -> TodBiasError:
    """Return the error for a failed write, given the error of the system or of a format's library."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
    return TodBiasError(f"{path}: cannot be written ({reason}); {_ELSEWHERE}")


def _mode(path: Path) -> int | None:
    """Return type and permissions of a path; None if it does not exist."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if not os.access(path, os.W_OK):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return mode


def _beside(path: Path) -> Path:
    """A name that no other process and no other write of this one uses."""
    return path.with_name(f".{path.name[:80]}.{os.getpid()}-{secrets.token_hex(4)}.part")


def _is_alive(part: Path) -> bool:
    """True if the process that made a temporary name still runs."""
    try:
        os.kill(int(part.name.split(".")[-2].split("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def write_text(path: str | Path, text: str, *, named: bool = False) -> None:
    """Write a text in UTF-8; lone surrogates, which it cannot hold, as the escapes that JSON has for them.

    Args:
        path: of the file.
        text: its content.
        named: as for :func:`replacing`.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, [text], named=named)


def append_text(path: str | Path, text: str) -> None:
    """Append a text in UTF-8 to a file; create it if it is missing.

    Raises:
        TodBiasError: the file cannot be written.
    """
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(text)
    except OSError as error:
        raise cannot_be_written(path, error) from error


def write_lines(path: str | Path, lines: Iterable[str], *, named: bool = False) -> None:
    """Write lines as they come, their ends included; an error of the iterator leaves what was there.

    Args:
        path: of the file.
        lines: its content.
        named: as for :func:`replacing`.

    Raises:
        TodBiasError: it cannot be written.
    """
    with (
        replacing(path, named=named) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream,
    ):
        stream.writelines(lines)


def write_table(path: str | Path, frame: Any) -> None:
    """Write a pandas frame as CSV, without its index.

    Raises:
        TodBiasError: it cannot be written.
    """
    with replacing(path) as part:
        frame.to_csv(part, index=False)


def json_text(content: Any, indent: int | None = 1) -> str:
    """Standard JSON, in which what is not finite is null: it knows no NaN."""
    return json.dumps(finite(content), indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: str | Path, content: Any, *, named: bool = False) -> None:
    """Write :func:`json_text`.

    Args:
        path: of the file.
        content: of plain JSON types.
        named: as for :func:`replacing`.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_text(path, json_text(content) + "\n", named=named)


def finite(content: Any) -> Any:
    """The content with None for NaN and the infinities."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return content


def _move_files(part: Path, folder: Path, last: str, stale: Collection[str]) -> None:
    """Move the files of a folder into another one, ``last`` at the end; stale ones go."""
    names = [entry.relative_to(part) for entry in sorted(part.rglob("*")) if entry.is_file()]
    old = {file.relative_to(folder) for pattern in stale for file in folder.glob(pattern) if file.is_file()}
    gone = sorted(old - set(names))
    inside = {place for name in names for place in name.parents} - {Path()}
    for name in (Path(last), *names, *inside):
        check_plain_file(folder / name)
    changed = [name for name in names if str(name) != last and _differs(part / name, folder / name)]
    if changed or gone:
        (folder / last).unlink(missing_ok=True)
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    for name in changed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(part / name, folder / name)
    if (part / last).exists():
        os.replace(part / last, folder / last)


@contextmanager
def replacing_files(folder: str | Path, last: str, stale: Collection[str] = ()) -> Iterator[Path]:
    """Yield a folder to write to, whose files move into ``folder`` when the block ends without an error.

    If any other file than ``last`` changes, the old ``last`` is removed before the first file moves, and the new one
    moves after all others. ``last`` is therefore never mixed with files that it does not belong to.

    Args:
        folder: the target; it is created if it is missing.
        last: the file that the others describe, such as a model's weights.
        stale: names or patterns of files that belong to the old content and are not written again.

    Raises:
        TodBiasError: a file cannot be written.
    """
    folder = Path(folder)
    part = _beside(folder / last)
    try:
        for left in folder.glob(f".{last}.*.part"):  # by a kill
            if not _is_alive(left):
                shutil.rmtree(left, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        _move_files(part, folder, last, stale)
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _differs(new: Path, old: Path) -> bool:
    return not old.is_file() or new.stat().st_size != old.stat().st_size or new.read_bytes() != old.read_bytes()
