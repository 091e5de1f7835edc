"""A gate: does a finished run show that no group is served worse by more than a limit?

Every value that is checked must be shown to lie within the margin (each by two one-sided tests; as all must, none is
adjusted), or one must be shown to lie beyond the limit (one-sided tests, Holm over all), or the run cannot tell. What
rests on too few terms is shown of no group. All is read from ``results.json``; nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tod_bias.errors import TodBiasError
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import AuditResult, AxisResult, Estimate, TermsOnly
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.distributions import t_tail
from tod_bias.statistics.intervals import LEVEL
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.power import beyond_p, equivalence_p, units_needed

WITHIN, ABOVE, UNKNOWN = "within", "above", "cannot tell"
"""What may be shown of a value."""
CODES = {WITHIN: 0, ABOVE: 1, UNKNOWN: 3}
"""Exit codes; 2 is for the user's mistakes."""
ALPHA = 1 - LEVEL


class GateError(TodBiasError):
    """A check names something that the run does not have."""


@dataclass(frozen=True)
class Limits:
    """What is allowed, on each metric's own scale.

    Raises:
        TodBiasError: a limit that makes no sense.
    """

    max_gap: float
    """Beyond it the gate fails."""
    margin: float | None = None
    """Within it the gate passes; by default ``max_gap``, and never above it."""
    both_sides: bool = True
    """Whether being served better than the others counts too."""
    terms_only: bool = False
    """Whether terms are taken as they are, not as a sample."""
    tried: int = 1
    """Systems of which the best one is chosen on the same dialogues: what passes is held to alpha / tried."""

    def __post_init__(self) -> None:
        if not 0 < self.max_gap < math.inf:
            raise TodBiasError(f"max_gap must be above 0, got {self.max_gap!r}")
        if self.margin is not None and not 0 < self.margin <= self.max_gap:
            raise TodBiasError(f"margin must be above 0 and not above max_gap ({self.max_gap:g}), got {self.margin!r}")

    @property
    def within(self) -> float:
        """What must be shown for the gate to pass."""
        return self.max_gap if self.margin is None else self.margin

    @property
    def alpha(self) -> float:
        """The level of tests that a value lies within the margin (Bonferroni over what was tried)."""
        return ALPHA / self.tried


@dataclass(frozen=True)
class CheckedValue:
    """One value that is checked: a disparity, a group's gap, or a stage's share of either."""

    axis: str
    metric: str
    name: str
    """``disparity``, ``gap of woman``, ``disparity, response``."""
    value: float | None
    ci: tuple[float, float] | None
    se: float
    """Standard error; NaN where it is not known."""
    df: float
    se_terms_only: float
    dialogues: int
    terms: float
    """Effective terms; infinity where they do not count."""
    unmeasured: str
    """Why the run measures nothing there; empty where it does."""
    claim_p: float | None
    """The run's own p-value of the claim, over everything that it claims; None: it tested nothing."""

    def error(self, limits: Limits) -> tuple[float, float]:
        """Standard error and degrees of freedom."""
        return (self.se_terms_only, self.dialogues - 1) if limits.terms_only else (self.se, self.df)

    @property
    def has_few_terms(self) -> bool:
        """Whether nothing can be said of a group."""
        return self.terms < ENOUGH_WORDS

    @property
    def no_dialogue_differs(self) -> bool:
        """Whether no dialogue shows any difference."""
        return self.value == 0 and self.se_terms_only == 0


@dataclass(frozen=True)
class Verdict:
    """What is shown of one value."""

    checked: CheckedValue
    state: str
    reason: str = ""
    """Why the run cannot tell; empty where it can."""
    needed: float | None = None
    """Dialogues that would tell, if the value is as it was seen; infinity: none do with these terms."""


