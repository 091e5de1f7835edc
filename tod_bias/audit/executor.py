"""Work of a run in chunks of dialogues, and the executor of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tod_bias.audit.checks import (
    ClusterOf,
)
from tod_bias.audit.design import (
    Counterfactuals,
)
from tod_bias.audit.rows import ChunkRows, TurnRows
from tod_bias.audit.traces import LostDialogues, Runner, executed
from tod_bias.audit.variants import Membership
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Axis, SelectedDialogue
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.execution import HistoryMode
from tod_bias.systems.pipeline import Pipeline

Chunk = Mapping[str, Sequence[SelectedDialogue]]
"""Axis to dialogues, each with its candidates."""
Chunks = Callable[[int], Iterable[Sequence[Chunk]]]
"""Function that returns all chunks, each split into about the given number of parts."""


@dataclass
class ChunkResult:
    """Result of one chunk."""

    rows: dict[str, ChunkRows] = field(default_factory=dict)
    """Rows by axis; an axis with only lost dialogues is missing."""
    lost: LostDialogues = field(default_factory=LostDialogues)
    parted: frozenset[str] = frozenset()
    """Stages whose twins put out anything else in it."""


@dataclass(frozen=True)
class ChunkRunner:
    """Rewrites, runs and scores chunks."""

    counterfactuals: Counterfactuals
    runner: Runner
    turn_rows: TurnRows
    kinds: Sequence[tuple[str, ClusterOf]] = ()
    """Further kinds of clusters."""
    samples: int = 1
    """Outputs drawn for each call."""

    def __call__(self, chunk: Chunk, calls: Mapping[str, bool] | None = None) -> ChunkResult:
        """One chunk.

        Args:
            chunk: its dialogues.
            calls: by axis, whether the system is known to make calls.
        """
        result = ChunkResult()
        by_axis = {axis: self.counterfactuals.of(axis, selections) for axis, selections in chunk.items()}
        has_calls = False
        for name, variants in executed(self.runner, by_axis, self.samples, result.lost).items():
            if not variants:
                continue
            axis = self.counterfactuals.axes[name]
            members = [
                membership(axis, selection, self.kinds)
                for selection in chunk[name]
                if selection.dialogue.id not in result.lost.reasons
            ]
            rows = self.turn_rows.of(name, variants, members, calls=has_calls or bool(calls and calls.get(name)))
            has_calls = rows.has_calls
            result.rows[name] = rows
        result.parted = frozenset(self.runner.parted)
        return result


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


class Executor(Protocol):
    """Place that runs chunks of turns."""

    def __call__(self, work: Work, runner: Runner, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield every chunk, or its parts, in order, with the results."""


@dataclass(frozen=True)
class Work:
    """Everything that a chunk runner is made of, for other processes."""

    counterfactuals: Counterfactuals
    pipeline: Pipeline
    history: HistoryMode
    metrics: Sequence[Metric]
    kinds: Sequence[tuple[str, ClusterOf]]
    samples: int
    max_failures: float
    cache: str | None
    """SQLite file of outputs."""
    arms: ArmDesign
    """Sets of stages that are replaced."""

    def chunk_runner(self, runner: Runner) -> ChunkRunner:
        """Return the runner of chunks for a runner of dialogues."""
        turn_rows = TurnRows(self.arms, self.metrics, [name for name, _ in self.kinds])
        return ChunkRunner(self.counterfactuals, runner, turn_rows, self.kinds, self.samples)


def run_here(work: Work, runner: Runner, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
    """Run all chunks in this process, one after the other, each as one part."""
    run_chunk = work.chunk_runner(runner)
    calls = False
    for (chunk,) in chunks(1):
        result = run_chunk(chunk, dict.fromkeys(chunk, calls))
        calls = calls or any(rows.has_calls for rows in result.rows.values())
        yield chunk, result
