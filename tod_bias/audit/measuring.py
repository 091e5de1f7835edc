"""Measured axes of a run: the sums of its metrics and events, with the placebo as an axis of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tod_bias.audit.claims import Further
from tod_bias.audit.event_sums import EventSums, TablesWithEvents
from tod_bias.audit.events import Chosen, EventSearch, most_events
from tod_bias.audit.run import Measures, Outputs
from tod_bias.audit.screening import screened
from tod_bias.audit.turns import AxisTurns, Turns, placebo_turns
from tod_bias.errors import NothingToPerturbError, TodBiasError
from tod_bias.metrics.events import Event
from tod_bias.perturb.axis import PLACEBO
from tod_bias.statistics.settings import Inference

_HALF = 0.5
"""Share of an event's occurrences by which more is left of it than of another one."""


@dataclass(frozen=True)
class MeasuredAxes:
    """Sums of a run's axes."""

    axes: Mapping[str, AxisTurns]
    """Axis to the sums of its turns; the placebo among the axes."""
    events: Sequence[Event]
    """Events that are estimated in full, in addition to the metrics."""
    merged: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    """Name of an event to others that happen in the same variants."""
    left_out: int = 0
    """Hypotheses that are not measured, because they are too many."""
    further: Further = field(default_factory=Further)
    """Hypotheses that are tested and not estimated in full."""
    chose: bool = False
    """True if the turns decided which events: those that differ on no variant of an axis are then left out of it."""
    failures: Mapping[str, TodBiasError] = field(default_factory=dict)
    """Axes without results, and why."""


def measured_axes(outputs: Outputs, measures: Measures, inference: Inference, *, has_placebo: bool) -> MeasuredAxes:
    """Return the sums of all axes of a run, by its metrics and by the events that its turns show.

    Args:
        outputs: what the system put out.
        measures: the metrics, and the events that were asked for.
        inference: flips and seed, for the screening of events.
        has_placebo: True if the run has a placebo.
    """
    events, merged, further, left_out = list(measures.events), dict[str, Sequence[Event]](), Further(), 0
    axes = dict(outputs.axes)
    if measures.is_default:
        chosen = _chosen(outputs)
        left_out = chosen.left_out
        if chosen.events:
            axes, events, merged, further = _measured_events(outputs, chosen, inference)
    elif events:
        axes = {axis: outputs.turns.with_events(axis, turns, events) for axis, turns in axes.items()}
    outputs.turns.events = events
    failures: dict[str, TodBiasError] = {}
    if has_placebo:
        placebo = placebo_turns(axes)
        if placebo is not None:
            axes[PLACEBO] = placebo
        else:
            reason = f"axis {PLACEBO}: no dialogue holds a neutral word to exchange"
            failures[PLACEBO] = NothingToPerturbError(reason)
    return MeasuredAxes(axes, events, merged, left_out, further, measures.is_default, failures)


def _measured_events(
    outputs: Outputs, chosen: Chosen, inference: Inference
) -> tuple[dict[str, AxisTurns], list[Event], dict[str, Sequence[Event]], Further]:
    """Return the axes with the sums of events, the events that are estimated in full, those merged, and the rest."""
    known = {event.name for event in chosen.events}
    others = [event for some in chosen.of_others.values() for event in some if event.name not in known]
    every = [*chosen.events, *others]
    axes = {axis: outputs.turns.with_events(axis, turns, every) for axis, turns in outputs.axes.items()}
    tables = {axis: turns.tables for axis, turns in axes.items() if isinstance(turns.tables, TablesWithEvents)}
    causes = second_causes(chosen.of_others, {axis: table.events for axis, table in tables.items()})
    tested = [*chosen.events, *(cause for cause in causes if cause.name not in known)]
    sums = {axis: table.events.only([event.name for event in tested]) for axis, table in tables.items()}
    events, further = screened(axes, sums, tested, inference)
    names = [event.name for event in events]
    merged: dict[str, Sequence[Event]] = {
        name: _without_causes(chosen.merged[name], causes) for name in names if name in chosen.merged
    }
    measured = {
        axis: AxisTurns(axes[axis].dialogues, axes[axis].variants, table.only(names)) for axis, table in tables.items()
    }
    return measured, events, merged, further


def second_causes(of_others: Mapping[str, Sequence[Event]], sums: Mapping[str, EventSums]) -> list[Event]:
    """Return the events of other components that stay although the event they are merged with is gone.

    A consequence goes away with its cause, whichever components are replaced. What remains has a cause of its own.

    Args:
        of_others: name of an event to events of other components in the same variants.
        sums: axis to the sums of all these events in all arms.
    """
    return [
        event
        for name, events in of_others.items()
        for event in events
        if any(_enters_elsewhere(of_axis, name, event.name) for of_axis in sums.values())
    ]


def _enters_elsewhere(sums: EventSums, name: str, other: str) -> bool:
    """Return whether in some arm more is left of another event than of the first, by half of what there was."""
    left = []
    for event in (name, other):
        happened = sums.happened["group"][:, :, sums.places[event]].astype(float)
        size = np.abs(happened - happened[:, -1:]).sum(axis=0)
        if not size[0]:
            return False
        left.append(size / size[0])
    return bool((left[1] - left[0]).max() > _HALF)


def _without_causes(events: Sequence[Event], causes: Sequence[Event]) -> list[Event]:
    """Return merged events without those of a component and kind that are a cause of their own."""
    of_causes = {(cause.stage, cause.kind) for cause in causes}
    return [event for event in events if (event.stage, event.kind) not in of_causes]


def counts_of(turns: Turns, measured: MeasuredAxes, axis: str, event: Event) -> dict[str, tuple[float, float]]:
    """Return how often an event that is not estimated happened as each group, and in how many turns it could.

    Args:
        turns: of the run.
        measured: axes of the run.
        axis: name of one.
        event: to be counted in the facts of the turns.
    """
    of_axis = measured.axes[axis]
    table = turns.with_events(axis, of_axis, [event]).tables[event.name]
    counts = {}
    for number, group in enumerate(of_axis.variants.groups):
        happened, could = table.for_group(number)[:, 0].sum(axis=0)
        counts[group] = round(float(happened), 3), round(float(could), 3)
    return counts


def _chosen(outputs: Outputs) -> Chosen:
    """Return the events that differ between variants of the run's dialogues."""
    search = EventSearch()
    for axis in outputs.axes:
        outputs.turns.search(axis, search)
    variants = sum(len(turns.variants.of) + len(turns.variants.placebo) for turns in outputs.axes.values())
    return search.chosen(most_events(variants, len(outputs.turns.arms.arms)))
