"""Cases cut down to the turns that their harm takes, by asking the system again.

Of the turns before the marked one first all are left out, then one after the other: a turn stays out where the rest is
told as before and the harm, and the share of it that enters at the case's component, stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tod_bias.perturb.axis import Axis
from tod_bias.perturb.records import CounterfactualRecord
from tod_bias.testing.case_runs import Measured, Questioning
from tod_bias.testing.cases import TOLERANCE, Case, told_turns

STAYS = 0.9
"""Share of the harm that must stay."""


@dataclass
class _State:
    """A case on its way to fewer turns."""

    case: Case
    full: Measured
    """With all turns up to the marked one."""
    now: Measured
    """With those that are kept."""
    kept: list[int]
    """Numbers of turns of the case that stay, the marked one last."""
    tries: list[list[int]]
    """What is left out next, the first first."""

    @property
    def next(self) -> list[int]:
        """The turns that are left if the next is tried."""
        return [number for number in self.kept if number not in self.tries[0]]


def minimised(cases: Sequence[Case], ask: Questioning, perturbers: Mapping[str, Axis]) -> tuple[list[Case], list[Case]]:
    """Cut cases down.

    Args:
        cases: several.
        ask: the system that they are of.
        perturbers: of their axes.

    Returns:
        The cases, with what the system answers now; and those that it does not show, which stay as they are.
    """
    whole = ask([(case.telling, case.telling.rewrite(perturbers[case.axis])) for case in cases])
    states: dict[str, _State] = {}
    for case, measured in zip(cases, whole, strict=True):
        if isinstance(measured, Measured) and _shows(measured, case.component, TOLERANCE, TOLERANCE):
            turns = list(range(len(case.told)))
            tries = [turns[:-1], *([one] for one in turns[:-1] if len(turns) > 2)] if len(turns) > 1 else []
            states[case.id] = _State(case, measured, measured, turns, tries)
    while live := [state for state in states.values() if state.tries]:
        asked: list[tuple[_State, CounterfactualRecord]] = []
        for state in live:
            telling = state.case.telling.cut(state.next)
            told = tuple(state.case.told[number] for number in state.next)
            if telling is not None and told_turns(telling, perturbers[state.case.axis]) == told:
                asked.append((state, telling))
            else:
                state.tries.pop(0)
        answered = ask([(telling, telling.rewrite(perturbers[one.case.axis])) for one, telling in asked])
        for (state, _), measured in zip(asked, answered, strict=True):
            full, component = state.full, state.case.component
            least = STAYS * full.harm, STAYS * full.by_component[component]
            if isinstance(measured, Measured) and _shows(measured, component, *least):
                state.kept, state.now = state.next, measured
            state.tries.pop(0)
            if len(state.kept) == 1:
                state.tries = []
    found = [_cut(case, states.get(case.id)) for case in cases]
    return found, [case for case in cases if case.id not in states]


def _shows(measured: Measured, component: str, harm: float, share: float) -> bool:
    return measured.harm > harm and measured.by_component.get(component, measured.harm) > share


def _cut(case: Case, state: _State | None) -> Case:
    if state is None:
        return case
    telling = case.telling.cut(state.kept)
    assert telling is not None  # it was asked
    return replace(
        case,
        telling=telling,
        told=tuple(case.told[number] for number in state.kept),
        turns=tuple(case.turns[number] for number in state.kept),
        minimised=True,
        harm=state.now.harm,
        by_component=state.now.by_component,
        scores=state.now.scores,
        outputs=state.now.outputs,
    )
