"""Adjusting p-values for several tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from tod_bias.errors import StatisticsError

Correction = Literal["bh", "holm"]
"""Benjamini–Hochberg (1995: the false discovery rate) or Holm (1979: the family-wise error rate)."""


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment (Holm 1979): adjusted p-values that control the family-wise error rate."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def over_families(smallest: Sequence[float]) -> list[tuple[float, float]]:
    """Holm over families of tests: what the p-values of each become.

    Within a family p-values are joint ones already (maxT), and a single one is claimed behind its family: it becomes
    the larger of the family's adjusted p-value and itself times the factor of the family's step.

    Args:
        smallest: the smallest joint p-value of each family.

    Returns:
        Of each family the adjusted p-value, and the factor.
    """
    by_family = holm({str(number): p for number, p in enumerate(smallest)})
    ranked = sorted(range(len(smallest)), key=lambda number: smallest[number])
    factor = {number: float(len(ranked) - rank) for rank, number in enumerate(ranked)}
    return [(by_family[str(number)], factor[number]) for number in range(len(smallest))]


def adjusted(p_values: np.ndarray, correction: str) -> np.ndarray:
    """Adjusted p-values of one family of tests, (tests,); NaN stays and counts as no test.

    Args:
        p_values: (tests,).
        correction: ``bh`` (Benjamini–Hochberg) or ``holm``.

    Raises:
        StatisticsError: unknown correction.
    """
    if correction not in get_args(Correction):
        raise StatisticsError(f"unknown correction {correction!r}; expected {' or '.join(get_args(Correction))}")
    result = np.full(len(p_values), np.nan)
    is_known = ~np.isnan(p_values)
    if is_known.any():
        if correction == "bh":
            from scipy import stats

            result[is_known] = stats.false_discovery_control(p_values[is_known])
        else:
            named = {str(number): float(p) for number, p in enumerate(p_values[is_known])}
            result[is_known] = list(holm(named).values())
    return result
