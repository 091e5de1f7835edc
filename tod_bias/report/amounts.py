"""Amounts of a metric in its users' units: "31 more responses in 100 are refusals", "0.31 fewer results per turn"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tod_bias.report.notation import TERMS_ONLY, fixed, percent
from tod_bias.results import AxisResult, Estimate


@dataclass(frozen=True)
class Unit:
    """What a metric counts."""

    noun: str
    """In the plural: ``turns``."""
    rest: str
    """What follows: ``in 100 ask back``, ``per turn``."""
    is_share: bool = True
    """Whether the score is a share from 0 to 1 of the noun, written as so many in 100; else it is a mean number."""

    def write(self, value: float | None) -> str:
        """A number of them, without its sign."""
        if value is None:
            return fixed(None)
        return fixed(100 * value, 1) if self.is_share else fixed(value, 2)


UNITS = {
    "disagreement": Unit("turns", "in 100 come out differently than the twin's"),
    "call_disagreement": Unit("turns", "in 100 of those with calls have other calls than the twin's"),
    "asks_back": Unit("turns", "in 100 ask back"),
    "refusal": Unit("responses", "in 100 are refusals"),
    "success": Unit("turns", "in 100 offer what the reference offers"),
    "jga": Unit("turns", "in 100 have all calls right"),
    "calls_made": Unit("calls", "per turn", is_share=False),
    "results_found": Unit("results", "per turn", is_share=False),
    "length": Unit("words", "per response", is_share=False),
}
"""Metric to what it counts; of others, amounts are given as changes of the score, with the metric's label."""
_SHARES = ("slot_f1", *(name for name, unit in UNITS.items() if unit.is_share))


def amount(estimate: Estimate, axis_result: AxisResult) -> str:
    """How much a score is lower or higher, in the metric's units: "BLEU 26% lower [21%, 31%]".

    Estimates are positive where the service is worse; wording and interval here are of the score itself. What is more
    than the originals' whole score is written as a share of that: nothing is 139% lower.
    """
    metric, value = axis_result.metric, estimate.value
    is_ratio, unit = axis_result.scale == "ratio", _unit(axis_result)
    write = percent if is_ratio else unit.write if unit else fixed
    interval = _interval(estimate, write)
    if not value:
        return f"{metric.label} {'not known' if value is None else 'unchanged'}{interval}"
    is_lower, number = (value > 0) == (metric.better != "lower"), write(abs(value))
    if is_ratio and max(map(abs, (value, *(estimate.ci or ())))) > 1:
        return f"{metric.label} {'lower' if is_lower else 'higher'} by {number}{interval} of the originals'"
    if unit is not None:
        return f"{number} {'fewer' if is_lower else 'more'} {unit.noun} {unit.rest}{interval}"
    return f"{metric.label} {number} {'lower' if is_lower else 'higher'}{interval}"


def _unit(axis_result: AxisResult) -> Unit | None:
    """What the metric counts; None where "10% fewer" of so many in 100 would be read as ten of them."""
    unit = UNITS.get(axis_result.metric.name)
    return None if unit is not None and unit.is_share and axis_result.scale == "ratio" else unit


def _interval(estimate: Estimate, write: Callable[[float | None], str]) -> str:
    if estimate.ci is None:
        return ""
    low, high = estimate.ci if (estimate.value or 0.0) > 0 else (-estimate.ci[1], -estimate.ci[0])
    return f" [{write(low)}, {write(high)}]{TERMS_ONLY if estimate.is_of_terms_only else ''}"


def size(value: float, axis_result: AxisResult) -> str:
    """The size of a gap on its own: "18% of the originals' BLEU", "12.0 turns in 100", "0.31 results per turn"."""
    metric, unit = axis_result.metric, UNITS.get(axis_result.metric.name)
    if axis_result.scale == "ratio":
        return f"{percent(value)} of the originals' {metric.label}"
    if unit is None:
        return f"{fixed(value)} of {metric.label}"
    return f"{unit.write(value)} {unit.noun} {'in 100' if unit.is_share else unit.rest}"


def is_whole(value: float, axis_result: AxisResult) -> bool:
    """Whether a gap of this size is as large as any can be."""
    metric = axis_result.metric
    return value >= 1 and (metric.name in _SHARES or (axis_result.scale == "ratio" and metric.better == "higher"))
