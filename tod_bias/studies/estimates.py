"""From BLEU statistics to fairscores, attributions, intervals and p-values: the arithmetic of one axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tod_bias.metrics.fairscore import fairscore
from tod_bias.metrics.text import TextMetric
from tod_bias.statistics.intervals import interval, interval_of_absolute
from tod_bias.statistics.permutation import swap_test
from tod_bias.statistics.record import finite, finite_pair
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference
from tod_bias.systems.execution import Arm, all_arms, arm_key


def contributions(value: Mapping[Arm, Any], orders: Iterable[Sequence[str]]) -> dict[str, Any]:
    """The mean drop of ``value`` as each stage joins the set of swapped stages, over ``orders``.

    One order is Su's step-by-step attribution; all permutations give the Shapley value. In every order the
    contributions add up to ``value[∅] − value[all]``; a negative one is real (Su, "Negative API Attribution").

    Args:
        value: arm to fairscore; numbers, or arrays of one shape (resamples).
        orders: each names every stage once.
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


@dataclass(frozen=True)
class AxisStatistics:
    """Summed metric statistics of one axis; everything reported about it follows from them."""

    stages: tuple[str, ...]
    """The pipeline's stages."""
    original: np.ndarray
    """(dialogues, statistics) of the original run."""
    arms: np.ndarray
    """(arms, draws, dialogues, statistics), arms as :func:`tod_bias.systems.execution.all_arms` orders them."""
    pairs: Mapping[str, np.ndarray]
    """``source>target`` to (draws, dialogues), True where the draw was of that pair."""

    def groups(self) -> np.ndarray:
        """Statistics per group, (dialogues, 1 + arms, draws + pairs, statistics): the original first.

        A draw's group holds all dialogues, a pair's those draws that were of the pair.
        """
        draws = self.arms.shape[1]
        shape = (self.arms.shape[2], 1 + len(self.arms), draws + len(self.pairs), self.arms.shape[3])
        groups = np.empty(shape)
        groups[:, 0, :draws] = self.original[:, None]
        groups[:, 1:, :draws] = self.arms.transpose(2, 0, 1, 3)
        for number, mask in enumerate(self.pairs.values(), start=draws):  # (draws, dialogues)
            of_draws = mask.T.astype(float)
            groups[:, 0, number] = self.original * of_draws.sum(axis=1)[:, None]
            np.einsum("dm,amdk->dak", of_draws, self.arms, out=groups[:, 1:, number])
        return groups


