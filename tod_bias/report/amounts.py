"""Amounts of a metric in its users' units: "31.0 more turns in 100 that refuse", "0.31 fewer results per turn"."""

from __future__ import annotations

from collections.abc import Callable

from tod_bias.report.notation import TERMS_ONLY, fixed, percent
from tod_bias.results import SHARES, AxisResult, Estimate

PER_CENT = " in 100"
"""In the unit of a metric that is a share of turns."""


def amount(estimate: Estimate, axis_result: AxisResult) -> str:
    """How much a score is lower or higher, in the metric's units: "BLEU 26% lower [21%, 31%]".

    Estimates are positive where the service is worse; wording and interval here are of the score itself. Groups may
    differ by more than the whole of the originals' score: then nothing is "139% lower", but lower by 139% of that.
    """
    metric, value = axis_result.metric, estimate.value
    write, is_share = _writer(axis_result), axis_result.scale == "ratio"
    interval = _interval(estimate, write)
    if not value:
        return f"{metric.label} {'not known' if value is None else 'unchanged'}{interval}"
    is_lower, number = (value > 0) == (metric.better != "lower"), write(abs(value))
    if is_share and max(map(abs, (value, *(estimate.ci or ())))) > 1:
        return f"{'lower' if is_lower else 'higher'} by {number}{interval} of the originals' {metric.label}"
    if metric.unit and not (is_share and PER_CENT in metric.unit):  # "10% fewer in 100" would be read as ten of them
        return f"{number} {'fewer' if is_lower else 'more'} {metric.unit}{interval}"
    return f"{metric.label} {number} {'lower' if is_lower else 'higher'}{interval}"


def _writer(axis_result: AxisResult) -> Callable[[float | None], str]:
    """What writes numbers without their signs: as shares of the originals' score, or in the metric's units."""
    unit = axis_result.metric.unit
    if axis_result.scale == "ratio":
        return percent
    decimals, scale = (1, 100) if PER_CENT in unit else (2 if unit else 3, 1)
    return lambda value: fixed(None if value is None else scale * value, decimals)


def _interval(estimate: Estimate, write: Callable[[float | None], str]) -> str:
    if estimate.ci is None:
        return ""
    low, high = estimate.ci if (estimate.value or 0.0) > 0 else (-estimate.ci[1], -estimate.ci[0])
    return f" [{write(low)}, {write(high)}]{TERMS_ONLY if estimate.is_of_terms_only else ''}"


def size(value: float, axis_result: AxisResult) -> str:
    """The size of a gap on its own: "18% of the originals' BLEU", "12.0 turns in 100", "0.31 results per turn"."""
    metric, unit = axis_result.metric, axis_result.metric.unit
    write = _writer(axis_result)
    if axis_result.scale == "ratio":
        return f"{write(value)} of the originals' {metric.label}"
    if not unit:
        return f"{write(value)} of {metric.label}"
    noun, per_cent, _ = unit.partition(PER_CENT)
    return f"{write(value)} {noun}{per_cent}"


def is_whole(value: float, axis_result: AxisResult) -> bool:
    """Whether a gap of this size is as large as any can be."""
    metric = axis_result.metric
    is_share = metric.name in SHARES or PER_CENT in metric.unit
    return value >= 1 and (is_share or (axis_result.scale == "ratio" and metric.better == "higher"))
