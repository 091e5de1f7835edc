"""Amounts of a metric in its users' units: "31.0 more turns in 100 that refuse", "0.31 fewer results per turn"."""

from __future__ import annotations

import math
from collections.abc import Callable

from tod_bias.report.notation import TERMS_ONLY, fixed, percent
from tod_bias.results import PER_CENT, SHARES, AxisResult, Estimate


def amount(estimate: Estimate, axis_result: AxisResult) -> str:
    """How much a score is lower or higher, in the metric's units: "0.31 fewer results per turn [0.12, 0.50]".

    A quality that has no unit is a share of the originals': "BLEU lower by 26% [21%, 31%] of the originals' score".
    Estimates are positive where the service is worse; wording and interval here are of the score itself.
    """
    metric, value = axis_result.metric, estimate.value
    is_share, write = _writer(axis_result)
    interval = _interval(estimate, write)
    if not value:
        return f"{metric.label} {'not known' if value is None else 'unchanged'}{interval}"
    is_lower, number = (value > 0) == (metric.better != "lower"), write(abs(value))
    if is_share:
        return f"{metric.label} {'lower' if is_lower else 'higher'} by {number}{interval} of the originals' score"
    if metric.unit:
        return f"{number} {'fewer' if is_lower else 'more'} {metric.unit}{interval}"
    return f"{metric.label} {number} {'lower' if is_lower else 'higher'}{interval}"


def _writer(axis_result: AxisResult) -> tuple[bool, Callable[[float | None], str]]:
    """Return whether a gap is written as a share of the originals' score, and the function that writes its size."""
    metric, original, is_ratio = axis_result.metric, axis_result.original.value, axis_result.scale == "ratio"
    if is_ratio and (original is None or (not metric.unit and metric.better != "neither")):
        return True, percent
    scale = original if is_ratio and original is not None else 1.0
    decimals = 2 if metric.unit else 3
    if PER_CENT in metric.unit:
        decimals, scale = 1, 100 * scale
    elif is_ratio and not metric.unit and scale:  # an amount of any size: three digits of what it is compared with
        decimals = min(3, max(0, 2 - math.floor(math.log10(abs(scale)))))
    return False, lambda value: fixed(None if value is None else scale * value, decimals)


def _interval(estimate: Estimate, write: Callable[[float | None], str]) -> str:
    if estimate.ci is None:
        return ""
    low, high = estimate.ci if (estimate.value or 0.0) > 0 else (-estimate.ci[1], -estimate.ci[0])
    return f" [{write(low)}, {write(high)}]{TERMS_ONLY if estimate.is_of_terms_only else ''}"


def size(value: float, axis_result: AxisResult) -> str:
    """The size of a gap on its own: "18% of the originals' BLEU", "12.0 turns in 100", "0.31 results per turn"."""
    metric, unit = axis_result.metric, axis_result.metric.unit
    is_share, write = _writer(axis_result)
    if is_share:
        return f"{write(value)} of the originals' {metric.label}"
    if not unit:
        return f"{write(value)} in {metric.label}"
    noun, per_cent, _ = unit.partition(PER_CENT)
    return f"{write(value)} {noun}{per_cent}"


def is_whole(value: float, axis_result: AxisResult) -> bool:
    """True if a gap is as large as possible."""
    metric = axis_result.metric
    if metric.name in SHARES or PER_CENT in metric.unit:
        return value >= 1
    original = axis_result.original.value or 0.0
    return axis_result.scale == "ratio" and metric.better == "higher" and original <= 1 <= original * value
