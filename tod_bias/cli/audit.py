"""``tod-bias attribute``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tod_bias.cli.options import (
    cache_of,
    check_access,
    check_folder,
    check_metrics,
    check_system,
    command,
    configured,
    folder_of,
    load_axes,
    load_dialogues,
    load_system,
    refuse,
)
from tod_bias.config import ADVANCED, GENERATION, PLACEBO, AuditConfig, ConfigFile, Options, OutputOptions
from tod_bias.errors import IncompleteError, TodBiasError
from tod_bias.io.cache import CACHE_FILE
from tod_bias.io.folder import check_no_other_run, shown
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import Console, echo
from tod_bias.results import RESULTS, TURNS, VARIANTS
from tod_bias.systems.saved_responses import SavedResponses


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
    responses, out = config.run.responses, output.out
    if responses is not None:
        _check_recorded(config, how)
    check_metrics(config.analysis.metrics or ())
    from tod_bias.audit.checks import check_executor, checked_order, clusters_of

    check_executor(config.run.executor, config.run.workers)
    if config.axes.perturber is not None and config.run.executor != "local":
        raise TodBiasError("--perturber runs in this process; leave out --executor")
    clusters_of(config.analysis.cluster)
    corpus = config.corpus.corpus
    whole, dialogues = load_dialogues(config.corpus, config.seed)
    out = check_folder(out, corpus)
    if not how.dry_run:
        check_no_other_run(out, RESULTS, TURNS, VARIANTS, CACHE_FILE)
    saved = None if responses is None else SavedResponses(responses)
    stages = saved.names if saved else check_system(corpus, config.system, config.corpus.world)
    checked_order(stages, config.analysis.order)
    axes = load_axes(config.axes, config.axes.audited, config.system.device)
    if saved is None:
        system: Any = load_system(corpus, config.system, whole, config.corpus.world, offline=how.dry_run)
        if not how.dry_run:
            check_access(system, out, corpus)
    else:
        system = saved
        if config.axes.is_placebo_implied and not _has_placebo(saved):
            axes = [axis for axis in axes if axis.name != PLACEBO]
            echo(f"({responses}: has no responses to the placebo, which is left out)", err=True)
    folder = folder_of(out, corpus)
    if how.dry_run:
        _plan(config, how, system, dialogues, axes, folder, quiet=output.quiet)
        return
    _run(config, system, dialogues, axes, folder, how=how, quiet=output.quiet)


def _plan(
    config: AuditConfig,
    how: AttributeOptions,
    system: Any,
    dialogues: Sequence[Any],
    axes: Sequence[Any],
    folder: Path,
    *,
    quiet: bool,
) -> None:
    """Make a plan, write it, and print it as a table."""
    from tod_bias.audit.plan import plan
    from tod_bias.report.terminal import plan_table
    from tod_bias.worlds.systems import right_actions

    if config.corpus.world is not None:
        from tod_bias.worlds import load_world

        world = load_world(config.corpus.world)
        if not world.has_user:  # what is recorded costs about as much as what a model would do
            dialogues = [world.recorded(dialogue) for dialogue in dialogues]
            config = AuditConfig.with_settings(config, {"history": "gold"})
    like = None if config.corpus.world is None else right_actions(config.corpus.world)
    result = plan(system, dialogues, axes, config=config, sample_size=how.sample, like=like)
    path = result.save(folder)
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


def _run(
    config: AuditConfig,
    system: Any,
    dialogues: Any,
    axes: list[Any],
    folder: Path,
    *,
    how: AttributeOptions,
    quiet: bool,
) -> None:
    """Run the audit, and write and show its results."""
    import tod_bias.audit.analysis  # heavy imports come after what may go wrong at once
    from tod_bias.perturb.neural import NeuralAxis

    incomplete: IncompleteError | None = None
    is_again = (folder / CACHE_FILE).exists()
    cache = cache_of(folder, config.run.resume)
    perturbers = [axis for axis in axes if isinstance(axis, NeuralAxis)]
    for axis in perturbers:
        axis.keep_in(cache)
    try:
        result = tod_bias.audit.analysis.attribute(
            system,
            dialogues,
            axes=axes,
            config=config,
            cache=cache,
            show_progress=not quiet,
        )
    except IncompleteError as error:
        result, incomplete = error.result, error
    if not is_first_process():
        return
    from tod_bias.audit.checks import reasons_in
    from tod_bias.report.answer import may_be_mitigated
    from tod_bias.report.page import write_report
    from tod_bias.report.terminal import print_answer, table

    replaced = _replaced(folder, result)
    result.save(folder)
    page = write_report([folder])
    if not quiet:
        if how.verbose:
            Console().print(table(result))
        if is_again and (cached := sum(result.cost.cached.values())):
            of = sum(result.cost.distinct.values())
            echo(f"{cached:,} of {of:,} outputs are kept from an earlier run in this folder (--no-resume asks again)")
        print_answer(result, Console())
        fix = f"   Fix: tod-bias mitigate {shown(folder)}" if may_be_mitigated(result) else ""
        print(f"Report: {shown(page)}{fix}")
        print(f"Turns:  tod-bias view {shown(folder)}")
        for axis in perturbers:
            echo(f"({axis.summary})")
        if replaced:
            echo(f"(they replace those of another run, on {replaced}; --out keeps runs apart)", err=True)
    if (reasons := reasons_in(result)) and not how.allow_unmeasured:
        raise TodBiasError(f"nothing is measured: {'; '.join(reasons)}; or give --allow-unmeasured")
    if incomplete is not None:
        raise TodBiasError(f"{incomplete} (the other results are in {shown(folder / 'results.json')})") from incomplete


def _check_recorded(config: AuditConfig, how: AttributeOptions) -> None:
    """Raise if an option needs a system to run although its responses are recorded."""
    if config.system.is_named:
        raise TodBiasError("--responses replaces the system: leave out --pipeline and --model")
    idle = {*GENERATION, "history", "executor", "workers"} | ({"device"} if config.axes.perturber is None else set())
    refuse(config, idle, "no system is called where its --responses are given; leave it out")
    refuse(how, ("dry_run",), "no system is called where its --responses are given; leave it out")


def _has_placebo(saved: SavedResponses) -> bool:
    """Return whether saved responses include those to the placebo."""
    return any(variant.partition(":")[0] == PLACEBO for variant in saved.variants)


def _replaced(folder: Path, result: Any) -> str:
    """Return the axes of another run's results in a folder; empty if there are none, or those of this run."""
    from tod_bias.results import AuditResult, RunError

    try:
        old = AuditResult.load(folder)
    except RunError:
        return ""
    names = ("corpus", "stages", "metrics", "signature")
    before, after = (
        [*(getattr(run, name) for name in names), run.config.design, run.config.seed, set(run.axes)]
        for run in (old, result)
    )
    return "" if before == after else ", ".join(old.axes)
