"""Power of a design: minimum detectable effects, equivalence, and the number of units that are needed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from tod_bias.statistics.distributions import normal_quantile, t_quantile

POWER = 0.8
"""Power at every minimum detectable effect."""


def detectable(error: float, freedom: float, alpha: float, power: float = POWER) -> float:
    """The smallest effect that a two-sided t test finds with probability ``power`` (Bloom 1995).

    Args:
        error: standard error of the estimate.
        freedom: its degrees of freedom.
        alpha: level of the test, after adjustment for other tests.
        power: probability of finding the effect.

    Returns:
        (t_{1 - alpha/2} + t_power) · error, on the estimate's scale; NaN where the error is not known, or 0: nothing
        varied, and how much it could have is not known.
    """
    if not math.isfinite(error) or error <= 0 or freedom < 1:
        return math.nan
    return float((t_quantile(1 - alpha / 2, freedom) + t_quantile(power, freedom)) * error)


def detectable_rate(
    error: float,
    freedom: float,
    alpha: float,
    units: int,
    most: float = 1.0,
    size: float | None = None,
    power: float = POWER,
) -> float:
    """Return the smallest mean effect that a two-sided t test and sign flips find with probability ``power``.

    Effects add to the variance by which they are judged: if a share s of n units has an effect of ``size``, their mean
    m = s · size has the variance V / n, V = n · error² + m (size − m). The error of the mean and that of its standard
    error go together, so that the statistic T = m̂ √(n / V) varies less than its mean's distance from 0 suggests: by the
    delta method its standard deviation is 1 − m (size − 2m) / 2V. A quarter of this shrinkage is taken: counts of few
    dialogues are skewed, and with half of it an effect of this size is found in .76 of 500 audits. Half is taken of
    that of the flips' z, with V + m² in place of V. The result is the smallest m for which both statistics lie above
    their critical value in ``power`` of all samples.

    Args:
        error: standard error of the estimate without the effect; 0 if nothing varied.
        freedom: its degrees of freedom.
        alpha: level of the test, after adjustment for other tests.
        units: how many units there are.
        most: the largest mean.
        size: the effect of a unit that has one; by default the largest mean. Means above it are effects on all units.
        power: probability of finding the effect.

    Returns:
        A mean on the estimate's scale; NaN if the error is not known or even an effect in every unit is not found.
    """
    if not math.isfinite(error) or freedom < 1 or units < 2 or most <= 0:
        return math.nan
    critical, reach = float(t_quantile(1 - alpha / 2, freedom)), float(t_quantile(power, freedom))
    flipped = float(normal_quantile(1 - alpha / 2))

    each = most if size is None else min(size, most)

    def is_detected(mean: float) -> bool:
        added = max(0.0, mean * (each - mean))
        variance = units * error**2 + added
        square = variance + mean**2
        slope = each - 2 * mean if added else 0.0
        spread = max(0.0, 1 - mean * slope / (8 * variance)) if variance > 0 else 0.0
        of_flips = math.sqrt(variance / square) * (1 - mean * (slope + 2 * mean) / (4 * square))
        by_t = mean * math.sqrt(units) >= (critical + reach * spread) * math.sqrt(variance)
        return by_t and mean * math.sqrt(units) >= (flipped + reach * of_flips) * math.sqrt(square)

    return _smallest_detected(is_detected, most)


def _smallest_detected(is_detected: Callable[[float], bool], most: float) -> float:
    """Return the smallest mean, up to ``most``, that is found; NaN if not even that is."""
    if not is_detected(most):
        return math.nan
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high


def detectable_by_exchanges(
    error: float, critical: float, units: int, groups: int, most: float = 1.0, size: float | None = None
) -> float:
    """Return the smallest mean effect on one group that exchanges of groups, or of terms, find in four of five samples.

    If a share m / size of the units has an effect on one of G groups, its mean m has the variance V / n, V = n · error²
    + m (size − m), and exchanges judge it by Q / n, Q = n · error² + m · size / (G − 1). The standard deviation of
    z = m̂ √(n / Q) is that of the delta method.

    Args:
        error: standard error of the estimate without the effect.
        critical: z above which an effect is found.
        units: how many units there are.
        groups: of which one has the effect.
        most: the largest mean.
        size: the effect of a unit that has one; by default the largest mean.

    Returns:
        A mean on the estimate's scale; NaN if the error is not known or even an effect in every unit is not found.
    """
    if not math.isfinite(error) or units < 2 or groups < 2 or most <= 0:
        return math.nan
    each, reach = most if size is None else min(size, most), float(normal_quantile(POWER))

    def is_detected(mean: float) -> bool:
        share = min(1.0, mean / each) if each > 0 else 1.0
        noise, added = units * error**2, mean * each / (groups - 1)
        judged = noise + added
        between, of_unit = share * (1 - share), each**2 / (groups - 1)
        variance = noise + max(0.0, mean * (each - mean))
        slope = mean * of_unit / judged
        spread = (variance + between * (slope**2 / 4 - each * slope)) / judged if judged > 0 else 0.0
        return mean * math.sqrt(units) >= (critical + reach * math.sqrt(max(0.0, spread))) * math.sqrt(judged)

    return _smallest_detected(is_detected, most)


def unseen_rate(dialogues: int, alpha: float = 0.05) -> float:
    """Return the largest share of dialogues that may differ if none of some was seen to (the rule of three).

    The share is 1 − alpha^(1/n), about 3/n (Hanley and Lippman-Hand 1983). Turns of a dialogue, and counterfactuals of
    it, are not independent, so n counts dialogues.

    Args:
        dialogues: in which nothing differs.
        alpha: one less the confidence.
    """
    return affected_within(0, dialogues, alpha)


def equivalent_within(value: float, error: float, freedom: float, alpha: float = 0.05) -> float:
    """Return the smallest margin within which two one-sided tests place an effect (TOST: Schuirmann 1987).

    The margin is the far end of the 1 - 2·alpha interval: an effect beyond it, in either direction, is ruled out.

    Returns:
        A margin on the estimate's scale; NaN where the error is not known.
    """
    if not math.isfinite(error) or freedom < 1:
        return math.nan
    return float(abs(value) + t_quantile(1 - alpha, freedom) * error)


def affected_within(hits: float, units: int, alpha: float = 0.05, largest: float = 1.0, most: float = 1.0) -> float:
    """Bound the difference between the true and the observed mean of effects that are mostly 0 (Clopper and Pearson
    1934, one-sided).

    If few units show an effect, a t interval underestimates unseen effects: with no hit in n units a share of up to 1 -
    alpha^(1/n), about 3/n, can be affected without one being seen. The error of the mean is at most the error of the
    share of affected units, times the largest effect of a unit. If all that were seen are smaller, units with larger
    ones are at most as many as where none was seen, and the others add no more than ``largest`` each; either bound then
    holds at alpha / 2, and the smaller one of the two ways is taken.

    Args:
        hits: units that show an effect; no whole number where units are still to come.
        units: all of them.
        alpha: one less the confidence.
        largest: the largest effect that was seen.
        most: the largest effect that a unit can have.

    Returns:
        The upper bound of the mean less the mean that was seen; ``most`` without units.
    """
    if units <= 0:
        return most

    def unseen(hits: float, alpha: float) -> float:
        return 0.0 if hits >= units else float(special.betaincinv(hits + 1, units - hits, 1 - alpha)) - hits / units

    return min(most * unseen(hits, alpha), largest * unseen(hits, alpha / 2) + most * unseen(0, alpha / 2))


def growth_of_sum(z: float, critical: float, spread: float, power: float = POWER) -> float:
    """Return how many times as many units bring a statistic that grows with their root above its critical value.

    Args:
        z: the statistic of the pilot.
        critical: value above which an effect is found.
        spread: standard deviation of the statistic, which does not grow.
        power: probability of finding the effect.
    """
    wanted = critical + float(normal_quantile(power)) * spread
    return math.inf if z <= 0 else (wanted / z) ** 2


def units_needed(
    wanted: float, units: int, error: float, fixed: float = 0.0, alpha: float = 0.05, power: float = POWER
) -> float:
    """Return the number of units that show an effect, estimated from a pilot.

    The part ``fixed`` of the standard error does not fall with the number of units: the part due to shared words falls
    only with more words.

    Args:
        wanted: the effect to be found.
        units: of the pilot.
        error: the pilot's standard error with words as fixed, which falls with the square root of the units.
        fixed: standard error of what does not fall.
        alpha: level of the test, after adjustment for other tests.
        power: probability of finding the effect.

    Returns:
        A number of units; infinity where no number is enough.
    """
    allowed = (wanted / float(normal_quantile(1 - alpha / 2) + normal_quantile(power))) ** 2 - fixed**2
    return math.inf if allowed <= 0 else float(np.ceil(units * error**2 / allowed))
