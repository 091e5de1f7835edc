"""``tod-bias cases``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.checks import result_of
from tod_bias.cli.configuration import config_of
from tod_bias.cli.options import command
from tod_bias.config import DialogueOverrides, Options, OutputOptions, Positive
from tod_bias.io.folder import unwritten


class CasesOptions(Options):
    """Cases to write."""

    title = "Cases"

    worst: Positive = 50
    """Number of cases, spread evenly over the findings."""
    only: tuple[str, ...] = ()
    """Turn to take instead, as tod-bias view names it; may be repeated. Cases already in --out stay."""


class CasesOutput(OutputOptions):
    """File for the cases."""

    out: Path = Path("cases.jsonl")
    """The file (JSON lines)."""


@command("tod-bias cases runs/mine --worst 20 --out cases.jsonl")
def cases(run: Path, /, *, which: CasesOptions, output: CasesOutput, overrides: DialogueOverrides) -> None:
    """Write the dialogues that show the findings as regression cases, for tod-bias check --cases and pytest --tod-bias.

    A case is one turn of one counterfactual, with the turns before it and the finding's event. It passes if the event
    no longer depends on the group. It needs no corpus and no run. No stage is called.

    Args:
        run: A finished run's folder.
    """
    config = config_of(run, overrides)
    unwritten(run)
    result = result_of(run)

    from tod_bias.cli.work.cases import choose_cases  # heavy imports come after what may go wrong at once

    choose_cases(run, result, config, overrides, which.worst, which.only, output.out, quiet=output.quiet)
