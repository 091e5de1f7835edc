"""T on turns with several steps and on values inside of values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from builders import json_values
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rewriting_properties import TEXTS

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.perturb import Candidate, draw_rewrites, load_axis
from tod_bias.perturb.lexicon import axes

TURN = Turn(
    "A table for my wife and three kids.",
    steps=(
        Step(
            {"api_name": "wife", "wife": 4, "party": [{"who": "my wife", "wife": True}, ["kids", None, "wife"]]},
            ({"options": {"note": "wife welcome", "restaurant": {"name": "The Happy Wife", "seats": 2.5}}},),
        ),
        Step(
            {"api_name": "hold", "guest": {"recipient_name": "wife"}},
            ({"content": "held for your wife"},),
            said="Her table?",
        ),
    ),
    response="The Happy Wife has a table for your wife.",
)
DIALOGUE = Dialogue("d", "", (TURN,), system="Serve every wife.")


def to_man(value: Any, word: str = "wife") -> Any:
    rewrite = load_axis("gender").rewrite(DIALOGUE, Candidate(word, "woman", "man"))
    made = rewrite(value)
    assert rewrite.inverse(made) == value
    return made


def test_strings_at_any_depth_are_rewritten_and_no_name_key_or_number() -> None:
    made = to_man(DIALOGUE)
    assert made.system == DIALOGUE.system
    assert made.turns == (
        Turn(
            "A table for my husband and three kids.",
            steps=(
                Step(
                    {
                        "api_name": "wife",
                        "wife": 4,
                        "party": [{"who": "my husband", "wife": True}, ["kids", None, "husband"]],
                    },
                    ({"options": {"note": "husband welcome", "restaurant": {"name": "The Happy Wife", "seats": 2.5}}},),
                ),
                Step(
                    {"api_name": "hold", "guest": {"recipient_name": "husband"}},
                    ({"content": "held for your husband"},),
                    said="His table?",
                ),
            ),
            response="The Happy Wife has a table for your husband.",
        ),
    )


def test_candidates_come_from_what_is_said_with_a_call() -> None:
    words = {candidate.term for candidate in load_axis("gender").candidates(DIALOGUE)}
    assert words == {"wife", "her"}


@pytest.mark.parametrize(
    "message",
    [
        {"name": "wife", "arguments": '{"seats": 2}', "call_id": "wife", "type": "function_call"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "wife", "function": {"name": "wife", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "wife", "name": "wife", "content": "ok"},
        {"tool_name": "wife", "args": {"seats": 2}, "tool_call_id": "wife", "part_kind": "tool-call"},
        {"name": "wife", "args": {}, "id": "wife", "type": "tool_call"},
        "call find_wife, then wife_of or find_wife_2",
    ],
)
def test_names_of_things_stay_in_the_messages_of_every_framework(message: Any) -> None:
    assert to_man(message) == message


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"name": "wife", "arguments": {"who": "wife"}}, {"name": "wife", "arguments": {"who": "husband"}}),
        ([{"api_name": "wife", "who": ["wife"]}], [{"api_name": "wife", "who": ["husband"]}]),
        ({"name": "wife", "arguments": "wife"}, {"name": "husband", "arguments": "husband"}),  # two slots
        (
            SimpleNamespace(calls=({"api_name": "wife"},), text="my wife"),
            SimpleNamespace(calls=({"api_name": "wife"},), text="my husband"),
        ),
        ({"my wife"}, {"my wife"}),  # a set has no order to restore
    ],
)
def test_what_stages_put_out(output: Any, expected: Any) -> None:
    assert to_man(output) == expected


def test_what_was_put_out_is_copied() -> None:
    output = SimpleNamespace(text="my wife")
    assert to_man(output) is not output
    assert output.text == "my wife"


def test_a_list_under_the_slot_of_an_entity_belongs_to_it() -> None:
    call = {"api_name": "play", "artists": ["x"], "artist": ["The Wife", {"note": "wife"}]}
    turn = Turn.with_call("My wife likes The Wife.", call)
    (rewrite,) = draw_rewrites(load_axis("gender", targets=["man"]), Dialogue("d", "", (turn,)), draws=1)
    assert rewrite(turn) == Turn.with_call(
        "My husband likes The Wife.", {**call, "artist": ["The Wife", {"note": "husband"}]}
    )


values = st.recursive(
    TEXTS | json_values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
slots = st.dictionaries(st.just("api_name") | TEXTS, values, max_size=3)
steps = st.builds(Step, slots, st.lists(slots, max_size=2).map(tuple), TEXTS)


@settings(max_examples=150, deadline=None)
@given(
    turns=st.lists(st.tuples(TEXTS, st.lists(steps, max_size=3), TEXTS), min_size=1, max_size=2),
    axis=st.sampled_from(axes()),
    seed=st.integers(0, 9),
)
def test_the_inverse_is_exact_at_any_depth(turns: list[Any], axis: str, seed: int) -> None:
    original = tuple(Turn(user, steps=steps, response=response) for user, steps, response in turns)
    dialogue = Dialogue("d", "", original)
    for rewrite in draw_rewrites(load_axis(axis), dialogue, seed=seed, draws=2):
        twin = rewrite(dialogue)
        assert rewrite.inverse(twin) == dialogue
        for turn, image in zip(original, twin.turns, strict=True):
            assert [step.name for step in image.steps] == [step.name for step in turn.steps]
            assert [sorted(step.call) for step in image.steps] == [sorted(step.call) for step in turn.steps]
            assert all(rewrite.inverse(rewrite(text)) == text for _, text in (*turn.values, *turn.utterances))
