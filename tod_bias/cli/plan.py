"""``tod-bias plan``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tod_bias.cli.arguments import (
    check_folder,
    check_system,
    configured,
    folder_of,
    load_axes,
    load_dialogues,
    load_system,
    refuse,
)
from tod_bias.cli.options import command
from tod_bias.config import AuditConfig, ConfigFile, Options, OutputOptions
from tod_bias.errors import TodBiasError
from tod_bias.folder import shown
from tod_bias.report.console import Console, echo


class PlanOptions(Options):
    """Options of the plan itself."""

    pilot: Path | None = None
    """A finished run: what it could have shown, and what a larger one could."""
    detect: Annotated[float, Field(gt=0)] | None = None
    """With --pilot: the gap that is to be found."""
    sample: Annotated[int, Field(ge=0)] = 6
    """Dialogues run to time local stages; 0 calls nothing."""


@command("tod-bias plan --corpus dialogues.jsonl --pipeline system.yaml --axes gender,placebo")
def plan(*, audit: AuditConfig, how: PlanOptions, file: ConfigFile, output: OutputOptions) -> None:
    """Count before anything is spent: dialogues per axis, calls per stage, tokens, time and price; write plan.json.

    Takes the options of attribute. Remote stages are never called: their calls and tokens are estimated from the calls
    that the corpus has recorded, and priced where the pipeline file gives a price. With --pilot and a finished run,
    tells what gap it could have shown, and with --detect how many dialogues and terms another one takes.
    """
    if how.pilot is not None:
        why = "--pilot is a finished run, of which nothing is called again; leave it out"
        refuse(audit, audit.given().keys() - {"seed"}, why)
        show_power(how.pilot, how.detect, output.quiet, output.out)
        return
    if how.detect is not None:
        raise TodBiasError("--detect needs --pilot: a finished run whose spread tells how many dialogues it takes")
    config = configured(audit, file.config)
    corpus = config.corpus.corpus
    whole, dialogues = load_dialogues(config.corpus, config.seed)
    out = check_folder(output.out, corpus)
    check_system(corpus, config.system)
    axes = load_axes(config.axes)
    system = load_system(corpus, config.system, whole)
    show_plan(config, how, system, dialogues, axes, folder_of(out, corpus), quiet=output.quiet)


def show_plan(
    config: AuditConfig,
    how: PlanOptions,
    system: Any,
    dialogues: Sequence[Any],
    axes: Sequence[Any],
    folder: Path,
    *,
    quiet: bool,
) -> None:
    """Make a plan, write it, and print it as a table."""
    from tod_bias.audit import plan as plans

    result = plans.plan(system, dialogues, axes, config=config, sample_size=how.sample)
    path = result.save(folder)
    if quiet:
        return
    Console().print(plans.table(result))
    for reason in result.left_out.values():
        echo(f"({reason})", err=True)
    if all(stage.calls is None and stage.estimate is None for stage in result.stages.values()):
        print(
            f"At most {result.turns * result.arms:,} turns are run (turns × arms; what arms share is run once). What a "
            "turn calls shows when it is run: audit a few with --max-dialogues."
        )
    if result.seconds is not None:
        print(f"About {result.seconds:,.0f} s, by a sample of dialogues; a bigger run shares more calls.")
    if result.price is not None:
        print(f"Price: about {result.price:,.2f}, by the file's prices and 4 characters per token.")
    print(f"Results: {shown(path)}")


def show_power(pilot: Path, detect: float | None, quiet: bool, out: Path | None) -> None:
    """What a finished run could have shown, and what it takes to show a given gap; in a file where asked for."""
    from tod_bias.results import AuditResult

    result = AuditResult.load(pilot)

    from tod_bias.audit import pilot as pilots  # heavy imports come after what may go wrong at once
    from tod_bias.files import write_json
    from tod_bias.folder import claimed

    rows = pilots.power(result, detect)
    path = None if out is None else claimed(out) / "power.json"
    if path is not None:
        write_json(path, pilots.to_json(rows, detect))
    if quiet:
        return
    Console().print(pilots.table(rows, detect))
    if path is not None:
        print(f"Results: {shown(path)}")
