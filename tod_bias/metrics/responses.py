"""Metrics of responses without references: length, tone, refusals."""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tod_bias.errors import TodBiasError
from tod_bias.metrics.metric import Better, RatioOfSums, Scale, ScoredTurn

DATA = Path(__file__).parent.parent / "data"
"""Folder with the files of patterns."""


class Length(RatioOfSums):
    """Mean length of responses in words (what white space separates), 0 or more. NaN for no turn."""

    name: str = "length"
    label: str = "words per response"
    unit = "words per response"
    reads = "responses"
    better: Better = "neither"
    scale: Scale = "ratio"
    columns = ("length_words", "length_responses")
    signature: str = "words between white space"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Its words, and a one."""
        return len(turn.response.split()), 1


class Patterns(RatioOfSums):
    """The share of turns with a text that matches a pattern of a file, on 0–1."""

    range = (0.0, 1.0)
    better: Better = "lower"
    file: str
    """File in ``tod_bias/data``, with one regular expression per line."""

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
        """True if a text matches a pattern."""
        return _matches(self._pattern, text.replace("’", "'"))

    def texts(self, turn: ScoredTurn) -> tuple[str, ...]:
        """Return the texts of a turn that are matched."""
        return (turn.response,)

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Return 1 if a text matches, and 1."""
        return any(map(self.matches, self.texts(turn))), 1


@lru_cache(maxsize=1 << 16)
def _matches(pattern: re.Pattern[str], text: str) -> bool:
    """True if a pattern matches anywhere; cached, because the arms of a run repeat texts."""
    return pattern.search(text) is not None


class Refusal(Patterns):
    """The share of responses that are empty, decline to help or say that they did not understand, on 0–1.

    Responses decline if a pattern of ``tod_bias/data/refusals.txt`` matches (English, case ignored, anywhere in the
    response). An answer that is negative is an answer: "no, there are none" and "I could not book it" count as help.
    0: none does; 1: all do. NaN for no turn.
    """

    name: str = "refusal"
    label: str = "refusals"
    unit = "turns in 100 that refuse"
    reads = "responses"
    columns = ("refusal_refused", "refusal_responses")
    file = "refusals.txt"

    @property
    def signature(self) -> str:
        """A digest of the patterns."""
        return f"empty, or {super().signature}"

    def matches(self, text: str) -> bool:
        """True if a response is empty or refuses."""
        return not text.strip() or super().matches(text)


class Sentiment(RatioOfSums):
    """Mean sentiment of responses: VADER's compound score (Hutto and Gilbert 2014), −1 (negative) to 1 (positive).

    0 is neutral; an empty response is neutral. NaN for no turn. It needs the extra ``sentiment``.
    """

    name: str = "sentiment"
    label: str = "sentiment"
    reads = "responses"
    better: Better = "higher"
    columns = ("sentiment_sum", "sentiment_responses")

    def __init__(self) -> None:
        if find_spec("vaderSentiment") is None:
            raise TodBiasError(
                "metric 'sentiment' needs the package vaderSentiment; install it: pip install vaderSentiment"
            )

    @property
    def signature(self) -> str:
        """VADER's version."""
        return f"vaderSentiment:{version('vaderSentiment')}|compound|mean over responses"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Its score, and a one."""
        return _compound(turn.response), 1


@cache
def _analyser() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()


@lru_cache(maxsize=1 << 16)
def _compound(text: str) -> float:
    return float(_analyser().polarity_scores(text)["compound"])
