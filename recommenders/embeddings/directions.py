"""Bias directions between two sets of entities (Beattie section 4.2.2).

All of them point from B to A and have length 1. The centroid difference is of raw vectors, as defined; classifiers see
vectors of length 1, so that users and items have one scale. Whether a direction captures the attribute (section 4.3.1)
is tested on entities that it was not fitted on: in many dimensions, a direction separates any two groups of entities
that it was fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from tod_bias.errors import EmbeddingsError
from tod_bias.recommenders.embeddings.vectors import checked_matrix, unit
from tod_bias.statistics.intervals import wilson_interval
from tod_bias.statistics.permutation import Exceedances

ALPHA = 0.05
"""Level of the tests, before corrections."""
RANDOM_VECTORS = 10_000
"""Random directions that the tests compare with."""
TEST_SHARE = 0.2
"""Beattie section 6.2: 80-20."""
CSVC_SIZES = (200, 2500)
"""Most biased entities a side of Beattie's CSVC-1 and CSVC-2."""
RANDOM_PAIRS = 1000
"""Beattie, Table 2."""
TESTS = {
    "sets": "held-out entities of A have larger cosines with the direction than those of B (rank-sum)",
    "random_direction": "held-out entities of A and B are further apart along the direction than along random ones",
    "random_entities": "held-out entities of A (or B) have larger (smaller) cosines with it than random vectors have",
}
"""The three tests, in the order of the paper, and what their alternatives say."""
PAIR_METHODS = {"pca": "first principal component of the differences of", "bolukbasi": "main direction of"}
"""Directions from pairs. ``pca`` centres the differences of all pairs at their mean; ``bolukbasi`` centres each pair at
its own middle, which keeps the mean difference."""
RANDOM_PAIR_WARNING = (
    "the pairs were drawn at random: two such entities differ in much else than the attribute, so this may be whatever "
    "direction entities differ in most (Beattie sections 6.2 and 8); give real pairs or leave it out"
)


def share(hits: int, trials: int) -> dict[str, Any]:
    """A share with its 95% Wilson interval; None without trials."""
    if not trials:
        return {"value": None, "ci": None, "n": 0}
    return {"value": hits / trials, "ci": list(wilson_interval(hits, trials)), "n": trials}


@dataclass(frozen=True)
class Split:
    """Rows of A and of B that directions are fitted on, and rows that they are tested on."""

    train_a: np.ndarray
    train_b: np.ndarray
    test_a: np.ndarray
    test_b: np.ndarray


