"""Running a system on all counterfactuals, with every set of stages replaced by twins: the second step of an audit.

A corpus is rewritten, run and scored in chunks, here or on the workers of a Ray cluster (Moritz et al. 2018). Every
worker handles parts of the corpus independently, and a separate process caches the outputs of all stages, for all
workers and the next run. A part is a task of Ray, which is repeated if its worker dies. Parts come back in the corpus'
order, so that the result is the local run's.

A system that cannot be run is audited from saved responses. The arm ∅ is the response that was saved for a
counterfactual. The twin of the whole system (N) is the rewritten response to the original: T(f(x)). The disparity is
therefore known. The stage in which it enters is unknown, because that needs calls with inputs that were never sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.audit.checks import (
    COPIES,
    Seen,
    check_clusters,
    check_executor,
    clusters_of,
    metrics_of,
    with_copies,
)
from tod_bias.audit.design import (
    CHUNK,
    MANY_ARMS,
    ROWS,
    CounterfactualDesign,
    chunks,
    resting_collector,
)
from tod_bias.audit.estimates import more_orders_matter
from tod_bias.audit.executor import Executor, LocalExecutor, Work
from tod_bias.audit.record import generators_of, total_cost
from tod_bias.audit.rows import schema_of
from tod_bias.audit.saved import SavedExecutor
from tod_bias.audit.turns import AxisGroups, AxisTurns, Turns
from tod_bias.audit.variants import variants_schema
from tod_bias.config import AnalysisOptions, AuditConfig, RunOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import StageError, TodBiasError
from tod_bias.io.cache import Cache
from tod_bias.io.progress import progress_bar
from tod_bias.metrics.choice import default_metrics
from tod_bias.metrics.events import Event
from tod_bias.metrics.metric import Metric
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import MAX_FAILURES, CallOptions
from tod_bias.systems.execution import Execution
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.saved_responses import SavedResponses

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator


@dataclass(frozen=True)
class Measures:
    """Metrics and kinds of clusters of a run, as objects."""

    metrics: Sequence[Metric]
    clusters: Sequence[tuple[str, Callable[[Dialogue], str]]]
    is_default: bool = False
    """True if these metrics were not requested: those that measure nothing are then left out."""
    events: Sequence[Event] = ()
    """Events that were asked for; by default the run's turns decide which are measured."""

    @classmethod
    def of(
        cls,
        config: AuditConfig | None,
        settings: Mapping[str, Any],
        dialogues: Sequence[Dialogue],
        grades: Sequence[Metric] = (),
    ) -> tuple[Measures, dict[str, Any]]:
        """Return the metrics and clusters among some settings, or else of a configuration.

        Args:
            config: every option.
            settings: single options by name.
            dialogues: determine the metrics if neither names any.
            grades: of the pipeline, which are measured in addition.

        Returns:
            The metrics and clusters, and the settings with names instead of objects.

        Raises:
            TodBiasError: a metric is unknown or repeated, or all dialogues are in one cluster.
        """
        analysis = (config or AuditConfig()).analysis
        given = settings.get("metrics", analysis.metrics)
        chosen = [] if given is None else metrics_of(given)
        is_default = all(metric.is_grade for metric in chosen)  # a grade alone leaves the other metrics as they are
        metrics = [*grades, *chosen, *(metrics_of(default_metrics(dialogues)) if is_default else ())]
        clusters = clusters_of(settings.get("cluster", analysis.cluster))
        if [name for name, _ in clusters] != list(AnalysisOptions().cluster):
            check_clusters(clusters, dialogues)
        clusters = with_copies(clusters, dialogues)
        named = dict(settings)
        if settings.get("metrics") is not None:
            named["metrics"] = [metric.name for metric in chosen]
        if "cluster" in settings:
            named["cluster"] = [name for name, _ in clusters if name != COPIES]
        events = [metric for metric in metrics if isinstance(metric, Event)]
        scored = [metric for metric in metrics if not isinstance(metric, Event)]
        return cls(scored, clusters, is_default, events), named


@dataclass(frozen=True)
class Outputs:
    """Outputs of a system on all counterfactuals."""

    executor: Executor
    """Stages, cost, and what is left out."""
    turns: Turns
    """One row per turn, counterfactual and arm."""
    failures: Mapping[str, TodBiasError]
    """Axes without results, and why."""
    axes: Mapping[str, AxisTurns]
    """Axis to the sums of its turns by the run's metrics."""
    seen: Mapping[str, Seen]
    """Axis to facts about whether anything is measured."""
    tokens: tuple[int, int]
    """Read and written by local models."""
    started: float
    """Time at which the run began, by the clock of :func:`time.monotonic`."""


