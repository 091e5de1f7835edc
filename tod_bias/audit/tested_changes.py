"""Changes from one run to another with their verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tod_bias.audit.claimed_rows import ClaimedRows, blocks_of
from tod_bias.changes import Change, ChangeVerdict
from tod_bias.metrics.metric import Better
from tod_bias.results import (
    EQUIVALENT,
    INCONCLUSIVE,
)
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import finite
from tod_bias.statistics.simultaneous import Family

BETTER: Final = "better"
"""A disparity, gap or part is nearer to 0; a score is better."""


WORSE: Final = "worse"
"""The opposite."""


CHANGED: Final = "changed"
"""A change is shown, but it is neither: on which side of 0 the value was is not shown, or no score is a better one."""


@dataclass(frozen=True)
class ChangeRows:
    """Changes of one kind: of gaps, of parts, of scores."""

    changes: ClaimedRows
    middles: ClaimedRows | None
    """Means over both runs, which determine the side of 0 of a value; None for scores."""
    before: np.ndarray
    """(rows,)."""
    after: np.ndarray
    better: Better = "neither"
    """Better side, for scores."""
    margin: float | None = None

    def towards(self, number: int) -> ChangeVerdict:
        """Return the name of a change if it is shown."""
        change = float(self.changes.rows.values[number])
        if self.middles is None:
            turn = {"higher": -1.0, "lower": 1.0, "neither": 0.0}[self.better] * change
        else:
            turn = change * float(self.middles.rows.values[number])
        return BETTER if turn < 0 else WORSE if turn > 0 else CHANGED


def tested_changes(kinds: Sequence[ChangeRows], alpha: float, seed: int) -> list[dict[str, Change]]:
    """Return all changes with intervals, p-values and verdicts.

    Args:
        kinds: everything that is claimed.
        alpha: the family-wise error rate, of changes and of equivalences.
        seed: of draws under the null hypothesis.
    """
    family = Family(blocks_of([kind.changes for kind in kinds], seed), alpha)
    sides = Family(blocks_of([kind.middles for kind in kinds], seed), alpha)
    equal = {
        f"{place}/{number}": 1.0 if kind.margin is None else kind.changes.equivalence_p(number, kind.margin)
        for place, kind in enumerate(kinds)
        for number in range(len(kind.changes.names))
    }
    adjusted = holm(equal)
    results = []
    for place, kind in enumerate(kinds):
        estimates = kind.changes.estimates(family)
        results.append(
            {
                name: Change(
                    before=finite(float(kind.before[number])),
                    after=finite(float(kind.after[number])),
                    change=estimates[name],
                    equivalent_within=finite(kind.changes.within_of(number, alpha)),
                    verdict=_verdict(kind, number, (family, sides), adjusted[f"{place}/{number}"], alpha),
                )
                for number, name in enumerate(kind.changes.names)
            }
        )
    return results


def _verdict(
    kind: ChangeRows, number: int, families: tuple[Family, Family], equal: float, alpha: float
) -> ChangeVerdict:
    if equal < alpha:
        return EQUIVALENT
    changed = kind.changes.adjusted(number, families[0])
    if math.isnan(changed) or not changed < alpha:
        return INCONCLUSIVE
    side = 0.0 if kind.middles is None else kind.middles.adjusted(number, families[1])
    return kind.towards(number) if side < alpha else CHANGED
