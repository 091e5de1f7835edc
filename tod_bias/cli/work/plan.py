"""The plan of an audit: ``tod-bias attribute --dry-run``."""

from __future__ import annotations

from tod_bias.audit.plan import plan
from tod_bias.cli.work.audited import Audited
from tod_bias.config import AuditConfig
from tod_bias.io.folder import shown
from tod_bias.report.console import Console, echo
from tod_bias.report.terminal import plan_table
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.systems import right_actions


def write_plan(config: AuditConfig, audited: Audited, sample: int, *, quiet: bool) -> None:
    """Make a plan, write it, and print it as a table.

    Args:
        config: the options of the audit.
        audited: what it is of.
        sample: number of dialogues that are sent through local stages to time them.
        quiet: print nothing.
    """
    dialogues = audited.dialogues
    if config.corpus.world is not None:
        world = load_world(config.corpus.world)
        if not world.has_user:  # what is recorded costs about as much as what a model would do
            dialogues = [world.recorded(dialogue) for dialogue in dialogues]
            config = AuditConfig.with_settings(config, {"history": "gold"})
    like = None if config.corpus.world is None else right_actions(config.corpus.world)
    result = plan(audited.system, dialogues, audited.axes, config=config, sample_size=sample, like=like)
    path = result.save(audited.folder)
    if quiet:
        return
    Console().print(plan_table(result))
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
