"""Fair re-ranking by price level: DetGreedy of Geyik, Ambler and Kenthapadi 2019, Algorithm 1.

At every rank k of a list each price level has at least ⌊p k⌋ and at most ⌈p k⌉ items, p being its share of the venues:
nobody's list is dearer than anybody else's. Of more than three levels one may be an item short for some ranks. Among
the levels that may come next, the one whose best remaining item the recommender ranked highest comes
first. Venues without a price are a level of their own.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence

import numpy as np

from tod_bias.recommenders.lmrec.model import K, LMRec


def reranked(ranking: Sequence[int], levels: Sequence[int | None], top: int) -> list[int]:
    """A ranking whose first items are chosen by DetGreedy; the others follow in their order.

    Args:
        ranking: all items, the best first.
        levels: of each item, the price level.
        top: how many are chosen.
    """
    shares = {level: count / len(levels) for level, count in Counter(levels).items()}
    queues: dict[int | None, deque[tuple[int, int]]] = {level: deque() for level in shares}
    for place, item in enumerate(ranking):
        queues[levels[item]].append((place, item))
    counts: Counter[int | None] = Counter()
    chosen: list[int] = []
    for k in range(1, min(top, len(ranking)) + 1):
        left = [level for level in shares if queues[level]]
        below = [level for level in left if counts[level] < math.floor(shares[level] * k + 1e-9)]
        may = below or [level for level in left if counts[level] < math.ceil(shares[level] * k - 1e-9)]
        level = min(may or left, key=lambda level: queues[level][0])
        counts[level] += 1
        chosen.append(queues[level].popleft()[1])
    taken = set(chosen)
    return chosen + [item for item in ranking if item not in taken]


class Reranker(LMRec):
    """A recommender whose lists are re-ranked.

    Args:
        recommender: whose lists.
        top: how many items of a list are chosen.
    """

    def __init__(self, recommender: LMRec, top: int = K) -> None:
        super().__init__(recommender.model, recommender.tokenizer, recommender.venues)
        self._top = top

    def rank(self, texts: Sequence[str], k: int = K, *, batch: int = 128, show_progress: bool = False) -> np.ndarray:
        """Indices of the first k venues of each text after re-ranking, (texts, k)."""
        levels = [venue.price for venue in self.venues]
        rankings = super().rank(texts, len(self.venues), batch=batch, show_progress=show_progress)
        distinct = {row.tobytes(): row for row in rankings}
        made = {key: reranked(row.tolist(), levels, self._top)[:k] for key, row in distinct.items()}
        return np.array([made[row.tobytes()] for row in rankings], dtype=np.int32)
