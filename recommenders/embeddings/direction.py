"""Bias directions between two sets of entities (Beattie section 4.2.2).

All of them point from B to A and have length 1. The centroid difference is of raw vectors, as defined; classifiers see
vectors of length 1, so that users and items lie on one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tod_bias.errors import EmbeddingsError
from tod_bias.recommenders.embeddings.vectors import checked_matrix, unit

TEST_SHARE = 0.2
"""Beattie section 6.2: 80-20."""
CSVC_SIZES = (200, 2500)
"""Most biased entities a side of Beattie's CSVC-1 and CSVC-2."""
RANDOM_PAIRS = 1000
"""Beattie, Table 2."""
RANDOM_PAIR_WARNING = (
    "the pairs were drawn at random: two such entities differ in much else than the attribute, so the first component "
    "may be whatever direction entities differ in most (Beattie sections 6.2 and 8); give real pairs or leave it out"
)


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

    def right(self, a: np.ndarray, b: np.ndarray) -> tuple[int, int]:
        """How many of A and B it labels right, and how many there are."""
        return int(self.predict(a).sum() + (~self.predict(b)).sum()), len(a) + len(b)


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
    from scipy.optimize import minimize

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
    """Normal of a linear SVC that tells A from B."""
    classifier = fit_classifier(checked_matrix(a, "A"), checked_matrix(b, "B"))
    method = f"normal of a linear SVC on {len(a)} and {len(b)} entities"
    return Direction(name, unit(classifier.coefficients), method, classifier)


def most_biased(a: np.ndarray, b: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the entities of A and of B that lie furthest out along the centroid difference, by cosine."""
    psi = centroid_direction(a, b).vector
    along_a, along_b = unit(a) @ psi, unit(b) @ psi
    return np.argsort(-along_a, kind="stable")[:size], np.argsort(along_b, kind="stable")[:size]


def check_size(size: int, count_a: int, count_b: int) -> None:
    """Raises EmbeddingsError where a side has fewer than ``size`` entities to train on."""
    if not 1 <= size <= min(count_a, count_b):
        raise EmbeddingsError(
            f"CSVC on {size} entities a side: the smaller set has {min(count_a, count_b)} to train on; give fewer"
        )


def csvc_direction(a: np.ndarray, b: np.ndarray, size: int) -> Direction:
    """SVC on the ``size`` most biased entities a side by centroid cosine (Beattie's CSVC).

    Raises:
        EmbeddingsError: a side has fewer entities.
    """
    check_size(size, len(a), len(b))
    rows_a, rows_b = most_biased(a, b, size)
    result = svc_direction(a[rows_a], b[rows_b], f"csvc_{size}")
    return Direction(result.name, result.vector, f"{result.method}, the most biased ones", result.classifier)


def pca_direction(a: np.ndarray, b: np.ndarray, pairs: np.ndarray, *, random: bool = False) -> Direction:
    """First principal component of pairs, each centred at its own middle (Bolukbasi et al. 2016, as Beattie).

    Centring pair by pair, and not over all differences, keeps the mean difference of A and B in the analysis.

    Args:
        a: (|A|, dimensions).
        b: (|B|, dimensions).
        pairs: (pairs, 2) rows of A and of B.
        random: whether the pairs were drawn at random, which the direction then warns of.
    """
    differences = a[pairs[:, 0]] - b[pairs[:, 1]]
    component = np.linalg.svd(differences.T @ differences)[0][:, 0]  # symmetric: singular vectors are eigenvectors
    sign = 1.0 if (unit(a) @ component).mean() >= (unit(b) @ component).mean() else -1.0
    kind = "random pairs" if random else "given pairs"
    method = f"first principal component of {len(pairs)} {kind}"
    return Direction("pca", unit(sign * component), method, warning=RANDOM_PAIR_WARNING if random else None)


def random_pairs(count_a: int, count_b: int, most: int = RANDOM_PAIRS, seed: int = 0) -> np.ndarray:
    """Pairs of rows of A and of B drawn without replacement, (pairs, 2)."""
    rng = np.random.default_rng(seed)
    count = min(count_a, count_b, most)
    return np.stack([rng.permutation(count_a)[:count], rng.permutation(count_b)[:count]], axis=1)


def usual_sizes(count: int) -> tuple[int, ...]:
    """CSVC sizes for ``count`` training entities a side: Beattie's where they fit, else a fifth of them."""
    fitting = tuple(size for size in CSVC_SIZES if size < count)
    return fitting or ((max(2, count // 5),) if count >= 4 else ())


def cosine_table(directions: Sequence[Direction]) -> np.ndarray:
    """Cosines between all directions (Beattie Table 2), (directions, directions)."""
    matrix = np.stack([direction.vector for direction in directions])
    return np.asarray(matrix @ matrix.T)
