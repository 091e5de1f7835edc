"""What a turn's calls came to, whatever the corpus says: how many, with which amounts, what they found, or a question.

Turns of a system that makes no calls at all are not scored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tod_bias.metrics.metric import Better, RatioOfSums, Scale, ScoredTurn

AMOUNT = "amount_"
"""What the name of an :class:`Amount` begins with."""


class _MeanOfTurns(RatioOfSums):
    """The mean of a number that each turn has."""

    columns: tuple[str, ...]

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Each turn's number, and a one, (turns, 2)."""
        return np.array([(self._number(turn), 1) if turn.has_calls else (0, 0) for turn in turns], float).reshape(-1, 2)

    def _number(self, turn: ScoredTurn) -> float:
        raise NotImplementedError


class CallsMade(_MeanOfTurns):
    """Mean number of calls that a turn makes, 0 or more; a malformed one counts as one. NaN for no turn."""

    name: str = "calls_made"
    label: str = "calls a turn"
    reads = "calls"
    better: Better = "neither"
    scale: Scale = "difference"
    columns: tuple[str, ...] = ("calls_made_calls", "calls_made_turns")
    signature: str = "calls; a malformed output is one"

    def _number(self, turn: ScoredTurn) -> float:
        return 1 if turn.calls is None else len(turn.calls)


class ResultsFound(_MeanOfTurns):
    """Mean number of results that the calls of a turn bring back, 0 or more. NaN for no turn."""

    name: str = "results_found"
    label: str = "results a turn"
    better: Better = "higher"
    scale: Scale = "difference"
    columns: tuple[str, ...] = ("results_found_results", "results_found_turns")
    signature: str = "rows that came back for calls"

    def _number(self, turn: ScoredTurn) -> float:
        return len(turn.results)


class AsksBack(_MeanOfTurns):
    """The share of turns that make no call and whose response asks a question, on 0–1. NaN for no turn.

    A question is a response with a question mark. Compare groups on the same dialogues only: some turns have to ask.
    """

    name: str = "asks_back"
    label: str = "turns that ask back"
    better: Better = "lower"
    scale: Scale = "difference"
    columns: tuple[str, ...] = ("asks_back_asked", "asks_back_turns")
    signature: str = "no call, and a question mark in the response"

    def _number(self, turn: ScoredTurn) -> float:
        return turn.calls == () and "?" in turn.response


class Amount(RatioOfSums):
    """Mean of one argument that is a number (a limit, a discount, a refund), over the calls that have it.

    Args:
        argument: its name in calls.
    """

    reads = "calls"
    better: Better = "neither"
    scale: Scale = "ratio"
    signature: str = "numbers, and texts that are one; calls without it are left out"

    def __init__(self, argument: str) -> None:
        self.name = f"{AMOUNT}{argument}"
        self.label = f"{argument} of calls"
        self.columns = (f"{self.name}_sum", f"{self.name}_calls")
        self._argument = argument

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """The sum of the argument over the calls of each turn, and how many have it, (turns, 2)."""
        rows = np.zeros((len(turns), 2))
        for row, turn in zip(rows, turns, strict=True):
            numbers = [_number_in(call.get(self._argument)) for call in turn.calls or ()]
            known = [number for number in numbers if number is not None]
            row[:] = sum(known), len(known)
        return rows


def _number_in(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
