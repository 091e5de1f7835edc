"""Metrics that compare a response with its reference and read nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tod_bias.metrics.metric import ScoredTurn


class PairMetric:
    """Statistics of (response, reference) pairs; equal pairs are computed once."""

    columns: tuple[str, ...]
    reads = "responses"
    needs = "references"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Per-turn statistics, (turns, columns)."""
        return self.of_texts([turn.response for turn in turns], [turn.gold.response for turn in turns])

    def of_texts(self, responses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """The same of bare texts.

        Raises:
            ValueError: there are not as many responses as references.
        """
        seen: dict[tuple[str, str], int] = {}
        index = [seen.setdefault(pair, len(seen)) for pair in zip(responses, references, strict=True)]
        if not index:
            return np.zeros((0, len(self.columns)))
        return np.array([self._row(*pair) for pair in seen], dtype=float)[index]

    def _row(self, response: str, reference: str) -> Sequence[float]:
        """One pair's statistics."""
        raise NotImplementedError
