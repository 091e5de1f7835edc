"""Working under the ``parlai`` command: adding options, and ending with one line where the user is wrong."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tod_bias.errors import TodBiasError


def add_option(group: Any, name: str, **arguments: Any) -> None:
    """Add an option; one that the ParlAI script has already (``train_model --seed``) is left as it is.

    ParlAI's parser would let the new option take the old one's place.
    """
    if name not in group._option_string_actions:  # argparse has no public way to ask
        group.add_argument(name, **arguments)


def end_with_one_line() -> None:
    """Let an uncaught :class:`TodBiasError` end a ParlAI command as it ends ours: its one line, exit code 2.

    ParlAI's scripts let every exception through, so that a wrong path would end in a traceback. Called when a command
    adds our options, never on import; an interactive interpreter is left alone.
    """
    if hasattr(sys, "ps1") or getattr(sys.excepthook, "func", None) is _end:
        return
    sys.excepthook = functools.partial(_end, sys.excepthook)


def _end(
    before: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if isinstance(error, TodBiasError):
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2)
    before(kind, error, trace)