class AxisEstimate:
    """Point estimates and resamples of one axis.

    Args:
        statistics: of the axis.
        metric: scores them.
        order: in which Su's attribution swaps the stages.
        orders: all orders of the Shapley attribution.
        inference: resamples and permutations.
    """

    def __init__(
        self,
        statistics: AxisStatistics,
        metric: TextMetric,
        order: Sequence[str],
        orders: Sequence[Sequence[str]],
        inference: Inference,
    ) -> None:
        self._names = all_arms(statistics.stages)
        self._order = tuple(order)
        self._orders = orders
        self._inference = inference
        self._metric = metric
        self._draws = statistics.arms.shape[1]
        self._pairs = statistics.pairs
        self._groups = statistics.groups()
        self._clusters = len(self._groups)
        flat = self._groups.reshape(self._clusters, -1)
        shape = (-1, *self._groups.shape[1:])
        self._scores = metric.score(flat.sum(axis=0).reshape(shape))  # (1, 1 + arms, groups)
        if inference.resamples:
            self._samples = resample(
                flat, lambda sums: metric.score(sums.reshape(shape)), inference.resamples, inference.seed
            )
        else:
            self._samples = np.full((2, *self._scores.shape[1:]), np.nan)

    @property
    def defined(self) -> bool:
        """Whether the original dialogues have a score above 0, so that eq. 1 is defined."""
        return bool(self._scores[0, 0, 0] > 0)

    def report(self) -> dict[str, Any]:
        """What ``results.json`` says of the axis."""
        draws = slice(0, self._draws)
        value = self._report(draws)
        signed, samples = self._mean_signed(draws)
        return {
            **self._bleu(draws),
            "fairscore": value.pop("fairscore"),
            "signed": finite(signed[0, 0]),
            "signed_ci": finite_pair(self._interval(samples[:, 0])),
            "mean_over_pairs": self._mean_over_pairs(),
            **value,
            "pairs": {pair: self._pair(number, pair) for number, pair in enumerate(self._pairs)},
        }

    def _signed(self, groups: slice) -> tuple[np.ndarray, np.ndarray]:
        """Signed fairscores of some groups: the estimates (1, arms, groups) and resamples (resamples, arms, groups)."""
        scores, samples = (
            fairscore(table[:, :1, groups], table[:, 1:, groups]) for table in (self._scores, self._samples)
        )
        return scores, samples

    def _mean_signed(self, groups: slice) -> tuple[np.ndarray, np.ndarray]:
        """The mean of signed fairscores over draws: the estimates (1, arms) and resamples (resamples, arms).

        Draws are repeated measurements of one thing, so their noise must cancel before the sign is dropped: a mean of
        absolute values would grow with the noise of the draws, and give a share of it to stages without any bias.
        """
        signed, samples = self._signed(groups)
        return signed.mean(axis=-1), samples.mean(axis=-1)

    def _interval(self, samples: np.ndarray) -> np.ndarray:
        return interval(samples, self._clusters, self._inference.level)

    def _report(self, groups: slice) -> dict[str, Any]:
        """Fairscore, arms and attributions: absolute values (eq. 1) of signed fairscores, means over draws."""
        signed, samples = self._mean_signed(groups)
        value = np.abs(signed)  # (1, arms)
        # A resample that crosses 0 must count as less, not as more: near 0 the percentiles of the absolute value
        # would call every contribution positive. So resamples keep the sign that the estimate has.
        value_samples = np.where(signed < 0, -1.0, 1.0) * samples  # (resamples, arms)
        arms = {arm: value[0, number] for number, arm in enumerate(self._names)}
        arm_samples = {arm: value_samples[:, number] for number, arm in enumerate(self._names)}
        last = len(self._names) - 1

        def absolute(arm: int) -> dict[str, Any]:
            bounds = interval_of_absolute(samples[:, arm, None], self._clusters, self._inference.level)
            return {"value": finite(value[0, arm]), "ci": finite_pair(bounds)}

        def shares(orders: Sequence[Sequence[str]]) -> dict[str, Any]:
            estimates, resamples = contributions(arms, orders), contributions(arm_samples, orders)
            return {
                name: {"value": finite(estimates[name]), "ci": finite_pair(self._interval(resamples[name]))}
                for name in self._order
            }

        return {
            "fairscore": {**absolute(0), "p_value": self._p_value(groups)},
            "attribution": {"order": list(self._order), **shares([self._order]), "residual": absolute(last)},
            "shapley": shares(self._orders),
            "arms": {arm_key(arm): finite(number) for arm, number in arms.items()},
            "arms_ci": {arm_key(arm): absolute(number)["ci"] for number, arm in enumerate(self._names)},
        }

    def _bleu(self, groups: slice) -> dict[str, Any]:
        """The metric's score of original and rewritten dialogues, as means over groups."""
        report: dict[str, Any] = {}
        for place, name in enumerate(("bleu_original", "bleu_perturbed")):
            report[name] = finite(self._scores[0, place, groups].mean())
            report[f"{name}_ci"] = finite_pair(self._interval(self._samples[:, place, groups].mean(axis=-1)))
        return report

    def _p_value(self, groups: slice) -> float | None:
        if not self._inference.permutations:
            return None
        original, rewritten = self._groups[:, 0, groups], self._groups[:, 1, groups]  # (dialogues, groups, statistics)
        held = (original.any(axis=(1, 2))) | (rewritten.any(axis=(1, 2)))

        def statistic(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            # Not divided by the original's BLEU: that would change places too, and hide large losses.
            return np.abs((self._metric.score(first) - self._metric.score(second)).mean(axis=-1))

        if not self._scores[0, 0, groups].all():
            return None  # the fairscore is undefined
        inference = self._inference
        return swap_test(original[held], rewritten[held], statistic, inference.permutations, inference.seed)

    def _pair(self, number: int, pair: str) -> dict[str, Any]:
        group = slice(self._draws + number, self._draws + number + 1)
        report = self._report(group)
        signed, samples = self._mean_signed(group)
        mask = self._pairs[pair]
        return {
            "fairscore": report["fairscore"],
            "signed": finite(signed[0, 0]),
            "signed_ci": finite_pair(self._interval(samples[:, 0])),
            "dialogues": int(mask.any(axis=0).sum()),
            "draws": int(mask.sum()),
            **self._bleu(group),
            "attribution": report["attribution"],
            "shapley": report["shapley"],
        }

    def _mean_over_pairs(self) -> dict[str, Any]:
        signed, samples = self._signed(slice(self._draws, None))
        defined = ~np.isnan(signed[0, 0])
        if not defined.any():
            return {"value": None, "ci": None, "pairs": 0}
        bounds = interval_of_absolute(samples[:, 0, defined], self._clusters, self._inference.level)
        value = np.abs(signed[0, 0, defined]).mean()
        return {"value": finite(value), "ci": finite_pair(bounds), "pairs": int(defined.sum())}
