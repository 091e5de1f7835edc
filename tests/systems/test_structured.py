"""The structure of outputs: fields of values of any form, the calls in them, and what replies say."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from builders import json_values
from hypothesis import given
from pydantic import BaseModel

from tod_bias.stages import Lookup, Outcome
from tod_bias.systems.structured import is_reply, named_calls, said_in, structured


@dataclass
class Plan:
    intent: str
    parts: list[Any] = field(default_factory=list)


class Row(NamedTuple):
    name: str
    price: int


class Order(BaseModel):
    dish: str


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2.5, 2.5),
        ("Hi.", "Hi."),
        ('{"a": [1]}', {"a": [1]}),
        ("[1, 2]", [1, 2]),
        ("{broken", "{broken"),
        ("[sic] he said", "[sic] he said"),
        ("api_name = find ; city = Oslo", {"api_name": "find", "city": "Oslo"}),
        ((1, 2), [1, 2]),
        (Plan("seat", [1]), {"intent": "seat", "parts": [1]}),
        (Row("a", 2), {"name": "a", "price": 2}),
        (Order(dish="a"), {"dish": "a"}),
        (Lookup(Outcome.ROWS, ({"a": 1}, {"a": 2})), [{"a": 1}, {"a": 2}]),
        (Lookup(Outcome.EMPTY), []),
        ({"content": "Hi.", "tool_calls": []}, "Hi."),
        ({"content": "Hi.", "tool_calls": None}, "Hi."),
        ({"content": "Hi.", "role": "x"}, {"content": "Hi.", "role": "x"}),
    ],
)
def test_structures(value, expected):
    assert structured(value) == expected


def test_a_class_is_no_value_with_fields():
    assert structured(Plan) == str(Plan)
    assert isinstance(structured(Order), str)


FIND, OSLO = ("find", {"city": "Oslo"}), '{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("value", "calls"),
    [
        (None, []),
        ("find Oslo", []),
        ({}, []),
        ({"name": "find"}, []),
        ({"city": "Oslo", "arguments": "none"}, []),
        ([1, 2], []),
        ({"api_name": "find", "city": "Oslo"}, [FIND]),
        ("api_name = find ; city = Oslo", [FIND]),
        ({"name": "find", "arguments": {"city": "Oslo"}}, [FIND]),
        ({"name": "find", "arguments": OSLO}, [FIND]),
        ({"name": "find", "arguments": "Oslo"}, [("find", {"arguments": "Oslo"})]),
        ({"tool_name": "find", "args": {"city": "Oslo"}}, [FIND]),
        ({"type": "tool_use", "name": "find", "input": {"city": "Oslo"}}, [FIND]),
        ({"name": "find", "input": {"city": "Oslo"}}, []),
        ({"type": "function", "function": {"name": "find", "arguments": OSLO}}, [FIND]),
        ({"tool_calls": [{"function": {"name": "find", "arguments": OSLO}}] * 2}, [FIND, FIND]),
        ({"calls": [{"name": "find", "args": {"city": "Oslo"}}]}, [FIND]),
        ({"content": [{"type": "text", "text": "Hm."},
                      {"type": "tool_use", "name": "find", "input": {"city": "Oslo"}}]}, [FIND]),
        (json.dumps({"name": "find", "arguments": {"city": "Oslo"}}), [FIND]),
        (SimpleNamespace(calls=[{"api_name": "find", "city": "Oslo"}]), [FIND]),
        ({"tool_calls": "none"}, []),
        ({"choices": [{"message": {"tool_calls": [{"function": {"name": "find", "arguments": OSLO}}]}}]},
         [FIND]),
        ({"choices": [{"message": {"content": "Here it is."}}]}, []),
        ({"object": "response", "output": [{"type": "message", "content": []},
                                           {"type": "function_call", "name": "find", "arguments": OSLO}]}, [FIND]),
        ({"choices": ["soup", "fish"]}, []),
    ],
)  # fmt: skip
def test_calls_in_the_forms_of_chat_apis_and_frameworks(value, calls):
    assert named_calls(value) == calls


@pytest.mark.parametrize(
    ("value", "is_one", "said"),
    [
        ({"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "Hi."}}]}, True,
         [("", "Hi.")]),
        ({"type": "message", "content": [{"type": "text", "text": "Hi."}, {"type": "text", "text": "Ho."}]}, True,
         [("", "Hi."), ("", "Ho.")]),
        ({"kind": "response", "parts": [{"content": "Hi."}, {"tool_name": "find", "args": {"a": 1}}]}, True,
         [("", "Hi."), ("find", {"a": 1})]),
        ({"content": [{"type": "text", "text": "Hi."}], "isError": False}, True, [("", "Hi.")]),
        ({"content": "Hi.", "kind": "greeting"}, False, [("", "Hi.")]),
        ({"kind": "response_time", "n": 3}, False, []),
        ("Hi.", False, []),
        (None, False, []),
    ],
)  # fmt: skip
def test_replies_and_what_they_say(value, is_one, said):
    assert is_reply(value) == is_one
    assert list(said_in(value)) == said


@given(json_values)
def test_any_json_has_a_structure_and_calls_with_names(value):
    assert structured(structured(value)) == structured(value) or isinstance(value, str)
    assert all(isinstance(name, str) for name, _ in named_calls(value))
    is_reply(value)
    list(said_in(value))
