"""``tod-bias plan``."""

from __future__ import annotations

from tod_bias.cli.attribute import AttributeOptions, DryRunOptions, audited
from tod_bias.cli.options import command
from tod_bias.config import AuditConfig, ConfigFile, OutputOptions


@command("tod-bias plan --corpus dialogues.jsonl --pipeline system.yaml --axes gender,placebo")
def plan(*, audit: AuditConfig, how: DryRunOptions, file: ConfigFile, output: OutputOptions) -> None:
    """Count before anything is spent: dialogues per axis, calls per stage, tokens, time and price; write plan.json.

    Another name for attribute --dry-run, with the same options. Remote stages are never called: their calls and tokens
    are estimated from the calls that the corpus has recorded, and priced if the pipeline file gives a price.
    """
    audited(audit, AttributeOptions(dry_run=True, sample=how.sample), file, output)
