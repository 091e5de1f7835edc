"""Numbers as JSON has them: NaN and infinities become None."""

from __future__ import annotations

import math

import numpy as np


def finite(value: float) -> float | None:
    """A number, or None where it is undefined."""
    return float(value) + 0.0 if math.isfinite(value) else None  # no -0.0


def finite_pair(bounds: np.ndarray) -> list[float] | None:
    """Lower and upper bound of an interval, or None where either is undefined."""
    return [float(bounds[0]) + 0.0, float(bounds[1]) + 0.0] if np.isfinite(bounds).all() else None
