"""Groups' scores as Fairlearn's ``MetricFrame``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame

from tod_bias.metrics.metric import Metric


def metric_frame(turns: pd.DataFrame, axis: str, metric: Metric, groups: Sequence[str]) -> MetricFrame:
    """Return the scores of groups, computed from the sums of each dialogue as each group.

    Args:
        turns: a run's turns, each with the group that its dialogue came from (``source``).
        axis: by name.
        metric: sums its statistics over rows.
        groups: of the axis.
    """
    sums = _sums_of_groups(turns, axis, metric, groups)
    numbers, statistics = np.arange(len(sums)), sums.to_numpy(dtype=float)
    return MetricFrame(
        metrics={metric.name: lambda rows, _: float(metric.score(statistics[rows].sum(axis=0)))},
        y_true=numbers,
        y_pred=numbers,
        sensitive_features={axis: sums.index.get_level_values("group").to_numpy()},
    )


def _sums_of_groups(turns: pd.DataFrame, axis: str, metric: Metric, groups: Sequence[str]) -> pd.DataFrame:
    """The statistics of each dialogue as each group, indexed by both: of the dialogues that groups are compared on.

    A dialogue as its own group is the original; of several variants for one group it is their mean.
    """
    columns = list(metric.columns)
    rows = turns[(turns["axis"] == axis) & (turns["arm"].isin(("", "original")))]
    samples = int(rows["sample"].max()) + 1
    rewritten = rows[(rows["role"] == "group") & (rows["arm"] == "")]
    by_variant = rewritten.groupby(["dialogue", "group", "variant"], observed=True)[columns].sum() / samples
    sums = by_variant.groupby(["dialogue", "group"], observed=True).mean()
    originals = rows[rows["arm"] == "original"].groupby("dialogue", observed=True)[columns].sum() / samples
    source = rewritten.groupby("dialogue", observed=True)["source"].first()
    originals = originals.assign(group=source.reindex(originals.index)).set_index("group", append=True)
    originals = originals[originals.index.get_level_values("group").isin(groups)]
    both = pd.concat([sums, originals])
    both = both[~both.index.duplicated()]
    has = both.groupby(level="dialogue").size()
    complete = has == both.index.get_level_values("group").nunique()
    shared = complete if 2 * complete.sum() >= len(has) else has > 1
    return both[both.index.get_level_values("dialogue").isin(has.index[shared])]
