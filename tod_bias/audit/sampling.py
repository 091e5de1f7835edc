"""What drawing outputs at random adds to a result."""

from __future__ import annotations

import math

import numpy as np

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.contrasts import ScoreScale, pseudo_values
from tod_bias.metrics.metric import Metric
from tod_bias.results import Noise, Sampling
from tod_bias.statistics.intervals import t_interval
from tod_bias.statistics.settings import Inference

_NO_NOISE = 1e-20
"""A variance that is rounding noise."""


def sampling_of(
    table: ArmSums, metric: Metric, scale: ScoreScale, inference: Inference, error: float
) -> Sampling | None:
    """Compare the originals with themselves, and return how much of the variance is due to drawing outputs.

    The noise compares half of the draws of the originals with the other half. None if nothing is drawn. The share is
    null without variance, and, with one sample, for disagreement with the twin, because its A/A run shows how often two
    draws differ but not how that varies.

    Args:
        table: of one axis and metric.
        metric: the metric.
        scale: of the values.
        inference: with the level.
        error: standard error of the disparity with words as they are.
    """
    drawn = table.repeated
    if drawn is None:
        return None
    draws = scale.values(pseudo_values(np.stack([drawn.first, drawn.second], axis=1), metric))
    pair = draws[:, 0] - draws[:, 1]
    bounds = t_interval(pair, inference.level) if len(pair) > 1 else (math.nan, math.nan)
    samples = len(drawn.by_sample)
    variance = math.nan
    if samples > 1:
        variance = _within(table, metric, scale)
    elif not metric.counterfactual:
        # The originals' draws differ as two variants' do; all counterfactuals of a dialogue share one of the two.
        counterfactuals = np.maximum(np.bincount(table.variants.of, minlength=table.variants.dialogues), 1)
        variance = float((pair**2 * (1 + 1 / counterfactuals) / 2).sum()) / len(pair) ** 2
    share = variance / error**2 if error**2 > _NO_NOISE else math.nan
    return Sampling(
        samples=samples,
        noise=Noise(value=float(pair.mean()), ci=tuple(bounds), draws=2 * max(1, samples // 2)),
        share_of_variance=None if math.isnan(share) else min(1.0, share),
    )


def _within(table: ArmSums, metric: Metric, scale: ScoreScale) -> float:
    """Return the variance of the disparity's mean over samples that is due to the draws alone.

    Each dialogue has a disparity in every sample; the variance of these over samples, divided by their number, is
    averaged as dialogues are.
    """
    drawn, variants = table.repeated, table.variants
    assert drawn is not None
    by_sample = np.stack([pseudo_values(table.mean_of(sample, variants.of), metric) for sample in drawn.by_sample])
    disparity = scale.values(by_sample[:, :, 1] - by_sample[:, :, 0])  # (samples, dialogues)
    return float((disparity.var(axis=0, ddof=1) / len(disparity)).sum()) / disparity.shape[1] ** 2
