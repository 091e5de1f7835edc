"""What a metric is, and what it reads: one turn of a system.

A metric is a table of per-turn *statistics* that add up, and a function from summed statistics to a score. So all that
comes after, groups, bootstrap and permutation included, is arithmetic on sums, and no turn is scored twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from tod_bias.dialogues.dialogue import Turn

Better = Literal["higher", "lower", "neither"]
"""Which scores are good ones."""
Scale = Literal["ratio", "difference"]
"""How two scores are compared: ``ratio``, their difference divided by the originals' score; ``difference``, in the
metric's own units."""


@dataclass(frozen=True, slots=True)
class ScoredTurn:
    """One turn as a system answered it, with the gold turn."""

    user: str
    """What the user said, rewritten where the dialogue is."""
    calls: tuple[Mapping[str, Any], ...] | None
    """The API calls that the system made, in order, the API's name under ``api_name``; None: malformed."""
    results: tuple[Mapping[str, Any], ...]
    """What they found."""
    response: str
    """What the system answered."""
    gold: Turn
    """The corpus's turn, rewritten where the dialogue is: reference response, calls and results."""
    twin: ScoredTurn | None = None
    """The same turn of the same system made blind to the rewrite, T f(T⁻¹ x). None: this is it itself (originals, and
    the arm with everything swapped)."""
    has_calls: bool = True
    """Whether the system has a stage that makes calls at all."""
    malformed: str = ""
    """What the stage put out whose call is malformed."""
    steps: int = 0
    """How many calls of stages the turn took; 0: not known."""
    is_after_service: bool = False
    """Whether the corpus makes a call in an earlier turn of the dialogue."""


class Metric(Protocol):
    """A score that is a function of sums over turns.

    Plain class attributes do for everything but the two methods. A metric may say what it ``reads`` (``responses`` or
    ``calls``; left out: both) and what it ``needs`` of the corpus (``references``, ``gold calls``; left out: nothing),
    so that a run can tell whether it measured anything. One that counts says what as its ``unit`` ("results per
    turn"; with "in 100" a share, "turns in 100 that refuse"): its gaps then read "0.31 fewer results per turn", else
    "BLEU 26% lower". One whose score is of many turns may have
    ``turn_scores`` for single ones, with the arguments of ``score``.
    """

    @property
    def name(self) -> str:
        """How it is called on the command line and in results."""

    @property
    def label(self) -> str:
        """How it is called in sentences and tables: "BLEU", "slot F1", "refusals"."""

    @property
    def better(self) -> Better:
        """Which scores are good ones."""

    @property
    def scale(self) -> Scale:
        """How two scores are compared."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the statistics; no two metrics share one."""

    @property
    def signature(self) -> str:
        """Versions and settings that decide the score."""

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Per-turn statistics, (turns, columns), float64."""

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores of summed statistics, (…, columns) to (…); of no scored turn, NaN or 0 as the metric says."""


def turn_scores(metric: Metric, statistics: np.ndarray) -> np.ndarray:
    """Scores of single turns, (…, columns) to (…): by the metric's ``turn_scores`` where it has one, else by ``score``.

    NaN where a turn has no score.
    """
    score = getattr(metric, "turn_scores", metric.score)
    return np.asarray(score(statistics), dtype=float)


class RatioOfSums:
    """A metric whose score is a sum over turns divided by another: what :meth:`counts` gives of each turn.

    A metric of your own that derives from it has ``name``, ``label``, ``better``, ``columns`` (two names),
    ``signature`` and ``counts``.
    """

    scale: Scale = "difference"
    columns: tuple[str, ...]

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """What a turn adds to the two sums; (0, 0) where it is not scored."""
        raise NotImplementedError

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """What each turn adds to the sums, (turns, 2)."""
        return np.array([self.counts(turn) for turn in turns], float).reshape(-1, 2)

    def score(self, sums: np.ndarray) -> np.ndarray:
        """The first sum by the second; NaN where that is 0."""
        return ratio(sums[..., 0], sums[..., 1])


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """``part / whole``, elementwise; NaN where ``whole`` is 0."""
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.full(np.broadcast(part, whole).shape, np.nan), where=whole != 0)


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
