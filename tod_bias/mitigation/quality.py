"""How much quality a system with fixes may lose, as far as is shown."""

from __future__ import annotations

from collections.abc import Sequence

from tod_bias.results import Change, Comparison
from tod_bias.statistics.distributions import t_quantile
from tod_bias.statistics.intervals import LEVEL


def is_quality_shown(comparison: Comparison, must_hold: Sequence[str]) -> bool:
    """Whether exact bounds, too, rule out a loss beyond the margin: with few dialogues, of which few change, intervals
    are too short."""
    losses = [
        largest_loss(comparison.quality[name], is_lower=comparison.metrics[name].better == "lower", is_exact=True)
        for name in must_hold
    ]
    return all(loss is not None and loss <= (comparison.quality_margin or 0.0) for loss in losses)


def largest_loss(quality: Change, *, is_lower: bool, tried: int = 1, is_exact: bool = False) -> float | None:
    """The end of the interval on the side of a loss, widened so that it holds for all that were tried."""
    change = quality.change
    if change.value is None or change.se is None or change.df is None or quality.equivalent_within is None:
        return None
    if change.value == 0 and change.se == 0:
        return 0.0  # no original is answered otherwise
    loss = change.value if is_lower else -change.value
    alpha = (1 - LEVEL) / 2 / tried
    exact = quality.equivalent_within - abs(change.value) if is_exact else 0.0
    return loss + max(float(t_quantile(1 - alpha, change.df)) * change.se, exact)
