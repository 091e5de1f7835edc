"""Helpfulness of responses (BLEU) and accuracy of API calls (JGA).

A text metric is a table of per-segment *statistics* that add up, and a function from summed statistics to a score. So
everything downstream, bootstrap and permutation included, is arithmetic on sums and never scores a text twice.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from sacrebleu.metrics import BLEU

from tod_bias.errors import TodBiasError


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
    """A metric by its name.

    Raises:
        TodBiasError: there is none of that name.
    """
    if name not in METRICS:
        raise TodBiasError(f"unknown metric {name!r}; expected one of {', '.join(METRICS)}")
    return METRICS[name]()


def fairscore(original: np.ndarray | float, rewritten: np.ndarray | float) -> np.ndarray:
    """Signed form of Su eq. 1: (BLEU(f(u), g) − BLEU(f(ũ), g̃)) / BLEU(f(u), g); eq. 1 is its absolute value.

    0: both are answered equally well. Positive: the rewritten dialogues are answered worse (1: BLEU falls to 0);
    negative: better, without a bound. NaN where the original BLEU is 0: undefined.
    """
    original, rewritten = np.asarray(original, dtype=float), np.asarray(rewritten, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(original > 0, (original - rewritten) / original, np.nan)


CALL_COLUMNS = (
    "turns", "correct", "correct_parlai", "call_turns", "call_correct", "call_correct_parlai",
    "slots_predicted", "slots_predicted_right", "slots_gold", "slots_gold_right", "malformed",
)  # fmt: skip
"""Names of the statistics of :func:`call_statistics`."""


def call_statistics(predicted: Sequence[Any], gold: Sequence[Mapping[str, str]]) -> np.ndarray:
    """Per-turn counts for joint goal accuracy and slot precision and recall, (turns, :data:`CALL_COLUMNS`).

    A call is right when it equals the gold call as a dictionary, API name included (ParlAI's ``SlotMetrics``). A
    malformed call (a string) has no slots and is never right. ``*_parlai`` counts as ParlAI does after its own reading
    of the text: a predicted value that holds ``", "`` becomes a set there and never equals the gold string, and a
    malformed call keeps the slots that could be read.
    """
    rows = np.zeros((len(gold), len(CALL_COLUMNS)))
    for number, (call, truth) in enumerate(zip(predicted, gold, strict=True)):
        malformed = not isinstance(call, Mapping)
        slots: Mapping[str, str] = {} if malformed else call
        right = not malformed and dict(slots) == dict(truth)
        parlai = _parlai_slots(call) == dict(truth)
        hits = sum(truth.get(slot) == value for slot, value in slots.items())
        called = bool(truth)
        rows[number] = (
            1, right, parlai, called, called and right, called and parlai,
            len(slots), hits, len(truth), hits, malformed,
        )  # fmt: skip
    return rows


def _parlai_slots(call: Any) -> dict[str, Any]:
    """What ParlAI's ``str_to_api_dict`` reads from a call's text."""
    if isinstance(call, Mapping):
        pairs = [(str(slot), str(value)) for slot, value in call.items()]
    else:
        parts = [part.split(" = ", 1) for part in str(call).split(" ; ") if " = " in part]
        pairs = [(slot, value) for slot, value in parts]
    slots: dict[str, Any] = {}
    for slot, value in pairs:
        value = value.strip()
        parts_of_value = value.split(", ")
        is_list = len(parts_of_value) > 1 and not value.startswith("{")
        slots[slot.strip()] = set(parts_of_value) if is_list else value
    return slots
