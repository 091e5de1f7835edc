"""Shares over drawn orders of many stages, and the error of drawing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tod_bias.audit.shares import (
    order_weights,
)
from tod_bias.statistics.arms import ArmDesign
from tod_bias.statistics.group_model import RowEstimates

MATTERS = 0.1
"""Share of a contribution's variance from which the error of drawing orders matters, ..."""
_NOTHING = 1e-20
"""Variances that rounding makes."""
SMALL = 0.02
"""Largest standard error, as a share of the gap, at which no more orders are drawn."""


@dataclass(frozen=True)
class DrawnShares:
    """Values of the stages' shares in each pair of orders, in one run."""

    by_group: Mapping[str, np.ndarray]
    """Stage to (pairs, dialogues, groups)."""
    whole: Mapping[str, np.ndarray]
    """Stage to (pairs,), of all counterfactuals of a dialogue together."""

    def times(self, factor: float) -> DrawnShares:
        """The same of shares that are multiplied."""
        return replace(
            self,
            by_group={stage: factor * some for stage, some in self.by_group.items()},
            whole={stage: factor * some for stage, some in self.whole.items()},
        )

    def in_contrast(self, stages: Sequence[str], coefficients: np.ndarray) -> np.ndarray:
        """(pairs,) of the sum of some stages' shares of a contrast of groups.

        Args:
            stages: whose shares are summed.
            coefficients: (dialogues, groups) of the contrast.
        """
        return np.asarray(sum(np.tensordot(self.by_group[stage], coefficients, axes=2) for stage in stages))

    def in_whole(self, stages: Sequence[str]) -> np.ndarray:
        """(pairs,) of the sum of some stages' shares of all counterfactuals together."""
        return np.asarray(sum(self.whole[stage] for stage in stages))


def drawn_weights(design: ArmDesign) -> dict[str, np.ndarray]:
    """Stage to (pairs, arms); nothing where no orders are drawn."""
    return {stage: order_weights(stage, design) for stage in design.stages} if design.pairs else {}


def variance_of(values: np.ndarray) -> float:
    """Return the variance of the mean of (pairs,) values."""
    return float(values.var(ddof=1)) / len(values)


def with_orders(rows: RowEstimates, number: int, drawn: Sequence[np.ndarray]) -> RowEstimates:
    """Return estimates, one of which includes the error of drawn orders.

    Args:
        rows: the estimates.
        number: of the row.
        drawn: (pairs,) values of its share, for each run in it.
    """
    variances = [variance_of(values) for values in drawn]
    added = sum(variances)
    if added < _NOTHING:
        return rows
    of_data = float(rows.errors[number]) ** 2
    parts = [(of_data, float(rows.freedom[number]))]
    parts += [(some, len(values) - 1.0) for some, values in zip(variances, drawn, strict=True)]
    errors, freedom, covariance = rows.errors.copy(), rows.freedom.copy(), rows.covariance.copy()
    errors[number] = np.sqrt(of_data + added)
    freedom[number] = (of_data + added) ** 2 / sum(some**2 / of for some, of in parts if some and of)
    covariance[number, number] += added
    return RowEstimates(rows.values, errors, freedom, covariance)


def matters(drawn: np.ndarray, error: float, whole: float) -> bool:
    """True if more orders would make a share more precise.

    Args:
        drawn: (pairs,) its values.
        error: its standard error, including that of drawn orders.
        whole: the gap.
    """
    variance = variance_of(drawn)
    return variance > MATTERS * error**2 and np.sqrt(variance) > SMALL * abs(whole)
