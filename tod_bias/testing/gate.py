"""A gate: does a finished run show that no group is served worse by more than a limit?

The gate passes if the one-sided 95% bound of every gap is within the margin; because all must be, none is adjusted. It
fails if one gap is beyond the limit (one-sided bounds, Bonferroni over all gaps). Otherwise the run is undecided. If
few dialogues differ, bounds are exact, over dialogues and over terms. A group with too few terms is never decided.
Everything is read from ``results.json``; nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.audit.claims import Affected, exact_half
from tod_bias.audit.running import differences_of
from tod_bias.errors import TodBiasError
from tod_bias.metrics.events import event_of
from tod_bias.metrics.events.turns import TurnFails
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import DIFFERENT, AuditResult, AxisResult, Estimate, Group
from tod_bias.statistics.distributions import t_quantile
from tod_bias.statistics.intervals import LEVEL
from tod_bias.statistics.needed import ENOUGH_TERMS
from tod_bias.statistics.power import affected_within, units_needed

WITHIN, ABOVE, UNKNOWN = "within", "above", "cannot tell"
"""Decisions about a value."""
CODES = {WITHIN: 0, ABOVE: 1, UNKNOWN: 3}
"""Exit codes; 2 is for the user's mistakes."""
ALPHA = 1 - LEVEL


class GateError(TodBiasError):
    """A check names something that the run does not have."""


@dataclass(frozen=True)
class Limits:
    """Limits on each metric's own scale.

    Raises:
        TodBiasError: a limit is invalid.
    """

    max_gap: float
    """Beyond it the gate fails."""
    margin: float | None = None
    """Within it the gate passes; by default ``max_gap``, and never above it."""
    both_sides: bool = False
    """True if being served better than the others counts too."""
    terms_only: bool = False
    """True if terms are taken as given, not as a sample."""
    tried: int = 1
    """Number of systems from which the best one was chosen on the same dialogues; a pass is held to alpha / tried."""

    def __post_init__(self) -> None:
        if not 0 < self.max_gap < math.inf:
            raise TodBiasError(f"max_gap must be above 0, got {self.max_gap!r}")
        if self.margin is not None and not 0 < self.margin <= self.max_gap:
            raise TodBiasError(f"margin must be above 0 and not above max_gap ({self.max_gap:g}), got {self.margin!r}")

    @property
    def within(self) -> float:
        """Largest gap with which the gate passes."""
        return self.max_gap if self.margin is None else self.margin

    @property
    def alpha(self) -> float:
        """Level of tests that a value is within the margin (Bonferroni over the systems that were tried)."""
        return ALPHA / self.tried


@dataclass(frozen=True)
class CheckedValue:
    """One value that is checked: a group's gap, or a stage's share of it."""

    axis: str
    metric: str
    name: str
    """``gap of woman``, ``gap of woman, response``."""
    value: float | None
    se: float
    """Standard error; NaN if unknown."""
    df: float
    affected: Sequence[Affected]
    """Numbers of differing and of all dialogues, then of terms, if few dialogues differ."""
    dialogues: int
    terms: float
    """Effective terms of the group."""
    of_terms_only: bool
    """True if the value holds for the terms of the run only."""
    unmeasured: str
    """Reason why nothing is measured; empty if something is."""
    first_differences: tuple[str, ...]
    """Most frequent first differences in the turns as the group, in words."""
    claim_p: float | None
    """The run's own p-value of the claim, over everything that it claims; None: it tested nothing."""
    beyond: Estimate | None
    """The gap beyond what the placebo's rewording does; None without a placebo, and of a stage's share."""
    needs_placebo: bool
    """True if the gap cannot be separated from the effect of rewording."""
    both_sides: bool
    """True if a gap of either sign counts: if asked for, or if neither side of the score is better."""

    @property
    def size(self) -> float:
        """Gap that is compared with the limits, positive if it counts; NaN if undefined."""
        value = math.nan if self.value is None else self.value
        return abs(value) if self.both_sides else value

    def half(self, alpha: float) -> float:
        """Return the distance from the value to its one-sided bound; NaN if unknown."""
        if not math.isfinite(self.se) or self.df < 1:
            return math.nan
        half = float(t_quantile(1 - alpha, self.df)) * self.se
        return max(half, exact_half(self.affected, alpha)) if self.affected else half

    @property
    def no_dialogue_differs(self) -> bool:
        """True if no dialogue shows any difference."""
        return self.value == 0 and self.se == 0

    def beyond_bound(self, alpha: float, side: int) -> float:
        """Return a one-sided bound of the gap beyond rewording; NaN if unknown.

        Args:
            alpha: its level.
            side: 1 for the upper one, -1 for the lower one.
        """
        beyond = self.beyond
        if beyond is None or beyond.value is None or beyond.se is None or (beyond.df or 0.0) < 1:
            return math.nan
        sign = math.copysign(1.0, self.value or 1.0) if self.both_sides else 1.0
        return sign * beyond.value + side * float(t_quantile(1 - alpha, beyond.df)) * beyond.se


