"""Bootstrap intervals of the association metrics, over the entities of all four sets at once.

E, P, A and B are samples, so all four are resampled. A resample of A is a row of counts, and the mean unit vectors of
all resamples are one product of counts with unit vectors; EAA of all resamples is a second product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tod_bias.statistics.intervals import interval
from tod_bias.statistics.resampling import blocks, resample_counts


@dataclass(frozen=True)
class Intervals:
    """95% intervals; NaN where a set of one entity (or no second set) leaves nothing to resample."""

    geaa_e: np.ndarray
    geaa_p: np.ndarray
    deaa: np.ndarray
    mean_difference: np.ndarray
    """Of mean EAA over E − mean EAA over P."""
    effect_size: np.ndarray
    directions: tuple[dict[str, np.ndarray], ...]
    """One a direction: ``E``, ``P``, ``differential`` and ``effect_size`` of R-RIPA, the direction held fixed."""


def bootstrap(
    e: np.ndarray,
    p: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    directions: Sequence[np.ndarray] = (),
    *,
    resamples: int = 1000,
    ddof: int = 0,
    seed: int = 0,
) -> Intervals:
    """Intervals of GEAA, DEAA, the difference of mean EAA and the effect size (eqs. 2-4), of R-RIPA and its own (5-6).

    Args:
        e: (|E|, dimensions) unit vectors.
        p: (|P|, dimensions) unit vectors; none of them for no second set.
        a: (|A|, dimensions) unit vectors.
        b: (|B|, dimensions) unit vectors.
        directions: (dimensions,) unit vectors.
        resamples: how many.
        ddof: of the effect sizes.
        seed: of the resamples.
    """
    rng = np.random.default_rng(seed)
    fixed = np.stack(directions, axis=1) if directions else np.zeros((e.shape[1], 0))
    cosines = e @ fixed, p @ fixed  # (entities, directions)
    widest = max(len(e) + len(p), len(a), len(b))
    parts: list[tuple[np.ndarray, ...]] = []
    for rows in blocks(resamples, widest):
        shift = _means(rng, rows, a) - _means(rng, rows, b)  # (rows, dimensions)
        moments, fixed_moments = [], []
        for side, along in zip((e, p), cosines, strict=True):
            counts = resample_counts(rng, rows, len(side)).astype(float) if len(side) else np.zeros((rows, 0))
            scores = shift @ side.T  # (rows, entities): EAA under each resample of A and B
            moments.append(((counts * scores).sum(axis=1), (counts * scores**2).sum(axis=1)))
            fixed_moments.append((counts @ along, counts @ along**2))  # (rows, directions)
        parts.append(
            (
                *_statistics(moments[0], moments[1], len(e), len(p), ddof),
                *_statistics(fixed_moments[0], fixed_moments[1], len(e), len(p), ddof),
            )
        )
    if not parts:
        none, by_direction = np.full((0,), np.nan), np.full((0, fixed.shape[1]), np.nan)
        parts.append((none, none, none, by_direction, by_direction, by_direction))
    mean_e, mean_p, effect, r_e, r_p, r_effect = (np.concatenate(column) for column in zip(*parts, strict=True))
    fewest = min(len(e), len(a), len(b))
    both = min(fewest, len(p))

    def bounds(samples: np.ndarray, clusters: int) -> np.ndarray:
        return interval(samples, clusters) if resamples > 1 else np.full((2, *samples.shape[1:]), np.nan)

    result = tuple(
        {
            "E": bounds(r_e[:, number], len(e)),
            "P": bounds(r_p[:, number], len(p)),
            "differential": bounds(r_e[:, number] - r_p[:, number], min(len(e), len(p))),
            "effect_size": bounds(r_effect[:, number], min(len(e), len(p))),
        }
        for number in range(fixed.shape[1])
    )
    return Intervals(
        geaa_e=bounds(mean_e * len(e), fewest),
        geaa_p=bounds(mean_p * len(p), both),
        deaa=bounds(mean_e * len(e) - mean_p * len(p), both),
        mean_difference=bounds(mean_e - mean_p, both),
        effect_size=bounds(effect, both),
        directions=result,
    )


def _means(rng: np.random.Generator, rows: int, vectors: np.ndarray) -> np.ndarray:
    return (resample_counts(rng, rows, len(vectors)).astype(float) @ vectors) / len(vectors)


def _statistics(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], e: int, p: int, ddof: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of both sides and their separation, from sums and sums of squares."""
    count = e + p
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_e, mean_p = first[0] / e, second[0] / p
        mean = (first[0] + second[0]) / count
        square = (first[1] + second[1]) / count - mean**2
        spread = np.sqrt(np.maximum(square, 0.0) * count / (count - ddof))
        effect = np.where(spread > 0, (mean_e - mean_p) / spread, np.nan)
    return mean_e, mean_p, effect
