"""Beattie's step *implement*: the association metrics with their tests and intervals, and the row of every entity.

E, P, A and B are samples, so the bootstrap resamples all four; of E and P whole clusters (the books of one series).
A resample of A is a row of counts, and the mean unit vectors of all resamples are one product of counts with unit
vectors; EAA of all resamples is a second product.

EAA compares mean cosines, and the mean cosine with people who are scattered is smaller than with people who are alike:
where A and B differ in spread alone, EAA differs too. So what is claimed rests on projections on the difference of the
two centroids (R-RIPA of the direction ``centroid``), which spread alone does not move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.recommenders.embeddings.association import eaa, separation
from tod_bias.recommenders.embeddings.directions import Direction, DirectionTests
from tod_bias.recommenders.embeddings.sets import EntitySets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.permutation import TestResult, group_test, sign_test
from tod_bias.statistics.ranks import subsample_rank_sum
from tod_bias.statistics.record import finite, finite_pair
from tod_bias.statistics.resampling import blocks, resample_counts
from tod_bias.statistics.sums import sums_by

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Scores:
    """What all tests need: unit vectors, EAA, clusters, directions."""

    e: np.ndarray
    p: np.ndarray
    """(0, dimensions) where there is no P."""
    a: np.ndarray
    b: np.ndarray
    users: np.ndarray
    """(|A| + |B|, dimensions) as they are, A first."""
    eaa_e: np.ndarray
    eaa_p: np.ndarray
    clusters_e: np.ndarray
    clusters_p: np.ndarray
    """(entities,) numbers from 0 of what is a sample."""
    directions: Sequence[Direction]
    """The centroid difference first."""

    @classmethod
    def of(cls, sets: EntitySets, directions: Sequence[Direction]) -> Scores:
        """Those of four sets."""
        a, b, e = (part.vectors for part in (sets.a, sets.b, sets.e))
        p, second, clusters = np.zeros((0, a.shape[1])), np.zeros(0), np.zeros(0, dtype=int)
        if sets.p is not None:
            p, second, clusters = unit(sets.p.vectors), eaa(sets.p.vectors, a, b), sets.p.clusters
        both = np.concatenate([a, b])
        return cls(
            unit(e), p, unit(a), unit(b), both, eaa(e, a, b), second, sets.e.clusters, clusters, list(directions)
        )

    def along(self, side: np.ndarray) -> np.ndarray:
        """(entities, directions)."""
        return np.stack([side @ part.vector for part in self.directions], axis=1)


@dataclass(frozen=True)
class Tests:
    """All tests of an audit."""

    entities: TestResult | None
    """Labels of E and P exchanged: the difference of mean EAA, then R-RIPA's differential a direction."""
    attribute: TestResult
    """Labels of A and B exchanged: GEAA(E), GEAA(P), the difference of mean EAA."""
    centroids: TestResult
    """Labels of A and B exchanged: R-RIPA of the centroid difference, of E, of P and their differential."""
    signs: tuple[TestResult, TestResult | None]
    """Signs of the cosines of E and of P: R-RIPA a direction."""
    rank_sum: dict[str, Any] | None
    rank_sums: tuple[dict[str, Any], ...]