@dataclass(frozen=True)
class Verdict:
    """Decision about one value."""

    checked: CheckedValue
    state: str
    interval: tuple[float, float] | None = None
    """Bounds that decide, each at its own level."""
    reason: str = ""
    """Reason for no decision; empty if there is one."""
    needed: float | None = None
    """Number of dialogues, with terms in proportion, that would decide if the value is as observed."""


@dataclass(frozen=True)
class GateResult:
    """Decisions about everything that was checked."""

    run: str
    limits: Limits
    verdicts: tuple[Verdict, ...]
    counterfactual: tuple[str, ...] = ()
    """Metrics for which positive is not harm: they compare with the original."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Metrics that are not checked because neither side is better, with the axes on which they claim something."""

    @property
    def state(self) -> str:
        """Above the limit if any is, within the margin if all are."""
        states = {verdict.state for verdict in self.verdicts}
        return ABOVE if ABOVE in states else WITHIN if states == {WITHIN} else UNKNOWN

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.state]

    @property
    def record(self) -> dict[str, Any]:
        """Return the content of ``check.json``; ``needed`` is null if unknown."""
        return {
            "schema": 3,
            "run": self.run,
            "state": self.state,
            "max_gap": self.limits.max_gap,
            "margin": self.limits.within,
            "both_sides": self.limits.both_sides,
            "terms_only": self.limits.terms_only,
            "counterfactual": list(self.counterfactual),
            "left_out": {metric: list(axes) for metric, axes in self.left_out.items()},
            "values": [_record_of(verdict) for verdict in self.verdicts],
        }


def _record_of(verdict: Verdict) -> dict[str, Any]:
    checked = verdict.checked
    return {
        "axis": checked.axis,
        "metric": checked.metric,
        "name": checked.name,
        "value": checked.value,
        "interval": None if verdict.interval is None else list(verdict.interval),
        "dialogues": checked.dialogues,
        "both_sides": checked.both_sides,
        "state": verdict.state,
        "reason": verdict.reason,
        "first_differences": list(checked.first_differences),
        "needed": verdict.needed,
    }


