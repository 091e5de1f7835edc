"""What stages put out, as text."""

from types import SimpleNamespace

import pytest

from tod_bias.stages import Lookup, Outcome, as_text, parse_call
from tod_bias.systems.outputs import rows_of


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"content": "Hello.", "tool_calls": []}, "Hello."), (None, ""), ("Hi", "Hi"),
        ({}, ""), ([], ""), (Lookup(Outcome.EMPTY), ""), (3, "3"), ("\ud800", "\ufffd"),
        (Lookup(Outcome.ROWS, ({"name": "A"}, {"name": "B"})), "name = A"),
        ({"seats": 2, "who": ["a", None]}, r'seats = \#2 ; who = \#["a",null]'),
        ([{"api_name": "a", "n": 1}, {"name": "b", "arguments": {}}], r"api_name = a ; n = \#1 | api_name = b"),
        (SimpleNamespace(calls=[{"api_name": "find"}]), "api_name = find"),
        (["a", "b"], "['a', 'b']"),
        ({"x": {1}}, "{'x': {1}}"), ({1: "a"}, "{1: 'a'}"),
    ],
)  # fmt: skip
def test_outputs_as_text(output, text):
    assert as_text(output) == text


def test_a_call_with_other_values_is_read_back():
    call = {"api_name": "find", "seats": 2, "who": ["a", {"b": None}]}
    assert parse_call(as_text(call)) == call


@pytest.mark.parametrize(
    ("output", "rows"),
    [
        (None, ()), ("", ()), ({}, ()), ([], ()), ("sold out", ({"content": "sold out"},)),
        (False, ({"content": False},)), ([{"a": 1}, {}, {"b": 2}], ({"a": 1}, {"b": 2})),
        (["x", {"a": 1}], ({"content": ["x", {"a": 1}]},)), ((1, 2), ({"content": [1, 2]},)),
        (Lookup(Outcome.ROWS, ({"a": "1"},)), ({"a": "1"},)), (Lookup(Outcome.EMPTY), ()),
    ],
)  # fmt: skip
def test_outputs_as_results(output, rows):
    assert rows_of(output) == rows
