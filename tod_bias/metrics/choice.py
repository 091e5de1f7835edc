"""Metrics by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isclass
from typing import Any, get_args

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import TodBiasError, meant
from tod_bias.io.imports import guarded, is_import, made
from tod_bias.metrics.bleu import CorpusBleu, SentenceBleu
from tod_bias.metrics.calls import JointGoalAccuracy, SlotF1
from tod_bias.metrics.chrf import ChrF
from tod_bias.metrics.counterfactual import ArgumentDisagreement, CallDisagreement, Disagreement
from tod_bias.metrics.events import event_of
from tod_bias.metrics.grade import PREFIX, Grade
from tod_bias.metrics.metric import Better, Metric, Needs, Reads, Scale, ScoredTurn
from tod_bias.metrics.responses import Length, Refusal, Sentiment
from tod_bias.metrics.service import (
    AMOUNT,
    CALLS_MADE,
    Amount,
    CallsMade,
    Clarification,
    Escalation,
    Money,
    Percentage,
    ResultsPerTurn,
    Steps,
    Tokens,
)
from tod_bias.metrics.success import Success

METRICS: dict[str, Callable[[], Metric]] = {
    kind.name: kind
    for kind in (
        CorpusBleu,
        SentenceBleu,
        ChrF,
        JointGoalAccuracy,
        SlotF1,
        Success,
        Refusal,
        Length,
        Sentiment,
        Disagreement,
        CallDisagreement,
        ArgumentDisagreement,
        CallsMade,
        ResultsPerTurn,
        Clarification,
        Escalation,
        Steps,
        Tokens,
        Money,
        Percentage,
    )
}
"""The shipped metrics by their names; ``amount_ARGUMENT`` is one of any argument of calls, ``calls_made_TOOL`` those of
one tool."""

_TEXTS = ("name", "label", "signature")
_NEEDED = ("name", "label", "better", "scale", "columns", "signature", "statistics", "score")


def metric(name: str) -> Metric:
    """Return a shipped metric by its name, or a user's metric as ``module:Class``.

    Raises:
        TodBiasError: the name is unknown, a package is missing, or the object is not a metric; names what is missing.
    """
    known = known_metric(name)
    if known is None and is_import(name):
        where = f"metric {name!r}"
        given = made(name, where)
        return Grade.of(given) if is_grade(given) else UserMetric(given, where)
    if known is None:
        raise TodBiasError(
            f"unknown metric {name!r}; expected one of {', '.join(METRICS)}, {CALLS_MADE}_TOOL, {AMOUNT}ARGUMENT, "
            f"or module:Class{meant(name, METRICS)}"
        )
    return known


def default_metrics(dialogues: Sequence[Dialogue]) -> tuple[str, ...]:
    """Return the default metrics of a run by name, without the events that its turns show.

    Args:
        dialogues: BLEU is measured if they have reference responses, and accuracy of calls if they have gold calls.
    """
    turns = [turn for dialogue in dialogues for turn in dialogue.turns]
    return (
        *(["corpus_bleu"] if any(turn.response.strip() for turn in turns) else []),
        *(["jga", "slot_f1"] if any(turn.calls for turn in turns) else []),
        "disagreement",
    )


def known_metric(name: str) -> Metric | None:
    """Return a shipped metric by its name; None if there is none.

    Raises:
        TodBiasError: a package that it needs is not installed.
    """
    if (event := event_of(name)) is not None:
        return event
    for prefix, kind in ((AMOUNT, Amount), (f"{CALLS_MADE}_", CallsMade)):
        if name.startswith(prefix) and name != prefix:
            return kind(name.removeprefix(prefix))
    return METRICS[name]() if name in METRICS else None


def shipped(name: str, where: str, option: str = "--metrics") -> Metric:
    """Return a shipped metric that a file names; files may be untrusted, so users' metrics are not imported.

    Args:
        name: in the file.
        where: the file, for the message.
        option: of the command line, which accepts users' metrics.

    Raises:
        TodBiasError: the metric is not shipped, or a package that it needs is not installed.
    """
    known = known_metric(name)
    if known is None:
        again = name if is_import(name) and not name.startswith(PREFIX) else "module:Class"
        raise TodBiasError(
            f"{where}: names metric {name!r:.80}, which is not shipped; give it again with {option} {again:.80}"
        )
    return known


def check_alone(metrics: Sequence[Metric]) -> None:
    """Raises TodBiasError for a metric that compares counterfactuals with originals, where only originals are run."""
    if compares := [metric.name for metric in metrics if metric.counterfactual]:
        raise TodBiasError(
            f"metric {compares[0]!r} compares counterfactuals with originals, and evaluate runs none; use attribute"
        )


class UserMetric(Metric):
    """Metric of a user: missing attributes have defaults, and mistakes become one-line errors.

    Raises:
        TodBiasError: the object is not a metric; or, when called, it raises or returns invalid numbers.
    """

    signature = ""

    def __init__(self, given: Any, where: str = "metric") -> None:
        with guarded(where):
            self._metric = checked(given, where)
            for attribute in (*_TEXTS, "better", "scale"):
                setattr(self, attribute, getattr(given, attribute))
            for attribute in ("reads", "needs", "unit", "range", "counterfactual"):
                setattr(self, attribute, getattr(given, attribute, getattr(self, attribute)))
            self.columns = tuple(given.columns)
        self._where = where

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Per-turn statistics, (turns, columns)."""
        return self._numbers("statistics", turns, (len(turns), len(self.columns)))

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Scores of sums, (…, columns) to (…)."""
        return self._numbers("score", sums, np.shape(sums)[:-1])

    def turn_scores(self, statistics: np.ndarray) -> np.ndarray:
        """Scores of single turns, (…, columns) to (…)."""
        method = "turn_scores" if hasattr(self._metric, "turn_scores") else "score"
        return self._numbers(method, statistics, np.shape(statistics)[:-1])

    def _numbers(self, method: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
        with guarded(f"{self._where}: {method}"):
            numbers = np.asarray(getattr(self._metric, method)(given), dtype=float)
        if numbers.shape != shape:
            raise TodBiasError(f"{self._where}: {method}: expected numbers of shape {shape}, got {numbers.shape}")
        return numbers


def metric_of(given: Any) -> Metric:
    """Return an object as a metric.

    Raises:
        TodBiasError: an attribute is missing or has an unknown value.
    """
    if is_grade(given):
        return Grade.of(given)
    return checked(given) if isinstance(given, Metric) else UserMetric(given)


def is_grade(given: Any) -> bool:
    """Return whether a user's object judges whole dialogues by a method ``grade``."""
    return not isclass(given) and callable(getattr(given, "grade", None)) and not hasattr(given, "statistics")


