"""A gate: does a finished run show that nobody is served differently by more than a limit?

Everything that is asked must be shown to lie within the margin (each by two one-sided tests; as all must, none is
adjusted), or one of it must be shown to lie beyond the limit (one-sided tests, Holm over all that is asked), or the run
cannot tell. What rests on too few words is shown of no group. All is read from ``results.json``.
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
"""What may be shown of what is asked."""
CODES = {WITHIN: 0, ABOVE: 1, UNKNOWN: 3}
"""Exit codes; 2 is for the user's mistakes."""
ALPHA = 1 - LEVEL


class GateError(TodBiasError):
    """Something is asked of a run that it does not have."""


@dataclass(frozen=True)
class Limits:
    """What is allowed, on each metric's own scale."""

    most: float
    """Beyond it the gate fails."""
    margin: float
    """Within it the gate passes."""
    harm_only: bool = False
    """Whether being served better than the others is allowed."""
    these_words: bool = False
    """Whether words are taken as they are, not as a sample."""
    tried: int = 1
    """Systems of which one may be chosen: each must be shown to be within the margin at a part of alpha."""

    @property
    def alpha(self) -> float:
        """The level of tests that something lies within the margin (Bonferroni over what was tried)."""
        return ALPHA / self.tried


@dataclass(frozen=True)
class Asked:
    """One value that is asked for: a disparity, a group's gap, or a component's part of either."""

    axis: str
    metric: str
    name: str
    """``disparity``, ``gap of woman``, ``disparity, response``."""
    value: float | None
    ci: Sequence[float] | None
    error: float
    """Standard error, NaN where it is not known."""
    freedom: float
    error_these_words: float
    dialogues: int
    words: float
    """Effective words; infinity where they do not count."""
    unmeasured: str
    """Why the run measures nothing there; empty where it does."""
    p_claim: float | None
    """The run's own adjusted p-value of the claim, above the placebo where there is one; None: it tested nothing."""


@dataclass(frozen=True)
class Judged:
    """What is shown of one value."""

    asked: Asked
    state: str
    reason: str
    """Why the run cannot tell; empty where it can."""
    needed: float | None = None
    """Dialogues that would tell, if the value is as it was seen; infinity: none do with these words."""


