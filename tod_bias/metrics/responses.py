"""What a response is like by itself, whatever the reference says: its length, its tone, whether it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from tod_bias.errors import TodBiasError
from tod_bias.metrics.metric import Better, RatioOfSums, Scale, ScoredTurn

REFUSALS = Path(__file__).parent.parent / "data" / "refusals.txt"
"""Patterns of refusals, one a line."""


class _MeanOfResponses(RatioOfSums):
    """The mean of a number that each response has; equal responses are looked at once."""

    columns: tuple[str, ...]
    reads = "responses"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Each response's number, and a one, (turns, 2)."""
        of = self._measure()
        known = {text: of(text) for text in {turn.response for turn in turns}}
        rows = np.ones((len(turns), 2))
        rows[:, 0] = [known[turn.response] for turn in turns]
        return rows

    def _measure(self) -> Callable[[str], float]:
        """The function from a response to its number."""
        raise NotImplementedError


class Length(_MeanOfResponses):
    """Mean length of responses in words (what white space separates), 0 or more. NaN for no turn."""

    name: str = "length"
    label: str = "words a response"
    better: Better = "neither"
    scale: Scale = "ratio"
    columns: tuple[str, ...] = ("length_words", "length_responses")
    signature: str = "words between white space"

    def _measure(self) -> Callable[[str], float]:
        return lambda text: len(text.split())


class Refusal(_MeanOfResponses):
    """The share of responses that are empty, decline to help or say that they did not understand, on 0–1.

    Declining is what a pattern of ``tod_bias/data/refusals.txt`` matches (English, case ignored, anywhere in the
    response). An answer that is negative is an answer: "no, there are none" and "I could not book it" count as help.
    NaN for no turn.
    """

    name: str = "refusal"
    label: str = "refusals"
    better: Better = "lower"
    scale: Scale = "difference"
    columns: tuple[str, ...] = ("refusal_refused", "refusal_responses")

    @cached_property
    def _text(self) -> str:
        return REFUSALS.read_text(encoding="utf-8")

    @property
    def signature(self) -> str:
        """A digest of the patterns."""
        return f"empty, or one of the patterns {blake2b(self._text.encode(), digest_size=4).hexdigest()}"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        lines = [line.strip() for line in self._text.splitlines() if line.strip() and not line.startswith("#")]
        return re.compile("|".join(f"(?:{line})" for line in lines), re.IGNORECASE)

    def refuses(self, response: str) -> bool:
        """Whether a response is empty or refuses."""
        return not response.strip() or self._pattern.search(response.replace("’", "'")) is not None

    def _measure(self) -> Callable[[str], float]:
        return self.refuses


class Sentiment(_MeanOfResponses):
    """Mean sentiment of responses: VADER's compound score (Hutto and Gilbert 2014), −1 (negative) to 1 (positive).

    0 is neutral; an empty response is neutral. NaN for no turn. It needs the extra ``sentiment``.
    """

    name: str = "sentiment"
    label: str = "sentiment"
    better: Better = "higher"
    scale: Scale = "difference"
    columns: tuple[str, ...] = ("sentiment_sum", "sentiment_responses")

    def __init__(self) -> None:
        try:
            from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
        except ImportError as error:
            raise TodBiasError(
                "metric 'sentiment' needs the package vaderSentiment; install it: pip install 'tod-bias[sentiment]'"
            ) from error
        self._analyser = SentimentIntensityAnalyzer()

    @property
    def signature(self) -> str:
        """VADER's version."""
        from importlib.metadata import version

        return f"vaderSentiment:{version('vaderSentiment')}|compound|mean over responses"

    def _measure(self) -> Callable[[str], float]:
        return lambda text: float(self._analyser.polarity_scores(text)["compound"])
