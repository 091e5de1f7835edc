"""APIs as function schemas."""

from __future__ import annotations

import json

import pytest

from tod_bias import Dialogue, Step, Turn
from tod_bias.dialogues.calls import called
from tod_bias.dialogues.corpora import corpus_functions


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


@pytest.mark.parametrize(("corpus", "own"), [("tau_bench", "think"), ("mine.jsonl", "find")])
def test_a_corpus_says_its_own_or_they_are_read_off_its_calls(tmp_path, corpus, own):
    folder = tmp_path / "tau_bench" / "airline"
    folder.mkdir(parents=True)
    (folder / "tools.json").write_text(json.dumps([{"type": "function", "function": {"name": "think"}}]))
    (function,) = corpus_functions(corpus, tmp_path, [dialogue({"api_name": "find"})])
    assert function["function"]["name"] == own
