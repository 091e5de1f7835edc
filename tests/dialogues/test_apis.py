"""APIs as function schemas."""

from __future__ import annotations

from tod_bias import Dialogue, Step, Turn
from tod_bias.dialogues.calls import called


def dialogue(*calls: dict) -> Dialogue:
    return Dialogue("1", "", (Turn("Hi", steps=tuple(Step(call) for call in calls)),))


def test_slots_have_the_types_of_their_values():
    calls = [
        {"api_name": "find", "city": "Davis", "stars": 3},
        {"api_name": "find", "city": ["Davis"], "pets": True},
        {"api_name": "ask"},
        {"city": "no name"},
    ]
    ask, find = [entry["function"] for entry in called([dialogue(*calls)])]
    assert ask["parameters"] == {"type": "object", "properties": {}, "required": []}
    assert find["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"type": ["array", "string"]},
            "stars": {"type": "integer"},
            "pets": {"type": "boolean"},
        },
        "required": ["city"],
    }