@dataclass(frozen=True)
class GateResult:
    """What is shown of everything that was checked."""

    run: str
    limits: Limits
    verdicts: tuple[Verdict, ...]
    counterfactual: tuple[str, ...] = ()
    """Metrics of which positive is not harm: they compare with the original."""

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
        """The content of ``check.json``; ``needed`` may be infinite, which JSON shows as null."""
        return {
            "schema": 2,
            "run": self.run,
            "state": self.state,
            "max_gap": self.limits.max_gap,
            "margin": self.limits.within,
            "both_sides": self.limits.both_sides,
            "terms_only": self.limits.terms_only,
            "counterfactual": list(self.counterfactual),
            "values": [_record_of(verdict) for verdict in self.verdicts],
        }


def _record_of(verdict: Verdict) -> dict[str, Any]:
    checked = verdict.checked
    return {
        "axis": checked.axis,
        "metric": checked.metric,
        "name": checked.name,
        "value": checked.value,
        "ci": None if checked.ci is None else list(checked.ci),
        "dialogues": checked.dialogues,
        "state": verdict.state,
        "reason": verdict.reason,
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
    """Check a finished run: the disparity of every axis and the gap of every group.

    Args:
        result: of the run.
        limits: what is allowed; a number is the largest gap.
        axes: by default all but the placebo.
        metrics: by default all of which one side is the better one.
        stage: its share of each disparity and gap is checked in their place.

    Raises:
        GateError: the run lacks an axis, metric or stage.
        TodBiasError: a limit that makes no sense.
    """
    limits = limits if isinstance(limits, Limits) else Limits(limits)
    values = [value for row in _rows(result, axes, metrics) for value in _values(row, result, stage, limits)]
    beyond = holm({str(number): _p_within_limit(value, limits) for number, value in enumerate(values)})
    verdicts = tuple(_verdict(value, beyond[str(number)], len(values), limits) for number, value in enumerate(values))
    chosen = dict.fromkeys(value.metric for value in values)
    compared = tuple(name for name in chosen if result.metrics[name].counterfactual)
    return GateResult(result.name, limits, verdicts, compared)


def _rows(result: AuditResult, axes: Sequence[str] | None, metrics: Sequence[str] | None) -> list[AxisResult]:
    """The axes and metrics that are checked."""
    known_axes = [axis for axis in result.axes if axis != PLACEBO]
    known_metrics = list(result.metrics)
    for what, wanted, known in (("axis", axes, known_axes), ("metric", metrics, known_metrics)):
        for name in wanted or ():
            if name not in known:
                listed = ", ".join(known) or "none but the placebo"
                raise GateError(f"{result.name}: has no {what} {name}; it has {listed}")
    sided = [name for name, metric in result.metrics.items() if metric.better != "neither"] or known_metrics
    rows = []
    for axis in axes or known_axes:
        for metric in metrics or sided:
            row = result.axes[axis].get(metric)
            if row is None:
                raise GateError(
                    f"{result.name}: has no {metric} on axis {axis}, where it is undefined; leave one of them out"
                )
            rows.append(row)
    if not rows:
        raise GateError(f"{result.name}: holds no axis but the placebo, which claims nothing; audit another one")
    return rows


def _values(row: AxisResult, result: AuditResult, stage: str | None, limits: Limits) -> Iterator[CheckedValue]:
    if stage is not None and stage not in result.stages:
        raise GateError(f"{result.name}: has no stage {stage}; it has {', '.join(result.stages)}")
    parts = {"disparity": (row.disparity, row.dialogues, row.effective_terms, row.shares)} | {
        f"gap of {name}": (group.gap, group.dialogues, group.effective_terms, group.shares)
        for name, group in row.groups.items()
    }
    is_known = row.scale == "ratio" or row.original.value is not None
    for name, (claim, dialogues, terms, shares) in parts.items():
        part, what = claim, name
        if stage is not None:
            if stage not in shares:
                raise GateError(f"{result.name}: contributions are not known of saved responses; leave --stage out")
            part, what = shares[stage], f"{name}, {stage}"
        terms_only = _terms_only(part)
        yield CheckedValue(
            axis=row.axis,
            metric=row.metric.name,
            name=what,
            value=part.value if is_known else None,
            ci=terms_only.ci if limits.terms_only else part.ci,
            se=_number(part.se),
            df=_number(part.df, 0.0),
            se_terms_only=_number(terms_only.se),
            dialogues=dialogues or 0,
            terms=math.inf if limits.terms_only else terms or 0.0,
            unmeasured=row.unmeasured,
            claim_p=claim.terms_only_p if limits.terms_only else claim.claimed_p,
        )


def _terms_only(estimate: Estimate) -> TermsOnly:
    return estimate.terms_only or TermsOnly()


def _number(value: float | None, missing: float = math.nan) -> float:
    return missing if value is None else float(value)


def _p_within_limit(checked: CheckedValue, limits: Limits) -> float:
    """The p-value of lying within the limit; 1 where nothing may be claimed."""
    if checked.unmeasured or checked.value is None or checked.has_few_terms:
        return 1.0
    if checked.claim_p is None or checked.claim_p >= ALPHA:
        return 1.0
    if not limits.both_sides and checked.value < 0:
        return 1.0
    return beyond_p(checked.value, *checked.error(limits), limits.max_gap)


def _p_beyond_margin(checked: CheckedValue, limits: Limits) -> float:
    """The p-value of lying beyond the margin."""
    if checked.value is None or checked.has_few_terms:
        return 1.0
    error, freedom = checked.error(limits)
    if not limits.both_sides and checked.value < 0 and math.isfinite(error) and freedom >= 1:
        return 0.0 if error == 0 else float(t_tail((limits.within - checked.value) / error, freedom))
    return equivalence_p(checked.value, error, freedom, checked.dialogues, limits.within)


def _verdict(checked: CheckedValue, p_within_limit: float, tests: int, limits: Limits) -> Verdict:
    if checked.unmeasured:
        return Verdict(checked, UNKNOWN, f"nothing was measured: {checked.unmeasured}")
    if p_within_limit < ALPHA:
        return Verdict(checked, ABOVE)
    if _p_beyond_margin(checked, limits) < limits.alpha:
        return Verdict(checked, WITHIN)
    if reason := _why_unknown(checked, limits):
        return Verdict(checked, UNKNOWN, reason)
    size = abs(checked.value or 0.0)
    if size > limits.max_gap:
        return Verdict(checked, UNKNOWN, needed=_needed(checked, size - limits.max_gap, 2 * ALPHA / tests, limits))
    error, _ = checked.error(limits)
    if error == 0:
        needed = math.ceil(math.log(limits.alpha) / math.log1p(-limits.within)) if limits.within < 1 else 1
        return Verdict(checked, UNKNOWN, "no dialogue shows a difference, but they are few", float(needed))
    return Verdict(checked, UNKNOWN, needed=_needed(checked, limits.within - size, 2 * limits.alpha, limits))


def _why_unknown(checked: CheckedValue, limits: Limits) -> str:
    """Why the run cannot tell, where more dialogues would not help; else empty."""
    if checked.value is None:
        return "it is undefined"
    if checked.has_few_terms:
        return (
            f"it rests on {checked.terms:.1f} effective terms, {ENOUGH_WORDS} are needed: more terms (or --terms-only)"
        )
    error, _ = checked.error(limits)
    if not math.isfinite(error):
        return "no resamples (--bootstrap)" if limits.terms_only else "too few clusters for an interval"
    size = abs(checked.value)
    if size > limits.max_gap and error > 0 and (checked.claim_p is None or checked.claim_p >= ALPHA):
        if checked.claim_p is None:
            return "nothing was tested"
        return "no difference is shown (beyond any rewording's)"
    if limits.within <= size <= limits.max_gap:
        return "it was seen between what passes and what fails"
    return ""


def _needed(checked: CheckedValue, distance: float, alpha: float, limits: Limits) -> float | None:
    """Dialogues that show, with 80% power, that the value is this far from the limit."""
    these = checked.se_terms_only
    if not math.isfinite(these) or these <= 0:
        return None
    fixed = 0.0 if limits.terms_only else math.sqrt(max(0.0, checked.se**2 - these**2))
    return max(units_needed(distance, checked.dialogues, these, fixed, alpha), checked.dialogues + 1.0)