def gate(
    result: AuditResult,
    limits: Limits | float,
    *,
    axes: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    stage: str | None = None,
) -> GateResult:
    """Check a finished run: the gap of every group of every axis.

    Args:
        result: of the run.
        limits: what is allowed; a number is the largest gap.
        axes: by default all but the placebo.
        metrics: by default all with a better side; for others, gaps of either sign count.
        stage: if given, its share of each gap is checked instead of the gap.

    Raises:
        GateError: the run lacks an axis, metric or stage.
        TodBiasError: a limit is invalid.
    """
    limits = limits if isinstance(limits, Limits) else Limits(limits)
    if stage is not None and stage not in result.stages:
        raise GateError(f"{result.name}: has no stage {stage}; it has {', '.join(result.stages)}")
    rows = _rows(result, axes, metrics)
    checked_axes = list(dict.fromkeys(row.axis for row in rows))
    events = [] if metrics is not None else _event_rows(result, checked_axes)
    values = [value for row in [*rows, *events] for value in _values(row, result, stage, limits)]
    judged = [_verdict(value, len(values), limits) for value in values]
    # Events were chosen by the run: harm that they show counts, but a gate cannot ask that each is shown to be absent.
    chosen_by_run = {row.metric.name for row in events}
    shown = [some for some in judged if some.state == ABOVE or some.checked.metric not in chosen_by_run]
    verdicts = (*shown, *_failures(result, checked_axes, limits))
    chosen = dict.fromkeys(value.metric for value in values)
    compared = tuple(name for name in chosen if result.metrics[name].counterfactual)
    left_out = {} if metrics is not None else _left_out(result, {*chosen, *chosen_by_run})
    return GateResult(result.name, limits, verdicts, compared, left_out)


