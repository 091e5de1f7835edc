"""Su's numbers: the fairscore (eq. 1) and its attribution, absolute and along one order, in addition to the signed
ones.

The numbers are kept for comparison with the paper and decide nothing here: an absolute value is taken before
differences, so arms with different signs give shares that no component has, and noise counts as unfairness. Departures
from the paper: the paper's total bar is v({db}), given here as ``total`` (its fairscore v(∅) is another number); the
part that remains with every component replaced is ``residual`` here, in the paper it is part of the response model's
share. As in the paper, absolute values are averaged over draws; in the crossed design over groups, each with the
dialogues that are rewritten for it. Eq. 1 by source and target group is the paper's Fig. 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from tod_bias.audit.sums import ArmSums, VariantIndex
from tod_bias.results import Estimate, Gap, Su
from tod_bias.statistics.arms import Arm, ArmDesign
from tod_bias.statistics.intervals import interval, interval_of_absolute
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference


def fairscore(original: np.ndarray | float, rewritten: np.ndarray | float) -> np.ndarray:
    """Signed form of Su eq. 1: (BLEU(f(u), g) − BLEU(f(ũ), g̃)) / BLEU(f(u), g); eq. 1 is its absolute value.

    0: both are answered equally well. Positive: the rewritten dialogues are answered worse (1: BLEU falls to 0);
    negative: better, without a bound. NaN where the original BLEU is 0: undefined.
    """
    original, rewritten = np.asarray(original, dtype=float), np.asarray(rewritten, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(original > 0, (original - rewritten) / original, np.nan)


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
    """Su's fairscore and attribution with intervals over dialogues; None where eq. 1 is undefined (originals at 0).

    The attribution has no stages where not every beginning of the order is an arm, of systems of many stages.
    """
    variants = table.variants
    order, arms = _steps(table.arms, order)
    signed = _Eq1(table, score, _sets(variants), list(arms.values()), inference)
    if not len(signed.estimate):
        return None
    value = np.abs(signed.estimate).mean(axis=0)  # (arms,)
    # A resample that crosses 0 must count as less, not as more, so resamples keep the sign that the estimate has.
    signs = (np.where(signed.estimate < 0, -1.0, 1.0) * signed.samples).mean(axis=1)  # (resamples, arms)
    place = {arm: number for number, arm in enumerate(arms)}
    database = place.get(frozenset({"db"}))

    def absolute(arm: int) -> Estimate:
        bounds = interval_of_absolute(signed.samples[:, :, arm], variants.dialogues, inference.level)
        return Estimate(value=value[arm], ci=tuple(bounds))

    shares = contributions({arm: value[number] for arm, number in place.items()}, [order])
    resampled = contributions({arm: signs[:, number] for arm, number in place.items()}, [order])
    parts = {
        name: Estimate(value=shares[name], ci=tuple(interval(resampled[name], variants.dialogues, inference.level)))
        for name in order
    }
    return Su(
        fairscore=absolute(0),
        total=None if database is None else absolute(database),
        attribution={"order": list(order), **parts, "residual": absolute(place[frozenset(table.stages)])},
        pairs=_pairs(table, score, inference),
    )


def _steps(design: ArmDesign, order: Sequence[str]) -> tuple[Sequence[str], dict[Arm, int]]:
    """The order in which stages are swapped, empty where the arms between its steps are not run; and the arms that
    Su's numbers need, with their numbers."""
    steps = [frozenset(order[:size]) for size in range(len(order) + 1)]
    wanted = [*steps, *([frozenset({"db"})] if "db" in order else [])]
    known = {arm: number for arm in wanted if (number := design.number(arm)) is not None}
    return order if known.keys() >= set(steps) else (), known


def _sets(variants: VariantIndex) -> list[np.ndarray]:
    """Sets of variants that hold one per dialogue: the draws; where dialogues have several at once, the groups."""
    sets = []
    for draw in np.unique(variants.draw):
        chosen = np.flatnonzero(variants.draw == draw)
        cells = np.unique(np.stack([variants.of[chosen], variants.target[chosen]]), axis=1)
        is_crossed = len(np.unique(cells[0])) < cells.shape[1]
        targets = variants.target[chosen]
        sets += [chosen[targets == target] for target in np.unique(targets)] if is_crossed else [chosen]
    return sets


def _pairs(table: ArmSums, score: Callable[[np.ndarray], np.ndarray], inference: Inference) -> dict[str, Gap]:
    """Eq. 1 of the dialogues of one group that are rewritten for another, by ``source>target``."""
    variants, names = table.variants, table.variants.groups
    source = variants.source[variants.of]
    pairs = {}
    for first, second in permutations(range(len(names)), 2):
        is_pair = (source == first) & (variants.target == second)
        sets = [np.flatnonzero(is_pair & (variants.draw == draw)) for draw in np.unique(variants.draw[is_pair])]
        signed = _Eq1(table, score, sets, [0], inference)
        if len(signed.estimate):
            dialogues = len(np.unique(variants.of[is_pair]))
            pairs[f"{names[first]}>{names[second]}"] = Gap(
                value=np.abs(signed.estimate).mean(),
                ci=tuple(interval_of_absolute(signed.samples[:, :, 0], dialogues, inference.level)),
                dialogues=dialogues,
            )
    return pairs


class _Eq1:
    """Signed eq. 1 of sets of variants with one per dialogue, in some arms; sets in which it is undefined are left out.

    Args:
        table: the sums.
        score: (rows, statistics) to (rows,) scores.
        sets: numbers of variants.
        arms: numbers of arms.
        inference: resamples, seed.
    """

    def __init__(
        self,
        table: ArmSums,
        score: Callable[[np.ndarray], np.ndarray],
        sets: Sequence[np.ndarray],
        arms: Sequence[int],
        inference: Inference,
    ) -> None:
        self._score, self._cells = score, 1 + len(arms)
        of = table.variants.of
        taking_part = np.unique(np.concatenate([of[chosen] for chosen in sets])) if sets else np.zeros(0, dtype=int)
        columns = []
        for chosen in sets:
            has = np.zeros(table.variants.dialogues, dtype=bool)
            has[of[chosen]] = True
            rewritten = table.mean_of(table.by_variant[chosen][:, list(arms)], of[chosen])
            cells = np.concatenate([np.where(has[:, None], table.original, 0.0)[:, None], rewritten], axis=1)
            if not np.isnan(self._signed(cells.sum(axis=0).reshape(1, -1), len(cells[0, 0]))).any():
                columns.append(cells[taking_part])
        self.estimate = np.zeros((len(columns), len(arms)))
        """(sets, arms)."""
        self.samples = np.full((2, len(columns), len(arms)), np.nan)
        """(resamples, sets, arms); NaN if none are drawn."""
        if columns:
            statistics = columns[0].shape[2]
            flat = np.concatenate(columns, axis=1).reshape(len(taking_part), -1)

            def signed(sums: np.ndarray) -> np.ndarray:
                return self._signed(sums, statistics)

            self.estimate = signed(flat.sum(axis=0)[None])[0]
            if inference.resamples:
                self.samples = resample(flat, signed, inference.resamples, inference.seed)

    def _signed(self, sums: np.ndarray, statistics: int) -> np.ndarray:
        """(rows, sets × cells × statistics) to (rows, sets, arms)."""
        scores = self._score(sums.reshape(-1, statistics)).reshape(len(sums), -1, self._cells)
        return np.asarray(fairscore(scores[:, :, :1], scores[:, :, 1:]))
