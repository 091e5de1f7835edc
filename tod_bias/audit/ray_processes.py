"""What Ray does to the process that starts it: its address, its signals, the processes that it leaves."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tod_bias.errors import TodBiasError

_PATIENCE = 5.0
"""Seconds within which a cluster takes a connection; Ray itself tries for minutes."""


def check_address() -> None:
    """Raises TodBiasError where ``RAY_ADDRESS`` names no cluster that takes connections."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "auto", "local"):
        return
    match = re.fullmatch(r"([^/]+):(\d{1,5})", address)
    if match is None:
        raise TodBiasError(f"RAY_ADDRESS={address}: expected HOST:PORT of a cluster, auto or local")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), _PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise TodBiasError(
            f"RAY_ADDRESS={address}: no cluster answers there ({error}); start it, or take RAY_ADDRESS away"
        ) from error


@contextmanager
def keeping_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it starts; who asked for the run has said what it shall do."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopped = False
    try:
        yield
    except SystemExit:  # what Ray makes of SIGTERM
        stopped = True
    finally:
        for number, handler in before.items():
            with suppress(ValueError, TypeError):  # not in the main thread, or none of Python's
                signal.signal(number, handler)
    if stopped:
        signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt  # where nobody handles it


def processes() -> list[Any]:
    """Ray's processes that descend from this one; some outlive the one that started them for a minute."""
    import psutil  # type: ignore[import-untyped]

    running = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            command = process.cmdline()[:4]
            if command and (command[0].startswith("ray::") or any("/ray/" in part for part in command)):
                running.append(process)
    return running
