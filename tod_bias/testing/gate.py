"""The gate: is there a finding in a finished run, and which gaps does the run not exclude?

A run fails while one of its findings stands, unless a file accepts the finding or an earlier run has it. With a limit,
a run passes only if every gap is shown to be within it. That is an intersection–union test (Berger 1982): the one-sided
95% bound of each gap must be within the limit, and because all must be, none is adjusted. Metrics that only compare
with the original decide nothing. Everything is read from ``results.json``; nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tod_bias.audit.affected import Affected, exact_half
from tod_bias.errors import TodBiasError, invalid
from tod_bias.io.documents import read_yaml
from tod_bias.metrics.events import event_of
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import DIFFERENT, INCONCLUSIVE, NO_DIFFERENCE, AuditResult, AxisResult, Estimate, Finding, Group
from tod_bias.statistics.distributions import beta_quantile, t_quantile
from tod_bias.statistics.intervals import LEVEL
from tod_bias.statistics.needed import ENOUGH_TERMS
from tod_bias.statistics.power import unseen_rate

PASSED, FAILED, UNDECIDED = "passed", "failed", "cannot tell"
"""States of a run and of an axis."""
CODES = {PASSED: 0, FAILED: 1, UNDECIDED: 3}
"""Exit codes; 2 is for the user's mistakes."""
STANDS, ACCEPTED, EARLIER = "stands", "accepted", "in the baseline"
"""States of a finding."""
ALPHA = 1 - LEVEL
_UNMEASURED = 2
"""Dialogues in which an event may differ without being measured: a run measures those that differ in three."""


class GateError(TodBiasError):
    """A check names something that the run does not have."""