def split(count_a: int, count_b: int, seed: int = 0, share: float = TEST_SHARE) -> Split:
    """Hold out a share of A and of B, at least five entities a side where half the set allows it, at least one."""
    rng = np.random.default_rng(seed)
    rows: list[np.ndarray] = []
    for count in (count_a, count_b):
        if count < 2:
            raise EmbeddingsError(f"a set of {count} entity cannot be split into training and test; give two or more")
        held = max(round(share * count), min(5, count // 2), 1)
        order = rng.permutation(count)
        rows += [np.sort(order[held:]), np.sort(order[:held])]
    return Split(rows[0], rows[2], rows[1], rows[3])


@dataclass(frozen=True)
class LinearClassifier:
    """A linear SVC: is an entity's unit vector on A's side?"""

    coefficients: np.ndarray
    """(dimensions,)."""
    intercept: float

    def scores(self, vectors: np.ndarray) -> np.ndarray:
        """Signed scores, (entities,), positive on A's side."""
        return np.asarray(unit(np.asarray(vectors, dtype=np.float64)) @ self.coefficients + self.intercept)

    def predict(self, vectors: np.ndarray) -> np.ndarray:
        """(entities,) true where an entity is labelled A."""
        return self.scores(vectors) > 0

    def accuracy(self, a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
        """Share of A and B that is labelled right (Beattie Table 1), in [0, 1]."""
        return share(int(self.predict(a).sum() + (~self.predict(b)).sum()), len(a) + len(b))


@dataclass(frozen=True)
class Direction:
    """A unit vector that points from B to A."""

    name: str
    vector: np.ndarray
    """(dimensions,)."""
    method: str
    classifier: LinearClassifier | None = None
    warning: str | None = None


def centroid_direction(a: np.ndarray, b: np.ndarray, name: str = "centroid") -> Direction:
    """Centroid of A minus centroid of B.

    Raises:
        EmbeddingsError: the centroids coincide.
    """
    first, second = checked_matrix(a, "A"), checked_matrix(b, "B", np.shape(a)[1])
    difference = first.mean(axis=0) - second.mean(axis=0)
    if not difference.any():
        raise EmbeddingsError("A and B have the same centroid, so there is no direction between them")
    return Direction(name, unit(difference), f"difference of the centroids of {len(first)} and {len(second)} entities")


def fit_classifier(a: np.ndarray, b: np.ndarray) -> LinearClassifier:
    """A linear support vector classifier on unit vectors: squared hinge loss, C = 1, both sides weighing the same.

    The problem is strictly convex, so it has one solution, and no seed is needed.
    """
    vectors = unit(np.concatenate([a, b]))
    vectors = np.column_stack([vectors, np.ones(len(vectors))])  # the last coefficient is the intercept
    sides = np.where(np.arange(len(vectors)) < len(a), 1.0, -1.0)
    weights = len(vectors) / 2 / np.where(sides > 0, len(a), len(b))

    def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        short = np.maximum(0.0, 1.0 - sides * (vectors @ coefficients))
        gradient = coefficients - 2 * (weights * short * sides) @ vectors
        return 0.5 * float(coefficients @ coefficients) + float((weights * short**2).sum()), gradient

    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    result = minimize(loss, np.zeros(vectors.shape[1]), jac=True, method="L-BFGS-B", options=options).x
    return LinearClassifier(result[:-1], float(result[-1]))


def svc_direction(a: np.ndarray, b: np.ndarray, name: str = "svc") -> Direction:
    """Return the normal of a linear SVC that separates A from B."""
    classifier = fit_classifier(checked_matrix(a, "A"), checked_matrix(b, "B"))
    method = f"normal of a linear SVC on {len(a)} and {len(b)} entities"
    return Direction(name, unit(classifier.coefficients), method, classifier)


def most_biased(a: np.ndarray, b: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of A and of B with the most extreme cosines with the centroid difference."""
    psi = centroid_direction(a, b).vector
    along_a, along_b = unit(a) @ psi, unit(b) @ psi
    return np.argsort(-along_a, kind="stable")[:size], np.argsort(along_b, kind="stable")[:size]


def csvc_direction(a: np.ndarray, b: np.ndarray, size: int) -> Direction:
    """SVC on the ``size`` most biased entities a side by centroid cosine (Beattie's CSVC)."""
    rows_a, rows_b = most_biased(a, b, size)
    result = svc_direction(a[rows_a], b[rows_b], f"csvc_{size}")
    return Direction(result.name, result.vector, f"{result.method}, the most biased ones", result.classifier)


def pair_direction(
    a: np.ndarray, b: np.ndarray, pairs: np.ndarray, name: str = "pca", *, random: bool = False
) -> Direction:
    """First principal component of pairs (Beattie section 4.2.2).

    ``pca`` is of the differences of the pairs, centred at their mean, as the numbers of Beattie's Table 2 suggest: the
    mean difference of A and B is removed. ``bolukbasi`` is of the entities of all pairs, each pair centred at its own
    middle (Bolukbasi et al. 2016), which is the same as of the differences without centring.

    Args:
        a: (|A|, dimensions).
        b: (|B|, dimensions).
        pairs: (pairs, 2) rows of A and of B.
        name: a key of :data:`PAIR_METHODS`.
        random: whether the pairs were drawn at random, which the direction then warns of.

    Raises:
        EmbeddingsError: the differences do not vary, so that they have no component.
    """
    differences = a[pairs[:, 0]] - b[pairs[:, 1]]  # (pairs, dimensions)
    largest = np.abs(differences).max(initial=0)
    if name == "pca" and len(pairs):
        differences = differences - differences.mean(axis=0)
    if np.abs(differences).max(initial=0) <= 1e-12 * largest:
        raise EmbeddingsError(f"direction {name}: {len(pairs)} pair(s) whose differences do not vary have no component")
    component = np.linalg.svd(differences, full_matrices=False)[2][0]
    sign = 1.0 if (unit(a) @ component).mean() >= (unit(b) @ component).mean() else -1.0
    method = f"{PAIR_METHODS[name]} {len(pairs)} {'random' if random else 'given'} pairs"
    return Direction(name, sign * component, method, warning=RANDOM_PAIR_WARNING if random else None)


def random_pairs(count_a: int, count_b: int, most: int = RANDOM_PAIRS, seed: int = 0) -> np.ndarray:
    """Pairs of rows of A and of B drawn without replacement, (pairs, 2)."""
    rng = np.random.default_rng(seed)
    count = min(count_a, count_b, most)
    return np.stack([rng.permutation(count_a)[:count], rng.permutation(count_b)[:count]], axis=1)


def usual_sizes(count: int) -> tuple[int, ...]:
    """Return CSVC sizes for ``count`` training entities a side: Beattie's if they fit, else a fifth of them."""
    fitting = tuple(size for size in CSVC_SIZES if size < count)
    return fitting or ((max(2, count // 5),) if count >= 4 else ())


def direction_tests(
    direction: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    seed: int = 0,
    random_vectors: int = RANDOM_VECTORS,
) -> dict[str, float]:
    """Return the p-values of the three tests.

    1. ``sets``: cosines of A and of B with the direction, one-sided rank-sum test (the direction points to A).
    2. ``random_direction``: difference of the mean cosines of A and of B with the direction, against its size with each
       of many random vectors; p = (b + 1) / (m + 1). One random vector, as the paper draws, would leave it to luck;
       cosines without regard to A and B would fail a direction that tells them apart where entities vary little.
    3. ``random_entities``: cosines of A against those of random vectors (rank-sum, larger), and of B (smaller); the
       smaller p of the two, doubled, since the paper asks it of A or B.

    Args:
        direction: (dimensions,), fitted on other entities.
        a: (n, dimensions) held-out entities of A.
        b: (m, dimensions) held-out entities of B.
        seed: of the random vectors.
        random_vectors: how many, drawn with equal chance in all directions.
    """
    psi = unit(direction)
    first, second = unit(a), unit(b)
    apart = first.mean(axis=0) - second.mean(axis=0)
    drawn = unit(np.random.default_rng(seed).standard_normal((random_vectors, len(psi))))  # (random, dimensions)
    along_others = Exceedances(float(apart @ psi), tolerance=0.0)
    along_others.add(np.abs(drawn @ apart))
    along_random = drawn @ psi
    # With few entities scipy would enumerate ranks among thousands of random vectors.
    larger = stats.mannwhitneyu(first @ psi, along_random, alternative="greater", method="asymptotic").pvalue
    smaller = stats.mannwhitneyu(second @ psi, along_random, alternative="less", method="asymptotic").pvalue
    return {
        "sets": float(stats.mannwhitneyu(first @ psi, second @ psi, alternative="greater").pvalue),
        "random_direction": float(along_others.p_values()),
        "random_entities": float(min(1.0, 2 * min(larger, smaller))),
    }


def fit_directions(
    a: np.ndarray, b: np.ndarray, parts: Split | None, pairs: np.ndarray | None, seed: int
) -> tuple[list[Direction], list[str]]:
    """Return the directions in use, and notes: the centroid difference of all of A and B, classifiers of the training
    part.

    Args:
        a: (|A|, dimensions).
        b: (|B|, dimensions).
        parts: entities on which classifiers are trained; None if a set is too small to split.
        pairs: (pairs, 2) rows of A and of B for the directions of pairs; None draws them at random.
        seed: of the draws.
    """
    result, notes = [centroid_direction(a, b)], []
    if parts is not None:
        train_a, train_b = a[parts.train_a], b[parts.train_b]
        rng = np.random.default_rng(seed)
        result.append(svc_direction(*(side[rng.permutation(len(side))] for side in (train_a, train_b))))
        sizes = usual_sizes(min(len(train_a), len(train_b)))
        result += [csvc_direction(train_a, train_b, size) for size in sizes]
    else:
        notes.append("A or B holds one entity: no classifier was trained, and no direction was tested")
    chosen = random_pairs(len(a), len(b), seed=seed) if pairs is None else pairs
    for name in PAIR_METHODS:
        try:
            result.append(pair_direction(a, b, chosen, name, random=pairs is None))
        except EmbeddingsError as error:
            notes.append(f"{error}; it is left out")
    for warning in dict.fromkeys(part.warning for part in result if part.warning):
        names = [part.name for part in result if part.warning == warning]
        notes.append(f"direction{'s' if len(names) > 1 else ''} {' and '.join(names)}: {warning}")
    return result, notes


def judge_directions(
    directions: Sequence[Direction],
    a: np.ndarray,
    b: np.ndarray,
    parts: Split | None,
    pairs: np.ndarray | None,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Return the three tests of each direction on held-out entities, as JSON; empty if too few are held out.

    Directions that were fitted on all entities are fitted again without the held-out ones. The level is Bonferroni's
    over all directions; the three tests of one must all reject, which needs no correction.
    """
    if parts is None or min(len(parts.test_a), len(parts.test_b)) < 2:
        return {part.name: {} for part in directions}
    level = ALPHA / len(directions)
    result = {}
    for part in directions:
        vector = part.vector
        if part.name == "centroid":
            vector = centroid_direction(a[parts.train_a], b[parts.train_b]).vector
        elif part.name in PAIR_METHODS:
            vector = _without_held_out(part, a, b, parts, pairs, seed)
        result[part.name] = {
            name: {"p_value": p, "level": level, "significant": p < level, "alternative": TESTS[name]}
            for name, p in direction_tests(vector, a[parts.test_a], b[parts.test_b], seed=seed).items()
        }
    return result


def usable_directions(verdicts: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the names of the directions whose tests all reject; no other direction may be used."""
    return {name for name, tests in verdicts.items() if tests and all(test["significant"] for test in tests.values())}


def _without_held_out(
    part: Direction, a: np.ndarray, b: np.ndarray, parts: Split, pairs: np.ndarray | None, seed: int
) -> np.ndarray:
    """The direction of pairs whose entities are not tested on; of all pairs where those have none."""
    if pairs is None:
        a, b = a[parts.train_a], b[parts.train_b]
        pairs = random_pairs(len(a), len(b), seed=seed)
    else:
        pairs = pairs[np.isin(pairs[:, 0], parts.train_a) & np.isin(pairs[:, 1], parts.train_b)]
    try:
        return pair_direction(a, b, pairs, part.name).vector
    except EmbeddingsError:
        return part.vector


def direction_record(
    directions: Sequence[Direction],
    verdicts: Mapping[str, Mapping[str, Any]],
    parts: Split | None,
    a: np.ndarray,
    b: np.ndarray,
) -> dict[str, Any]:
    """Return the record of the directions in ``associations.json``."""
    matrix = np.stack([part.vector for part in directions])
    cosines = matrix @ matrix.T  # Beattie Table 2
    result, usable = {}, usable_directions(verdicts)
    for number, part in enumerate(directions):
        entry: dict[str, Any] = {
            "significant": part.name in usable,
            "tests": verdicts[part.name],
            "cosines": {
                other.name: float(cosines[number, place]) for place, other in enumerate(directions) if place != number
            },
            "method": part.method,
        }
        if part.warning:
            entry["warning"] = part.warning
        if part.classifier is not None and parts is not None:
            # The training accuracy of a CSVC is on the most biased entities alone, as in the paper.
            trained = _trained_on(part, a[parts.train_a], b[parts.train_b])
            entry["accuracy"] = {
                "train": part.classifier.accuracy(*trained),
                "test": part.classifier.accuracy(a[parts.test_a], b[parts.test_b]),
            }
        result[part.name] = entry
    return result


def _trained_on(part: Direction, train_a: np.ndarray, train_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not part.name.startswith("csvc_"):
        return train_a, train_b
    rows_a, rows_b = most_biased(train_a, train_b, int(part.name.removeprefix("csvc_")))
    return train_a[rows_a], train_b[rows_b]
