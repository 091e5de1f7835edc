"""The ``tod-bias`` command. It reads options, calls the library, prints; the work is elsewhere.

Exit codes: 0, the result is complete; 2, something the user gave cannot be used (one line says what, and what to do);
3, questions wait in batch files; 128 and the signal's number, a signal ended it: 130 Ctrl-C, 143 SIGTERM, 129 a closed
terminal, 141 whoever read the output went away. ``check`` says what it found: 0 within the margin, 1 above the
limit, 3 neither is shown; of cases 0 all are mended, 1 some are not, 3 a question had no answer.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import typer

from tod_bias.cli import signals
from tod_bias.cli.associate import associate
from tod_bias.cli.attribute import attribute
from tod_bias.cli.cases import cases
from tod_bias.cli.check import check
from tod_bias.cli.compare import compare
from tod_bias.cli.database import database
from tod_bias.cli.doctor import doctor
from tod_bias.cli.evaluate import evaluate
from tod_bias.cli.perturb import perturb
from tod_bias.cli.plan import plan
from tod_bias.cli.recommend import app as recommend
from tod_bias.cli.repair import repair
from tod_bias.cli.report import report
from tod_bias.cli.train import train
from tod_bias.cli.words import words
from tod_bias.errors import PendingError, TodBiasError, described, shortened
from tod_bias.folder import claims, release, shown
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import ShownFormatter
from tod_bias.report.console import shown as steerless

app = typer.Typer(
    name="tod-bias",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Finds which component of a modular task-oriented dialogue system treats people differently.",
)
for command in (attribute, plan, evaluate, train, perturb, words, report, compare, check, cases, repair, doctor):
    app.command()(command)
app.add_typer(database, name="database")
app.add_typer(associate, name="associate")
app.add_typer(recommend, name="recommend")
# typer carries its own copy of click and exports the leaves of its exceptions only.
_kinds = typer.BadParameter.__mro__
_CommandLineError: type[Exception] = next(kind for kind in _kinds if kind.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process."""
    handler = logging.StreamHandler()
    handler.setFormatter(ShownFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Libraries warn of what their own next versions will change; that is for us to read in the tests.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        given = ["--help"]  # the command alone asks what it can do; that is no error
    if given[0] == "help":  # as other programs have it: help, help COMMAND
        given = [*given[1:], "--help"]
    try:
        _refuse_empty(given)
        code = _command()(args=given, prog_name="tod-bias", standalone_mode=False)
        if code == _INTERRUPTED:  # typer makes a code of it
            raise KeyboardInterrupt
    except SystemExit as error:
        if _COMPLETION in os.environ:  # a shell asks what may come next
            raise
        # no command does that; one of the user's own modules did
        _tell(f"error: {described(error)}; what was finished before is kept")
        sys.exit(2)
    except PendingError as error:
        _tell(" ".join(str(error).split()))
        sys.exit(3)
    except (TodBiasError, _CommandLineError) as error:
        if signals.received():  # what a library made of it
            _interrupted()
        text = str(error) if isinstance(error, TodBiasError) else error.format_message()  # type: ignore[attr-defined]
        if is_first_process():
            if error.__cause__ is not None and os.environ.get(signals.TRACEBACK):
                sys.stderr.write(steerless("".join(traceback.format_exception(error))))
            _tell(f"error: {shortened(text or _NO_COMMAND)}")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    finally:
        release()
    sys.exit(code if isinstance(code, int) else 0)


@cache
def _command() -> Any:
    """All commands with their options; making them takes longer than many a refusal."""
    return typer.main.get_command(app)


def _refuse_empty(given: Sequence[str]) -> None:
    """A variable that a shell does not know leaves nothing behind, which would be taken for the current folder."""
    for before, word in zip(["", *given], given, strict=False):
        option, is_set, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if is_set and not value and option not in _MAY_BE_EMPTY:
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
    kept = f"what was finished is kept in {folders}: run the same command again to go on"
    if is_first_process():
        _tell(f"{signals.word(number)}; {shortened(kept) if folders else _NOTHING}")
    sys.exit(signals.code(number))


_MAY_BE_EMPTY = {"--system", "--cluster"}
_COMPLETION = "_TOD_BIAS_COMPLETE"
_NO_COMMAND = "expected one of the commands above"
_NOTHING = "nothing was written, what was there is kept"
_INTERRUPTED = 130
