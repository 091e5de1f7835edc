"""Beattie's step *implement*: the association metrics with their tests and intervals, and the row of every entity.

E, P, A and B are samples, so the bootstrap resamples all four; of E and P whole clusters (the books of one series).
A resample of A is a row of counts, and the mean unit vectors of all resamples are one product of counts with unit
vectors; EAA of all resamples is a second product.

EAA compares mean cosines, and the mean cosine with people who are scattered is smaller than with people who are alike:
where A and B differ in spread alone, EAA differs too. So what is claimed rests on projections on the difference of the
two centroids (R-RIPA of the direction ``centroid``), which spread alone does not move.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.recommenders.embeddings.association import eaa, eaa_interval, separation
from tod_bias.recommenders.embeddings.directions import Direction
from tod_bias.recommenders.embeddings.sets import EntitySet, EntitySets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.intervals import finite, finite_pair, interval
from tod_bias.statistics.permutation import group_test, sign_test, sum_difference_test
from tod_bias.statistics.ranks import subsample_rank_sum
from tod_bias.statistics.resampling import blocks, resample_counts
from tod_bias.statistics.sums import sums_by

Moments = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Number of entities, sum and sum of squares of their scores, a row a resample."""
LABELS_OF_A_AND_B = {"null": "labels of A and B exchanged"}
LABELS_OF_E_AND_P = {"null": "labels of E and P exchanged"}


@dataclass(frozen=True)
class TestedSet:
    """Input of the tests of E, or of P, which has no entity if there is no second set."""

    __test__ = False  # not a test class of pytest

    vectors: np.ndarray
    """(entities, dimensions) of length 1."""
    eaa: np.ndarray
    """(entities,)."""
    along: np.ndarray
    """(entities, directions) cosines."""
    clusters: np.ndarray
    """(entities,) numbers from 0 of the sampled units."""

    @classmethod
    def of(cls, part: EntitySet | None, a: np.ndarray, b: np.ndarray, directions: Sequence[Direction]) -> TestedSet:
        """Make the input for a set, the vectors of A and of B, and some directions."""
        if part is None:
            none = np.zeros(0, dtype=int)
            return cls(np.zeros((0, a.shape[1])), np.zeros(0), np.zeros((0, len(directions))), none)
        vectors = unit(part.vectors)
        along = np.stack([vectors @ direction.vector for direction in directions], axis=1)
        return cls(vectors, eaa(part.vectors, a, b), along, part.clusters)

    @property
    def samples(self) -> int:
        """The number of clusters."""
        return int(self.clusters.max(initial=-1)) + 1

    def sums(self, scores: np.ndarray) -> np.ndarray:
        """Sums of (entities, …) scores by cluster, (clusters, …)."""
        return sums_by(self.clusters, scores, self.samples)

    def means(self, scores: np.ndarray) -> np.ndarray:
        """Means of (entities,) scores by cluster, (clusters,)."""
        return self.sums(scores) / np.bincount(self.clusters)


@dataclass(frozen=True)
class Scores:
    """Input of all tests of four sets."""

    e: TestedSet
    p: TestedSet
    a: np.ndarray
    """(|A|, dimensions) as they are."""
    b: np.ndarray
    directions: Sequence[Direction]
    """The centroid difference first."""

    @classmethod
    def of(cls, sets: EntitySets, directions: Sequence[Direction]) -> Scores:
        """Make the input for four sets."""
        a, b = sets.a.vectors, sets.b.vectors
        e, p = (TestedSet.of(part, a, b, directions) for part in (sets.e, sets.p))
        return cls(e, p, a, b, directions)


