"""From dialogues to sums: one chunk of a corpus told, run, scored and added up, here or by another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tod_bias.audit.design import Counterfactuals
from tod_bias.audit.running import Lost, Runs, records_of
from tod_bias.audit.turn_rows import ChunkRows, Membership, TurnRows
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Axis, SelectedDialogue
from tod_bias.systems.execution import HistoryMode
from tod_bias.systems.pipeline import Pipeline

ClusterOf = Callable[[Dialogue], str]
"""A kind of clusters: which one a dialogue belongs to."""
Chunk = Mapping[str, Sequence[SelectedDialogue]]
"""Axis to dialogues, each with its tellings."""
Chunks = Callable[[int], Iterable[Sequence[Chunk]]]
"""Gives all chunks, each cut into so many parts or a few more."""


@dataclass
class Done:
    """What came of one chunk."""

    parts: dict[str, ChunkRows] = field(default_factory=dict)
    """Axis to its rows; an axis of which every dialogue is lost is missing."""
    lost: Lost = field(default_factory=Lost)


class Workshop:
    """Makes sums of chunks.

    Args:
        teller: tells dialogues.
        execution: runs them.
        rows: scores turns and adds them up.
        kinds: further kinds of clusters.
        samples: answers drawn to each question.
    """

    def __init__(
        self,
        teller: Counterfactuals,
        execution: Runs,
        rows: TurnRows,
        kinds: Sequence[tuple[str, ClusterOf]] = (),
        samples: int = 1,
    ) -> None:
        self._teller = teller
        self._execution = execution
        self._rows = rows
        self._kinds = tuple(kinds)
        self._samples = samples

    def __call__(self, chunk: Chunk, calls: Mapping[str, bool] | None = None) -> Done:
        """One chunk.

        Args:
            chunk: what is told.
            calls: by axis, whether the system is known to make calls.
        """
        done = Done()
        retold = {axis: self._teller.of(axis, some) for axis, some in chunk.items()}
        known = False
        for axis, records in records_of(self._execution, retold, self._samples, done.lost).items():
            if not records:
                continue
            perturber = self._teller.axes[axis]
            members = [
                membership(perturber, drawn, self._kinds)
                for drawn in chunk[axis]
                if drawn[0].id not in done.lost.reasons
            ]
            part = self._rows.of(axis, records, members, calls=known or bool(calls and calls.get(axis)))
            known = part.has_calls
            done.parts[axis] = part
        return done


def membership(perturber: Axis, drawn: SelectedDialogue, kinds: Sequence[tuple[str, ClusterOf]] = ()) -> Membership:
    """The clusters of a dialogue and its tellings.

    Args:
        perturber: of the axis.
        drawn: the dialogue and what it is told as.
        kinds: further kinds of clusters.
    """
    dialogue, candidates = drawn
    return Membership(
        perturber.labels(candidates[0])[0],
        perturber.terms(dialogue, candidates),
        {name: of(dialogue) for name, of in kinds},
    )


class Executor(Protocol):
    """Where chunks are worked on."""

    def __call__(self, work: Work, execution: Runs, chunks: Chunks) -> Iterator[tuple[Chunk, Done]]:
        """Every chunk, or its parts, in order, with what came of them."""


@dataclass(frozen=True)
class Work:
    """Everything that a workshop is made of, for other processes."""

    teller: Counterfactuals
    pipeline: Pipeline
    history: HistoryMode
    metrics: Sequence[Metric]
    kinds: Sequence[tuple[str, ClusterOf]]
    samples: int
    max_failures: float
    cache: str | None
    """SQLite file in which answers are kept."""

    def workshop(self, execution: Runs) -> Workshop:
        """A workshop that runs dialogues there."""
        rows = TurnRows(self.pipeline.names, self.metrics)
        return Workshop(self.teller, execution, rows, self.kinds, self.samples)


def here(work: Work, execution: Runs, chunks: Chunks) -> Iterator[tuple[Chunk, Done]]:
    """All chunks in this process, one after the other, in one part each."""
    workshop = work.workshop(execution)
    calls = False
    for (chunk,) in chunks(1):
        done = workshop(chunk, dict.fromkeys(chunk, calls))
        calls = calls or any(part.has_calls for part in done.parts.values())
        yield chunk, done
