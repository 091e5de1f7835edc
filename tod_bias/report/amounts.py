"""Amounts of a metric in its users' units: "31.0 more turns in 100 that refuse", "0.31 fewer results per turn"."""

from __future__ import annotations

from collections.abc import Callable

from tod_bias.report.notation import TERMS_ONLY, fixed, percent
from tod_bias.results import SHARES, AxisResult, Estimate

PER_CENT = " in 100"
"""In the unit of a metric that is a share of turns."""


def amount(estimate: Estimate, axis_result: AxisResult) -> str:
    """How much a score is lower or higher, in the metric's units: "BLEU 26% lower [21%, 31%]".

    Estimates are positive where the service is worse; wording and interval here are of the score itself. Shares of the
    originals' score that go beyond the whole of it are turned into differences of scores: nothing is 139% lower.
    """
    metric, value = axis_result.metric, estimate.value
    is_share, write = _writer(axis_result, value)
    interval = _interval(estimate, write)
    if not value:
        return f"{metric.label} {'not known' if value is None else 'unchanged'}{interval}"
    is_lower, number = (value > 0) == (metric.better != "lower"), write(abs(value))
    if metric.unit and not (is_share and PER_CENT in metric.unit):  # "10% fewer in 100" would be read as ten of them
        return f"{number} {'fewer' if is_lower else 'more'} {metric.unit}{interval}"
    return f"{metric.label} {number} {'lower' if is_lower else 'higher'}{interval}"


def _writer(axis_result: AxisResult, value: float | None) -> tuple[bool, Callable[[float | None], str]]:
    """Whether a value and its interval are written as shares of the originals' score, and what writes their sizes."""
    unit, original = axis_result.metric.unit, axis_result.original.value
    is_ratio = axis_result.scale == "ratio"
    if is_ratio and (original is None or abs(value or 0) <= 1):
        return True, percent
    scale = original if is_ratio and original is not None else 1
    decimals, scale = (1, 100 * scale) if PER_CENT in unit else (2 if unit else 3, scale)
    return False, lambda value: fixed(None if value is None else scale * value, decimals)


def _interval(estimate: Estimate, write: Callable[[float | None], str]) -> str:
    if estimate.ci is None:
        return ""
    low, high = estimate.ci if (estimate.value or 0.0) > 0 else (-estimate.ci[1], -estimate.ci[0])
    return f" [{write(low)}, {write(high)}]{TERMS_ONLY if estimate.is_of_terms_only else ''}"


def size(value: float, axis_result: AxisResult) -> str:
    """The size of a gap on its own: "18% of the originals' BLEU", "12.0 turns in 100", "0.31 results per turn"."""
    metric, unit = axis_result.metric, axis_result.metric.unit
    is_share, write = _writer(axis_result, value)
    if is_share:
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
