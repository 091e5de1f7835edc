"""Adjusting p-values for several tests."""

from __future__ import annotations

from collections.abc import Mapping
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
