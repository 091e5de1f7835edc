"""chrF of responses: character n-grams in common with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tod_bias.metrics.metric import Better, PairMetric, Scale, ratio

_ORDERS = range(1, 7)
_BETA = 2


class ChrF(PairMetric):
    """Corpus chrF2 (Popović 2015) as sacreBLEU reports it, on 0–1.

    Precision and recall of character n-grams without white space, orders 1 to 6, each averaged over the orders that
    both sides have, joined as F with β = 2. Unlike BLEU it gives credit for parts of words, so one inflected word costs
    little. 0: no character in common (or nothing to score); 1: every response equals its reference.
    """

    range = (0.0, 1.0)
    name: str = "chrf"
    label: str = "chrF"
    better: Better = "higher"
    scale: Scale = "ratio"
    columns: tuple[str, ...] = tuple(f"chrf_{kind}_{order}" for kind in ("hyp", "ref", "match") for order in _ORDERS)

    @property
    def signature(self) -> str:
        """sacreBLEU's own signature."""
        from sacrebleu.metrics import CHRF

        metric = CHRF()
        metric.corpus_score(["a"], [["a"]])
        return str(metric.get_signature())

    def _row(self, response: str, reference: str) -> Sequence[float]:
        """N-grams of the response, of the reference, and in common, of orders 1 to 6 each."""
        said, expected = _ngrams(response), _ngrams(reference)
        # sacreBLEU: an order that the reference is too short for counts for neither side
        return (
            *(sum(grams.values()) if others else 0 for grams, others in zip(said, expected, strict=True)),
            *(sum(others.values()) for others in expected),
            *(
                sum(min(count, others[gram]) for gram, count in grams.items() if gram in others)
                for grams, others in zip(said, expected, strict=True)
            ),
        )

    def score(self, sums: np.ndarray) -> np.ndarray:
        """chrF of summed statistics."""
        hypothesis, reference, match = sums[..., 0:6], sums[..., 6:12], sums[..., 12:18]  # (…, 6)
        shared = (hypothesis > 0) & (reference > 0)
        orders = np.maximum(shared.sum(axis=-1), 1)
        precision, recall = (
            np.where(shared, match / np.where(shared, whole, 1), 0.0).sum(axis=-1) / orders
            for whole in (hypothesis, reference)
        )
        return np.nan_to_num(ratio((1 + _BETA**2) * precision * recall, _BETA**2 * precision + recall), nan=0.0)


@lru_cache(maxsize=4096)
def _ngrams(text: str) -> tuple[Counter[str], ...]:
    letters = "".join(text.split())
    return tuple(Counter(letters[at : at + order] for at in range(len(letters) - order + 1)) for order in _ORDERS)
