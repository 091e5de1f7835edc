"""Ctrl-C, SIGTERM and a closed terminal: from its first moments on, a command that is stopped says so in one line.

Until the command itself begins, nothing is at stake, and the process ends at once. Later the signal is raised as
:class:`Stopped`, so that what is under way is kept first; libraries that make another error of it, or swallow it, do
not hide it, as it is remembered here. This module loads nothing but the standard library's smallest parts.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public module takes milliseconds more to load
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_WORDS = {
    int(getattr(signal, name)): what
    for name, what in {
        "SIGINT": "interrupted",
        "SIGTERM": "terminated",
        "SIGHUP": "its terminal is gone",
    }.items()
    if hasattr(signal, name)  # Windows knows the first two
}
_received: list[int] = []
TRACEBACK = "TOD_BIAS_TRACEBACK"
"""Environment variable: if set, tracebacks are shown: of errors that nobody foresaw, and of the user's own code."""


class Stopped(KeyboardInterrupt):  # as KeyboardInterrupt, a wish and no error
    """A signal asks the command to end."""


def received() -> int:
    """Number of the signal that asked the command to end; 0 for none."""
    return _received[0] if _received else 0


def watch(raising: bool) -> None:
    """Handle signals from now on: raise :class:`Stopped`, or end the process at once with one line."""
    for number in _WORDS:
        if signal.getsignal(number) == signal.SIG_IGN:
            continue  # a job in the background: its shell wants it so
        try:
            signal.signal(number, _raise if raising else _end)
        except ValueError:  # not in the main thread
            return


def ignore() -> None:
    """Let no signal disturb what is said and put away last."""
    for number in _WORDS:
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:
            return


def word(number: int) -> str:
    """What happened, for a message."""
    return _WORDS.get(number, "interrupted")


def code(number: int) -> int:
    """The exit code that shells know for it."""
    return 128 + (number or int(signal.SIGINT))


def _end(number: int, frame: FrameType | None) -> None:
    try:
        if os.environ.get("RANK", "0") == "0":
            os.write(2, f"tod-bias: {word(number)}; nothing was begun, what was there is kept\n".encode())
    except OSError:
        pass
    os._exit(code(number))


def _raise(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise Stopped
