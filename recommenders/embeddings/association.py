"""Attribute association metrics (Beattie eqs. 1-6).

Every mean cosine is one product with a mean of unit vectors, because the mean over A of cos(ε, a) is ε̂ · mean(â). An
entity with a positive value leans towards A, with a negative one towards B, with 0 towards neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tod_bias.recommenders.embeddings.vectors import checked_matrix, unit
from tod_bias.statistics.intervals import welch_interval


def cosines(vectors: Any, direction: Any) -> np.ndarray:
    """cos(ε, ψ) of every entity with one direction, (entities,), each in [-1, 1]."""
    matrix = checked_matrix(vectors, "entities")
    psi = unit(checked_matrix(np.atleast_2d(direction), "direction", matrix.shape[1])[0])
    return _along(matrix, psi)


def _along(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Products of a vector with the unit vectors of rows."""
    return np.asarray((matrix @ vector) / _lengths(matrix))


def _lengths(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", matrix, matrix)))


def eaa(entities: Any, a: Any, b: Any) -> np.ndarray:
    """Entity attribute association of every entity (Beattie eq. 1).

    EAA(ε, A, B) = mean over A of cos(ε, a) - mean over B of cos(ε, b).

    Args:
        entities: (n, dimensions).
        a: (|A|, dimensions).
        b: (|B|, dimensions).

    Returns:
        (n,), each in [-2, 2].

    Raises:
        EmbeddingsError: an empty set, a NaN, a zero vector, or dimensions that differ.
    """
    matrix = checked_matrix(entities, "entities")
    shift = mean_unit(a, "A", matrix.shape[1]) - mean_unit(b, "B", matrix.shape[1])
    return _along(matrix, shift)


def mean_unit(vectors: Any, name: str = "set", dimensions: int | None = None) -> np.ndarray:
    """Mean of the unit vectors of a set, (dimensions,): its product with ε̂ is the mean cosine to the set."""
    matrix = checked_matrix(vectors, name, dimensions)
    return np.asarray((1 / _lengths(matrix)) @ matrix / len(matrix))


def eaa_interval(entities: Any, a: Any, b: Any, level: float = 0.95) -> np.ndarray:
    """Interval of every EAA over the draw of A and B, (2, n); NaN where A or B has one entity.

    EAA is a difference of two means over independent samples, so its standard error is Welch's; the variance over A
    of cos(ε, a) is the quadratic form ε̂ᵀ Cov(â) ε̂, which needs no matrix of entities by users.
    """
    matrix, first, second = checked_matrix(entities, "entities"), checked_matrix(a, "A"), checked_matrix(b, "B")
    if min(len(first), len(second)) < 2:
        return np.full((2, len(matrix)), np.nan)
    values = eaa(matrix, first, second)
    spreads = [np.cov(unit(side), rowvar=False).reshape(2 * matrix.shape[1:]) / len(side) for side in (first, second)]
    rows = unit(matrix)
    parts = np.stack([np.maximum(np.einsum("nd,nd->n", rows @ spread, rows), 0.0) for spread in spreads])  # (2, n)
    return welch_interval(values, parts, (len(first), len(second)), level)


def geaa(entities: Any, a: Any, b: Any) -> float:
    """Group association, the sum of EAA over a set (Beattie eq. 2), in [-2n, 2n]. It grows with the set's size."""
    return float(eaa(entities, a, b).sum())


def deaa(e: Any, p: Any, a: Any, b: Any) -> float:
    """Differential association GEAA(E) - GEAA(P) (Beattie eq. 3); positive where E leans more to A than P does.

    With |E| = |P| this is the WEAT statistic of Caliskan et al. 2017. With other sizes it also holds the difference of
    the sizes, and is not 0 where both sets lean alike; the effect size does not, and audits test the means.
    """
    return geaa(e, a, b) - geaa(p, a, b)


def effect_size(e: Any, p: Any, a: Any, b: Any, ddof: int = 0) -> float:
    """Difference of the mean EAA of E and P in standard deviations of EAA over E ∪ P (Beattie eq. 4).

    Args:
        e: (|E|, dimensions).
        p: (|P|, dimensions).
        a: (|A|, dimensions).
        b: (|B|, dimensions).
        ddof: 0 divides the variance by n (as WEFE does), 1 by n - 1.

    Returns:
        With ddof 0 and |E| = |P| in [-2, 2]; NaN where every entity has the same EAA.
    """
    return separation(eaa(e, a, b), eaa(p, a, b), ddof)


def separation(first: np.ndarray, second: np.ndarray, ddof: int = 0) -> float:
    """(mean of the first - mean of the second) / standard deviation over both: eqs. 4 and 6 from scores."""
    pooled = np.concatenate([first, second])
    if len(pooled) <= ddof:
        return float("nan")
    spread = pooled.std(ddof=ddof)
    if spread <= 1e-15 * np.abs(pooled).max(initial=0.0):  # equal scores up to rounding
        return float("nan")
    return float((first.mean() - second.mean()) / spread)


def r_ripa(entities: Any, direction: Any) -> float:
    """Mean cosine of a set with a bias direction ψ (Beattie eq. 5), in [-1, 1]; 0: at right angles on average."""
    return float(cosines(entities, direction).mean())


def r_ripa_effect_size(e: Any, p: Any, direction: Any, ddof: int = 0) -> float:
    """R-RIPA(E) - R-RIPA(P) in standard deviations of the cosines over E ∪ P (Beattie eq. 6)."""
    return separation(cosines(e, direction), cosines(p, direction), ddof)
