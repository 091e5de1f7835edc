"""Metrics and their input: one turn of a system.

A metric is a table of per-turn *statistics* that add up, and a function from summed statistics to a score. Groups,
bootstrap and permutation are therefore arithmetic on sums, and no turn is scored twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.task import Task

Better = Literal["higher", "lower", "neither"]
"""Better side of a score."""
Scale = Literal["ratio", "difference"]
"""Comparison of two scores: ``ratio``, their difference divided by the originals' score; ``difference``, in the
metric's own units."""
Reads = Literal["", "responses", "calls"]
"""Parts of a turn that a metric reads."""
Needs = Literal["", "references", "gold calls"]
"""Parts of a corpus that a metric needs."""


@dataclass(frozen=True, slots=True)
class ScoredTurn:
    """One turn as a system answered it, with the gold turn."""

    user: str
    """User's message, rewritten if the dialogue is."""
    calls: tuple[Mapping[str, Any], ...] | None
    """The API calls that the system made, in order, the API's name under ``api_name``; None: malformed."""
    results: tuple[Mapping[str, Any], ...]
    """Results of the calls."""
    response: str
    """Response of the system."""
    gold: Turn
    """The corpus's turn, rewritten where the dialogue is: reference response, calls and results."""
    twin: ScoredTurn | None = None
    """The same turn of the same system made blind to the rewrite, T f(T⁻¹ x). None: this is it itself (originals, and
    the arm with everything swapped)."""
    has_calls: bool = True
    """True if the system has a stage that makes calls."""
    malformed: str = ""
    """Output of the stage if its call is malformed."""
    steps: int = 0
    """Number of calls of stages in the turn; 0 if unknown."""
    is_after_service: bool = False
    """True if the corpus makes a call in an earlier turn of the dialogue."""
    failure: str = ""
    """Reason of a failure, which gives the turn the worst score of every metric; empty for a turn that ended."""
    task: Task | None = None
    """Task of a world, rewritten if the dialogue is."""


class Metric(ABC):
    """A score that is a function of sums over turns.

    Derive your metric from this class, or pass any object with the same attributes. If gaps are counts, ``unit`` names
    what is counted ("results per turn", or with "in 100" a share, "turns in 100 that refuse"), and reports say "0.31
    fewer results per turn". Without a unit they say "BLEU 26% lower".
    """

    name: str
    """Name on the command line and in results."""
    label: str
    """Name in sentences and tables: "BLEU", "slot F1", "refusals"."""
    better: Better
    """Better side of the scores."""
    scale: Scale
    """Comparison of two scores."""
    columns: tuple[str, ...]
    """Names of the statistics; no two metrics share one."""
    reads: Reads = ""
    """Parts of a turn that are read; empty: responses and calls."""
    needs: Needs = ""
    """Parts of the corpus that are needed, so that a run knows if it measured anything; empty: none."""
    unit: str = ""
    """Unit of counts; empty for other scores."""
    counterfactual: bool = False
    """True if counterfactuals are compared with their twins, so that originals alone have no score."""
    range: tuple[float, float] | None = None
    """Smallest and largest score; None if scores have no bounds."""
    stage: str = ""
    """Component whose output an event is read from; empty for other metrics."""
    takes_majority: bool = False
    """True if what most variants of a turn do decides on each: if nearly all originals are of one group, nothing tells
    an original that is always the odd one from the effect of rewording."""
    is_grade: bool = False
    """True if whole dialogues are judged, which says most about what happens."""
    equal_denominators: bool = False
    """True if the last statistic counts turns, alike for all variants of a dialogue and all arms."""

    @property
    @abstractmethod
    def signature(self) -> str:
        """Versions and settings that decide the score; a class attribute does."""

    @abstractmethod
    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Per-turn statistics, (turns, columns), float64."""

    @abstractmethod
    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores of summed statistics, (…, columns) to (…); of no scored turn, NaN or 0 as the metric says."""

    def turn_scores(self, statistics: np.ndarray) -> np.ndarray:
        """Scores of single turns, (…, columns) to (…), for excerpts; NaN where a turn has none. Here: the score."""
        return self.score(statistics)


class RatioOfSums(Metric):
    """A metric whose score is the ratio of two sums over turns, to which :meth:`counts` contributes.

    A derived metric has ``name``, ``label``, ``better``, ``columns`` (two names),
    ``signature`` and ``counts``.
    """

    scale: Scale = "difference"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Return the contributions of a turn to the two sums; (0, 0) if it is not scored."""
        raise NotImplementedError

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Return the contributions of each turn to the sums, (turns, 2)."""
        return np.array([self.counts(turn) for turn in turns], float).reshape(-1, 2)

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Return the ratio of the sums; NaN if the second is 0."""
        return ratio(sums[..., 0], sums[..., 1])


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """``part / whole``, elementwise; NaN where ``whole`` is 0."""
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.full(np.broadcast(part, whole).shape, np.nan), where=whole != 0)


class PairMetric(Metric):
    """Statistics of (response, reference) pairs; equal pairs are computed once."""

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

    @abstractmethod
    def _row(self, response: str, reference: str) -> Sequence[float]:
        """One pair's statistics."""
