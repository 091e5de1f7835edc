"""ParlAI's text protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.agents.protocol import parlai_text, slots_from_parlai, slots_to_parlai, split_prefix, without_prefix
from tod_bias.systems.outputs import Lookup, Outcome


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("USER: I'm here: now", ("USER:", "I'm here: now")), ("USER: two\nlines", ("USER:", "two\nlines")),
        ("USER:  two spaces", ("USER:", " two spaces")), ("USER: ", ("USER:", "")), ("APICALL:", ("APICALL:", "")),
        ("APIRESP: a = b", ("APIRESP:", "a = b")), ("SYSTEM: APIS: x", ("SYSTEM:", "APIS: x")),
        ("APIS: ", ("APIS:", "")), ("GOAL: a = b", ("GOAL:", "a = b")),
        *((text, (None, text)) for text in ("USER:glued", "user: lower", "Please USER: no", "")),
    ],
)  # fmt: skip
def test_lines_are_split_into_prefix_and_content(text, expected):
    assert split_prefix(text) == expected


def test_only_the_prefix_asked_for_is_taken_off():
    assert without_prefix("SYSTEM: hello", "SYSTEM:") == "hello"
    assert without_prefix("APICALL: a = b", "SYSTEM:") == "APICALL: a = b"


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), st.from_regex(r"[\w\\.,| ]*\w|", fullmatch=True)))
def test_unambiguous_slots_are_read_back_backslashes_included(slots):
    slots = {name: value for name, value in slots.items() if value == value.strip()}
    assert slots_from_parlai(slots_to_parlai(slots)) == slots


@pytest.mark.parametrize("text", ["no call at all", "a = b ; c", "a = b ; a = c"])
def test_a_malformed_call_stays_text(text):
    assert slots_from_parlai(text) == text


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, ""),
        ({}, ""),
        ({"b": "x ; y", "a": "1\\2"}, "a = 1\\2 ; b = x ; y"),
        ("raw", "raw"),
        (Lookup(Outcome.NO_ROW), ""),
        (Lookup(Outcome.ROWS, ({"a": "1"}, {"a": "2"})), "a = 1"),
    ],
)
def test_outputs_are_written_as_parlai_writes_them(output, expected):
    assert parlai_text(output) == expected