@dataclass(frozen=True)
class Judgement:
    """What is shown of everything that was asked."""

    run: str
    limits: Limits
    values: tuple[Judged, ...]
    counterfactual: tuple[str, ...] = ()
    """Metrics of which positive is not harm: told apart more from the original telling."""

    @property
    def state(self) -> str:
        """Above the limit if any is, within the margin if all are."""
        states = {one.state for one in self.values}
        return ABOVE if ABOVE in states else WITHIN if states == {WITHIN} else UNKNOWN

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.state]

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``check.json``; ``needed`` may be infinite, which JSON shows as null."""
        return {
            "schema": 1,
            "run": self.run,
            "state": self.state,
            "max_disparity": self.limits.most,
            "margin": self.limits.margin,
            "harm_only": self.limits.harm_only,
            "these_words": self.limits.these_words,
            "counterfactual": list(self.counterfactual),
            "values": [
                {
                    "axis": one.asked.axis,
                    "metric": one.asked.metric,
                    "name": one.asked.name,
                    "value": one.asked.value,
                    "ci": None if one.asked.ci is None else list(one.asked.ci),
                    "dialogues": one.asked.dialogues,
                    "state": one.state,
                    "reason": one.reason,
                    "needed": one.needed,
                }
                for one in self.values
            ],
        }


def gate(
    result: AuditResult,
    most: float,
    *,
    axes: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    component: str | None = None,
    margin: float | None = None,
    harm_only: bool = False,
    these_words: bool = False,
    tried: int = 1,
) -> Judgement:
    """Judge a finished run.

    Asked for are the disparity of every axis and the gap of every group, in either direction.

    Args:
        result: of the run.
        most: a disparity or gap beyond it fails.
        axes: by default all but the placebo.
        metrics: by default all of which one side is the better one.
        component: its part of each disparity and gap is asked for in their place.
        margin: within which all must be shown to lie; by default ``most``, and never above it.
        harm_only: what is negative, served better than the others, is allowed.
        these_words: take words as they are.
        tried: systems of which the best one is chosen on the same dialogues; what passes is held to alpha / tried.

    Raises:
        GateError: the run lacks an axis, metric or component.
        TodBiasError: a limit that makes no sense.
    """
    margin = most if margin is None else margin
    if not (0 < most < math.inf):
        raise TodBiasError(f"max_disparity must be above 0, got {most!r}")
    if not 0 < margin <= most:
        raise TodBiasError(f"margin must be above 0 and not above max_disparity ({most:g}), got {margin!r}")
    limits = Limits(most, margin, harm_only, these_words, tried)
    asked = list(_asked(result, axes, metrics, component, limits))
    beyond = holm({str(number): _beyond(one, limits) for number, one in enumerate(asked)})
    values = tuple(_judged(one, beyond[str(number)], len(asked), limits) for number, one in enumerate(asked))
    chosen = dict.fromkeys(one.asked.metric for one in values)
    compared = tuple(name for name in chosen if result.metrics[name].counterfactual)
    return Judgement(result.name, limits, values, compared)


def _asked(
    result: AuditResult,
    axes: Sequence[str] | None,
    metrics: Sequence[str] | None,
    component: str | None,
    limits: Limits,
) -> Iterator[Asked]:
    run = result.name
    there = [axis for axis in result.axes if axis != PLACEBO]
    measured = result.metrics
    sided = [name for name, about in measured.items() if about.better != "neither"] or list(measured)
    for what, wanted, known in (("axis", axes, there), ("metric", metrics, list(measured))):
        for name in wanted or ():
            if name not in known:
                raise GateError(f"{run}: has no {what} {name}; it has {', '.join(known) or 'none but the placebo'}")
    if component is not None and component not in result.stages:
        raise GateError(f"{run}: has no component {component}; it has {', '.join(result.stages)}")
    found = False
    for axis in axes or there:
        for metric in metrics or sided:
            row = result.axes[axis].get(metric)
            if row is None:
                raise GateError(f"{run}: has no {metric} on axis {axis}, where it is undefined; leave one of them out")
            found = True
            yield from _of_axis(row, run, component, limits)
    if not found:
        raise GateError(f"{run}: holds no axis but the placebo, which claims nothing; audit another one")


def _of_axis(row: AxisResult, run: str, component: str | None, limits: Limits) -> Iterator[Asked]:
    parts = {"disparity": (row.disparity, row.dialogues, row.effective_terms, row.shares)} | {
        f"gap of {name}": (group.gap, group.dialogues, group.effective_terms, group.shares)
        for name, group in row.groups.items()
    }
    is_known = row.scale == "ratio" or row.original.value is not None
    for name, (claim, dialogues, terms, shares) in parts.items():
        part, what = claim, name
        if component is not None:
            if component not in shares:
                raise GateError(f"{run}: contributions are not known of saved responses; leave --stage out")
            part, what = shares[component], f"{name}, {component}"
        yield Asked(
            axis=row.axis,
            metric=row.metric.name,
            name=what,
            value=part.value if is_known else None,
            ci=_terms_only(part).ci if limits.these_words else part.ci,
            error=_number(part.se),
            freedom=_number(part.df, 0.0),
            error_these_words=_number(_terms_only(part).se),
            dialogues=dialogues or 0,
            words=math.inf if limits.these_words else terms or 0.0,
            unmeasured=row.unmeasured,
            p_claim=claim.terms_only_p if limits.these_words else claim.claimed_p,
        )


def _terms_only(estimate: Estimate) -> TermsOnly:
    return estimate.terms_only or TermsOnly()


def _number(value: float | None, missing: float = math.nan) -> float:
    return missing if value is None else float(value)


def _error(one: Asked, limits: Limits) -> tuple[float, float]:
    return (one.error_these_words, one.dialogues - 1) if limits.these_words else (one.error, one.freedom)


def _beyond(one: Asked, limits: Limits) -> float:
    """The p-value of lying within the limit, 1 where nothing may be claimed."""
    if one.unmeasured or one.value is None or one.words < ENOUGH_WORDS:
        return 1.0
    if one.p_claim is None or one.p_claim >= ALPHA:
        return 1.0
    if limits.harm_only and one.value < 0:
        return 1.0
    return beyond_p(one.value, *_error(one, limits), limits.most)


def _equal(one: Asked, limits: Limits) -> float:
    """The p-value of lying beyond the margin."""
    if one.value is None or one.words < ENOUGH_WORDS:
        return 1.0
    error, freedom = _error(one, limits)
    if limits.harm_only and one.value < 0 and math.isfinite(error) and freedom >= 1:
        return 0.0 if error == 0 else float(t_tail((limits.margin - one.value) / error, freedom))
    return equivalence_p(one.value, error, freedom, one.dialogues, limits.margin)


def _judged(one: Asked, beyond: float, tests: int, limits: Limits) -> Judged:
    if one.unmeasured:
        return Judged(one, UNKNOWN, f"nothing was measured: {one.unmeasured}")
    if beyond < ALPHA:
        return Judged(one, ABOVE, "")
    if _equal(one, limits) < limits.alpha:
        return Judged(one, WITHIN, "")
    if one.value is None:
        return Judged(one, UNKNOWN, "it is undefined")
    if one.words < ENOUGH_WORDS:
        reason = f"it rests on {one.words:.1f} effective words, {ENOUGH_WORDS} are needed: more words (or --terms-only)"
        return Judged(one, UNKNOWN, reason)
    error, _ = _error(one, limits)
    if not math.isfinite(error):
        what = "no resamples (--bootstrap)" if limits.these_words else "too few clusters for an interval"
        return Judged(one, UNKNOWN, what)
    seen = abs(one.value)
    if seen > limits.most and error > 0 and (one.p_claim is None or one.p_claim >= ALPHA):
        what = "nothing was tested" if one.p_claim is None else "no difference is shown (above any rewording's)"
        return Judged(one, UNKNOWN, what)
    if seen >= limits.margin:
        if seen <= limits.most:
            return Judged(one, UNKNOWN, "it was seen between what passes and what fails", None)
        return Judged(one, UNKNOWN, "", _needed(one, seen - limits.most, 2 * ALPHA / tests, limits))
    if error == 0:
        needed = math.ceil(math.log(limits.alpha) / math.log1p(-limits.margin)) if limits.margin < 1 else 1
        return Judged(one, UNKNOWN, "no dialogue shows a difference, but they are few", float(needed))
    return Judged(one, UNKNOWN, "", _needed(one, limits.margin - seen, 2 * limits.alpha, limits))


def _needed(one: Asked, distance: float, alpha: float, limits: Limits) -> float | None:
    """Dialogues that show, with 80% power, that the value is this far from the limit."""
    these = one.error_these_words
    if not math.isfinite(these) or these <= 0:
        return None
    fixed = 0.0 if limits.these_words else math.sqrt(max(0.0, one.error**2 - these**2))
    return max(units_needed(distance, one.dialogues, these, fixed, alpha), one.dialogues + 1.0)
