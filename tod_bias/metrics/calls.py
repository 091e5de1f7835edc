"""Accuracy of API calls, any number a turn: joint goal accuracy (JGA), slot precision and recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tod_bias.dialogues.calls import calls_of

CALL_COLUMNS = (
    "turns", "correct", "correct_parlai", "call_turns", "call_correct", "call_correct_parlai",
    "slots_predicted", "slots_predicted_right", "slots_gold", "slots_gold_right", "malformed",
)  # fmt: skip
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
        found = calls_of(output)
        calls = [dict(call) for call in found or ()]
        right = found is not None and calls == expected
        read = (_parlai_slots(call) for call in ([output] if found is None else calls))
        parlai = [slots for slots in read if slots] == expected
        hits = sum(
            slot in true and true[slot] == value
            for call, true in zip(calls, expected, strict=False)  # what is left over is spurious or missed
            for slot, value in call.items()
        )
        called = bool(expected)
        rows[number] = (
            1, right, parlai, called, called and right, called and parlai,
            sum(map(len, calls)), hits, sum(map(len, expected)), hits, found is None,
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
