"""Quantiles and tails of Student's t, the normal and the χ² distribution, and the inverse of the trigamma function.

The functions equal those of :mod:`scipy.stats` and are imported from :mod:`scipy.special`, because importing the former
takes longer than counting the words of a corpus.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special


def t_quantile(share: Any, freedom: Any) -> Any:
    """Return a quantile of Student's t at a share in (0, 1); infinite degrees of freedom make it normal."""
    return special.stdtrit(freedom, share)


def t_tail(value: Any, freedom: Any) -> Any:
    """The share of Student's t above a value."""
    return special.stdtr(freedom, -np.asarray(value, dtype=float))


def chi2_quantile(share: Any, freedom: Any) -> Any:
    """Return a quantile of χ²."""
    return 2 * special.gammaincinv(np.asarray(freedom) / 2, share)


def beta_quantile(share: Any, hits: Any, misses: Any) -> Any:
    """Return a quantile of a beta distribution."""
    return special.betaincinv(hits, misses, share)


def normal_quantile(share: Any) -> Any:
    """Return a quantile of the standard normal distribution."""
    return special.ndtri(share)


def normal_share(value: Any) -> Any:
    """The share of the standard normal distribution below a value."""
    return special.ndtr(value)


def normal_tail(value: Any) -> Any:
    """The share of the standard normal distribution above a value."""
    return special.ndtr(-np.asarray(value, dtype=float))


def inverse_trigamma(value: float) -> float:
    """x at which ψ'(x) is a value above 0: Newton's method on 1/ψ' (Smyth 2004, appendix), which is convex."""
    x = 0.5 + 1 / value
    # a few steps are enough from this start; the bound ends the loop of a NaN
    for _ in range(50):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if abs(step) <= 1e-10 * x:
            break
    return x