def checked(given: Any, where: str = "metric") -> Any:
    """Return an object that has everything that a metric needs.

    Raises:
        TodBiasError: an attribute is missing or has an unknown value.
    """
    if isclass(given):
        raise TodBiasError(f"{where}: a metric is an object, got the class {given.__name__}; write {given.__name__}()")
    kind = type(given).__name__
    missing = [needed for needed in _NEEDED if not hasattr(given, needed)]
    if missing:
        raise TodBiasError(f"{where}: {kind} lacks {', '.join(missing)}; a metric has {', '.join(_NEEDED)}")
    for attribute, words in (("better", Better), ("scale", Scale), ("reads", Reads), ("needs", Needs)):
        got = getattr(given, attribute, "")
        if got not in get_args(words):
            expected = ", ".join(word or "''" for word in get_args(words))
            raise TodBiasError(f"{where}: {attribute} of {kind}: expected one of {expected}, got {got!r}")
    if isinstance(given.columns, str) or not all(isinstance(column, str) for column in given.columns):
        raise TodBiasError(f"{where}: columns of {kind}: expected several names, got {given.columns!r}")
    for attribute in (*_TEXTS, "unit"):
        if not isinstance(got := getattr(given, attribute, ""), str):
            raise TodBiasError(f"{where}: {attribute} of {kind}: expected a text, got {got!r}")
    return given
