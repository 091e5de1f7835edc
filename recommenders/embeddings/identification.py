"""Beattie's step *identify*: the bias directions in use, and whether they capture the attribute (section 4.3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tod_bias.recommenders.embeddings.classification import accuracy
from tod_bias.recommenders.embeddings.direction import (
    Direction,
    Split,
    centroid_direction,
    cosine_table,
    csvc_direction,
    most_biased,
    pca_direction,
    random_pairs,
    svc_direction,
    usual_sizes,
)
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.significance import DirectionTests, direction_tests


def fit_directions(
    a: np.ndarray, b: np.ndarray, parts: Split | None, chosen: AuditSettings
) -> tuple[list[Direction], list[str]]:
    """The directions in use: the centroid difference of all of A and B, classifiers of the training part."""
    result, notes = [centroid_direction(a, b)], []
    if parts is not None:
        train_a, train_b = a[parts.train_a], b[parts.train_b]
        rng = np.random.default_rng(chosen.seed)
        most = chosen.svc_sample or len(a) + len(b)
        result.append(svc_direction(*(side[rng.permutation(len(side))[:most]] for side in (train_a, train_b))))
        sizes = usual_sizes(min(len(train_a), len(train_b))) if chosen.csvc is None else chosen.csvc
        result += [csvc_direction(train_a, train_b, size) for size in sizes]
    else:
        notes.append("A or B holds one entity: no classifier was trained, and no direction was tested")
    random = chosen.pairs is None
    pairs = random_pairs(len(a), len(b), seed=chosen.seed) if chosen.pairs is None else chosen.pairs
    result.append(pca_direction(a, b, pairs, random=random))
    notes += [f"direction {part.name}: {part.warning}" for part in result if part.warning]
    return result, notes


def judge_directions(
    directions: Sequence[Direction], a: np.ndarray, b: np.ndarray, parts: Split | None, chosen: AuditSettings
) -> dict[str, DirectionTests | None]:
    """Tests on held-out entities; what was fitted on all entities is fitted again without them."""
    if parts is None or min(len(parts.test_a), len(parts.test_b)) < 2:
        return dict.fromkeys(part.name for part in directions)
    level = chosen.alpha / (3 * len(directions))
    result: dict[str, DirectionTests | None] = {}
    for part in directions:
        vector = part.vector
        if part.name == "centroid":
            vector = centroid_direction(a[parts.train_a], b[parts.train_b]).vector
        elif part.name == "pca":
            vector = _held_out_pca(a, b, parts, chosen)
        p_values = direction_tests(vector, a[parts.test_a], b[parts.test_b], seed=chosen.seed)
        result[part.name] = DirectionTests(p_values, level)
    return result


def _held_out_pca(a: np.ndarray, b: np.ndarray, parts: Split, chosen: AuditSettings) -> np.ndarray:
    train_a, train_b = a[parts.train_a], b[parts.train_b]
    if chosen.pairs is None:
        return pca_direction(train_a, train_b, random_pairs(len(train_a), len(train_b), seed=chosen.seed)).vector
    remaining = np.isin(chosen.pairs[:, 0], parts.train_a) & np.isin(chosen.pairs[:, 1], parts.train_b)
    pairs = chosen.pairs[remaining] if remaining.any() else chosen.pairs
    return pca_direction(a, b, pairs).vector


def direction_record(
    directions: Sequence[Direction],
    verdicts: Mapping[str, DirectionTests | None],
    parts: Split | None,
    a: np.ndarray,
    b: np.ndarray,
) -> dict[str, Any]:
    """What ``associations.json`` says of the directions."""
    cosines = cosine_table(directions)
    result = {}
    for number, part in enumerate(directions):
        verdict = verdicts[part.name]
        entry: dict[str, Any] = {
            "significant": bool(verdict and verdict.significant),
            "tests": verdict.record() if verdict else {},
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
                "train": accuracy(part.classifier, *trained),
                "test": accuracy(part.classifier, a[parts.test_a], b[parts.test_b]),
            }
        result[part.name] = entry
    return result


def _trained_on(part: Direction, train_a: np.ndarray, train_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not part.name.startswith("csvc_"):
        return train_a, train_b
    rows_a, rows_b = most_biased(train_a, train_b, int(part.name.removeprefix("csvc_")))
    return train_a[rows_a], train_b[rows_b]
