"""The ``tod-bias`` command; its modules group the commands by task."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends with SystemExit. Without arguments it is the process's own, and ends the process."""
    if arguments is None:
        from tod_bias.cli.process import run

        run()
    else:
        from tod_bias.cli.application import main as command

        command(arguments)
