"""What is shown of the texts of turns."""

import pytest

from tod_bias.report.excerpts import compare, readable


@pytest.mark.parametrize(
    ("before", "after", "ours", "theirs"),
    [
        ("for my mom now", "for my dad now", [("mom", True)], [("dad", True)]),
        ("the same", "the same", [], []),
        ("", "all new", [], [("all new", True)]),
        ("Sorry , no .", "Your table is booked .", [("Sorry , no .", True)], [("Your table is booked .", True)]),
    ],
)  # fmt: skip
def test_words_that_differ_are_marked(before, after, ours, theirs):
    left, right = compare(before, after)
    assert [piece for piece in left if piece[1]] == ours
    assert [piece for piece in right if piece[1]] == theirs
    assert ("".join(text for text, _ in left), "".join(text for text, _ in right)) == (before, after)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            'content =  ; tool_calls = \\#[{"api_name":"find","city":"York","limit":3}]',
            "find ; city = York ; limit = 3",
        ),
        (
            'content = Let me see. ; tool_calls = \\#[{"api_name":"find","a":1},{"api_name":"book"}]',
            "Let me see. | find ; a = 1 | book",
        ),
        ("api_name = find ; limit = \\#3 | api_name = book", "find ; limit = 3 | book"),
        (
            'choices = \\#[{"index":0,"message":{"content":"An inn.","role":"assistant"}}] ; model = m ; '
            "object = chat.completion",
            "An inn.",
        ),
        (
            'choices = \\#[{"message":{"content":null,"tool_calls":[{"id":"call_0","type":"function","function":'
            '{"name":"find","arguments":"{}"}}]}}] ; object = chat.completion',
            "find({})",
        ),
        (
            'arguments = {"a": 1} ; call_id = call_0 ; name = find ; type = function_call | '
            'content = \\#[{"text":"Let me see.","type":"output_text"}] ; role = assistant ; type = message',
            'find({"a": 1}) | Let me see.',
        ),
        (
            'kind = response ; parts = \\#[{"content":"An inn."},{"args":{"a":1},"tool_name":"find"}]',
            'An inn. | find({"a": 1})',
        ),
        (
            'command = \\#[null,{"messages":[{"data":{"content":"An inn.","tool_calls":[]},"message":"ai"}]},[]]',
            "An inn.",
        ),
        ('content = \\#[{"text":"York Inn","type":"text"}] ; isError = \\#false', "York Inn"),
        ("content = this ; tool_calls = broken", "content = this ; tool_calls = broken"),
        ("['a', 2]", "a, 2"),
        ("The api_name = find", "The api_name = find"),
    ],
)
def test_outputs_are_shown_without_the_marks_of_their_form(text, shown):
    assert readable(text) == shown
