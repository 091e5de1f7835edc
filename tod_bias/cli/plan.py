"""``tod-bias plan``."""

from __future__ import annotations

from tod_bias.cli.attribute import AttributeOptions, DryRunOptions, audited
from tod_bias.cli.options import command
from tod_bias.config import AuditConfig, ConfigFile, OutputOptions

IN_HELP = ("corpus", "datapath", "axes", "pipeline", "model", "responses", "sample", "out", "quiet")


@command("tod-bias plan --corpus dialogues.jsonl --pipeline system.yaml --axes gender,placebo", IN_HELP)
def plan(*, audit: AuditConfig, how: DryRunOptions, file: ConfigFile, output: OutputOptions) -> None:
    """Count before anything is spent: dialogues per axis, calls per stage, tokens, time and price; write plan.json.

    Takes the options of attribute; attribute --dry-run does the same. Remote stages are never called: their calls and
    tokens are estimated from the calls that the corpus has recorded, and priced if the pipeline file gives a price.
    """
    audited(audit, AttributeOptions(dry_run=True, sample=how.sample), file, output)