def make_tests(scores: Scores, chosen: AuditSettings) -> Tests:
    """Permutation and rank-sum tests of GEAA, of the difference of mean EAA and of R-RIPA.

    Entities of a cluster change places or signs together; of rank sums they count as their mean.

    DEAA (eq. 3) is a difference of sums. Of sets of unequal size that lean alike it is not 0, so what is tested is the
    difference of means; with |E| = |P| and no clusters the two order relabellings alike, and p is that of WEAT's test.
    """
    options: dict[str, Any] = {"permutations": chosen.permutations, "alternative": chosen.alternative}
    along_e, along_p = scores.along(scores.e), scores.along(scores.p)
    both = len(scores.p) > 0
    entities = None
    if both:
        columns = np.column_stack(
            [np.concatenate([scores.eaa_e, scores.eaa_p]), np.concatenate([along_e, along_p])]
        )  # (E then P, 1 + directions)
        clusters = np.concatenate([scores.clusters_e, scores.clusters_p])
        entities = group_test(columns, len(scores.e), clusters=clusters, seed=chosen.seed, **options)
    # The sum over E of cos(ε, u) is û · sum(ê), for every u of A and B.
    totals = [scores.e.sum(axis=0), scores.p.sum(axis=0)]
    totals.append(totals[0] - totals[1] * (len(scores.e) / max(len(scores.p), 1)))  # |E| times the difference of means
    contrasts = np.stack(totals, axis=1)
    attribute, centroids = (
        group_test(people @ contrasts, len(scores.a), seed=chosen.seed + 1, **options)
        for people in (np.concatenate([scores.a, scores.b]), scores.users)
    )
    clusters_e, clusters_p = scores.clusters_e, scores.clusters_p
    signs = (
        sign_test(_cluster_sums(along_e, clusters_e), seed=chosen.seed + 2, **options),
        sign_test(_cluster_sums(along_p, clusters_p), seed=chosen.seed + 3, **options) if both else None,
    )

    def rank_sum(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
        means = (
            _cluster_sums(part, codes) / np.bincount(codes)
            for part, codes in ((first, clusters_e), (second, clusters_p))
        )
        return subsample_rank_sum(*means, alternative=chosen.alternative, seed=chosen.seed + 4)

    return Tests(
        entities,
        attribute,
        centroids,
        signs,
        rank_sum(scores.eaa_e, scores.eaa_p) if both else None,
        tuple(rank_sum(along_e[:, number], along_p[:, number]) if both else {} for number in range(along_e.shape[1])),
    )


def _cluster_sums(table: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    return sums_by(clusters, table, int(clusters.max()) + 1)


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


def bootstrap(scores: Scores, chosen: AuditSettings) -> Intervals:
    """Intervals of GEAA, DEAA, the difference of mean EAA and effect size (eqs. 2-4), of R-RIPA and its own (5-6)."""
    e, p, a, b = scores.e, scores.p, scores.a, scores.b
    resamples, ddof = chosen.bootstrap, chosen.ddof
    rng = np.random.default_rng(chosen.seed)
    directions = np.stack([part.vector for part in scores.directions], axis=1)
    cosines = e @ directions, p @ directions  # (entities, directions)
    clusters = scores.clusters_e, scores.clusters_p
    widest = max(len(e) + len(p), len(a), len(b))
    parts: list[tuple[np.ndarray, ...]] = []
    for rows in blocks(resamples, widest):
        shift = _means(rng, rows, a) - _means(rng, rows, b)  # (rows, dimensions)
        moments, fixed_moments = [], []
        for side, along, codes in zip((e, p), cosines, clusters, strict=True):
            counts = resampled_clusters(rng, rows, codes)
            sizes = counts.sum(axis=1)
            moved = shift @ side.T  # (rows, entities): EAA under each resample of A and B
            moments.append((sizes, (counts * moved).sum(axis=1), (counts * moved**2).sum(axis=1)))
            fixed_moments.append((sizes[:, None], counts @ along, counts @ along**2))  # (rows, directions)
        parts.append(
            (*_statistics(moments[0], moments[1], ddof), *_statistics(fixed_moments[0], fixed_moments[1], ddof))
        )
    if not parts:
        none, by_direction = np.full((0,), np.nan), np.full((0, len(scores.directions)), np.nan)
        parts.append((none, none, none, by_direction, by_direction, by_direction))
    mean_e, mean_p, effect, r_e, r_p, r_effect = (np.concatenate(column) for column in zip(*parts, strict=True))
    count_e, count_p = (int(codes.max(initial=-1)) + 1 for codes in clusters)
    fewest = min(count_e, len(a), len(b))
    both = min(fewest, count_p)

    def bounds(samples: np.ndarray, count: int) -> np.ndarray:
        return interval(samples, count) if resamples > 1 else np.full((2, *samples.shape[1:]), np.nan)

    result = tuple(
        {
            "E": bounds(r_e[:, number], count_e),
            "P": bounds(r_p[:, number], count_p),
            "differential": bounds(r_e[:, number] - r_p[:, number], min(count_e, count_p)),
            "effect_size": bounds(r_effect[:, number], min(count_e, count_p)),
        }
        for number in range(len(scores.directions))
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


def resampled_clusters(rng: np.random.Generator, rows: int, codes: np.ndarray) -> np.ndarray:
    """How often each entity is in each of ``rows`` resamples of whole clusters, (rows, entities) floats."""
    if not len(codes):
        return np.zeros((rows, 0))
    return resample_counts(rng, rows, int(codes.max()) + 1).astype(float)[:, codes]


def _statistics(
    first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...], ddof: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of both sides and their separation, from numbers of entities, sums and sums of squares."""
    count = first[0] + second[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_e, mean_p = first[1] / first[0], second[1] / second[0]
        mean = (first[1] + second[1]) / count
        square = (first[2] + second[2]) / count - mean**2
        spread = np.sqrt(np.maximum(square, 0.0) * count / (count - ddof))
        effect = np.where(spread > 0, (mean_e - mean_p) / spread, np.nan)
    return mean_e, mean_p, effect


def metrics(
    sets: EntitySets,
    scores: Scores,
    tests: Tests,
    bounds: Intervals,
    verdicts: Mapping[str, DirectionTests | None],
    chosen: AuditSettings,
) -> dict[str, Any]:
    """What ``associations.json`` says of EAA, GEAA, DEAA, effect sizes and R-RIPA.

    ``GEAA`` and ``DEAA`` are the paper's sums (eqs. 2 and 3). ``mean_difference``, mean EAA over E − mean EAA over P
    (the numerator of eq. 4), is what ``p_value`` and ``tests`` are of; DEAA itself has none.
    """
    both = sets.p is not None
    second = scores.eaa_p
    geaa = {"E": float(scores.eaa_e.sum())} | ({"P": float(second.sum())} if both else {})
    attribute = {"null": "labels of A and B exchanged"}
    of_groups = {
        "GEAA": {name: tests.attribute.record(number) | attribute for number, name in enumerate(("E", "P")[: 1 + both])}
    }
    result: dict[str, Any] = {
        "EAA": {key: float(value) for key, value in zip(_keys(sets), [*scores.eaa_e, *second], strict=True)},
        "GEAA": geaa,
        "DEAA": geaa["E"] - geaa["P"] if both else None,
        "mean_difference": float(scores.eaa_e.mean() - second.mean()) if both else None,
        "effect_size": finite(separation(scores.eaa_e, second, chosen.ddof)) if both else None,
        "ddof": chosen.ddof,
        "p_value": tests.entities.p_value if tests.entities else None,
        "alternative": chosen.alternative,
        "permutations": tests.entities.permutations if tests.entities else tests.attribute.permutations,
        "exact": tests.entities.exact if tests.entities else tests.attribute.exact,
        "intervals": {
            "GEAA": {"E": finite_pair(bounds.geaa_e)} | ({"P": finite_pair(bounds.geaa_p)} if both else {}),
            "DEAA": finite_pair(bounds.deaa) if both else None,
            "mean_difference": finite_pair(bounds.mean_difference) if both else None,
            "effect_size": finite_pair(bounds.effect_size) if both else None,
        },
        "tests": of_groups,
        "R_RIPA": _r_ripa(sets, scores, tests, bounds, verdicts, chosen),
    }
    if tests.entities is not None:
        result["tests"]["mean_difference"] = {
            "entities": tests.entities.record() | {"null": "labels of E and P exchanged"},
            "attribute": tests.attribute.record(2) | attribute,
            "rank_sum": tests.rank_sum,
        }
    return result


def _keys(sets: EntitySets) -> list[str]:
    """Ids, with the name of the table before them where E and P lie in different ones."""
    tested = [sets.e] if sets.p is None else [sets.e, sets.p]
    mixed = len({part.entities.name for part in tested}) > 1
    return [f"{part.entities.name}:{name}" if mixed else name for part in tested for name in part.ids]


def _r_ripa(
    sets: EntitySets,
    scores: Scores,
    tests: Tests,
    bounds: Intervals,
    verdicts: Mapping[str, DirectionTests | None],
    chosen: AuditSettings,
) -> dict[str, Any]:
    along_e, along_p = scores.along(scores.e), scores.along(scores.p)
    both = sets.p is not None
    result = {}
    for number, part in enumerate(scores.directions):
        verdict = verdicts[part.name]
        interval = {key: finite_pair(value) for key, value in bounds.directions[number].items()}
        value_e = float(along_e[:, number].mean())
        value_p = float(along_p[:, number].mean()) if both else None
        entry: dict[str, Any] = {
            "E": value_e,
            "P": value_p,
            "differential": value_e - value_p if value_p is not None else None,
            "effect_size": finite(separation(along_e[:, number], along_p[:, number], chosen.ddof)) if both else None,
            "p_value": float(tests.entities.p_values[number + 1]) if tests.entities else None,
            "usable": bool(verdict and verdict.significant),
            "intervals": interval if both else {"E": interval["E"]},
            "tests": {
                "E": tests.signs[0].record(number) | {"null": "cosines of E symmetric about 0"},
            },
        }
        if tests.entities is not None and tests.signs[1] is not None:
            entry["tests"]["P"] = tests.signs[1].record(number) | {"null": "cosines of P symmetric about 0"}
            entry["tests"]["differential"] = tests.entities.record(number + 1) | {"null": "labels of E and P exchanged"}
            entry["tests"]["rank_sum"] = tests.rank_sums[number]
        if not number:
            names = ("E", "P", "differential")[: 3 if both else 1]
            entry["tests"]["attribute"] = {
                name: tests.centroids.record(place) | {"null": "labels of A and B exchanged"}
                for place, name in enumerate(names)
            }
        result[part.name] = entry
    return result


def entity_frame(sets: EntitySets, scores: Scores, bounds: np.ndarray) -> pd.DataFrame:
    """One row an entity of E and P; ``bounds`` are those of EAA, (2, entities)."""
    import pandas as pd

    tested = [sets.e] if sets.p is None else [sets.e, sets.p]
    frame = pd.DataFrame(
        {
            "id": [name for part in tested for name in part.ids],
            "table": [part.entities.name for part in tested for _ in range(len(part))],
            "set": [part.role for part in tested for _ in range(len(part))],
            "eaa": np.concatenate([scores.eaa_e, scores.eaa_p]),
            "eaa_low": bounds[0],
            "eaa_high": bounds[1],
        }
    )
    if sets.clustered_by is not None:
        frame["cluster"] = [label for part in tested for label in part.labels or ()]
    vectors = np.concatenate([scores.e, scores.p])
    for part in scores.directions:
        frame[f"cos_{part.name}"] = vectors @ part.vector
        if part.classifier is not None:
            frame[f"labelled_A_{part.name}"] = part.classifier.predict(vectors)
    return frame
