"""The ``tod-bias`` command. It reads options, calls the library, prints; the work is elsewhere.

Exit codes: 0, the result is complete; 2, something the user gave cannot be used (one line says what, and what to do);
128 and the signal's number, a signal ended it: 130 Ctrl-C, 143 SIGTERM, 129 a closed
terminal, 141 whoever read the output went away. ``check`` says what it found: 0 within the limit, 1 above it, 3
neither is shown; of cases 0 all are fixed, 1 some are not, 3 a call had no output.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from tod_bias.cli import signals
from tod_bias.errors import TodBiasError, described, shortened
from tod_bias.folder import claims, release, shown
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import ShownFormatter
from tod_bias.report.console import shown as steerless

COMMANDS = {
    "Audit": ("attribute", "plan", "evaluate"),
    "Look": ("report", "view", "compare", "words"),
    "Gate": ("check", "cases"),
    "Mitigate": ("mitigate", "database"),
    "Models": ("train",),
    "Recommenders": ("recommend", "associate"),
    "Corpora": ("export", "perturb"),
    "Machine": ("init", "doctor"),
}
"""Heading in ``--help`` to its commands; each is in the module of its name, which is loaded when it is needed."""


def _default(value: Any) -> str | None:
    """How a default is shown in ``--help``; None for one that says nothing."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or None
    return None if value is None or value is False or value == "" else str(value)


app = App(
    name="tod-bias",
    help="Finds which component of a task-oriented dialogue system or assistant treats demographic groups differently.",
    help_epilogue="Example: tod-bias attribute --out runs/demo audits the bundled demo. tod-bias COMMAND --help has "
    "an example of every command.",
    help_format="plaintext",
    version=lambda: version("tod-bias"),
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative_iterable=(), show_default=_default),
)
for heading, names in COMMANDS.items():
    group = Group.create_ordered(heading)
    for name in names:
        app.command(f"tod_bias.cli.{name}:{name}", name=name, group=group)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process."""
    handler = logging.StreamHandler()
    handler.setFormatter(ShownFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Libraries warn of what their own next versions will change; that is for us to read in the tests.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["help"]:  # as other programs have it: help, help COMMAND
        given = [*given[1:], "--help"]
    if given in ([], ["--help"], ["-h"]):
        for name in list(app):  # commands are loaded, so that they tell what they do
            app[name]
    try:
        _refuse_empty(given)
        code = app(given, exit_on_error=False, print_error=False, result_action="return_value")
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # whoever read a help went away
            raise error.__context__ from None
        # no command does that; one of the user's own modules did
        _tell(f"error: {described(error)}; what was finished before is kept")
        sys.exit(2)
    except (TodBiasError, CycloptsError) as error:
        if signals.received():  # what a library made of it
            _interrupted()
        if is_first_process():
            if error.__cause__ is not None and os.environ.get(signals.TRACEBACK):
                sys.stderr.write(steerless("".join(traceback.format_exception(error))))
            _tell(f"error: {shortened(_reason(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        _interrupted()
    finally:
        release()
    sys.exit(code if isinstance(code, int) else 0)


def _reason(error: Exception) -> str:
    """What is wrong, in a line."""
    unused = error.unused_tokens if isinstance(error, UnusedCliTokensError) else None
    return f"unexpected argument {', '.join(map(repr, unused))}" if unused else str(error)


def _refuse_empty(given: Sequence[str]) -> None:
    """A variable that a shell does not know leaves nothing behind, which would be taken for the current folder."""
    for before, word in zip(["", *given], given, strict=False):
        option, is_set, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if is_set and not value:
            where = f"{option}: " if option.startswith("-") else ""
            raise TodBiasError(f"{where}expected a value, got nothing ('')")


def _tell(line: str) -> None:
    """One line on stderr, with the escapes of what comes from files and servers made visible."""
    sys.stderr.write(f"tod-bias: {steerless(line)}\n")


def _interrupted() -> NoReturn:
    """Say what is left, and end."""
    signals.ignore()
    number = signals.received()
    folders = ", ".join(str(shown(folder)) for folder in claims())
    rest = f"what was finished is kept in {folders}: run the same command again to go on"
    if is_first_process():
        _tell(f"{signals.word(number)}; {shortened(rest) if folders else _NOTHING}")
    sys.exit(signals.code(number))


_NOTHING = "nothing was written, what was there is kept"
