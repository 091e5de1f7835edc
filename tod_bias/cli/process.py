"""``tod-bias`` as a process of its own: its streams, its signals, and its end.

Whatever happens to it, the command ends with its exit code and, unless all is well, one line on stderr.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from tod_bias.cli import signals

_PATIENCE = 3.0
"""Seconds that threads which a component left behind may go on after the end."""
_OBJECTS = 20_000
"""New objects after which garbage is looked for, 700 by default: to load libraries makes hundreds of thousands of
objects and no garbage, and 3% of the time of a short command went there."""
BROKEN_PIPE = 141
"""The exit code of a command whose reader went away, as shells have it of every other (128 + SIGPIPE)."""


class _Out(io.FileIO):
    """Stdout, which remembers that it could not be written: libraries hide it, each in its own way."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = self.failure or error
            raise


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command, of ``sys.argv`` where none is given, and end the process."""
    signals.watch(raising=False)
    out = _streams()
    gc.set_threshold(_OBJECTS)
    os.environ["MPLBACKEND"] = "agg"  # figures go to files, whatever windows or notebooks they go to elsewhere
    sys.unraisablehook = _unraisable
    threading.excepthook = _thread_failed
    warnings.formatwarning = _warning  # type: ignore[assignment]
    from tod_bias.cli.application import main

    ended: int | str | None = 0
    unforeseen: BaseException | None = None
    try:
        try:
            signals.watch(raising=True)
            main(sys.argv[1:] if arguments is None else arguments)
        finally:
            signals.ignore()
    except SystemExit as end:
        ended = end.code
    except BaseException as error:  # noqa: BLE001  # here it ends, whatever it is
        unforeseen = error
    code = ended if isinstance(ended, int) else int(ended is not None)
    if signals.received():
        if unforeseen is not None or code != signals.code(signals.received()):  # it hid behind another error
            _say(f"tod-bias: {signals.word(signals.received())}; what was finished before is kept")
        code, unforeseen = signals.code(signals.received()), None
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if out.failure is not None and not signals.received():
        unforeseen = None
        if out.failure.errno == errno.EPIPE:
            code = BROKEN_PIPE
        elif code == 0 or not isinstance(ended, int) or code == 1:
            _say(f"tod-bias: error: stdout: cannot be written ({out.failure.strerror}); what goes to --out is there")
            code = 2
    if unforeseen is not None:
        code = _told(unforeseen)
    if out.failure is not None:  # the interpreter would try, and complain, once more
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(RuntimeError):  # there is no memory for one
        threading.Thread(target=_end_threads, args=(code,), daemon=True).start()
    sys.exit(code)


def _unraisable(found: Any) -> None:
    """What was raised where nothing can be, as when an object is thrown away: a signal is then sent once more."""
    if isinstance(found.exc_value, signals.Stopped):
        os.kill(os.getpid(), signals.received())
    elif os.environ.get(signals.TRACEBACK):
        sys.__unraisablehook__(found)


def _thread_failed(found: Any) -> None:
    """What a thread raised that a component began: nobody waits for it, so nothing ends of it."""
    from tod_bias.errors import described, shortened

    if os.environ.get(signals.TRACEBACK):
        threading.__excepthook__(found)
    elif found.exc_type is not SystemExit:
        error = found.exc_value or found.exc_type()
        _say(shortened(f"tod-bias: a thread that a component began failed: {described(error)}"))


def _warning(*found: Any) -> str:
    """A warning's lines, in which texts of files and servers may stand."""
    from tod_bias.report.console import shown

    return shown(_PLAIN_WARNING(*found))


_PLAIN_WARNING = warnings.formatwarning


def _streams() -> _Out:
    """Make the three streams usable where they are closed, or of an encoding that does not know all characters.

    A closed one is no free place for the next file that is opened: that file would be written what is printed.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, mode)  # the lowest that is free; stdin and stdout fail when they are used
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    out = _Out(1, "w", closefd=False)
    given = sys.stdout
    encoding = getattr(given, "encoding", None) or "utf-8"
    is_terminal = out.isatty()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(out), encoding=encoding, errors="backslashreplace", line_buffering=is_terminal
    )
    return out


def _say(line: str) -> None:
    from tod_bias.report.console import shown

    if os.environ.get("RANK", "0") != "0":
        return
    line = shown(line)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # somebody closed it
        with suppress(OSError):
            os.write(2, (line + "\n").encode("utf-8", "backslashreplace"))


def _told(error: BaseException) -> int:
    """What is left: an error that nobody foresaw."""
    import traceback

    from tod_bias.errors import described, own_place, shortened
    from tod_bias.report.console import shown

    if os.environ.get(signals.TRACEBACK):
        with suppress(OSError, ValueError):
            sys.stderr.write(shown("".join(traceback.format_exception(error))))
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_nowhere():
        _say("tod-bias: error: the folder that this runs in is gone; change to one that is there")
    elif isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"tod-bias: error: {shortened(f'{where}{error.strerror}')}; what was finished before is kept")
    elif isinstance(error, MemoryError) or "failed to map segment" in str(error):  # of a library
        _say("tod-bias: error: the memory does not suffice for this; take less at once, e.g. --max-dialogues")
    elif isinstance(error, ModuleNotFoundError):
        _say(f"tod-bias: error: {described(error)}")
    elif own_place(error):
        _say(f"tod-bias: error: {described(error)}; what was finished before is kept")
    else:
        _say(
            f"tod-bias: error: {described(error)}; that is no message of this program's: please report it, with what "
            f"{signals.TRACEBACK}=1 in the environment shows"
        )
    return 2


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _end_threads(code: int) -> None:
    """Once the main thread is done, end what a component left behind: such threads would keep the process for ever."""
    begun = time.monotonic()
    while time.monotonic() - begun < _PATIENCE:
        time.sleep(0.05)
    left = [
        thread
        for thread in threading.enumerate()
        if thread.is_alive() and not thread.daemon and thread is not threading.main_thread()
    ]
    if left:
        names = ", ".join(sorted({_name(thread) for thread in left})[:3])
        _say(f"tod-bias: {len(left)} threads that a component began ({names}) did not end; they were ended")
        os._exit(code)


def _name(thread: threading.Thread) -> str:
    target: Any = getattr(thread, "_target", None)
    return f"{target.__module__}:{target.__qualname__}" if hasattr(target, "__qualname__") else thread.name
