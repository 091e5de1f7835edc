"""pass^k: the share of tasks that are solved in all of k attempts (Yao et al. 2024, τ-bench)."""

from __future__ import annotations

from math import comb

import pandas as pd


def passes(rows: pd.DataFrame, column: str, samples: int) -> dict[str, list[float]]:
    """Return pass^1 to pass^``samples`` by group.

    Of a task that c of n samples solve, C(c, k) / C(n, k) is the unbiased estimate of the chance that k attempts all
    solve it. Every dialogue weighs once.

    Args:
        rows: of the whole system: dialogue, variant, group, and the statistic of a grade, a row per turn and sample.
        column: of the grade's sums; a sample is solved if it has 1 or more.
        samples: number of samples.
    """
    solved = rows.assign(solved=rows[column]).groupby(["group", "dialogue", "variant", "sample"], observed=True)
    counts = (solved["solved"].sum() >= 1).groupby(level=["group", "dialogue", "variant"], observed=True).sum()
    by_group: dict[str, list[float]] = {}
    for group, tasks in counts.groupby(level="group", observed=True):
        by_k = []
        for k in range(1, samples + 1):
            chances = tasks.map(lambda number, k=k: comb(int(number), k) / comb(samples, k))
            by_k.append(float(chances.groupby(level="dialogue", observed=True).mean().mean()))
        by_group[str(group)] = by_k
    return by_group
