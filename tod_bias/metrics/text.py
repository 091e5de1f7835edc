"""Metrics of texts alone, as the attribution study still asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tod_bias.dialogues.dialogue import Turn
from tod_bias.metrics.bleu import CorpusBleu, SentenceBleu
from tod_bias.metrics.choice import metric
from tod_bias.metrics.metric import Metric, Told

__all__ = ["CorpusBleu", "SentenceBleu", "TextMetric", "text_metric"]


class TextMetric(Protocol):
    """A corpus score of pairs of texts that is a function of sums over segments."""

    name: str
    columns: tuple[str, ...]

    @property
    def signature(self) -> str:
        """Versions and settings that decide the score."""

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Per-segment statistics, (segments, statistics), float64."""

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores of summed statistics, (…, statistics) to (…)."""


class _OfTexts:
    """A metric asked with texts: the user, calls and results are unknown to it."""

    def __init__(self, found: Metric) -> None:
        self._metric = found
        self.name, self.columns, self.signature, self.score = found.name, found.columns, found.signature, found.score

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Per-segment statistics."""
        pairs = zip(hypotheses, references, strict=True)
        return self._metric.statistics([Told("", (), (), said, Turn("", response=gold)) for said, gold in pairs])


def text_metric(name: str) -> TextMetric:
    """A metric by its name, or one of your own as ``module:Class``, for texts.

    Raises:
        TodBiasError: there is none of that name, or it is no metric.
    """
    return _OfTexts(metric(name))
