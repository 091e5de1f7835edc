"""The ``tod-bias`` command: reads options, calls the library, prints.

Exit codes: 0, the result is complete; 2, an input cannot be used (one line names it and the remedy); 128 plus the
signal's number after a signal: 130 Ctrl-C, 143 SIGTERM, 129 a closed terminal, 141 a closed pipe. ``check`` ends with 0
within the limit, 1 above it, 3 undecided; for cases with 0 if all are fixed, 1 if some are not, 3 if a call had no
output.
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

from cyclopts import App, CycloptsError, Group, Parameter, UnknownOptionError, UnusedCliTokensError

from tod_bias.cli import signals
from tod_bias.errors import TodBiasError, described, shortened
from tod_bias.io.folder import claims, release, shown
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import ShownFormatter
from tod_bias.report.console import shown as steerless

COMMANDS = {
    "Audit": {
        "attribute": "Find which group is treated differently, and by which component: the main job.",
        "evaluate": "Score a pipeline on a corpus: joint goal accuracy, BLEU and others (Su Table 1).",
    },
    "Look": {
        "report": "Write report.html of a run again, or one page of several runs side by side.",
        "view": "Show every counterfactual turn beside its original, the most harmful first, in the browser.",
        "compare": "Compare two runs on the same dialogues; write compare.json and report.html.",
    },
    "Gate": {
        "check": "Hold a finished run against a limit: a gate for CI.",
        "cases": "Write the dialogues that are served worst as regression cases for `check --cases` and pytest.",
    },
    "Mitigate": {
        "mitigate": "Try a guard and the missing rows on each stage that a finding names.",
    },
    "Models": {"train": "Train or fine-tune a SimpleTOD model on the training split of a corpus."},
    "Recommenders": {
        "recommend": "Train, audit and mitigate LMRec, or audit the saved lists of any recommender (Shen).",
        "associate": "Audit a recommender's embeddings for associations with an attribute of its users (Beattie).",
    },
    "Corpora": {
        "export": "Write the counterfactual dialogues that `attribute` runs with the same options.",
        "perturb": "Rewrite plain text from one group to another, line by line.",
    },
    "Machine": {
        "init": "Write a commented example that runs as it stands.",
        "doctor": "Show what works on this machine or in a system, and how to install the rest.",
    },
}
"""Commands by heading, with their summaries. The module of a command, which has its name in
:mod:`tod_bias.cli.commands`, is imported only when the command is run."""


def _default(value: Any) -> str | None:
    """Format a default for ``--help``; None if it tells a reader nothing."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or None
    return None if value is None or value is False or value == "" else str(value)


def _application(*, summaries: bool = False) -> App:
    """Return the command with its subcommands, which are imported when they are run.

    Args:
        summaries: show the summary of each subcommand; without it ``COMMAND --help`` shows the whole help.
    """
    made = App(
        name="tod-bias",
        help="Finds which component of a task-oriented dialogue system or assistant treats demographic groups "
        "differently.",
        help_epilogue="Example: tod-bias attribute --out runs/demo audits the bundled demo. tod-bias COMMAND --help "
        "has an example of every command.",
        help_format="plaintext",
        version=lambda: version("tod-bias"),
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative_iterable=(), show_default=_default),
    )
    for heading, commands in COMMANDS.items():
        group = Group.create_ordered(heading)
        for name, summary in commands.items():
            path = f"tod_bias.cli.commands.{name}:{name}"
            made.command(path, name=name, group=group, help=summary if summaries else None)
    made.register_install_completion_command()
    return made


app = _application()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process."""
    handler = logging.StreamHandler()
    handler.setFormatter(ShownFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Libraries warn of changes in their next versions; these warnings are for the tests, not for users.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["help"]:  # as other programs have it: help, help COMMAND
        given = [*given[1:], "--help"]
    command = _application(summaries=True) if given in ([], ["--help"], ["-h"]) else app
    try:
        _refuse_empty(given)
        if "--help-all" in given:
            given = [word for word in given if not word.startswith("-")]
            from tod_bias.cli.options import show_all

            show_all(app.parse_commands(given)[1][-1])
            given = [*given, "--help"]
        code = command(given, exit_on_error=False, print_error=False, result_action="return_value")
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
    """Return what is wrong, in one line."""
    if isinstance(error, UnknownOptionError):
        from tod_bias.cli.options import line_in_file

        option, _, _ = (error.token.keyword or error.token.value).partition("=")
        if line := line_in_file(app.parse_commands(list(error.command_chain or ()))[1][-1], option):
            return f"{option}: stands in a file; write '{line}' into options.yaml and give --config options.yaml"
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
    """Print one line on stderr; escapes in texts of files and servers are made visible."""
    sys.stderr.write(f"tod-bias: {steerless(line)}\n")


def _interrupted() -> NoReturn:
    """Say what is left, and end."""
    signals.ignore()
    number = signals.received()
    folders = ", ".join(str(shown(folder)) for folder in claims())
    rest = f"what was finished is kept in {folders}: run the same command again to continue"
    if is_first_process():
        _tell(f"{signals.word(number)}; {shortened(rest) if folders else _NOTHING}")
    sys.exit(signals.code(number))


_NOTHING = "nothing was written, what was there is kept"