def _left_out(result: AuditResult, checked: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the metrics that are not checked, with the axes on which each claims something."""
    return {name: _claimed(result, name) for name in result.metrics if name not in checked}


def _event_rows(result: AuditResult, axes: Sequence[str]) -> list[AxisResult]:
    """Return the rows of events that are shares of turns with a better side."""
    names = [name for name, info in result.metrics.items() if (event := event_of(name)) and event.is_share_of_harm]
    return [result.axes[axis][name] for axis in axes for name in names if name in result.axes[axis]]


def _failures(result: AuditResult, axes: Sequence[str], limits: Limits) -> Iterator[Verdict]:
    """Yield a verdict for each group whose turns may fail more often than those of others, by more than the margin.

    Failed turns get the worst score; the bound covers unseen failures (Clopper and Pearson 1934).
    """
    for axis in axes:
        groups = {name: some for name, some in result.failed.get(axis, {}).items() if name in _groups(result, axis)}
        for name, failed in groups.items():
            others = [other.share for key, other in groups.items() if key != name]
            if not failed.turns or not others:
                continue
            gap = failed.share - sum(others) / len(others)
            half = affected_within(failed.turns, failed.of, limits.alpha)
            if gap + half > limits.within:
                reason = f"{failed.turns} of its {failed.of} turns failed ({next(iter(failed.reasons), '')})"
                yield Verdict(_failed_value(axis, name, gap, failed.of), UNKNOWN, (gap - half, gap + half), reason)


def _groups(result: AuditResult, axis: str) -> set[str]:
    return {name for row in result.axes[axis].values() for name in row.groups}


def _failed_value(axis: str, group: str, gap: float, turns: int) -> CheckedValue:
    """Return the gap of a group's failed turns as a value that is checked."""
    return CheckedValue(
        axis=axis,
        metric=TurnFails.kind,
        name=f"failed turns of {group}",
        value=gap,
        se=math.nan,
        df=0.0,
        affected=(),
        dialogues=turns,
        terms=0.0,
        of_terms_only=False,
        unmeasured="",
        first_differences=(),
        claim_p=None,
        beyond=None,
        needs_placebo=False,
        both_sides=False,
    )


def _claimed(result: AuditResult, metric: str) -> tuple[str, ...]:
    """The axes on which a run claims something by a metric."""
    return tuple(axis for axis, rows in result.axes.items() if metric in rows and rows[metric].verdict in DIFFERENT)


def _rows(result: AuditResult, axes: Sequence[str] | None, metrics: Sequence[str] | None) -> list[AxisResult]:
    """Return the axes and metrics that are checked.

    Raises:
        GateError: the run lacks one.
    """
    known_axes = [axis for axis in result.axes if axis != PLACEBO]
    _check_known(result, "axis", axes or (), known_axes)
    _check_known(result, "metric", metrics or (), list(result.metrics))
    rows = []
    for axis in axes or known_axes:
        for metric in metrics or _sided(result):
            row = result.axes[axis].get(metric)
            if row is not None:
                rows.append(row)
            elif metrics is not None or event_of(metric) is None:
                raise GateError(
                    f"{result.name}: has no {metric} on axis {axis}, for which it is undefined; leave one of them out"
                )
    if not rows:
        raise GateError(f"{result.name}: holds no axis but the placebo, which claims nothing; audit another one")
    return rows


def _check_known(result: AuditResult, what: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    for name in wanted:
        if name not in known:
            raise GateError(f"{result.name}: has no {what} {name}; it has {', '.join(known) or 'none but the placebo'}")


def _sided(result: AuditResult) -> list[str]:
    """Return the metrics that are checked by default: those with a better side that the run did not choose itself."""
    named = [name for name in result.metrics if event_of(name) is None] or list(result.metrics)
    return [name for name in named if result.metrics[name].better != "neither"] or named


def _values(row: AxisResult, result: AuditResult, stage: str | None, limits: Limits) -> Iterator[CheckedValue]:
    is_known = row.scale == "ratio" or row.original.value is not None
    unmeasured = row.unmeasured or ("no group is served at all" if row.nobody_is_served else "")
    for name, group in row.groups.items():
        gap, beyond = _gap_of(group, limits), group.beyond_placebo
        part, what = (gap, f"gap of {name}") if stage is None else _share(group, name, stage, result)
        yield CheckedValue(
            axis=row.axis,
            metric=row.metric.name,
            name=what,
            value=part.value if is_known else None,
            se=_number(part.se),
            df=_number(part.df, 0.0),
            affected=_affected(group, row.largest_effect or 1.0, limits),
            dialogues=group.dialogues or 0,
            terms=group.effective_terms or 0.0,
            of_terms_only=_is_of_terms_only(group.gap, limits),
            unmeasured=unmeasured,
            first_differences=differences_of(row, name),
            claim_p=_claim_p(gap, beyond),
            beyond=beyond if stage is None else None,
            needs_placebo=row.needs_placebo and (stage is None or beyond is None),
            both_sides=limits.both_sides or row.metric.better == "neither",
        )


def _gap_of(group: Group, limits: Limits) -> Estimate:
    return group.terms_only or group.gap if limits.terms_only else group.gap


def _share(group: Group, name: str, stage: str, result: AuditResult) -> tuple[Estimate, str]:
    """A stage's share of a group's gap, and what it is called."""
    if stage not in group.shares:
        raise GateError(f"{result.name}: contributions are not known of saved responses; leave --stage out")
    return group.shares[stage], f"gap of {name}, {stage}"


def _claim_p(gap: Estimate, beyond: Estimate | None) -> float | None:
    """The p-value of a claim: of the gap, and of that beyond rewording on the same side; None: nothing was tested."""
    if gap.p is None or beyond is None or beyond.p is None:
        return gap.p
    return max(gap.p, beyond.p) if (gap.value or 0.0) * (beyond.value or 0.0) > 0 else 1.0


def _affected(group: Group, most: float, limits: Limits) -> Sequence[Affected]:
    known = group.affected or ()
    return [Affected(hits, units, most, most) for hits, units in known[: 1 if limits.terms_only else None]]


def _is_of_terms_only(gap: Estimate, limits: Limits) -> bool:
    return gap.is_of_terms_only and not limits.terms_only


def _number(value: float | None, missing: float = math.nan) -> float:
    return missing if value is None else float(value)


def _verdict(checked: CheckedValue, values: int, limits: Limits) -> Verdict:
    if checked.unmeasured:
        return Verdict(checked, UNKNOWN, reason=f"nothing was measured: {checked.unmeasured}")
    if checked.value is None:
        return Verdict(checked, UNKNOWN, reason="it is undefined")
    if checked.of_terms_only:
        why = f"{checked.terms:.1f} effective terms express the group, {ENOUGH_TERMS} are needed"
        return Verdict(checked, UNKNOWN, reason=f"{why}: more terms (or --terms-only)")
    if checked.needs_placebo and checked.beyond is None:
        why = (
            "nearly all dialogues are of one group, so only a placebo (--axes …,placebo) can separate the gap "
            "from rewording"
        )
        return Verdict(checked, UNKNOWN, reason=why)
    half = checked.half(limits.alpha)
    if math.isnan(half):
        return Verdict(checked, UNKNOWN, reason="too few dialogues or clusters for an interval")
    harm = checked.size
    of_all = checked.half(ALPHA / values)
    if harm - of_all > limits.max_gap and checked.claim_p is not None and checked.claim_p < ALPHA:
        if checked.beyond is None or checked.beyond_bound(ALPHA / values, -1) > limits.max_gap:
            return Verdict(checked, ABOVE, _around(checked.value, of_all))
        why = "it is above, and not shown to be so beyond what the placebo's rewording does"
        return Verdict(checked, UNKNOWN, _around(checked.value, of_all), why)
    interval = _around(checked.value, half)
    if harm + half <= limits.within:
        if not checked.needs_placebo or checked.beyond_bound(limits.alpha, 1) <= limits.within:
            return Verdict(checked, WITHIN, interval)
        why = "it is within, and not shown to be so beyond what the placebo's rewording does"
        return Verdict(checked, UNKNOWN, interval, why)
    return _unknown(checked, interval, values, limits)


def _around(value: float, half: float) -> tuple[float, float]:
    return value - half, value + half


def _unknown(checked: CheckedValue, interval: tuple[float, float], values: int, limits: Limits) -> Verdict:
    """Explain why there is no decision, and how many dialogues would give one."""
    harm = checked.size
    if limits.within <= harm <= limits.max_gap:
        return Verdict(checked, UNKNOWN, interval, "the observed value is between what passes and what fails")
    if harm > limits.max_gap:
        if checked.claim_p is None or checked.claim_p >= ALPHA:
            why = "the gap could not be tested" if checked.claim_p is None else "no gap is shown"
            return Verdict(checked, UNKNOWN, interval, why)
        return Verdict(checked, UNKNOWN, interval, needed=_needed(checked, harm - limits.max_gap, ALPHA / values))
    if checked.affected:
        return _few_differ(checked, interval, limits)
    return Verdict(checked, UNKNOWN, interval, needed=_needed(checked, limits.within - harm, limits.alpha))


def _few_differ(checked: CheckedValue, interval: tuple[float, float], limits: Limits) -> Verdict:
    """Forecast for few differences: uncertainty falls with the number of dialogues and of terms."""
    room = limits.within - max(checked.size, 0.0)
    dialogues, *terms = checked.affected
    if terms and max(exact_half([some], limits.alpha) for some in terms) > room:
        more = max(_units(some, room, limits.alpha) for some in terms)
        reason = f"few terms differ: about {more:,} terms for the group would decide"
        return Verdict(checked, UNKNOWN, interval, f"{reason} (or --terms-only)")
    needed = max(_units(dialogues, room, limits.alpha), checked.dialogues + 1)
    return Verdict(checked, UNKNOWN, interval, "few dialogues differ", float(needed))


def _units(seen: Affected, room: float, alpha: float) -> int:
    """Return the number of units that an exact bound needs, if the same share of them differs."""
    share = seen.hits / max(1, seen.units)

    def is_too_wide(units: int) -> bool:
        return exact_half([seen._replace(hits=share * units, units=units)], alpha) > room

    low = high = seen.units + 1
    while high < 10**7 and is_too_wide(high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if is_too_wide(middle) else (low, middle)
    return high


def _needed(checked: CheckedValue, distance: float, alpha: float) -> float | None:
    """Dialogues, with terms in proportion, that show with 80% power that the value is this far from the limit."""
    if checked.se <= 0:
        return None
    return max(units_needed(distance, checked.dialogues, checked.se, 0.0, 2 * alpha), checked.dialogues + 1.0)
