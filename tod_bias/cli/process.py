"""The process of ``tod-bias``, which always ends with an exit code and, after an error, one line.

The exit codes are in :mod:`tod_bias.cli.application`.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from tod_bias.cli import signals
from tod_bias.errors import described, shortened, user_place

_OBJECTS = 20_000
"""New objects after which garbage is looked for, 700 by default: to load libraries makes hundreds of thousands of
objects and no garbage, and 3% of the time of a short command went there."""
BROKEN_PIPE = 141
"""The exit code of a command whose reader went away, as shells have it of every other (128 + SIGPIPE)."""


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command with ``sys.argv`` by default, and end the process."""
    gc.set_threshold(_OBJECTS)
    # Waiting threads sleep: with other work on the cores, spinning made the demo seven times slower (83 s for 12 s).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded
    os.environ["MPLBACKEND"] = "agg"  # figures go to files, whatever windows or notebooks they go to elsewhere
    warnings.formatwarning = _warning  # type: ignore[assignment]
    sys.stdin, sys.stdout, sys.stderr = _stream(sys.stdin, "r"), _stream(sys.stdout, "w"), _stream(sys.stderr, "w")
    try:
        signals.watch()
        from tod_bias.cli.application import main

        main(sys.argv[1:] if arguments is None else arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001  # here it ends, whatever it is
        code = _unforeseen(error)
    finally:
        signals.ignore()
    if number := signals.received():
        if code != signals.code(number):  # it hid behind another error
            _say(f"tod-bias: {signals.word(number)}; what was finished before is kept")
        code = signals.code(number)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE
    except OSError as error:
        if code in (0, 1):
            _say(f"tod-bias: error: stdout: cannot be written ({error.strerror}); the files in --out are complete")
            code = 2
    if code in (BROKEN_PIPE, 2):
        with suppress(OSError):  # the interpreter would try, and complain, once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def _stream(given: Any, mode: str) -> Any:
    """Return a usable stream if the given one is closed or has an encoding without some characters."""
    if given is None:
        return open(os.devnull, mode, encoding="utf-8")
    if mode == "w":
        with suppress(AttributeError):  # a test's own
            given.reconfigure(errors="backslashreplace")
    return given


def _warning(*text: Any) -> str:
    """Return a warning's lines, with escapes in texts of files and servers made visible."""
    return _shown(_PLAIN_WARNING(*text))


_PLAIN_WARNING = warnings.formatwarning


def _shown(text: str) -> str:
    from tod_bias.report.console import shown

    return shown(text)


def _say(line: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        with suppress(OSError, ValueError):
            sys.stderr.write(_shown(line) + "\n")


def _unforeseen(error: BaseException) -> int:
    """Say what no message of this program says, and return the exit code."""
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if signals.received():
        return 0  # which is no code of a signal, so that the line about it follows
    if os.environ.get(signals.TRACEBACK):
        sys.stderr.write(_shown("".join(traceback.format_exception(error))))
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}; what was finished before is kept"
    elif isinstance(error, MemoryError) or "failed to map segment" in str(error):  # of a library
        text = "the memory does not suffice for this; take less at once, e.g. --max-dialogues"
    elif isinstance(error, ModuleNotFoundError):
        text = described(error)
    elif user_place(error):
        text = f"{described(error)}; what was finished before is kept"
    else:
        text = f"{described(error)}; unexpected error: please report it, with the output of {signals.TRACEBACK}=1"
    _say(f"tod-bias: error: {shortened(text)}")
    return 2
