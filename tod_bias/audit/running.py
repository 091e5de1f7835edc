"""Running tellings: every dialogue as it is and as everybody, as often as answers are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tod_bias.audit.turn_rows import Record, Sampled
from tod_bias.perturb.axis import Variants
from tod_bias.results import LostInfo
from tod_bias.systems.execution import Run, Trace
from tod_bias.systems.stages.recorded import ORIGINAL

_REASONS = 3
"""Reasons that are told."""


class Runs(Protocol):
    """What runs dialogues, or knows what they came to."""

    lost: dict[int, str]
    """Of the last call: number of a run without an answer to some question, and the reason."""
    lost_unswapped: set[int]
    """Of these, the runs that have none where no component is swapped."""

    @property
    def is_sampled(self) -> bool:
        """Whether any component draws its answers."""

    def __call__(self, runs: Sequence[Run]) -> list[Trace | None]:
        """The traces of all runs."""


@dataclass
class Lost:
    """Dialogues that are left out because a question had no answer."""

    reasons: dict[str, str] = field(default_factory=dict)
    """A dialogue's id to the reason."""
    tellings: Counter[str] = field(default_factory=Counter)
    """As whom they were told when the system itself had no answer, and not only a twin, which asks as the original
    does: ``original``, or an axis and attribute (``gender: woman``)."""

    @property
    def record(self) -> LostInfo:
        """How many, in which variants, and the reasons that are met most."""
        reasons = Counter(self.reasons.values()).most_common(_REASONS)
        return LostInfo(dialogues=len(self.reasons), variants=dict(self.tellings), reasons=dict(reasons))

    def merge(self, other: Lost) -> None:
        """Those of another chunk."""
        self.reasons |= other.reasons
        self.tellings += other.tellings

    def add(self, run: Run, reason: str, *, own: bool) -> None:
        """One more; ``own``: not only a twin has no answer."""
        self.reasons.setdefault(run.dialogue.id, reason)
        if own:
            self.tellings[ORIGINAL if run.rewrite is None else f"{run.rewrite.axis}: {run.rewrite.target}"] += 1


def records_of(
    execution: Runs, retold: Mapping[str, Sequence[Variants]], samples: int, lost: Lost
) -> dict[str, list[Record]]:
    """Axis to the dialogues of one chunk, as the system told them; those with a question without answer are missing.

    A dialogue is left out of all axes. Where components draw their answers, the originals are run once more than there
    are samples if there is only one: the A/A run, in which only the draws differ.
    """
    originals = {_name(one.original): one.original for some in retold.values() for one in some}
    rewritten = [run for some in retold.values() for one in some for run in one.rewritten]
    draws = max(samples, 2) if execution.is_sampled else samples
    runs = [replace(run, sample=sample) for sample in range(draws) for run in originals.values()]
    runs += [replace(run, sample=sample) for sample in range(samples) for run in rewritten]
    traces = execution(runs)
    for number, reason in execution.lost.items():
        lost.add(runs[number], reason, own=number in execution.lost_unswapped)
    rest: Iterator[Trace | None] = iter(traces)
    of_original = [{name: next(rest) for name in originals} for _ in range(draws)]
    of_rewritten = [
        {axis: [[next(rest) for _ in one.rewritten] for one in some] for axis, some in retold.items()}
        for _ in range(samples)
    ]
    found: dict[str, list[Record]] = {}
    for axis, some in retold.items():
        found[axis] = []
        for place, one in enumerate(some):
            name = _name(one.original)
            if one.original.dialogue.id in lost.reasons:
                continue
            told = [
                Sampled(_there(of_original[sample][name]), [_there(it) for it in of_rewritten[sample][axis][place]])
                for sample in range(samples)
            ]
            every = [_there(of_original[draw][name]) for draw in range(draws)]
            pairs = list(zip(every[::2], every[1::2], strict=False)) if execution.is_sampled else []
            found[axis].append(Record(one, told, pairs))
    return found


def _name(run: Run) -> tuple[str, str]:
    """Tells originals apart: a dialogue with an introduction is another one on every axis."""
    return run.dialogue.id, run.variant


def _there(trace: Trace | None) -> Trace:
    assert trace is not None  # the dialogue would have been lost
    return trace
