"""Su's own numbers: the fairscore (eq. 1) and its attribution, absolute and along one order, beside the signed ones.

They are kept for comparison with the paper and decide nothing here: an absolute value is taken before differences, so
arms with different signs give shares that no component has, and noise counts as unfairness. Where they depart from the
paper: the paper's total bar is v({db}), given here as ``total`` (its fairscore v(∅) is another number); what is left
with every component swapped stands here as ``residual``, in the paper it is part of the response model's share. As in
the paper, absolute values are averaged over draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tod_bias.audit.sums import ArmSums
from tod_bias.metrics.fairscore import fairscore
from tod_bias.results import Estimate, Su
from tod_bias.statistics.intervals import interval, interval_of_absolute
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference
from tod_bias.systems.execution import Arm, all_arms


def contributions(value: Mapping[Arm, Any], orders: Iterable[Sequence[str]]) -> dict[str, Any]:
    """The mean drop of ``value`` as each component joins the set of swapped ones, over ``orders``.

    One order is Su's step-by-step attribution; all permutations give the Shapley value. In every order the
    contributions add up to ``value[∅] − value[all]``; a negative one is real (Su, "Negative API Attribution").

    Args:
        value: arm to a number, or to arrays of one shape (resamples).
        orders: each names every component once.
    """
    totals: dict[str, Any] = {}
    count = 0
    for order in orders:
        swapped: Arm = frozenset()
        for name in order:
            joined = swapped | {name}
            totals[name] = totals.get(name, 0.0) + (value[swapped] - value[joined])
            swapped = joined
        count += 1
    return {name: total / count for name, total in totals.items()}


def su_of(
    table: ArmSums, score: Callable[[np.ndarray], np.ndarray], order: Sequence[str], inference: Inference
) -> Su | None:
    """Su's fairscore and attribution with intervals over dialogues; None where eq. 1 is undefined (originals at 0)."""
    draws = sorted(set(table.variants.draw.tolist()))
    cells = np.concatenate([table.original[:, None], *(table.for_draw(draw) for draw in draws)], axis=1)
    shape = (-1, *cells.shape[1:])
    arms = all_arms(table.stages)

    def signed(sums: np.ndarray) -> np.ndarray:
        """(rows, cells, n) to (rows, draws, arms)."""
        scores = score(sums.reshape(shape))
        return np.asarray(fairscore(scores[:, :1], scores[:, 1:])).reshape(-1, len(draws), len(arms))

    flat = cells.reshape(len(cells), -1)
    estimate = signed(flat.sum(axis=0))[0]  # (draws, arms)
    if np.isnan(estimate).any():
        return None
    samples = np.full((2, *estimate.shape), np.nan)
    if inference.resamples:
        samples = resample(flat, signed, inference.resamples, inference.seed)
    value = np.abs(estimate).mean(axis=0)  # (arms,)
    # A resample that crosses 0 must count as less, not as more, so resamples keep the sign that the estimate has.
    signs = (np.where(estimate < 0, -1.0, 1.0) * samples).mean(axis=1)  # (resamples, arms)
    place = {arm: number for number, arm in enumerate(arms)}

    def absolute(arm: int) -> Estimate:
        bounds = interval_of_absolute(samples[:, :, arm], len(cells), inference.level)
        return Estimate(value=value[arm], ci=tuple(bounds))

    shares = contributions({arm: value[number] for arm, number in place.items()}, [order])
    resampled = contributions({arm: signs[:, number] for arm, number in place.items()}, [order])
    parts = {
        name: Estimate(value=shares[name], ci=tuple(interval(resampled[name], len(cells), inference.level)))
        for name in order
    }
    return Su(
        fairscore=absolute(0),
        total=absolute(place[frozenset({"db"})]) if "db" in order else None,
        attribution={"order": list(order), **parts, "residual": absolute(len(arms) - 1)},
    )