def run(
    system: Pipeline | SavedResponses,
    design: CounterfactualDesign,
    measures: Measures,
    options: RunOptions | None = None,
    *,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Outputs:
    """Run every original and counterfactual with sets of stages replaced by twins, and score all turns.

    Where stages are many, the run is repeated with more sets until they suffice (:mod:`tod_bias.statistics.arms`);
    calls that were made are not made again.

    Args:
        system: to be run, or its saved responses.
        design: which counterfactuals there are.
        measures: the metrics that score turns, and the clusters of dialogues.
        options: how the system is run.
        cache: SQLite file that keeps outputs.
        show_progress: on stderr.

    Raises:
        StageError: a stage broke its contract or left too many calls without an output.
    """
    options = RunOptions() if options is None else options
    check_executor(options.executor, options.workers)
    started = time.monotonic()
    executor = _executor(system, options, cache, show_progress, design.counterfactuals.seed)
    before = total_cost(executor.generators)
    groups = {name: AxisGroups(axis.groups, axis.factors) for name, axis in design.counterfactuals.axes.items()}
    schemas = schema_of(executor.names, measures.metrics), variants_schema(name for name, _ in measures.clusters)
    arms: ArmDesign | None = executor.arms
    while arms is not None:
        turns = Turns(arms, groups, schemas=schemas)
        work = Work(design.counterfactuals, measures.metrics, measures.clusters, options.samples, arms)
        parted, seen = _run_chunks(work, executor, turns, design, options, show_progress)
        axes = {axis: turns.sums(axis, measures.metrics) for axis in seen}
        arms = _arms_after(arms, parted, axes, measures.metrics)
    lacking = {
        axis: StageError(f"axis {axis}: every dialogue lacks an output") for axis in design.selected if axis not in seen
    }
    tokens = _tokens_since(before, executor.generators)
    return Outputs(executor, turns, {**design.failures, **lacking}, axes, seen, tokens, started)


def _arms_after(
    arms: ArmDesign, parted: Iterable[str], axes: Mapping[str, AxisTurns], metrics: Sequence[Metric]
) -> ArmDesign | None:
    """The arms to run next; None where contributions follow from these."""
    if not arms.pairs:
        return arms.after(parted)
    tables = [(turns.tables[metric.name], metric) for turns in axes.values() for metric in metrics]
    return arms.with_more_pairs if any(more_orders_matter(table, metric) for table, metric in tables) else None


def _executor(
    system: Pipeline | SavedResponses,
    options: RunOptions,
    cache: str | Path | None,
    show_progress: bool,
    seed: int,
) -> Executor:
    """Return what runs the system's dialogues.

    Raises:
        TodBiasError: samples are requested of a system that draws nothing, or workers cannot run it.
    """
    executor: Executor
    if isinstance(system, SavedResponses):
        if options.executor != "local":
            raise TodBiasError(
                "executor 'ray' is for stages in Python; with saved responses there is nothing to spread"
            )
        executor = SavedExecutor(system, options.max_failures)
    else:
        outputs = None if cache is None else Cache(cache)
        for generator in generators_of(system.stages):
            generator.keep_in(outputs)
            generator.show_progress = show_progress
        allowed = MAX_FAILURES if options.max_failures is None else options.max_failures
        calls = CallOptions(allowed, show_progress=show_progress)
        arms = ArmDesign.first(system.names, system.groups, seed)
        execution = Execution(system, options.history, outputs, calls, arms=arms)
        executor = LocalExecutor(execution)
        if options.executor == "ray":
            try:
                from tod_bias.audit.ray_executor import RayExecutor
            except ImportError as error:
                raise TodBiasError("executor 'ray' needs its packages: pip install ray psutil") from error
            executor = RayExecutor(execution, calls, None if cache is None else str(cache), options.workers)
    if options.samples > 1 and not executor.is_sampled:
        raise TodBiasError(
            f"{options.samples} samples: no stage draws its outputs, so all would be equal; leave it out"
        )
    return executor


def _run_chunks(
    work: Work,
    executor: Executor,
    turns: Turns,
    design: CounterfactualDesign,
    options: RunOptions,
    show_progress: bool,
) -> tuple[set[str], dict[str, Seen]]:
    """Run all chunks, and write their rows.

    Returns:
        The stages whose twins put out anything else, and the facts that were seen of each axis with a dialogue.

    Raises:
        StageError: every response is None.
    """
    parted: set[str] = set()
    seen: dict[str, Seen] = {}
    has_outputs = False
    total = sum(map(len, design.selected.values()))
    progress = progress_bar(total, "rewriting dialogues", show=show_progress and options.executor != "local")
    with resting_collector() as collect, progress as bar:
        arms = len(work.arms.arms)
        most = CHUNK if arms <= MANY_ARMS else max(1, ROWS // arms)
        parts = partial(chunks, design.dialogues, design.selected, options.samples, most=most)
        for chunk, result in executor(work, parts):
            parted |= result.parted
            for axis, rows in result.rows.items():
                turns.add(axis, rows.rows, rows.variants)
                seen[axis] = seen.get(axis, Seen()) | rows.seen
                has_outputs = has_outputs or rows.has_outputs
            bar.advance(sum(map(len, chunk.values())))
            collect()
    if not has_outputs:
        raise StageError(f"{executor.last_stage}: returned None every time; expected texts, which are scored")
    audited = [axis for axis in design.selected if axis in seen]
    turns.keep(audited)
    return parted, {axis: seen[axis] for axis in audited}


def _tokens_since(before: Any, generators: Sequence[Generator]) -> tuple[int, int]:
    after = total_cost(generators)
    return after.read - before.read, after.written - before.written
