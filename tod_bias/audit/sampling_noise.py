"""What mere sampling does to a result, where stages draw their outputs.

Two baselines stand beside the placebo. The A/A run runs the originals twice, so that only the draws differ: its
difference is what a system that treats everybody alike would show by luck. And of the variance behind an interval, a
share is the sampling's: outputs are repeated measurements within a dialogue, and more of them make it smaller, while
the rest needs more dialogues.
"""

from __future__ import annotations

import math

import numpy as np

from tod_bias.audit.contrasts import Contrasts, Score, ScoreDifference
from tod_bias.audit.sums import ArmSums
from tod_bias.metrics.metric import Metric
from tod_bias.results import Noise, Sampling
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.settings import Inference

_NOTHING = 1e-20
"""A variance that is rounding noise."""


def sampling_of(table: ArmSums, metric: Metric, is_ratio: bool, inference: Inference, error: float) -> Sampling | None:
    """The originals against themselves, and how much of the variance comes from drawing outputs.

    The noise compares half of so many draws of the originals with the other half. None where nothing is drawn; the
    share is null where there is no variance, and, with one sample, for disagreement with the twin, whose A/A run says
    how often two draws differ but not how that varies.

    Args:
        table: of one axis and metric.
        metric: the metric.
        is_ratio: whether values are divided by the originals' score.
        inference: level, resamples, seed.
        error: standard error of the disparity with words as they are.
    """
    drawn = table.repeated
    if drawn is None:
        return None
    score = metric.score
    sign = -1.0 if metric.better == "lower" else 1.0
    cells = np.stack([table.original, drawn.first, drawn.second], axis=1)
    block = Contrasts(cells, ((ScoreDifference(1.0, 2, 1),),), score, sign, is_ratio)
    each = Clusters(np.arange(len(cells)), tuple(map(str, range(len(cells)))))
    bounds = block.spread(each).interval(block.estimates, inference.level)[:, 0]
    samples = len(drawn.by_sample)
    scale = float(score(table.original.sum(axis=0)[None])[0]) if is_ratio else 1.0
    variance = math.nan
    if samples > 1:
        variance = _within(table, score) / scale**2
    elif not getattr(metric, "counterfactual", False):
        # The originals' draws differ as two variants' do; all counterfactuals of a dialogue share one of the two.
        pair = block.parts(None, [0])[:, 0]
        counterfactuals = np.maximum(np.bincount(table.variants.of, minlength=table.variants.dialogues), 1)
        variance = float((pair**2 * (1 + 1 / counterfactuals) / 2).sum())
    share = variance / error**2 if error**2 > _NOTHING else math.nan
    return Sampling(
        samples=samples,
        noise=Noise(value=block.estimates[0], ci=tuple(bounds), draws=2 * max(1, samples // 2)),
        share_of_variance=None if math.isnan(share) else min(1.0, share),
    )


def _within(table: ArmSums, score: Score) -> float:
    """Variance of the disparity's mean over samples that comes from the draws alone, on the metric's own scale.

    Each dialogue adds a part to the disparity in every sample (:meth:`Contrasts.parts`); the variance of these parts
    over samples, divided by their number and summed over dialogues, is the sampling's.
    """
    drawn, variants = table.repeated, table.variants
    assert drawn is not None
    by_sample = np.stack(
        [table.mean_of(sample, variants.of) for sample in drawn.by_sample]
    )  # (samples, dialogues, 2, statistics)
    total = by_sample.mean(axis=0).sum(axis=0)  # (2, statistics)
    middle, half = total.mean(axis=0), (by_sample[:, :, 1] - by_sample[:, :, 0]) / 2
    parts = np.nan_to_num(score(middle + half) - score(middle - half))  # (samples, dialogues)
    return float((parts.var(axis=0, ddof=1) / len(parts)).sum())
