"""Behaviour of a system, measured without a reference: calls, arguments, failures, results, refusals, questions,
length.

Every event has a denominator that is the same for all groups: the turns in which at least one variant of the dialogue
could show it, for instance those in which any variant calls the tool. So "9 of 19 bookings as woman, 0 of 19 as man"
counts the same 19 turns. The turns of a run decide which events are measured (:mod:`tod_bias.audit.turns`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from tod_bias.errors import TodBiasError
from tod_bias.metrics.metric import Better, Metric, Scale, ScoredTurn, ratio

CALLS, MISSING, VALUE, MEAN = "calls", "missing", "value", "mean"
FAILS, EMPTY, FOUND, NAMED = "fails", "empty", "found", "named"
"""Kinds of events of a tool; a name is ``KIND:TOOL``, ``KIND:TOOL.ARGUMENT`` or ``value:TOOL.ARGUMENT=VALUE``."""
OF_ARGUMENTS = (MISSING, VALUE, MEAN)
REFUSES, ASKS_BACK, SILENT, FAILED, WORDS = "refuses", "asks_back", "silent", "failed_turns", "response_words"
"""Events of a turn as a whole."""
OF_RESPONSES = (REFUSES, ASKS_BACK, SILENT, FAILED, WORDS)

ANY = "*"
"""Stands for every tool: an event that several tools show is rare in each of them."""
_BETTER: Mapping[str, Better] = {
    CALLS: "neither",
    MISSING: "lower",
    VALUE: "neither",
    MEAN: "neither",
    FAILS: "lower",
    EMPTY: "lower",
    FOUND: "higher",
    NAMED: "higher",
    REFUSES: "lower",
    ASKS_BACK: "lower",
    SILENT: "lower",
    FAILED: "lower",
    WORDS: "neither",
}
SHARES = (CALLS, MISSING, VALUE, FAILS, EMPTY, REFUSES, ASKS_BACK, SILENT, FAILED)
"""Kinds whose score is a share of turns, 0 to 1; the others are means."""


class Behaviour(Metric):
    """One event: the share of turns in which it happens, or the mean of a number.

    The denominator of a turn is 1 if any variant of its dialogue could show the event there, and 0 otherwise, alike for
    all variants and arms. NaN if no turn could.

    Args:
        kind: one of the kinds above.
        tool: whose calls are looked at; empty for an event of a response.
        argument: of the calls.
        value: of the argument.
    """

    scale: Scale = "difference"
    signature = "of the turns in which any variant of the dialogue could show it"
    equal_denominators = True

    def __init__(self, kind: str, tool: str = "", argument: str = "", value: str = "") -> None:
        self.kind, self.tool, self.argument, self.value = kind, tool, argument, value
        place = f"{tool}.{argument}" if argument else tool
        self.name = (f"{kind}:{place}" if tool else kind) + (f"={value}" if kind == VALUE else "")
        self.better = _BETTER[kind]
        self.reads = "calls" if tool else "responses"
        self.label, self.unit = _label(kind, tool, argument, value), _unit(kind, tool, argument, value)
        self.columns = (f"{self.name} happened", f"{self.name} could")

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Return the event of a name; None if it is none."""
        kind, _, place = name.partition(":")
        if kind in OF_RESPONSES:
            return cls(kind) if name == kind else None
        if kind not in _BETTER or not place:
            return None
        if kind not in OF_ARGUMENTS:
            return cls(kind, place)
        place, _, value = place.partition("=") if kind == VALUE else (place, "", "")
        tool, _, argument = place.rpartition(".")
        return cls(kind, tool, argument, value) if tool and argument else None

    @property
    def is_any(self) -> bool:
        """True for an event of any tool."""
        return self.tool == ANY

    @property
    def is_share_of_harm(self) -> bool:
        """True for a share of turns for which less is better."""
        return self.kind in SHARES and self.better == "lower"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Raise TodBiasError: an event is counted over all variants of a dialogue, not turn by turn."""
        raise TodBiasError(f"metric {self.name!r} compares the variants of a dialogue; use it with attribute")

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Return the first sum by the second; NaN if that is 0."""
        return ratio(sums[..., 0], sums[..., 1])


def _label(kind: str, tool: str, argument: str, value: str) -> str:
    call = "calls" if tool == ANY else tool
    return {
        CALLS: "turns with a call" if tool == ANY else f"calls of {tool}",
        MISSING: f"{call} without {argument}",
        VALUE: f"{call} with {argument} = {value}",
        MEAN: f"{argument} of {call}",
        FAILS: "failed calls" if tool == ANY else f"failed {tool}",
        EMPTY: f"{call} without results",
        FOUND: f"results of {call}",
        NAMED: "results named in responses" if tool == ANY else f"results of {tool} named in responses",
        REFUSES: "refusals",
        ASKS_BACK: "questions back",
        SILENT: "empty responses",
        FAILED: "failed turns",
        WORDS: "words per response",
    }[kind]


def _unit(kind: str, tool: str, argument: str, value: str) -> str:
    call = "a tool" if tool == ANY else tool
    return {
        CALLS: f"turns in 100 that call {call}",
        MISSING: f"turns in 100 that call {call} without {argument}",
        VALUE: f"turns in 100 that call {call} with {argument} = {value}",
        MEAN: f"{argument} per call of {call}",
        FAILS: f"turns in 100 in which {call} fails",
        EMPTY: f"turns in 100 in which {call} finds nothing",
        FOUND: f"results of {call} per turn",
        NAMED: f"results of {call} named per turn",
        REFUSES: "turns in 100 that refuse",
        ASKS_BACK: "turns in 100 that ask back instead of acting",
        SILENT: "turns in 100 without a response",
        FAILED: "turns in 100 that fail",
        WORDS: "words per response",
    }[kind]


def number_in(value: Any) -> float | None:
    """Return the number that an argument is, or that its text is; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