class Known(BaseModel):
    """An accepted finding: an entry of a file for ``--known``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    axis: str
    group: str
    event: str
    """Name of the event or metric that leads the finding."""
    reason: str

    def fits(self, finding: Finding) -> bool:
        """Return whether the entry is about a finding."""
        return (self.axis, self.group) == (finding.axis, finding.group) and self.event == finding.metric


@dataclass(frozen=True)
class JudgedFinding:
    """A finding and its state."""

    finding: Finding
    state: str = STANDS
    reason: str = ""
    """Reason for which it is accepted, or its size in the baseline."""


@dataclass(frozen=True)
class Bound:
    """Largest gap of one group by one metric that a run does not exclude."""

    metric: str
    label: str
    group: str
    gap: float
    """Observed gap; absolute if neither side of the metric is better."""
    upper: float
    """One-sided 95% bound; infinite if unknown."""
    dialogues: int
    reason: str = ""
    """Reason for which the bound is unknown."""

    def needed(self, limit: float) -> int | None:
        """Return the number of dialogues, with terms in proportion, with which the bound would be within a limit.

        None if the observed gap is not within it, or no bound is known.
        """
        if not self.gap < limit or not math.isfinite(self.upper) or self.upper <= limit:
            return None
        return math.ceil(self.dialogues * ((self.upper - self.gap) / (limit - self.gap)) ** 2)


@dataclass(frozen=True)
class JudgedAxis:
    """State of one axis."""

    axis: str
    state: str
    finding: Finding
    """First finding of the axis."""
    bounds: tuple[Bound, ...] = ()
    """Bounds of all gaps, the largest first."""
    unseen: float = 0.0
    """Largest gap of an event that shows in too few dialogues to be measured, or in none."""
    unseen_among: str = ""
    """Units, such as "8 terms", none of which differs and which bound that gap; empty for a few that do."""
    reason: str = ""
    """Reason for which nothing was measured."""

    @property
    def missed(self) -> float:
        """Largest gap that could have been missed."""
        return max([self.unseen, *(bound.upper for bound in self.bounds if math.isfinite(bound.upper))])


@dataclass(frozen=True)
class GateResult:
    """Result of a check."""

    result: AuditResult
    findings: tuple[JudgedFinding, ...]
    axes: tuple[JudgedAxis, ...]
    max_gap: float | None = None
    unused: tuple[Known, ...] = ()
    """Accepted findings that the run does not have."""
    baseline: str = ""
    """Name of the earlier run; empty without one."""

    @property
    def standing(self) -> list[Finding]:
        """Findings that fail the run."""
        return [some.finding for some in self.findings if some.state == STANDS]

    @property
    def state(self) -> str:
        """Failed if an axis is, passed if all axes are."""
        states = {axis.state for axis in self.axes}
        return FAILED if FAILED in states else PASSED if states == {PASSED} else UNDECIDED

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.state]

    @property
    def record(self) -> dict[str, Any]:
        """Return the content of ``check.json``."""
        return {
            "schema": 4,
            "run": self.result.name,
            "state": self.state,
            "max_gap": self.max_gap,
            "baseline": self.baseline or None,
            "findings": [
                some.finding.model_dump(mode="json") | {"state": some.state, "reason": some.reason}
                for some in self.findings
            ],
            "axes": [_record_of(axis) for axis in self.axes],
            "unused": [entry.model_dump() for entry in self.unused],
        }


def _record_of(axis: JudgedAxis) -> dict[str, Any]:
    bounds = [
        {
            "metric": bound.metric,
            "group": bound.group,
            "gap": bound.gap if math.isfinite(bound.gap) else None,
            "upper": bound.upper if math.isfinite(bound.upper) else None,
            "reason": bound.reason,
        }
        for bound in axis.bounds
    ]
    return {"axis": axis.axis, "state": axis.state, "missed": axis.missed, "reason": axis.reason, "bounds": bounds}


def check(
    result: AuditResult,
    *,
    max_gap: float | None = None,
    terms_only: bool = False,
    axes: Sequence[str] | None = None,
    baseline: AuditResult | None = None,
    known: Sequence[Known] = (),
) -> GateResult:
    """Judge a finished run by its findings.

    Args:
        result: of the run.
        max_gap: if given, a pass also takes that every gap is shown to be within it: of events and grades that are
            shares, and of the metrics that the user named and that have a range.
        terms_only: True if bounds hold for the terms of the run only.
        axes: by default all but the placebo.
        baseline: earlier run; only findings that are new or larger fail.
        known: accepted findings.

    Raises:
        GateError: the run lacks an axis, or has none but the placebo.
        TodBiasError: the limit is not above 0.
    """
    if max_gap is not None and not 0 < max_gap < math.inf:
        raise TodBiasError(f"max_gap must be above 0, got {max_gap!r}")
    chosen = _axes(result, axes)
    findings = tuple(
        _judged_finding(result, finding, baseline, known)
        for finding in result.findings
        if finding.axis in chosen and finding.is_difference
    )
    judged = tuple(_judged_axis(result, axis, findings, max_gap, terms_only=terms_only) for axis in chosen)
    unused = tuple(entry for entry in known if not any(entry.fits(some.finding) for some in findings))
    return GateResult(result, findings, judged, max_gap, unused, "" if baseline is None else baseline.name)


def read_known(path: Path) -> list[Known]:
    """Read a file of accepted findings: a YAML list of ``axis``, ``group``, ``event`` and ``reason``.

    Raises:
        GateError: it cannot be read, or an entry is not complete; names the entry.
    """
    form = "expected a list of entries with axis, group, event and reason, as check --out writes them"
    try:
        return TypeAdapter(list[Known]).validate_python(read_yaml(path) or [])
    except ValidationError as error:
        raise GateError(f"{path}, entry {invalid(error)}; {form}") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise GateError(f"{path}: cannot be read ({' '.join(str(error).split())[:160]}); {form}") from error


def _axes(result: AuditResult, wanted: Sequence[str] | None) -> list[str]:
    measured = [axis for axis in result.axes if axis != PLACEBO]
    for name in wanted or ():
        if name not in measured:
            raise GateError(
                f"{result.name}: has no axis {name}; it has {', '.join(measured) or 'none but the placebo'}"
            )
    if not measured:
        raise GateError(f"{result.name}: holds no axis but the placebo, which claims nothing; audit another one")
    return list(wanted or measured)


def _judged_finding(
    result: AuditResult, finding: Finding, baseline: AuditResult | None, known: Sequence[Known]
) -> JudgedFinding:
    """Return the state of a finding."""
    for entry in known:
        if entry.fits(finding):
            return JudgedFinding(finding, ACCEPTED, entry.reason)
    before = None if baseline is None else _in(baseline, finding)
    if baseline is None or before is None:
        return JudgedFinding(finding)
    if new := _new_consequence(result, baseline, finding):
        return JudgedFinding(finding, STANDS, f"new: {new}")
    size = f"was {abs(before.value or 0.0):.2f}, is {abs(finding.effect.value or 0.0):.2f}"
    return JudgedFinding(finding, STANDS if _is_larger(before, finding.effect) else EARLIER, size)


def _is_larger(before: Estimate, after: Estimate) -> bool:
    """Return whether a difference is shown to be larger than in an earlier run, on either side."""
    grown = abs(after.value or 0.0) - abs(before.value or 0.0)
    error = math.hypot(before.se or 0.0, after.se or 0.0)
    return grown > float(t_quantile(LEVEL, min(before.df or 1.0, after.df or 1.0))) * error


def _new_consequence(result: AuditResult, baseline: AuditResult, finding: Finding) -> str:
    """Return an event of another component that goes with a finding and is new or larger than in an earlier run.

    A finding is led by the event nearest to its cause, which may have been harmless before.
    """
    rows = result.axes[finding.axis]
    lead = rows[finding.metric].metric.stage
    for name in finding.also:
        event, metric = event_of(name), rows[name].metric
        if event is None or event.is_generic or metric.stage in ("", lead):
            continue
        before, after = baseline.axes.get(finding.axis, {}).get(name), rows[name].groups[finding.group].gap
        known = None if before is None else before.groups.get(finding.group)
        if known is None or _is_larger(known.gap, after):
            return f"{metric.stage}: {metric.label}"
    return ""


def _in(baseline: AuditResult, finding: Finding) -> Estimate | None:
    """Return the effect of the same finding in another run; None if that run does not claim it."""
    row = baseline.axes.get(finding.axis, {}).get(finding.metric)
    effect = None if row is None or row.verdict not in DIFFERENT else row.apart.get(finding.group)
    return effect if effect is not None and (effect.value or 0.0) * (finding.effect.value or 0.0) > 0 else None


def _judged_axis(
    result: AuditResult, axis: str, findings: Sequence[JudgedFinding], limit: float | None, *, terms_only: bool
) -> JudgedAxis:
    rows = result.axes[axis]
    first = next((some for some in result.findings if some.axis == axis), Finding(axis=axis, verdict=INCONCLUSIVE))
    if reason := _unmeasured(rows):
        return JudgedAxis(axis, UNDECIDED, first, reason=f"nothing was measured: {reason}")
    of_axis = [some for some in findings if some.finding.axis == axis]
    is_claimed = any(row.verdict in DIFFERENT for row in rows.values())
    bounds = tuple(sorted(_bounds(result, axis, terms_only=terms_only or limit is None), key=lambda some: -some.upper))
    unseen, among = _unseen(rows), ""
    if first.verdict == NO_DIFFERENCE:
        unseen, among = _unseen_of_none(first, rows, terms_only=terms_only or limit is None)
    if any(some.state == STANDS for some in of_axis) or (is_claimed and not of_axis):
        return JudgedAxis(axis, FAILED, first, bounds, unseen, among)
    is_within = limit is None or max([unseen, *_open(bounds, of_axis)]) <= limit
    return JudgedAxis(axis, PASSED if is_within else UNDECIDED, first, bounds, unseen, among)


def _unmeasured(rows: Mapping[str, AxisResult]) -> str:
    """Return the reason for which no metric of an axis measured anything; empty if one did."""
    reasons = [row.unmeasured or ("no group is served at all" if row.nobody_is_served else "") for row in rows.values()]
    return next(iter(reasons), "no metric") if all(reasons) else ""


def _open(bounds: Sequence[Bound], findings: Sequence[JudgedFinding]) -> list[float]:
    """Return the bounds of all metrics that are in none of some accepted or earlier findings."""
    allowed = {name for some in findings for name in (some.finding.metric, *some.finding.also)}
    return [bound.upper for bound in bounds if bound.metric not in allowed]


def _unseen(rows: Mapping[str, AxisResult]) -> float:
    """Return the largest gap of an event that differs in too few dialogues to be measured."""
    dialogues = max((row.dialogues or 0 for row in rows.values()), default=0)
    groups = max((len(row.groups) for row in rows.values()), default=2)
    if dialogues <= _UNMEASURED:
        return 1.0
    largest = float(beta_quantile(LEVEL, _UNMEASURED + 1, dialogues - _UNMEASURED))  # Clopper and Pearson (1934)
    return _as_gap(largest, groups)


def _as_gap(share: float, groups: int) -> float:
    """Return the gap from the mean of the groups if the event happens to a share of one: it moves the mean as well."""
    return share * (1 - 1 / max(groups, 2))


def _unseen_of_none(finding: Finding, rows: Mapping[str, AxisResult], *, terms_only: bool) -> tuple[float, str]:
    """Return the largest gap if no turn of an axis differs, and the units that bound it.

    Args:
        finding: of the axis.
        rows: of the axis, by metric.
        terms_only: True if the gap is of the terms of the run, so that its dialogues alone bound it.
    """
    groups = [group for row in rows.values() for group in row.groups.values()]
    number = max((len(row.groups) for row in rows.values()), default=2)
    terms = [group.terms.number for group in groups if group.terms is not None and group.terms.number]
    units = [(finding.dialogues, "dialogues"), *([] if terms_only or not terms else [(min(terms), "terms")])]
    fewest, name = min(units)
    return _as_gap(unseen_rate(fewest), number), f"{fewest:,} {name}"


def _bounds(result: AuditResult, axis: str, *, terms_only: bool) -> Iterator[Bound]:
    """Yield the bound of every gap that a limit is about."""
    named = set(result.config.analysis.metrics or ())
    for row in result.axes[axis].values():
        name, info = row.metric.name, row.metric
        is_requested = event_of(name) is not None or info.is_grade or name in named
        if is_requested and info.range is not None and not info.counterfactual:
            for group, some in row.groups.items():
                gap = (some.terms_only or some.gap) if terms_only else some.gap
                yield _bound(row, group, gap, terms_only=terms_only)


def _bound(row: AxisResult, name: str, gap: Estimate, *, terms_only: bool) -> Bound:
    group, is_sided = row.groups[name], row.metric.better != "neither"
    value = math.nan if gap.value is None else gap.value if is_sided else abs(gap.value)
    reason = _why_unknown(row, group, gap, terms_only=terms_only)
    upper = math.inf
    if not reason:
        half = _half(row, group, gap, terms_only=terms_only)
        upper = math.inf if math.isnan(half) else value + half
        reason = "" if math.isfinite(upper) else "too few dialogues or clusters for an interval"
    if not reason and row.needs_placebo and group.beyond_placebo is not None:
        upper = max(upper, _beyond(group.beyond_placebo, value, is_sided=is_sided))
    return Bound(row.metric.name, row.metric.label, name, value, upper, group.dialogues or 0, reason)


def _why_unknown(row: AxisResult, group: Group, gap: Estimate, *, terms_only: bool) -> str:
    """Return the reason for which a gap has no bound; empty if it has one."""
    if row.unmeasured:
        return f"nothing was measured: {row.unmeasured}"
    if gap.value is None:
        return "it is undefined"
    if gap.is_of_terms_only and not terms_only:
        terms = group.effective_terms or 0.0
        shown = math.floor(10 * terms) / 10  # 2.96 is not enough, and must not read as 3.0
        return f"{shown} effective terms, and {ENOUGH_TERMS} are needed (or --terms-only)"
    if row.needs_placebo and group.beyond_placebo is None and not row.is_controlled:
        return "nearly all originals are of one group, and there is no placebo"
    return ""


def _half(row: AxisResult, group: Group, gap: Estimate, *, terms_only: bool) -> float:
    """Return the distance from a gap to its one-sided bound; NaN if unknown."""
    if gap.se is None or (gap.df or 0.0) < 1:
        return math.nan
    half = float(t_quantile(LEVEL, gap.df)) * gap.se
    most = row.largest_effect or 1.0
    affected = [
        Affected(hits, units, most, most) for hits, units in (group.affected or ())[: 1 if terms_only else None]
    ]
    return max(half, exact_half(affected, ALPHA)) if affected else half


def _beyond(beyond: Estimate, value: float, *, is_sided: bool) -> float:
    """Return the upper bound of a gap beyond the effect of rewording; infinite if unknown."""
    if beyond.value is None or beyond.se is None or (beyond.df or 0.0) < 1:
        return math.inf
    sign = 1.0 if is_sided else math.copysign(1.0, value or 1.0)
    return sign * beyond.value + float(t_quantile(LEVEL, beyond.df)) * beyond.se
