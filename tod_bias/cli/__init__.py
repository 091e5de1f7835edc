"""The ``tod-bias`` command, a file a command."""

from tod_bias.cli.application import main

__all__ = ["main"]
