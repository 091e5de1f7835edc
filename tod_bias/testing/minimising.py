"""Cases cut down to the turns that their harm takes, by running the system again.

Of the turns before the marked one first all are left out, then one after the other: a turn stays out where the rest is
rewritten as before and the harm, and the share of it that enters at the case's stage, stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tod_bias.perturb.axis import Axis
from tod_bias.perturb.records import CounterfactualRecord
from tod_bias.testing.case_runs import CaseRunner, MeasuredCase
from tod_bias.testing.cases import TOLERANCE, Case, rewritten_turns

STAYS = 0.9
"""Share of the harm that must stay."""


@dataclass
class _Reduction:
    """A case on its way to fewer turns."""

    case: Case
    full: MeasuredCase
    """With all turns up to the marked one."""
    last: MeasuredCase
    """With those that stay."""
    turns: list[int]
    """Numbers of turns of the case that stay, the marked one last."""
    tries: list[list[int]]
    """What is left out next, the first first."""

    @classmethod
    def of(cls, case: Case, measured: MeasuredCase) -> _Reduction:
        """Nothing is left out yet."""
        turns = list(range(len(case.rewritten)))
        tries = [turns[:-1], *([number] for number in turns[:-1] if len(turns) > 2)] if len(turns) > 1 else []
        return cls(case, measured, measured, turns, tries)

    @property
    def next(self) -> list[int]:
        """The turns that are left if the next is tried."""
        return [number for number in self.turns if number not in self.tries[0]]

    def shorter(self, axis: Axis) -> CounterfactualRecord | None:
        """The counterfactual of the next try; None where it would be rewritten otherwise."""
        counterfactual = self.case.counterfactual.cut(self.next)
        wanted = tuple(self.case.rewritten[number] for number in self.next)
        if counterfactual is None or rewritten_turns(counterfactual, axis) != wanted:
            return None
        return counterfactual

    def take(self, measured: MeasuredCase | str) -> None:
        """Leave the turns out if the harm stays."""
        stage = self.case.stage
        if _shows(measured, stage, STAYS * self.full.harm, STAYS * self.full.contributions[stage]):
            assert isinstance(measured, MeasuredCase)
            self.turns, self.last = self.next, measured
        self.tries.pop(0)
        if len(self.turns) == 1:
            self.tries = []

    @property
    def minimised(self) -> Case:
        """The case with the turns that stay."""
        counterfactual = self.case.counterfactual.cut(self.turns)
        assert counterfactual is not None  # it was run
        return self.case.model_copy(
            update={
                "counterfactual": counterfactual,
                "rewritten": tuple(self.case.rewritten[number] for number in self.turns),
                "turns": tuple(self.case.turns[number] for number in self.turns),
                "minimised": True,
                **vars(self.last),
            }
        )


def minimised(cases: Sequence[Case], run: CaseRunner, axes: Mapping[str, Axis]) -> tuple[list[Case], list[Case]]:
    """Cut cases down.

    Args:
        cases: several.
        run: runs the system that they are of.
        axes: of the cases, by name.

    Returns:
        The cases, with what the system puts out now; and those that it does not show, which stay as they are.
    """
    whole = run([(case.counterfactual, case.counterfactual.rewrite(axes[case.axis])) for case in cases])
    reductions = {
        case.id: _Reduction.of(case, measured)
        for case, measured in zip(cases, whole, strict=True)
        if isinstance(measured, MeasuredCase) and _shows(measured, case.stage, TOLERANCE, TOLERANCE)
    }
    while unfinished := [reduction for reduction in reductions.values() if reduction.tries]:
        tried: list[tuple[_Reduction, CounterfactualRecord]] = []
        for reduction in unfinished:
            counterfactual = reduction.shorter(axes[reduction.case.axis])
            if counterfactual is None:
                reduction.tries.pop(0)
            else:
                tried.append((reduction, counterfactual))
        pairs = [(shorter, shorter.rewrite(axes[reduction.case.axis])) for reduction, shorter in tried]
        for (reduction, _), measured in zip(tried, run(pairs), strict=True):
            reduction.take(measured)
    shorter = [reductions[case.id].minimised if case.id in reductions else case for case in cases]
    return shorter, [case for case in cases if case.id not in reductions]


def _shows(measured: MeasuredCase | str, stage: str, harm: float, share: float) -> bool:
    if isinstance(measured, str):
        return False
    return measured.harm > harm and measured.contributions.get(stage, measured.harm) > share
