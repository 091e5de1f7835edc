"""Executors: what runs the chunks of an audit. The one of this process; others are Ray and saved responses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tod_bias.audit.checks import ClusterOf
from tod_bias.audit.design import Counterfactuals
from tod_bias.audit.record import agreements_of, generators_of, signature_of
from tod_bias.audit.rows import ChunkRows, TurnRows
from tod_bias.audit.traces import Runner, executed
from tod_bias.audit.variants import Membership
from tod_bias.metrics.grade import Grade
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Axis, SelectedDialogue, Variants
from tod_bias.results import LostInfo, Precision, Responses
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import CallCost
from tod_bias.systems.execution import Execution
from tod_bias.systems.stage import Stage

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator

Chunk = Mapping[str, Sequence[SelectedDialogue]]
"""Axis to dialogues, each with its candidates."""
Chunks = Callable[[int], Iterable[Sequence[Chunk]]]
"""Function that returns all chunks, each split into about the given number of parts."""


@dataclass(frozen=True)
class ChunkResult:
    """Result of one chunk."""

    rows: Mapping[str, ChunkRows]
    """Rows by axis; an axis without dialogues is missing."""
    parted: frozenset[str]
    """Stages whose twins put out anything else in it."""


@dataclass(frozen=True)
class ChunkRunner:
    """Rewrites, runs and scores chunks."""

    work: Work
    runner: Runner

    @cached_property
    def _turn_rows(self) -> TurnRows:
        return TurnRows(self.work.arms, self.work.metrics, [name for name, _ in self.work.kinds])

    def __call__(self, chunk: Chunk, calls: Mapping[str, bool] | None = None) -> ChunkResult:
        """Run one chunk.

        Args:
            chunk: its dialogues.
            calls: by axis, whether the system is known to make calls.
        """
        return self.scored(chunk, self.work.variants(chunk), calls)

    def scored(
        self, chunk: Chunk, by_axis: Mapping[str, Sequence[Variants]], calls: Mapping[str, bool] | None = None
    ) -> ChunkResult:
        """Run one chunk whose dialogues are rewritten.

        Args:
            chunk: its dialogues.
            by_axis: their variants.
            calls: by axis, whether the system is known to make calls.
        """
        rows_by_axis: dict[str, ChunkRows] = {}
        has_calls = False
        for name, variants in executed(self.runner, by_axis, self.work.samples).items():
            if not variants:
                continue
            axis = self.work.counterfactuals.axes[name]
            members = [membership(axis, selection, self.work.kinds) for selection in chunk[name]]
            rows = self._turn_rows.of(name, variants, members, calls=has_calls or bool(calls and calls.get(name)))
            has_calls = rows.has_calls
            rows_by_axis[name] = rows
        return ChunkResult(rows_by_axis, frozenset(self.runner.parted))


def membership(axis: Axis, selection: SelectedDialogue, kinds: Sequence[tuple[str, ClusterOf]] = ()) -> Membership:
    """The clusters of a dialogue and its counterfactuals.

    Args:
        axis: along which it is rewritten.
        selection: the dialogue and its candidates.
        kinds: further kinds of clusters.
    """
    dialogue, candidates = selection
    return Membership(
        axis.terms(dialogue, candidates) if candidates else (),
        {name: cluster_of(dialogue) for name, cluster_of in kinds},
    )


@dataclass(frozen=True)
class Work:
    """Everything that a chunk is made into rows by, in this process or another one."""

    counterfactuals: Counterfactuals
    metrics: Sequence[Metric]
    kinds: Sequence[tuple[str, ClusterOf]]
    """Further kinds of clusters."""
    samples: int
    """Outputs drawn for each call."""
    arms: ArmDesign
    """Sets of stages that are replaced."""

    def variants(self, chunk: Chunk) -> dict[str, list[Variants]]:
        """Return the variants of the dialogues of a chunk, by axis."""
        return {axis: self.counterfactuals.of(axis, selections) for axis, selections in chunk.items()}


class Executor(ABC):
    """Executor of one run of an audit."""

    names: tuple[str, ...]
    """Stages that contributions are attributed to."""
    stages: Mapping[str, Stage] = {}
    """Stages that are called; empty if nothing is."""
    groups: Mapping[str, Sequence[str]] = {}
    """Groups of stages (:class:`~tod_bias.systems.pipeline.Pipeline`)."""
    grades: Sequence[Grade] = ()
    """Judgements of the system's dialogues that are measured in every audit of it."""
    arms: ArmDesign
    """Sets of stages that are replaced in the first run of the work."""
    is_sampled: bool = False
    """True if any stage draws its outputs."""
    responses: Responses | None = None
    """Counts of saved responses, once all chunks are run; None if a system was run."""
    lost: LostInfo | None = None
    """Dialogues that are left out, once all chunks are run; None if there are none."""

    @property
    @abstractmethod
    def costs(self) -> Mapping[str, CallCost]:
        """Cost of every stage up to now."""

    @property
    def not_cached(self) -> Mapping[str, str]:
        """Stages whose outputs are not cached, and why."""
        return {}

    @property
    def last_stage(self) -> str:
        """Stage whose outputs are the responses, in words."""
        return f"stage {self.names[-1]!r}"

    @property
    def generators(self) -> list[Generator]:
        """Language models of this package that the stages call."""
        return []

    def signature(self) -> dict[str, str]:
        """Return everything that determines the outputs."""
        return signature_of(self.stages)

    def precision(self) -> list[Precision]:
        """Return the effect of the precision of each local model."""
        return agreements_of(self.stages)

    @abstractmethod
    def __call__(self, work: Work, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield every chunk, or its parts, in order, with the results."""


class LocalExecutor(Executor):
    """Runs a system in this process.

    Args:
        execution: of the system.
    """

    def __init__(self, execution: Execution) -> None:
        pipeline = execution.pipeline
        self.execution = execution
        self.names, self.stages, self.groups = pipeline.names, pipeline.stages, pipeline.groups
        self.grades, self.arms, self.is_sampled = pipeline.grades, execution.arms, execution.is_sampled

    @property
    def costs(self) -> Mapping[str, CallCost]:
        """Cost of every stage up to now."""
        return {name: caller.cost for name, caller in self.execution.callers.items()}

    @property
    def not_cached(self) -> Mapping[str, str]:
        """Stages whose outputs are not cached, and why."""
        callers = self.execution.callers.items()
        return {name: caller.not_cached for name, caller in callers if caller.not_cached}

    @property
    def last_stage(self) -> str:
        """Stage whose outputs are the responses, in words."""
        return super().last_stage if self.execution.pipeline.flow is None else "the last stage called"

    @property
    def generators(self) -> list[Generator]:
        """Language models of this package that the stages call."""
        return generators_of(self.stages)

    def __call__(self, work: Work, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Run all chunks one after the other, each as one part."""
        self.execution.arms = work.arms
        run_chunk = ChunkRunner(work, self.execution)
        calls = False
        for (chunk,) in chunks(1):
            result = run_chunk(chunk, dict.fromkeys(chunk, calls))
            # once a system has made a call, turns without one lack it, in later chunks as well
            calls = calls or any(rows.has_calls for rows in result.rows.values())
            yield chunk, result
