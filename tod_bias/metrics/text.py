"""Helpfulness of responses (BLEU) and accuracy of API calls (JGA).

A text metric is a table of per-segment *statistics* that add up, and a function from summed statistics to a score. So
everything downstream, bootstrap and permutation included, is arithmetic on sums and never scores a text twice.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from sacrebleu.metrics import BLEU

from tod_bias.errors import TodBiasError
from tod_bias.imports import is_import, made


class TextMetric(Protocol):
    """A corpus score that is a function of sums over segments."""

    name: str
    """How it is called on the command line and in results."""
    columns: tuple[str, ...]
    """Names of the statistics."""

    @property
    def signature(self) -> str:
        """Versions and settings that decide the score."""

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Per-segment statistics, (segments, statistics), float64."""

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores in 0 to 1 of summed statistics, (…, statistics) to (…)."""


class CorpusBleu:
    """Corpus BLEU (Papineni et al. 2002) exactly as sacreBLEU reports it, on 0–1; the helpfulness of Su eq. 1.

    Tokeniser 13a, exponential smoothing, orders 1 to 4. 0: no n-gram matches (or nothing to score); 1: every
    response equals its reference.
    """

    name: str = "corpus_bleu"
    columns: tuple[str, ...] = (
        *(f"bleu_correct_{order}" for order in range(1, 5)),
        *(f"bleu_total_{order}" for order in range(1, 5)),
        "bleu_hyp_len",
        "bleu_ref_len",
    )

    @cached_property
    def _bleu(self) -> Any:
        return BLEU(effective_order=True)  # for segments; corpus scores below use all four orders

    @property
    def signature(self) -> str:
        """sacreBLEU's own signature."""
        metric = BLEU()
        metric.corpus_score(["a"], [["a"]])
        return str(metric.get_signature())

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Matched and total n-grams of orders 1 to 4, and both lengths, (segments, 10)."""
        seen: dict[tuple[str, str], np.ndarray] = {}
        rows = np.empty((len(hypotheses), 10))
        for number, pair in enumerate(zip(hypotheses, references, strict=True)):
            if pair not in seen:
                score = self._bleu.sentence_score(pair[0], [pair[1]])
                seen[pair] = np.array([*score.counts, *score.totals, score.sys_len, score.ref_len], dtype=float)
            rows[number] = seen[pair]
        return rows

    def score(self, sums: np.ndarray) -> np.ndarray:
        """BLEU of summed statistics, as ``sacrebleu.BLEU.compute_bleu`` with ``smooth_method="exp"``."""
        correct, total = sums[..., 0:4], sums[..., 4:8]  # (…, 4)
        hypothesis, reference = sums[..., 8], sums[..., 9]
        missing = (correct == 0) & (total > 0)
        halvings = np.cumsum(missing, axis=-1)  # the k-th order without a match counts 1 / 2**k matches
        matches = np.where(missing, 0.5**halvings, correct)
        with np.errstate(divide="ignore", invalid="ignore"):
            # An order without any n-gram has precision 0, which makes the score 0.
            logs = np.log(np.where(total > 0, matches / np.where(total > 0, total, 1), 0.0)).mean(axis=-1)
            brevity = np.where(hypothesis < reference, 1 - reference / hypothesis, 0.0)
            scores = np.exp(np.where(hypothesis > 0, brevity, -np.inf) + logs)
        return np.where(correct.any(axis=-1), scores, 0.0)


_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class SentenceBleu:
    """ParlAI's ``nlg_bleu``: the mean of NLTK's smoothed *sentence* BLEU on normalised text.

    Texts are lower-cased, punctuation and articles are removed. Not comparable with corpus BLEU, and never mixed with
    it: it is a metric of its own, chosen by name.
    """

    name: str = "sentence_bleu"
    columns: tuple[str, ...] = ("sentence_bleu_sum", "sentences")

    @property
    def signature(self) -> str:
        """NLTK's version and smoothing."""
        import nltk

        return f"nltk:{nltk.__version__}|case:lower|norm:parlai|smooth:method1[1e-12]|mean over sentences"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Each segment's score and a one, (segments, 2)."""
        from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

        smooth = SmoothingFunction(epsilon=1e-12).method1
        seen: dict[tuple[str, str], float] = {}
        rows = np.ones((len(hypotheses), 2))
        for number, pair in enumerate(zip(hypotheses, references, strict=True)):
            if pair not in seen:
                words, reference = (_normalised(text).split(" ") for text in pair)
                seen[pair] = float(sentence_bleu([reference], words, smoothing_function=smooth))
            rows[number, 0] = seen[pair]
        return rows

    def score(self, sums: np.ndarray) -> np.ndarray:
        """The mean over sentences; 0 for none."""
        count = sums[..., 1]
        return np.where(count > 0, sums[..., 0] / np.where(count > 0, count, 1), 0.0)


def _normalised(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub(" ", text.lower())).split())


METRICS: dict[str, type[CorpusBleu] | type[SentenceBleu]] = {"corpus_bleu": CorpusBleu, "sentence_bleu": SentenceBleu}


def text_metric(name: str) -> TextMetric:
    """A metric by its name, or one of your own as ``module:Class``.

    Raises:
        TodBiasError: there is none of that name, or it is no text metric.
    """
    if not is_import(name):
        if name not in METRICS:
            raise TodBiasError(f"unknown metric {name!r}; expected one of {', '.join(METRICS)}, or module:Class")
        return METRICS[name]()
    metric: TextMetric = made(name, f"metric {name!r}")
    for needed in ("name", "columns", "signature", "statistics", "score"):
        if not hasattr(metric, needed):
            raise TodBiasError(
                f"metric {name!r}: expected a text metric with name, columns, signature, statistics and score, got "
                f"{type(metric).__name__} without {needed!r}"
            )
    return metric
