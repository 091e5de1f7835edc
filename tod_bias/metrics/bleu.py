"""BLEU of responses: sacreBLEU's corpus BLEU, and ParlAI's mean of sentence BLEU."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

import numpy as np

from tod_bias.metrics.metric import Better, PairMetric, Scale


class CorpusBleu(PairMetric):
    """Corpus BLEU (Papineni et al. 2002) exactly as sacreBLEU reports it, on 0–1; the helpfulness of Su eq. 1.

    Tokeniser 13a, exponential smoothing, orders 1 to 4. 0: no n-gram matches (or nothing to score); 1: every
    response equals its reference.
    """

    name: str = "corpus_bleu"
    label: str = "BLEU"
    better: Better = "higher"
    scale: Scale = "ratio"
    columns: tuple[str, ...] = (
        *(f"bleu_correct_{order}" for order in range(1, 5)),
        *(f"bleu_total_{order}" for order in range(1, 5)),
        "bleu_hyp_len",
        "bleu_ref_len",
    )
    range = (0.0, 1.0)

    @cached_property
    def _bleu(self) -> Any:
        return _sacrebleu(effective_order=True)  # for segments; corpus scores below use all four orders

    @property
    def signature(self) -> str:
        """sacreBLEU's own signature."""
        metric = _sacrebleu()
        metric.corpus_score(["a"], [["a"]])
        return str(metric.get_signature())

    def _row(self, response: str, reference: str) -> Sequence[float]:
        """Matched and total n-grams of orders 1 to 4, and both lengths."""
        score = self._bleu.sentence_score(response, [reference])
        return [*score.counts, *score.totals, score.sys_len, score.ref_len]

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

    def turn_scores(self, statistics: np.ndarray) -> np.ndarray:
        """BLEU of single turns, whose n-grams are few: one is added above unigrams (Lin & Och 2004).

        As ``sacrebleu.BLEU.compute_bleu`` with ``smooth_method="add-k"``; never mixed with corpus BLEU.
        """
        correct, total = statistics[..., 0:4], statistics[..., 4:8]
        hypothesis, reference = statistics[..., 8], statistics[..., 9]
        added = np.array([0.0, 1.0, 1.0, 1.0])
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log((correct + added) / (total + added)).mean(axis=-1)
            scores = np.exp(logs + np.minimum(0.0, 1 - reference / hypothesis))
        return np.where(correct[..., 0] > 0, scores, 0.0)


def _sacrebleu(**options: Any) -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(**options)


_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class SentenceBleu(PairMetric):
    """ParlAI's ``nlg_bleu``: the mean of NLTK's smoothed *sentence* BLEU on normalised text, on 0–1.

    Texts are lower-cased, punctuation and articles are removed. Not comparable with corpus BLEU, and never mixed with
    it: it is a separate metric, chosen by name. 0 without turns.
    """

    range = (0.0, 1.0)
    name: str = "sentence_bleu"
    label: str = "sentence BLEU"
    better: Better = "higher"
    scale: Scale = "ratio"
    columns: tuple[str, ...] = ("sentence_bleu_sum", "sentences")

    @property
    def signature(self) -> str:
        """NLTK's version and smoothing."""
        return f"nltk:{version('nltk')}|case:lower|norm:parlai|smooth:method1[1e-12]|mean over sentences"

    @cached_property
    def _sentence_bleu(self) -> Callable[[list[list[str]], list[str]], float]:
        from nltk.translate import bleu_score

        return partial(bleu_score.sentence_bleu, smoothing_function=bleu_score.SmoothingFunction(epsilon=1e-12).method1)

    def _row(self, response: str, reference: str) -> Sequence[float]:
        """The sentence's score and a one."""
        words, expected = (_normalised(text).split(" ") for text in (response, reference))
        return float(self._sentence_bleu([expected], words)), 1.0

    def score(self, sums: np.ndarray) -> np.ndarray:
        """The mean over sentences; 0 for none."""
        count = sums[..., 1]
        return np.where(count > 0, sums[..., 0] / np.where(count > 0, count, 1), 0.0)


def _normalised(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub(" ", text.lower())).split())