def make_tests(scores: Scores, chosen: AuditSettings) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Permutation and rank-sum tests, as JSON: of GEAA and of the difference of mean EAA; of R-RIPA by direction.

    Labels of A and B are exchanged, labels of E and P, or (R-RIPA of one set) the signs of cosines. Entities of a
    cluster change places or signs together; of rank sums they count as their mean.

    DEAA (eq. 3) is a difference of sums, and ``DEAA`` is the paper's own test of it (section 4.3.2). Of sets of unequal
    size that lean alike it is not 0, so what is claimed rests on Welch's t of the difference of means; with |E| = |P|
    and no clusters the two order relabellings alike, and p is that of WEAT's test.
    """
    options: dict[str, Any] = {"permutations": chosen.permutations, "alternative": chosen.alternative}
    e, p = scores.e, scores.p
    both = len(p.eaa) > 0
    # The sum over E of cos(ε, u) is û · sum(ê), for every u of A and B.
    totals = [e.vectors.sum(axis=0), p.vectors.sum(axis=0)]
    totals.append(totals[0] - totals[1] * (len(e.eaa) / max(len(p.eaa), 1)))  # |E| times the difference of means
    contrasts = np.stack(totals, axis=1)
    people = np.concatenate([scores.a, scores.b])
    attribute, centroids = (
        group_test(vectors @ contrasts, len(scores.a), seed=chosen.seed + 1, **options)
        for vectors in (unit(people), people)
    )
    tests: dict[str, Any] = {
        "GEAA": {role: attribute.record(place) | LABELS_OF_A_AND_B for place, role in enumerate("EP"[: 1 + both])}
    }
    signs = sign_test(e.sums(e.along), seed=chosen.seed + 2, **options)
    of_directions = {
        part.name: {"E": signs.record(place) | {"null": "cosines of E symmetric about 0"}}
        for place, part in enumerate(scores.directions)
    }
    if both:

        def rank_sum(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
            means = e.means(first), p.means(second)
            return subsample_rank_sum(*means, alternative=chosen.alternative, seed=chosen.seed + 4)

        columns = np.concatenate([np.column_stack([part.eaa, part.along]) for part in (e, p)])
        clusters = np.concatenate([e.clusters, p.clusters])
        entities = group_test(columns, len(e.eaa), clusters=clusters, seed=chosen.seed, **options)
        of_sums = sum_difference_test(
            np.concatenate([e.eaa, p.eaa]), len(e.eaa), clusters=clusters, seed=chosen.seed, **options
        )
        tests["DEAA"] = {"entities": of_sums.record() | LABELS_OF_E_AND_P}
        tests["mean_difference"] = {
            "entities": entities.record() | LABELS_OF_E_AND_P,
            "attribute": attribute.record(2) | LABELS_OF_A_AND_B,
            "rank_sum": rank_sum(e.eaa, p.eaa),
        }
        signs = sign_test(p.sums(p.along), seed=chosen.seed + 3, **options)
        for place, of_direction in enumerate(of_directions.values()):
            of_direction["P"] = signs.record(place) | {"null": "cosines of P symmetric about 0"}
            of_direction["differential"] = entities.record(place + 1) | LABELS_OF_E_AND_P
            of_direction["rank_sum"] = rank_sum(e.along[:, place], p.along[:, place])
    names = ("E", "P", "differential")[: 3 if both else 1]
    of_directions[scores.directions[0].name]["attribute"] = {
        name: centroids.record(place) | LABELS_OF_A_AND_B for place, name in enumerate(names)
    }
    return tests, of_directions


def bootstrap(scores: Scores, chosen: AuditSettings) -> dict[str, Any]:
    """95% intervals, as JSON: of the metrics of EAA (eqs. 2-4) and, by direction, of R-RIPA (eqs. 5-6).

    A direction is held fixed. None where a set of one entity, or no second set, leaves nothing to resample.
    """
    e, p, a, b = scores.e, scores.p, unit(scores.a), unit(scores.b)
    rng = np.random.default_rng(chosen.seed)
    parts: list[tuple[np.ndarray, ...]] = []
    for rows in blocks(max(chosen.bootstrap, 1), max(len(e.eaa) + len(p.eaa), len(a), len(b))):
        shift = _means(rng, rows, a) - _means(rng, rows, b)  # (rows, dimensions)
        moments: list[Moments] = []
        along: list[Moments] = []
        for side in (e, p):
            counts = resampled_clusters(rng, rows, side.clusters)
            sizes = counts.sum(axis=1)
            moved = shift @ side.vectors.T  # (rows, entities): EAA under each resample of A and B
            moments.append((sizes, (counts * moved).sum(axis=1), (counts * moved**2).sum(axis=1)))
            along.append((sizes[:, None], counts @ side.along, counts @ side.along**2))  # (rows, directions)
        parts.append(separated(moments[0], moments[1], chosen.ddof) + separated(along[0], along[1], chosen.ddof))
    mean_e, mean_p, effect, r_e, r_p, r_effect = (np.concatenate(column) for column in zip(*parts, strict=True))
    fewest = min(e.samples, len(a), len(b))
    both, items = min(fewest, p.samples), min(e.samples, p.samples)

    def bounds(samples: np.ndarray, count: int) -> list[float] | None:
        return finite_pair(interval(samples, count)) if chosen.bootstrap > 1 else None

    return {
        "GEAA": {"E": bounds(mean_e * len(e.eaa), fewest), "P": bounds(mean_p * len(p.eaa), both)},
        "DEAA": bounds(mean_e * len(e.eaa) - mean_p * len(p.eaa), both),
        "mean_difference": bounds(mean_e - mean_p, both),
        "effect_size": bounds(effect, both),
        "R_RIPA": {
            part.name: {
                "E": bounds(r_e[:, place], e.samples),
                "P": bounds(r_p[:, place], p.samples),
                "differential": bounds(r_e[:, place] - r_p[:, place], items),
                "effect_size": bounds(r_effect[:, place], items),
            }
            for place, part in enumerate(scores.directions)
        },
    }


def _means(rng: np.random.Generator, rows: int, vectors: np.ndarray) -> np.ndarray:
    return (resample_counts(rng, rows, len(vectors)).astype(float) @ vectors) / len(vectors)


def resampled_clusters(rng: np.random.Generator, rows: int, codes: np.ndarray) -> np.ndarray:
    """Count each entity in each of ``rows`` resamples of whole clusters, (rows, entities) floats."""
    if not len(codes):
        return np.zeros((rows, 0))
    return resample_counts(rng, rows, int(codes.max()) + 1).astype(float)[:, codes]


def separated(first: Moments, second: Moments, ddof: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of two sides and their separation (eqs. 4 and 6)."""
    count = first[0] + second[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_e, mean_p = first[1] / first[0], second[1] / second[0]
        mean = (first[1] + second[1]) / count
        square = (first[2] + second[2]) / count - mean**2
        spread = np.sqrt(np.maximum(square, 0.0) * count / (count - ddof))
        effect = np.where(spread > 0, (mean_e - mean_p) / spread, np.nan)
    return mean_e, mean_p, effect


def metrics(sets: EntitySets, scores: Scores, usable: Collection[str], chosen: AuditSettings) -> dict[str, Any]:
    """Return the record of EAA, GEAA, DEAA, effect sizes and R-RIPA in ``associations.json``.

    ``GEAA`` and ``DEAA`` are the paper's sums (eqs. 2 and 3). ``mean_difference``, mean EAA over E − mean EAA over P
    (the numerator of eq. 4), is what ``p_value`` is of; ``tests`` has the paper's own test of DEAA as well.

    Args:
        sets: the four.
        scores: of them.
        usable: names of directions that passed their tests.
        chosen: how intervals and tests are made.
    """
    tests, of_directions = make_tests(scores, chosen)
    bounds = bootstrap(scores, chosen)
    of_r_ripa = bounds.pop("R_RIPA")
    e, p = scores.e, scores.p
    geaa = {"E": float(e.eaa.sum()), "P": float(p.eaa.sum())}
    result: dict[str, Any] = {
        "EAA": dict(zip(_keys(sets), np.concatenate([e.eaa, p.eaa]).tolist(), strict=True)),
        "GEAA": geaa,
        "DEAA": geaa["E"] - geaa["P"],
        **_compared(e.eaa, p.eaa, "mean_difference", chosen.ddof),
        "ddof": chosen.ddof,
        "p_value": None,
        **{key: tests["GEAA"]["E"][key] for key in ("alternative", "permutations", "exact")},
        "intervals": bounds,
        "tests": tests,
        "R_RIPA": {},
    }
    for place, name in enumerate(of_directions):
        along = e.along[:, place], p.along[:, place]
        result["R_RIPA"][name] = {
            **{role: float(part.mean()) if len(part) else None for role, part in zip("EP", along, strict=True)},
            **_compared(*along, "differential", chosen.ddof),
            "p_value": of_directions[name].get("differential", {}).get("p_value"),
            "usable": name in usable,
            "intervals": of_r_ripa[name],
            "tests": of_directions[name],
        }
    if sets.p is not None:
        return result | {key: tests["mean_difference"]["entities"][key] for key in ("p_value", "permutations", "exact")}
    for roles in (geaa, bounds["GEAA"]):
        del roles["P"]
    for entry in result["R_RIPA"].values():
        entry["intervals"] = {"E": entry["intervals"]["E"]}
    return result | {"DEAA": None}


def _compared(first: np.ndarray, second: np.ndarray, name: str, ddof: int) -> dict[str, float | None]:
    """Return the difference of two sides' means, under a name, and their separation; None without a second side."""
    if not len(second):
        return {name: None, "effect_size": None}
    return {name: float(first.mean() - second.mean()), "effect_size": finite(separation(first, second, ddof))}


def _keys(sets: EntitySets) -> list[str]:
    """Return ids, with the name of the table before them if E and P are in different tables."""
    mixed = len({part.entities.name for part in sets.tested}) > 1
    return [f"{part.entities.name}:{name}" if mixed else name for part in sets.tested for name in part.ids]


def entity_frame(sets: EntitySets, scores: Scores) -> pd.DataFrame:
    """One row an entity of E and P."""
    tested = sets.tested
    bounds = eaa_interval(np.concatenate([part.vectors for part in tested]), scores.a, scores.b)
    frame = pd.DataFrame(
        {
            "id": [name for part in tested for name in part.ids],
            "table": [part.entities.name for part in tested for _ in range(len(part))],
            "set": [part.role for part in tested for _ in range(len(part))],
            "eaa": np.concatenate([scores.e.eaa, scores.p.eaa]),
            "eaa_low": bounds[0],
            "eaa_high": bounds[1],
        }
    )
    if sets.clustered_by is not None:
        frame["cluster"] = [label for part in tested for label in part.labels or ()]
    vectors = np.concatenate([scores.e.vectors, scores.p.vectors])
    for part in scores.directions:
        frame[f"cos_{part.name}"] = vectors @ part.vector
        if part.classifier is not None:
            frame[f"labelled_A_{part.name}"] = part.classifier.predict(vectors)
    return frame
