"""Amounts of a metric in its users' units: "31.0 more turns in 100 that refuse", "0.31 fewer results per turn"."""

from __future__ import annotations

from collections.abc import Callable

from tod_bias.report.notation import TERMS_ONLY, fixed, percent
from tod_bias.results import SHARES, AxisResult, Estimate

_PER_CENT = " in 100"


def amount(estimate: Estimate, axis_result: AxisResult) -> str:
    """How much a score is lower or higher, in the metric's units: "BLEU 26% lower [21%, 31%]".

    Estimates are positive where the service is worse; wording and interval here are of the score itself. What is more
    than the originals' whole score is written as a share of that: nothing is 139% lower.
    """
    metric, value = axis_result.metric, estimate.value
    is_ratio, unit = axis_result.scale == "ratio", _unit(axis_result)
    write = percent if is_ratio else _writer(unit)
    interval = _interval(estimate, write)
    if not value:
        return f"{metric.label} {'not known' if value is None else 'unchanged'}{interval}"
    is_lower, number = (value > 0) == (metric.better != "lower"), write(abs(value))
    if is_ratio and max(map(abs, (value, *(estimate.ci or ())))) > 1:
        return f"{metric.label} {'lower' if is_lower else 'higher'} by {number}{interval} of the originals'"
    if unit:
        return f"{number} {'fewer' if is_lower else 'more'} {unit}{interval}"
    return f"{metric.label} {number} {'lower' if is_lower else 'higher'}{interval}"


def _unit(axis_result: AxisResult) -> str:
    """What the metric counts; empty where "10% fewer" of so many in 100 would be read as ten of them."""
    unit = axis_result.metric.unit
    return "" if _PER_CENT in unit and axis_result.scale == "ratio" else unit


def _writer(unit: str) -> Callable[[float | None], str]:
    """Writes a number of them, without its sign."""
    if _PER_CENT in unit:
        return lambda value: fixed(None if value is None else 100 * value, 1)
    return (lambda value: fixed(value, 2)) if unit else fixed


def _interval(estimate: Estimate, write: Callable[[float | None], str]) -> str:
    if estimate.ci is None:
        return ""
    low, high = estimate.ci if (estimate.value or 0.0) > 0 else (-estimate.ci[1], -estimate.ci[0])
    return f" [{write(low)}, {write(high)}]{TERMS_ONLY if estimate.is_of_terms_only else ''}"


def size(value: float, axis_result: AxisResult) -> str:
    """The size of a gap on its own: "18% of the originals' BLEU", "12.0 turns in 100", "0.31 results per turn"."""
    metric, unit = axis_result.metric, axis_result.metric.unit
    if axis_result.scale == "ratio":
        return f"{percent(value)} of the originals' {metric.label}"
    if not unit:
        return f"{fixed(value)} of {metric.label}"
    noun, per_cent, _ = unit.partition(_PER_CENT)
    return f"{_writer(unit)(value)} {noun}{per_cent}"


def is_whole(value: float, axis_result: AxisResult) -> bool:
    """Whether a gap of this size is as large as any can be."""
    metric = axis_result.metric
    is_share = metric.name in SHARES or _PER_CENT in metric.unit
    return value >= 1 and (is_share or (axis_result.scale == "ratio" and metric.better == "higher"))
