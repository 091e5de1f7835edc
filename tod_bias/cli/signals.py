"""Ctrl-C, SIGTERM and a closed terminal: a stopped command prints one line.

A signal is raised as :class:`Stopped`, so that the command can keep its work first. The signal is also remembered here,
because libraries may swallow the exception or turn it into another error.
"""

from __future__ import annotations

import signal
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
"""Environment variable that shows tracebacks of unexpected errors and of the user's code."""


class Stopped(KeyboardInterrupt):  # as KeyboardInterrupt, a wish and no error
    """A signal asks the command to end."""


def received() -> int:
    """Number of the signal that asked the command to end; 0 for none."""
    return _received[0] if _received else 0


def watch() -> None:
    """Raise :class:`Stopped` for every signal from now on."""
    for number in _WORDS:
        if signal.getsignal(number) == signal.SIG_IGN:
            continue  # the shell ignores it for a job in the background
        try:
            signal.signal(number, _raise)
        except ValueError:  # not in the main thread
            return


def ignore() -> None:
    """Ignore signals while the last messages are printed and files are closed."""
    for number in _WORDS:
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:
            return


def word(number: int) -> str:
    """Describe a signal, for a message."""
    return _WORDS.get(number, "interrupted")


def code(number: int) -> int:
    """The exit code that shells know for it."""
    return 128 + (number or int(signal.SIGINT))


def _raise(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise Stopped
