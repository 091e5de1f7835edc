"""The calls in what components put out."""

from types import SimpleNamespace

import pytest

from tod_bias.dialogues.calls import calls_of

FIND = {"api_name": "find", "seats": 2}
FUNCTION = {"name": "find", "arguments": {"seats": 2}}
AS_TEXT = {"name": "find", "arguments": '{"seats": 2}'}
TOOL_CALL = {"id": "1", "type": "function", "function": AS_TEXT}


@pytest.mark.parametrize(
    ("output", "calls"),
    [
        (None, []), ("", []), ({}, []), ([], []), ((), []), ([{}], []), (SimpleNamespace(calls=None), []),
        ({"tool_calls": None}, []), ({"role": "assistant", "content": "Hi", "tool_calls": []}, []),
        (FIND, [FIND]), (FUNCTION, [FIND]), (AS_TEXT, [FIND]), (TOOL_CALL, [FIND]),
        ({"name": "find", "arguments": ""}, [{"api_name": "find"}]),
        ([FIND, TOOL_CALL], [FIND, FIND]), ((FUNCTION,), [FIND]),
        ({"calls": [FIND]}, [FIND]), ({"role": "assistant", "tool_calls": [TOOL_CALL]}, [FIND]),
        (SimpleNamespace(calls=(FUNCTION,), text="Hi"), [FIND]),
        ({"city": "Davis"}, [{"city": "Davis"}]), ({**FIND, "calls": []}, [{**FIND, "calls": []}]),
        ("find it", None), (["find it"], None), ([FIND, "x"], None), (3, None), (object(), None),
        ({"name": "find", "arguments": "{"}, None), ({"name": "find", "arguments": "[1]"}, None),
        ({"name": "find", "arguments": {"api_name": "x"}}, None),
    ],
)  # fmt: skip
def test_calls_of_an_output(output, calls):
    assert calls_of(output) == calls
