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

DATA = Path(__file__).parent.parent / "data"
"""Where the files of patterns are."""


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
    label: str = "words per response"
    unit = "words per response"
    better: Better = "neither"
    scale: Scale = "ratio"
    columns: tuple[str, ...] = ("length_words", "length_responses")
    signature: str = "words between white space"

    def _measure(self) -> Callable[[str], float]:
        return lambda text: len(text.split())


class Patterns(RatioOfSums):
    """The share of turns with a text that matches a pattern of a file, on 0–1."""

    better: Better = "lower"
    scale: Scale = "difference"
    columns: tuple[str, ...]
    file: str
    """In ``tod_bias/data``: one regular expression per line."""

    @cached_property
    def _lines(self) -> str:
        return (DATA / self.file).read_text(encoding="utf-8")

    @property
    def signature(self) -> str:
        """A digest of the patterns."""
        return f"one of the patterns {blake2b(self._lines.encode(), digest_size=4).hexdigest()}"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        lines = [line.strip() for line in self._lines.splitlines() if line.strip() and not line.startswith("#")]
        return re.compile("|".join(f"(?:{line})" for line in lines), re.IGNORECASE)

    def matches(self, text: str) -> bool:
        """Whether a text matches a pattern."""
        return self._pattern.search(text.replace("’", "'")) is not None

    def _texts(self, turn: ScoredTurn) -> tuple[str, ...]:
        return (turn.response,)

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Whether a text of each turn matches, and a one, (turns, 2); equal texts are looked at once."""
        texts = [self._texts(turn) for turn in turns]
        known = {text: self.matches(text) for some in texts for text in some}
        return np.array([(any(known[text] for text in some), 1) for some in texts], float).reshape(-1, 2)


class Refusal(Patterns):
    """The share of responses that are empty, decline to help or say that they did not understand, on 0–1.

    Declining is what a pattern of ``tod_bias/data/refusals.txt`` matches (English, case ignored, anywhere in the
    response). An answer that is negative is an answer: "no, there are none" and "I could not book it" count as help.
    0: none does; 1: all do. NaN for no turn.
    """

    name: str = "refusal"
    label: str = "refusals"
    unit = "turns in 100 that refuse"
    reads = "responses"
    columns: tuple[str, ...] = ("refusal_refused", "refusal_responses")
    file = "refusals.txt"

    @property
    def signature(self) -> str:
        """A digest of the patterns."""
        return f"empty, or {super().signature}"

    def matches(self, text: str) -> bool:
        """Whether a response is empty or refuses."""
        return not text.strip() or super().matches(text)


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
