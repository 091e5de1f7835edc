"""Screening: which of the many events of a run are estimated in full.

Every hypothesis belongs to the family of a run's claims, whether it is estimated in full or not: the largest statistic
of those that are left out takes part in each flip of signs (max-T of Westfall and Young 1993). An event whose
differences have no direction cannot be claimed in that family, so leaving it out hides no claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tod_bias.audit.claimed_rows import are_enough
from tod_bias.audit.claims import Further
from tod_bias.audit.contrasts import group_design, kinds_of_clusters
from tod_bias.audit.event_sums import EventSums
from tod_bias.audit.turns import AxisTurns
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.metrics.events import Event
from tod_bias.statistics.exchanges import ExchangedRows
from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.group_model import GroupDesign
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by
from tod_bias.statistics.term_exchanges import exchanged_terms

MOST_IN_FULL = 32
"""Events that are estimated in full, if as many have a direction."""
FEWEST_IN_FULL = 12
"""Events that are estimated in full although they have none, those that differ most often."""
MOST_PHRASES = 8
"""Phrases among them: many phrases of the same answers say the same."""
DIRECTION = 2.2
"""Smallest |Σx| / √Σx² of a gap with a direction. A claim takes more in any family of three tests or more."""
_FEWEST_UNITS = 8
"""Dialogues from which an event that is left out can reach a statistic that matters to the family; with m of them it
reaches √m at the most."""
_FEWEST_EXCHANGED = 4
"""The same for exchanges: five dialogues that differ in one group of three have a z of √10, and a direction."""


@dataclass(frozen=True)
class _AxisScreen:
    """Contributions of dialogues to the gaps of all events on one axis."""

    adds: np.ndarray
    """(dialogues, events, groups)."""
    design: GroupDesign
    centred: np.ndarray
    """(dialogues, groups, events), less the mean of the dialogue."""
    values: np.ndarray
    """(dialogues, groups, events), as they are."""
    beyond: tuple[np.ndarray, GroupDesign] | None
    """The same beyond the placebo's effect; None without a placebo."""

    def flipped(self, chosen: np.ndarray, inference: Inference, *, over_clusters: bool) -> list[list[FlippedRows]]:
        """Return some events under sign flips: their gaps, and those beyond the placebo's effect.

        Args:
            chosen: numbers of events.
            inference: number and seed of flips.
            over_clusters: True if clusters of dialogues are a sample.
        """
        sets: list[list[FlippedRows]] = []
        for some in ((self.adds, self.design), self.beyond):
            rows = None
            if some is not None and inference.permutations:
                adds, design = some
                rows = _flipped(design.merged(adds[:, chosen], over_clusters=over_clusters), inference)
            sets.append([] if rows is None else [rows])
        return sets

    def exchanged(self, chosen: np.ndarray, inference: Inference) -> ExchangedRows | None:
        """Return the groups under exchanges within dialogues, by some events; None if none can matter."""
        present = np.flatnonzero(self.design.has.any(axis=0))
        values = self.design.merged(self.centred[:, :, chosen], over_clusters=False)[:, present]
        values = values[:, :, (values != 0).any(axis=1).sum(axis=0) >= _FEWEST_EXCHANGED]
        if not values.shape[2]:
            return None
        return ExchangedRows.of(values, self.design.has[:, present], inference.permutations, inference.seed)

    def exchanged_terms(self, chosen: np.ndarray, inference: Inference) -> ExchangedRows | None:
        """Return the groups under exchanges of terms, by some events; None if none can matter."""
        design = self.design
        present = np.flatnonzero(design.has.any(axis=0))
        terms = design.terms_by_group
        values = self.values[:, present][:, :, chosen]
        values = values[:, :, (values != 0).any(axis=1).sum(axis=0) >= _FEWEST_EXCHANGED]
        if not values.shape[2] or terms is None:
            return None
        by_group = [terms[group] for group in present]
        return exchanged_terms(values, design.has[:, present], by_group, inference.permutations, inference.seed)

    @property
    def strength(self) -> np.ndarray:
        """(events,) the largest statistic over groups."""
        return _strength(self.adds).max(axis=1, initial=0.0)


def _strength(adds: np.ndarray) -> np.ndarray:
    """Return |Σx| / √Σx² of (dialogues, …)."""
    size = np.sqrt((adds**2).sum(axis=0))
    return np.abs(adds.sum(axis=0)) / np.where(size > 0, size, np.inf)


def screened(
    axes: Mapping[str, AxisTurns], sums: Mapping[str, EventSums], events: Sequence[Event], inference: Inference
) -> tuple[list[Event], Further]:
    """Return the events that are estimated in full, and the others under sign flips.

    Args:
        axes: axis to its turns, without the placebo.
        sums: axis to the sums of all events.
        events: one of each hypothesis, those that differ in most dialogues first.
        inference: number and seed of the flips.
    """
    screens = {axis: _axis_screen(turns.variants, sums[axis]) for axis, turns in axes.items()}
    strength = np.max([screen.strength for screen in screens.values()], axis=0, initial=0.0)
    in_full = _in_full(events, strength)
    left = np.array([number for number in range(len(events)) if number not in in_full], dtype=int)
    further = _further(screens, left, inference, over_clusters=True)
    if any(screen.design.has_clusters for screen in screens.values()):
        further = replace(further, in_these_clusters=_further(screens, left, inference, over_clusters=False))
    return [events[number] for number in in_full], further


