"""Which of several stages have to be repaired."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tod_bias.audit.contrasts import POOLED, Contrasts
from tod_bias.results import ALPHA, Repair
from tod_bias.statistics.distributions import t_quantile

_FEWEST = 6
"""Dialogues of other groups from which the two are told apart."""
_SMALL = 0.25
"""Largest share of the gap that may remain if one stage suffices, or disappear if one does not."""


def repair_of(contrasts: Contrasts, source: np.ndarray, group: int, stages: Sequence[str]) -> Repair:
    """Return whether repairing one of some stages closes a group's gap, or only repairing all of them does.

    Args:
        contrasts: of one axis and metric.
        source: (dialogues,) number of the group that the original expresses; negative for none.
        group: number of the group with a gap.
        stages: those with the largest shares of the gap.

    Returns:
        ``either``, ``all``, or nothing if neither is shown.
    """
    has = contrasts.design.has
    members = has[:, group] & (source != group)
    if len(stages) < 2 or members.sum() < _FEWEST:
        return ""
    whole = _gap(contrasts, POOLED, members, group).mean()
    if not whole:
        return ""
    removed = [_gap(contrasts, f"replaced_alone {stage}", members, group) / whole for stage in stages]
    left = [_gap(contrasts, f"left_alone {stage}", members, group) / whole for stage in stages]
    excess = [_lower(some - other) for some, other in zip(removed, left, strict=True)]
    if min(excess) > 0 and all(some.mean() <= _SMALL for some in left):
        return "either"
    missing = [_lower(other - some) for some, other in zip(removed, left, strict=True)]
    return "all" if min(missing) > 0 and all(some.mean() <= _SMALL for some in removed) else ""


def _gap(contrasts: Contrasts, name: str, members: np.ndarray, group: int) -> np.ndarray:
    """(members,) of a group against the mean of the other groups of the same dialogue."""
    values, has = contrasts.values[name][members], contrasts.design.has[members].astype(float)
    has[:, group] = 0.0
    return np.asarray(values[:, group] - (values * has).sum(axis=1) / np.maximum(has.sum(axis=1), 1.0))


def _lower(values: np.ndarray) -> float:
    """Return the lower end of the interval of a mean, with dialogues as the sample."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - float(t_quantile(1 - ALPHA / 2, len(values) - 1)) * error
