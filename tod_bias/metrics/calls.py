"""Accuracy of API calls: joint goal accuracy (JGA), slot precision and recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

CALL_COLUMNS = (
    "turns", "correct", "correct_parlai", "call_turns", "call_correct", "call_correct_parlai",
    "slots_predicted", "slots_predicted_right", "slots_gold", "slots_gold_right", "malformed",
)  # fmt: skip
"""Names of the statistics of :func:`call_statistics`."""


def call_statistics(predicted: Sequence[Any], gold: Sequence[Mapping[str, str]]) -> np.ndarray:
    """Per-turn counts for joint goal accuracy and slot precision and recall, (turns, :data:`CALL_COLUMNS`).

    A call is right when it equals the gold call as a dictionary, API name included (ParlAI's ``SlotMetrics``). A
    malformed call (a string) has no slots and is never right. ``*_parlai`` counts as ParlAI does after its own reading
    of the text: a predicted value that holds ``", "`` becomes a set there and never equals the gold string, and a
    malformed call keeps the slots that could be read.
    """
    rows = np.zeros((len(gold), len(CALL_COLUMNS)))
    for number, (call, truth) in enumerate(zip(predicted, gold, strict=True)):
        malformed = not isinstance(call, Mapping)
        slots: Mapping[str, str] = {} if malformed else call
        right = not malformed and dict(slots) == dict(truth)
        parlai = _parlai_slots(call) == dict(truth)
        hits = sum(truth.get(slot) == value for slot, value in slots.items())
        called = bool(truth)
        rows[number] = (
            1, right, parlai, called, called and right, called and parlai,
            len(slots), hits, len(truth), hits, malformed,
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
