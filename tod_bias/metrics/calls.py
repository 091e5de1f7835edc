"""Accuracy of API calls, any number a turn: joint goal accuracy (JGA), slot precision, recall and F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tod_bias.dialogues.calls import calls_of
from tod_bias.metrics.metric import Better, Metric, RatioOfSums, Scale, ScoredTurn, ratio

CALL_COLUMNS = (
    "turns",
    "correct",
    "correct_parlai",
    "call_turns",
    "call_correct",
    "call_correct_parlai",
    "slots_predicted",
    "slots_predicted_right",
    "slots_gold",
    "slots_gold_right",
    "malformed",
)
"""Names of the statistics of :func:`call_statistics`."""


Call = Mapping[str, Any]


def call_statistics(predicted: Sequence[Any], gold: Sequence[Call | Sequence[Call]]) -> np.ndarray:
    """Per-turn counts for joint goal accuracy and slot precision and recall, (turns, :data:`CALL_COLUMNS`).

    A turn is right when its calls equal the gold ones, in order, each as a dictionary, API name included (ParlAI's
    ``SlotMetrics``). Slots are compared call by call; those of a call too many are spurious, of one too few missed. A
    malformed call (a string) has no slots and is never right. ``*_parlai`` counts as ParlAI does after its own reading
    of the text: a predicted value that holds ``", "`` becomes a set there and never equals the gold string, and a
    malformed call keeps the slots that could be read.

    Args:
        predicted: what the component put out, a turn each, in any form of :func:`~tod_bias.dialogues.calls.calls_of`.
        gold: the gold call, or several in order, a turn each; empty for none.
    """
    rows = np.zeros((len(gold), len(CALL_COLUMNS)))
    for number, (output, truth) in enumerate(zip(predicted, gold, strict=True)):
        expected = [dict(call) for call in ([truth] if isinstance(truth, Mapping) else truth) if call]
        calls = calls_of(output)
        right, slots, hits, slots_gold = _compared(calls, expected)
        read = (_parlai_slots(call) for call in ([output] if calls is None else calls))
        parlai = [slots for slots in read if slots] == expected
        called = bool(expected)
        rows[number] = (
            1,
            right,
            parlai,
            called,
            called and right,
            called and parlai,
            slots,
            hits,
            slots_gold,
            hits,
            calls is None,
        )
    return rows


class CallCounts(Metric):
    """The counts of :func:`call_statistics` as a metric, for several scores; alone it is joint goal accuracy."""

    range = (0.0, 1.0)
    name: str = "calls"
    label: str = "calls"
    reads = "calls"
    needs = "gold calls"
    better: Better = "higher"
    scale: Scale = "difference"
    columns: tuple[str, ...] = tuple(f"calls_{column}" for column in CALL_COLUMNS)
    signature: str = "calls equal as dictionaries, in order"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Counts of each turn, (turns, :data:`CALL_COLUMNS`)."""
        predicted = [turn.malformed or "?" if turn.calls is None else list(turn.calls) for turn in turns]
        return call_statistics(predicted, [turn.gold.calls for turn in turns])

    def score(self, sums: np.ndarray) -> np.ndarray:
        """The share of right turns; NaN for none."""
        return ratio(sums[..., CALL_COLUMNS.index("correct")], sums[..., CALL_COLUMNS.index("turns")])


def _compared(predicted: Sequence[Call] | None, expected: Sequence[Call]) -> tuple[bool, int, int, int]:
    """Compare calls: True if all are right, the number of their slots, of right slots, and of gold slots."""
    calls = [dict(call) for call in predicted or ()]
    hits = sum(
        slot in true and true[slot] == value
        for call, true in zip(calls, expected, strict=False)  # what is left over is spurious or missed
        for slot, value in call.items()
    )
    right = predicted is not None and calls == [dict(call) for call in expected]
    return right, sum(map(len, calls)), hits, sum(map(len, expected))


class JointGoalAccuracy(RatioOfSums):
    """Joint goal accuracy: the share of turns whose calls are all right, on 0–1.

    Calls are right as :func:`call_statistics` says: they equal the gold ones in order, each as a dictionary, API name
    included. A turn without a gold call is right when none is made. A malformed call and a failed turn are never right.
    0: no turn is right; 1: every turn is. Turns of a system without calls are not scored; NaN without scored turns.
    """

    range = (0.0, 1.0)
    name: str = "jga"
    label: str = "joint goal accuracy"
    unit = "turns in 100 with all calls right"
    reads = "calls"
    needs = "gold calls"
    better: Better = "higher"
    columns = ("jga_right", "jga_turns")
    signature: str = "calls equal as dictionaries, in order; turns without a call included"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Return 1 if the calls are right, and 1 if the turn can have calls."""
        calls, gold = turn.calls, turn.gold.calls
        right = calls is not None and not turn.failure and len(calls) == len(gold) and _compared(calls, gold)[0]
        return right and turn.has_calls, turn.has_calls


class SlotF1(Metric):
    """F1 of the slots of calls, over the whole corpus (micro), on 0–1: 2 · right / (slots made + slots in gold).

    Slots are compared call by call as in :func:`call_statistics`, the API's name counts as one. 0: no slot is right;
    1: all are, and none is missed or spurious. Turns of a system that makes no calls at all are not scored; NaN where
    neither side has a slot.
    """

    range = (0.0, 1.0)
    name: str = "slot_f1"
    label: str = "slot F1"
    reads = "calls"
    needs = "gold calls"
    better: Better = "higher"
    scale: Scale = "difference"
    columns: tuple[str, ...] = ("slot_f1_right", "slot_f1_made", "slot_f1_gold")
    signature: str = "slots of calls compared in order, API name included; micro-averaged"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Right slots, slots made, gold slots, (turns, 3)."""
        rows = np.zeros((len(turns), 3))
        for number, turn in enumerate(turns):
            gold = turn.gold.calls
            if turn.has_calls and (turn.calls or gold):
                _, made, hits, expected = _compared(turn.calls, gold)
                rows[number] = hits, made, expected
        return rows

    def score(self, sums: np.ndarray) -> np.ndarray:
        """F1 of summed counts; NaN without a slot."""
        return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def _parlai_slots(call: Any) -> dict[str, Any]:
    """Return the slots that ParlAI's ``str_to_api_dict`` reads from a call's text."""
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
