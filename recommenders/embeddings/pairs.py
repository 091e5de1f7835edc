"""Association within pairs: the same user with one value of the attribute and with the other (counterfactual users).

Beattie (section 8) names counterfactual user vectors as future work: in such a pair nothing but the attribute differs,
so a difference is no difference between the people of two groups. A recommender that reads the attribute gives them;
pairs of other entities that are alike but for the attribute serve as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from tod_bias.recommenders.embeddings.directions import ALPHA
from tod_bias.recommenders.embeddings.sets import EntitySets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import finite_pair, interval
from tod_bias.statistics.permutation import group_test, sign_test
from tod_bias.statistics.resampling import blocks, resample_counts
from tod_bias.statistics.sums import sums_by


def paired_associations(sets: EntitySets, pairs: np.ndarray, chosen: AuditSettings) -> dict[str, Any]:
    """Measure how much closer the first of each pair is to E and to P than the second, as JSON.

    ``value`` is the mean of cos(ε, a) − cos(ε, b) over pairs (a, b) and entities ε of a set, which is mean EAA (eq. 2)
    on the pairs; ``differential`` is that of E minus that of P. ``p_pairs`` is of sign flips of the pairs, ``p_items``
    of sign flips of items, or of exchanged labels of E and P. The larger one counts, after Holm's correction over
    the entries. Pairs that share an entity change signs together, and so do the items of a cluster.

    Args:
        sets: A, B, E and, if there is one, P.
        pairs: (pairs, 2) rows of A and of B.
        chosen: permutations, resamples, alternative and seed.
    """
    shift = unit(sets.a.vectors)[pairs[:, 0]] - unit(sets.b.vectors)[pairs[:, 1]]
    groups = _connected(pairs)
    sides = [unit(part.vectors) for part in sets.tested]
    contrasts = [side.mean(axis=0) for side in sides]
    names = ["E", "P", "differential"][: 1 if len(sides) == 1 else 3]
    if len(sides) == 2:
        contrasts.append(contrasts[0] - contrasts[1])
    scores = shift @ np.stack(contrasts, axis=1)  # (pairs, entries)
    sums = sums_by(groups, scores, int(groups.max()) + 1)
    options: dict[str, Any] = {"permutations": chosen.permutations, "alternative": chosen.alternative}
    of_pairs = sign_test(sums, seed=chosen.seed, **options).p_values
    of_items = _over_items(sets, sides, shift.mean(axis=0), chosen, options)
    bounds = _bounds(sums, np.bincount(groups), chosen)
    adjusted = holm({name: max(of_pairs[place], of_items[place]) for place, name in enumerate(names)})
    return {
        "pairs": len(pairs),
        "independent": len(sums),
        "of": {
            name: {
                "value": float(scores[:, place].mean()),
                "ci": bounds[place],
                "p_pairs": float(of_pairs[place]),
                "p_items": float(of_items[place]),
                "p_holm": adjusted[name],
                "flagged": bool(adjusted[name] < ALPHA),
            }
            for place, name in enumerate(names)
        },
    }


def _connected(pairs: np.ndarray) -> np.ndarray:
    """Number the sets of pairs that share an entity, (pairs,) from 0."""
    rows, columns = (np.unique(pairs[:, side], return_inverse=True)[1] for side in (0, 1))
    count = int(rows.max()) + 1
    size = count + int(columns.max()) + 1
    graph = coo_matrix((np.ones(len(pairs)), (rows, columns + count)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1][rows])


def _over_items(
    sets: EntitySets, sides: list[np.ndarray], shift: np.ndarray, chosen: AuditSettings, options: dict[str, Any]
) -> list[float]:
    """p-values over the items of E, of P, and of their difference."""
    scores = [side @ shift for side in sides]
    clusters = [part.clusters for part in sets.tested]
    values = [
        float(
            sign_test(sums_by(code, score, int(code.max()) + 1)[:, None], seed=chosen.seed + place, **options).p_value
        )
        for place, (score, code) in enumerate(zip(scores, clusters, strict=True), start=1)
    ]
    if len(sides) == 2:
        every, first = np.concatenate(scores)[:, None], len(scores[0])
        test = group_test(every, first, clusters=np.concatenate(clusters), seed=chosen.seed + 3, **options)
        values.append(test.p_value)
    return values


def _bounds(sums: np.ndarray, sizes: np.ndarray, chosen: AuditSettings) -> list[list[float] | None]:
    """95% intervals of the mean over pairs, by a bootstrap of independent pairs; None without resamples."""
    if chosen.bootstrap <= 1:
        return [None] * sums.shape[1]
    rng = np.random.default_rng(chosen.seed)
    means = []
    for rows in blocks(chosen.bootstrap, len(sums)):
        counts = resample_counts(rng, rows, len(sums)).astype(float)
        means.append((counts @ sums) / (counts @ sizes)[:, None])
    samples = np.concatenate(means)
    return [finite_pair(interval(samples[:, place], len(sums))) for place in range(samples.shape[1])]
