"""Association metrics at the size of Beattie's case study, against loops that do the same."""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity

from tod_bias.recommenders.embeddings.association import eaa
from tod_bias.recommenders.embeddings.audit import audit
from tod_bias.recommenders.embeddings.sets import resolve_sets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import Embeddings
from tod_bias.statistics.permutation import group_test

USERS, ITEMS, DIMENSIONS, PERMUTATIONS = 9_500, 31_181, 128, 10_000
"""Users a side, items and permutations of Beattie section 5.1.4; their dimensions are not told."""


def wefe_style(entity: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Association of one entity as WEFE computes it: all cosines, then two means."""
    return float(np.mean(cosine_similarity([entity], a)) - np.mean(cosine_similarity([entity], b)))


def fastest(work, repeats: int = 3) -> float:  # type: ignore[no-untyped-def]
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def association(options: argparse.Namespace) -> None:
    """All metrics with tests at the paper's size, and the two ratios against loops."""
    rng = np.random.default_rng(0)
    axis = np.eye(DIMENSIONS)[0] * 0.8
    a, b = rng.normal(size=(2, USERS, DIMENSIONS)) + np.array([axis, -axis])[:, None]
    items = rng.normal(size=(ITEMS, DIMENSIONS))
    items[:1000] += axis
    items[1000:2000] -= axis

    each = fastest(lambda: [wefe_style(item, a, b) for item in items[:5]]) / 5
    ours = fastest(lambda: eaa(items, a, b), 5)
    worst = np.abs(eaa(items[:5], a, b) - [wefe_style(item, a, b) for item in items[:5]]).max()
    print(
        f"association of {ITEMS} items with {USERS} + {USERS} users, {DIMENSIONS} dimensions; differs by {worst:.0e}\n"
        f"  WEFE-style loop {each * ITEMS:8.1f} s ({each * 1000:.1f} ms an item, measured on 5)\n"
        f"  tod-bias        {ours:8.3f} s   ratio {each * ITEMS / ours:,.0f}x (aim >= 10,000x)"
    )

    scores = eaa(items[:2000], a, b)
    labels = list(range(len(scores)))
    values = scores.tolist()
    shuffler = np.random.default_rng(1)

    def shuffle_with_scores() -> None:
        """A shuffled list and two sums."""
        order = shuffler.permutation(labels).tolist()
        sum(values[place] for place in order[:1000]) - sum(values[place] for place in order[1000:])

    def shuffle_with_arrays() -> None:
        drawn = shuffler.permutation(scores)
        drawn[:1000].sum() - drawn[1000:].sum()

    mean_a, mean_b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (a, b))
    mean_a, mean_b = mean_a.mean(axis=0), mean_b.mean(axis=0)

    def shuffle_and_score_again() -> None:
        """As WEFE does: permute the entities and compute the statistic anew, here with the mean vectors."""
        order = shuffler.permutation(2000)
        total = 0.0
        for place, row in enumerate(order):
            unit = items[row] / np.linalg.norm(items[row])
            total += (unit @ mean_a - unit @ mean_b) * (1 if place < 1000 else -1)

    loops = {
        "scores again": fastest(lambda: [shuffle_and_score_again() for _ in range(3)]) / 3,
        "sums of a list": fastest(lambda: [shuffle_with_scores() for _ in range(50)]) / 50,
        "sums of an array": fastest(lambda: [shuffle_with_arrays() for _ in range(500)]) / 500,
    }
    ours = fastest(lambda: group_test(scores, 1000, permutations=PERMUTATIONS))
    print(f"{PERMUTATIONS} permutations of DEAA, 1,000 + 1,000 items\n  tod-bias        {ours:8.3f} s")
    for name, one in loops.items():
        ratio = one * PERMUTATIONS / ours
        print(f"  shuffling loop, {name:16s} {one * PERMUTATIONS:8.2f} s   ratio {ratio:,.0f}x (aim >= 200x)")

    embeddings = Embeddings.of(users=np.concatenate([a, b]), items=items)
    rows = {"A": range(USERS), "B": range(USERS, 2 * USERS), "E": range(15_000), "P": range(15_000, ITEMS)}
    sets = resolve_sets({role: list(numbers) for role, numbers in rows.items()}, embeddings)
    start, spent = time.perf_counter(), time.process_time()
    result = audit(embeddings, sets, AuditSettings(permutations=PERMUTATIONS))
    wall, cpu = time.perf_counter() - start, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"whole audit, {USERS} + {USERS} users, all {ITEMS} items in E and P, {PERMUTATIONS} permutations, "
        f"{len(result.record['directions'])} directions, 1,000 resamples\n"
        f"  {wall:.1f} s wall, {cpu:.1f} s of CPU (aim <= 60 s); peak memory of this process {peak:.2f} GiB (aim <= 2)"
    )


if __name__ == "__main__":
    association(argparse.Namespace())