def _further(
    screens: Mapping[str, _AxisScreen], chosen: np.ndarray, inference: Inference, *, over_clusters: bool
) -> Further:
    gaps: list[FlippedRows] = []
    beyond: list[FlippedRows] = []
    group_exchanges: list[ExchangedRows] = []
    term_exchanges: list[ExchangedRows] = []
    for axis, screen in screens.items():
        drawn = replace(inference, seed=inference.seed_of(axis))
        of_gaps, of_beyond = screen.flipped(chosen, drawn, over_clusters=over_clusters)
        gaps += of_gaps
        beyond += of_beyond
        rows = screen.exchanged(chosen, drawn)
        group_exchanges += [] if rows is None else [rows]
        rows = None if over_clusters and screen.design.has_clusters else screen.exchanged_terms(chosen, drawn)
        term_exchanges += [] if rows is None else [rows]
    return Further(gaps, beyond, group_exchanges, term_exchanges)


def _in_full(events: Sequence[Event], strength: np.ndarray) -> list[int]:
    """Return the numbers of the events that are estimated in full, in their order.

    Those with a direction come first, fields and outcomes before phrases; then those that differ most often.
    """
    directed = [number for number in range(len(events)) if strength[number] >= DIRECTION]
    directed.sort(key=lambda number: (events[number].level, -strength[number]))
    chosen: list[int] = []
    phrases = 0
    for number in directed:
        phrases += events[number].level == 1
        if events[number].level != 1 or phrases <= MOST_PHRASES:
            chosen.append(number)
    chosen = chosen[:MOST_IN_FULL]
    for number in range(len(events)):
        if len(chosen) >= FEWEST_IN_FULL:
            break
        if number not in chosen:
            chosen.append(number)
    return sorted(chosen)


def _axis_screen(variants: VariantIndex, sums: EventSums) -> _AxisScreen:
    has = variants.has_group
    present = has.any(axis=0)
    complete = has[:, present].all(axis=1)
    shared = np.asarray(complete if 2 * complete.sum() >= len(has) else has[:, present].sum(axis=1) > 1)
    has = has & shared[:, None]
    could = sums.original[:, :, 1] > 0
    values = _by_group(variants, sums) * (could & shared[:, None])[:, :, None]
    design = group_design(variants, has, kinds_of_clusters(variants))
    adds = _adds(design, values)
    centred = design.centred(values.transpose(0, 2, 1)) * (values != 0).any(axis=2)[:, None]
    by_group = values.transpose(0, 2, 1)
    members = variants.has_placebo & shared
    if not members.any():
        return _AxisScreen(adds, design, centred, by_group, None)
    start, end = sums.ends_of_placebo()
    placebo = _means(variants.placebo, end - start, variants.dialogues)
    less = np.repeat(placebo[:, :, None], has.shape[1], axis=2)
    mentions = np.flatnonzero(variants.source >= 0)
    less[mentions, :, variants.source[mentions]] = 0.0
    terms = variants.weights_of_terms(has.shape[1])
    of_placebo = GroupDesign(has & members[:, None], terms, None, kinds_of_clusters(variants))
    beyond = np.where(could[:, :, None] & members[:, None, None], values - less, 0.0)
    return _AxisScreen(adds, design, centred, by_group, (_adds(of_placebo, beyond), of_placebo))


def _by_group(variants: VariantIndex, sums: EventSums) -> np.ndarray:
    """Return (dialogues, events, groups): what replacing all stages changes in a dialogue as a group."""
    start, end = sums.ends()
    change = (end - start).astype(float)
    values = np.zeros((variants.dialogues, change.shape[1], len(variants.groups)))
    for group in range(len(variants.groups)):
        chosen = variants.target == group
        values[:, :, group] = _means(variants.of[chosen], change[chosen], variants.dialogues)
    mentions = np.flatnonzero(variants.source >= 0)
    values[mentions, :, variants.source[mentions]] = 0.0  # the dialogue as it is
    return values


def _means(of: np.ndarray, table: np.ndarray, dialogues: int) -> np.ndarray:
    count = np.bincount(of, minlength=dialogues)
    return sums_by(of, table, dialogues) / np.maximum(count, 1)[:, None]


def _adds(design: GroupDesign, values: np.ndarray) -> np.ndarray:
    """Return (dialogues, events, groups): contributions to the gap of each group from the mean of those compared."""
    groups = values.shape[2]
    present = [group for group in range(groups) if design.has[:, group].any()]
    enough = [group for group in present if are_enough(design.sets_of(group))]
    compared = enough if len(enough) > 1 else present
    adds = np.zeros(values.shape)
    if len(present) < 2:
        return adds
    differs = (values != 0).any(axis=2)
    for group in present:
        contrast = np.zeros(groups)
        contrast[compared] -= 1 / len(compared)
        contrast[group] += 1
        coefficients = design.coefficients(contrast)[:, :groups]
        adds[:, :, group] = np.einsum("dg,deg->de", coefficients, values) * differs
    return adds


def _flipped(adds: np.ndarray, inference: Inference) -> FlippedRows | None:
    """Return (dialogues, events, groups) under sign flips; None if none of the events can matter to the family."""
    table = adds[:, ((adds != 0).any(axis=2)).sum(axis=0) >= _FEWEST_UNITS]
    if not table.size:
        return None
    return FlippedRows.of(table.reshape(len(table), -1), inference.permutations, inference.seed)
