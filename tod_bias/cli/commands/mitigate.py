"""``tod-bias mitigate``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tod_bias.cli.checks import result_of
from tod_bias.cli.options import command
from tod_bias.config import Names, Options, OutputOptions, SystemOverrides
from tod_bias.io.folder import unwritten


class MitigateOptions(Options):
    """Fixes to try."""

    title = "Mitigation"

    guards: Names = ("canonical",)
    """Guards to try: canonical, neutral, vote."""
    references: Literal["gold"] | None = None
    """With gold, the recorded replies judge the cost of a fix; without, only grades and solved tasks do."""


class MitigateOutput(OutputOptions):
    """Folder for the results."""

    out: Path | None = None
    """Folder for the results; by default RUN/mitigation."""


@command("tod-bias mitigate runs/mine")
def mitigate(run: Path, /, *, how: MitigateOptions, output: MitigateOutput, overrides: SystemOverrides) -> int:
    """Try a guard and the missing rows on each stage that a finding names.

    Every fix is measured alone, as the run was, by the finding's own event. Prints what remains of each finding, what
    the fix costs, the lines to add to the pipeline file, and what else can be done if no fix helps. Writes
    mitigation.json, and missing.jsonl (rows that a lookup table lacks). Exit code 1 if no fix helps for a finding.

    Args:
        run: A finished run of attribute: its folder.
    """
    unwritten(run)
    result = result_of(run)

    from tod_bias.cli.work.mitigate import try_fixes  # heavy imports come after what may go wrong at once

    gold = how.references is not None
    return try_fixes(run, result, overrides, how.guards, output.out, has_references=gold, quiet=output.quiet)
