"""From dialogues to sums: one chunk of a corpus told, run, scored and added up, here or by another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tod_bias.audit.design import Counterfactuals
from tod_bias.audit.running import Lost, Runs, records_of
from tod_bias.audit.turn_rows import Membership, Record, Sums, TurnRows
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import Axis, Edits, SelectedDialogue
from tod_bias.systems.execution import HistoryMode, Run
from tod_bias.systems.pipeline import Pipeline

if TYPE_CHECKING:
    import pyarrow as pa

ClusterOf = Callable[[Dialogue], str]
"""A kind of clusters: which one a dialogue belongs to."""
Chunk = Mapping[str, Sequence[SelectedDialogue]]
"""Axis to dialogues, each with its tellings."""
Chunks = Callable[[int], Iterable[Sequence[Chunk]]]
"""Gives all chunks, each cut into so many parts or a few more."""


class AxisPart(NamedTuple):
    """What came of one chunk on one axis."""

    kept: tuple[int, ...]
    """Places in the chunk of the dialogues that were answered."""
    sums: Sums
    rows: pa.Table
    """For the table of turns."""
    members: list[Membership]
    """The clusters of each dialogue and its tellings."""
    placebo: list[str | None]
    """The word of each dialogue's placebo; None where it has none."""
    references: list[tuple[int, str]]
    """Tellings that are nobody's: number of the dialogue, and as what it is told."""
    doses: list[Edits]
    """Of dialogues with a placebo."""


@dataclass
class Done:
    """What came of one chunk."""

    parts: dict[str, AxisPart] = field(default_factory=dict)
    """Axis to what came of it; an axis of which every dialogue is lost is missing."""
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
            kept = tuple(
                place for place, (dialogue, _) in enumerate(chunk[axis]) if dialogue.id not in done.lost.reasons
            )
            members = [self._member(axis, chunk[axis][place]) for place in kept]
            sums, rows = self._rows.of(axis, records, members, calls=known or bool(calls and calls.get(axis)))
            known = sums.calls
            done.parts[axis] = AxisPart(
                kept, sums, rows, members,
                [None if run is None else _word(run) for run in (one.retold.placebo for one in records)],
                _references(records),
                [record.retold.edits for record in records if record.retold.edits is not None],
            )  # fmt: skip
        return done

    def _member(self, axis: str, drawn: SelectedDialogue) -> Membership:
        return membership(self._teller.axes[axis], drawn, self._kinds)


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


def _references(records: Sequence[Record]) -> list[tuple[int, str]]:
    return [
        (place, str(run.rewrite and run.rewrite.target))
        for place, record in enumerate(records)
        for run in record.retold.references
    ]


def _word(run: Run) -> str:
    """The word that stands for a rewrite."""
    return str(getattr(run.rewrite, "word", ""))


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
    flow: bool
    """Whether the system has a flow of its own."""

    def workshop(self, execution: Runs) -> Workshop:
        """A workshop that runs dialogues there."""
        rows = TurnRows(self.pipeline.names, self.metrics, flow=self.flow)
        return Workshop(self.teller, execution, rows, self.kinds, self.samples)


def here(work: Work, execution: Runs, chunks: Chunks) -> Iterator[tuple[Chunk, Done]]:
    """All chunks in this process, one after the other, in one part each."""
    workshop = work.workshop(execution)
    calls = False
    for (chunk,) in chunks(1):
        done = workshop(chunk, dict.fromkeys(chunk, calls))
        calls = calls or any(part.sums.calls for part in done.parts.values())
        yield chunk, done
