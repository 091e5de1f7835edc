"""Measured axes of a run: the sums of its metrics and events, with the placebo as an axis of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tod_bias.audit.claims import Further
from tod_bias.audit.event_sums import TablesWithEvents
from tod_bias.audit.events import Chosen, EventSearch, most_events
from tod_bias.audit.run import Measures, Outputs
from tod_bias.audit.screening import screened
from tod_bias.audit.turns import AxisTurns, Turns, placebo_turns
from tod_bias.errors import NothingToPerturbError, TodBiasError
from tod_bias.metrics.events import Event
from tod_bias.perturb.axis import PLACEBO
from tod_bias.statistics.settings import Inference


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
    events, chosen, further = list(measures.events), Chosen([], {}), Further()
    axes = dict(outputs.axes)
    if measures.is_default:
        chosen = _chosen(outputs)
        events = chosen.events
    if events:
        axes = {axis: outputs.turns.with_events(axis, turns, events) for axis, turns in axes.items()}
    if measures.is_default and events:
        sums = {axis: turns.tables.events for axis, turns in axes.items() if isinstance(turns.tables, TablesWithEvents)}
        events, further = screened(axes, sums, events, inference)
        names = [event.name for event in events]
        axes = {
            axis: AxisTurns(turns.dialogues, turns.variants, turns.tables.only(names))
            for axis, turns in axes.items()
            if isinstance(turns.tables, TablesWithEvents)
        }
    outputs.turns.events = events
    failures: dict[str, TodBiasError] = {}
    if has_placebo:
        placebo = placebo_turns(axes)
        if placebo is not None:
            axes[PLACEBO] = placebo
        else:
            reason = f"axis {PLACEBO}: no dialogue holds a neutral word to exchange"
            failures[PLACEBO] = NothingToPerturbError(reason)
    merged = {event.name: chosen.merged[event.name] for event in events if event.name in chosen.merged}
    return MeasuredAxes(axes, events, merged, chosen.left_out, further, measures.is_default, failures)


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
