"""Running a system on all counterfactuals, with every set of stages replaced by twins: the second step of an audit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.answers import Answers
from tod_bias.audit.axis_table import AxisTable
from tod_bias.audit.batches import read_batches, write_batches
from tod_bias.audit.choices import clusters_of, metrics_of
from tod_bias.audit.cluster import RayExecutor, check_executor, check_shareable
from tod_bias.audit.design import CounterfactualDesign, chunks, models_of, resting_collector
from tod_bias.audit.gathering import Gathered, floor_tables
from tod_bias.audit.measured import Seen
from tod_bias.audit.recorded import RecordedExecution, recorded_answers
from tod_bias.audit.running import Lost
from tod_bias.audit.signatures import generators_of, total_cost
from tod_bias.audit.turn_rows import schema_of
from tod_bias.audit.turn_table import TurnTable
from tod_bias.audit.workshop import Executor, Work, here
from tod_bias.config import AuditConfig, RunOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import NothingToPerturbError, StageError, TodBiasError
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO, SelectedDialogue
from tod_bias.progress import progress_bar
from tod_bias.systems.execution import Execution
from tod_bias.systems.pipeline import Pipeline

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator


@dataclass(frozen=True)
class Measures:
    """What is measured of a run, as objects: metrics, and kinds of clusters."""

    metrics: Sequence[Metric]
    clusters: Sequence[tuple[str, Callable[[Dialogue], str]]]

    @classmethod
    def of(cls, config: AuditConfig | None, settings: Mapping[str, Any]) -> tuple[Measures, dict[str, Any]]:
        """The metrics and clusters among some settings, or else of a configuration.

        Returns:
            They, and the settings with their names in their place.

        Raises:
            TodBiasError: one is unknown or given twice.
        """
        analysis = (config or AuditConfig()).analysis
        metrics = metrics_of(settings.get("metrics", analysis.metrics))
        clusters = clusters_of(settings.get("cluster", analysis.cluster))
        named = dict(settings)
        if "metrics" in settings:
            named["metrics"] = [one.name for one in metrics]
        if "cluster" in settings:
            named["cluster"] = [name for name, _ in clusters]
        return cls(metrics, clusters), named


@dataclass
class Turns:
    """What a system put out on all counterfactuals, as a table of turns and as sums per axis and metric."""

    pipeline: Pipeline
    execution: Execution | RecordedExecution
    """What it cost, and what was left without an output."""
    rows: TurnTable
    """One row per turn, counterfactual and arm."""
    sums: dict[str, dict[str, AxisTable]]
    """Axis to metric to sums; the placebo among the axes."""
    drawn: dict[str, list[SelectedDialogue]]
    """Axis to the dialogues whose counterfactuals all have outputs."""
    seen: dict[str, Seen]
    """Axis to what tells whether anything is measured."""
    failures: dict[str, TodBiasError]
    """Axes without results, and why."""
    lost: Lost
    """Dialogues that a failed call has cost."""
    tokens: tuple[int, int] = (0, 0)
    """Read and written by local models."""
    started: float = field(default_factory=time.monotonic)


def run(
    pipeline: Pipeline,
    design: CounterfactualDesign,
    measures: Measures,
    options: RunOptions | None = None,
    *,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Turns:
    """Run every original and counterfactual with every set of stages replaced by twins, and score all turns.

    Args:
        pipeline: the system, or recorded responses.
        design: which counterfactuals there are.
        measures: the metrics that score turns, and the clusters of dialogues.
        options: how the system is run.
        cache: SQLite file that keeps outputs.
        show_progress: on stderr.

    Raises:
        PendingError: with ``batch_out``, calls wait in the files that it names.
        StageError: a stage broke its contract or left too many calls without an output.
    """
    options = RunOptions() if options is None else options
    check_executor(options.executor, options.workers)
    started = time.monotonic()
    outputs = _cache_of(cache, options)
    refused = read_batches(options.batch_in, outputs) if options.batch_in and outputs is not None else {}
    generators = [*models_of(design.axes.values()), *generators_of(pipeline)]
    for generator in generators:
        generator.keep_in(outputs)
        generator.show_progress = show_progress
    before = total_cost(generators_of(pipeline))
    execution = _execution(pipeline, options, outputs, refused, show_progress)
    recorded = isinstance(execution, RecordedExecution)
    flow = pipeline.flow is not None or recorded
    turns = Turns(
        pipeline,
        execution,
        TurnTable(schema_of(pipeline.names, measures.metrics, flow=flow)),
        sums={},
        drawn=dict(design.selected),
        seen={},
        failures=dict(design.failures),
        lost=Lost(),
        started=started,
    )
    work = Work(
        design.counterfactuals,
        pipeline,
        options.history,
        measures.metrics,
        measures.clusters,
        options.samples,
        options.max_failures,
        None if cache is None else str(cache),
        flow,
    )
    gathered = _gather(work, turns, design, options, show_progress)
    if options.batch_out is not None and execution.pending:
        raise write_batches(options.batch_out, execution.pending)
    execution.check()
    _sum_up(turns, gathered, design, measures)
    turns.tokens = _tokens_since(before, generators_of(pipeline))
    return turns


def _cache_of(cache: str | Path | None, options: RunOptions) -> Answers | None:
    if cache is not None:
        return Answers(cache)
    return Answers() if options.batch_in else None


def _execution(
    pipeline: Pipeline, options: RunOptions, outputs: Answers | None, refused: dict[str, str], show_progress: bool
) -> Execution | RecordedExecution:
    """What runs dialogues.

    Raises:
        TodBiasError: samples are asked for of a system that draws nothing.
    """
    recorded = recorded_answers(pipeline)
    execution: Execution | RecordedExecution
    if recorded is not None:
        execution = RecordedExecution(recorded, options.max_failures)
    else:
        execution = Execution(
            pipeline,
            options.history,
            outputs,
            max_failures=options.max_failures,
            collect=options.batch_out is not None,
            refused=refused,
            show_progress=show_progress,
        )
    if options.samples > 1 and not execution.is_sampled:
        raise TodBiasError(
            f"{options.samples} samples: no stage draws its outputs, so all would be equal; leave it out"
        )
    return execution


def _gather(
    work: Work, turns: Turns, design: CounterfactualDesign, options: RunOptions, show_progress: bool
) -> dict[str, Gathered]:
    """Run all chunks, write their rows, and gather their sums by axis."""
    gathered = {axis: Gathered(work.teller.axes[axis], work.pipeline.names, work.kinds) for axis in design.selected}
    execute: Executor = here
    if options.executor == "ray":
        recorded = isinstance(turns.execution, RecordedExecution)
        check_shareable(work, collects=options.batch_out is not None or bool(options.batch_in), recorded=recorded)
        execute = RayExecutor(options.workers)
    total = sum(map(len, design.selected.values()))
    progress = progress_bar(total, "rewriting dialogues", show=show_progress and options.executor != "local")
    with resting_collector() as collect, progress as bar:
        parts = partial(chunks, design.dialogues, design.selected, options.samples)
        for chunk, done in execute(work, turns.execution, parts):
            turns.lost.merge(done.lost)
            for axis, part in done.parts.items():
                turns.rows.add(axis, part.rows)
                gathered[axis].add(part, chunk[axis])
            bar.advance(sum(map(len, chunk.values())))
            collect()
    return gathered


def _sum_up(turns: Turns, gathered: dict[str, Gathered], design: CounterfactualDesign, measures: Measures) -> None:
    """The sums of all axes, without the dialogues that were lost, and of the placebo.

    Raises:
        StageError: nothing is left, or no response is more than None.
    """
    lost = turns.lost
    if lost.reasons:
        turns.failures |= {axis: StageError(f"axis {axis}: every dialogue lacks an answer") for axis in turns.drawn}
        turns.drawn = _without(lost, turns.drawn)
        turns.failures = {axis: error for axis, error in turns.failures.items() if axis not in turns.drawn}
        gathered = {axis: gathered[axis] for axis in turns.drawn}
    if not any(part.answered for one in gathered.values() for part in one.parts):
        pipeline = turns.pipeline
        last = f"stage {pipeline.names[-1]!r}" if pipeline.flow is None else "the last component asked"
        raise StageError(f"{last}: returned None every time; expected texts, which are scored")
    turns.seen = {axis: reduce(or_, (part.seen for part in one.parts)) for axis, one in gathered.items()}
    turns.sums = {axis: gathered[axis].tables(measures.metrics) for axis in turns.drawn}
    turns.rows.keep(list(turns.drawn))
    if design.counterfactuals.has_placebo:
        placebo = floor_tables(turns.sums, turns.drawn, measures.metrics, measures.clusters)
        if placebo:
            turns.sums[PLACEBO] = placebo
        else:
            turns.failures[PLACEBO] = NothingToPerturbError(
                f"axis {PLACEBO}: no dialogue holds a neutral word to exchange"
            )


def _without(lost: Lost, drawn: Mapping[str, list[SelectedDialogue]]) -> dict[str, list[SelectedDialogue]]:
    """The axes that still have dialogues, without those that were lost."""
    kept = {axis: [entry for entry in some if entry[0].id not in lost.reasons] for axis, some in drawn.items()}
    kept = {axis: some for axis, some in kept.items() if some}
    if not kept:
        reason = next(iter(lost.reasons.values()))
        raise StageError(f"no dialogue has answers to all its questions ({reason})")
    return kept


def _tokens_since(before: Any, generators: Sequence[Generator]) -> tuple[int, int]:
    after = total_cost(generators)
    return after.read - before.read, after.written - before.written
