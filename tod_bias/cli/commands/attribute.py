"""``tod-bias attribute``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tod_bias.cli.checks import refuse
from tod_bias.cli.configuration import configured
from tod_bias.cli.options import command
from tod_bias.config import ADVANCED, GENERATION, AuditConfig, ConfigFile, Options, OutputOptions
from tod_bias.errors import TodBiasError


class AttributeOptions(Options):
    """Options of the command itself."""

    verbose: bool = False
    """Print the tables of all groups, stages and metrics before the answer."""
    allow_unmeasured: Annotated[bool, ADVANCED] = False
    """Exit with 0 even if nothing is measured: no references, equal outputs, tools that never ran."""
    dry_run: bool = False
    """Only count dialogues, calls, tokens, time and price, and write plan.json. Remote stages are never called: their
    calls are estimated from those that the corpus has recorded, and priced if the pipeline file gives a price."""
    sample: Annotated[int, Field(ge=0), ADVANCED] = 6
    """Dialogues that a dry run sends through local stages to time them; 0 calls nothing."""


@command("tod-bias attribute --corpus dialogues.jsonl --pipeline system.yaml --axes gender --out runs/mine")
def attribute(*, audit: AuditConfig, how: AttributeOptions, file: ConfigFile, output: OutputOptions) -> None:
    """Attribute a system's bias to its stages: the main job.

    Rewrites every dialogue for every group of every axis. Runs the system on originals and counterfactuals, with every
    set of stages replaced by equivariant twins. Writes results.json, turns.parquet, variants.parquet, figures and
    report.html. Without options, audits the bundled demo. With --dry-run, only counts what this would take.
    """
    config = configured(audit, file.config)
    if config.run.responses is not None:
        _check_recorded(config, how)
    from tod_bias.cli.work.audited import load_audited

    audited = load_audited(config, output.out, is_plan=how.dry_run)
    if how.dry_run:
        from tod_bias.cli.work.plan import write_plan

        write_plan(config, audited, how.sample, quiet=output.quiet)
        return
    from tod_bias.cli.work.attribute import run_audit

    run_audit(config, audited, is_verbose=how.verbose, allow_unmeasured=how.allow_unmeasured, quiet=output.quiet)


def _check_recorded(config: AuditConfig, how: AttributeOptions) -> None:
    """Raise if an option needs a system to run although its responses are recorded."""
    if config.system.is_named:
        raise TodBiasError("--responses replaces the system: leave out --pipeline and --model")
    idle = {*GENERATION, "history", "executor", "workers"} | ({"device"} if config.axes.perturber is None else set())
    refuse(config, idle, "no system is called where its --responses are given; leave it out")
    refuse(how, ("dry_run",), "no system is called where its --responses are given; leave it out")
