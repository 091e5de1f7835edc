"""What a tool returned, and what a recorded tool message holds, reaches the model unchanged in every byte."""

import json
import logging

import pytest
from chat_server import ChatServer, calling

from tod_bias import Dialogue, Pipeline, Turn
from tod_bias.dialogues.chat import from_messages, to_messages
from tod_bias.dialogues.json_text import with_strings_changed
from tod_bias.perturb import draw_rewrites, load_axis
from tod_bias.stages import Answer, ToolCalls, Tools
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import tool_loop

TEXTS = [
    '{ "b" : 1.50 ,\n  "a" : [ ] }', "{}", "[]", "[{}]", "[[1, [2]], {}]", "null", "", "1e3", "-0.0", '"a text"',
    '{"a": 1, "a": 2}', '{"caf\\u00e9": "na\\u00efve \\ud83d\\ude00", "url": "http:\\/\\/x"}',
    '{"café": "naïve 😀"}', "  padded\n\ttext  ", "[1, 2", '[{"a": null}, {"b": false}]', "NaN",
]  # fmt: skip
PARTS = [{"type": "text", "text": '{"a":'}, {"type": "text", "text": " 1}"}]
RETURNED = [{"b": 1, "a": [{}]}, {}, [], [{}], [[]], None, 7, 1.0, True, {"é": "ü"}, ["a", None]]


def recorded(content):
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    return [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": content},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "Nothing."},
    ]


def tool_messages(server):
    return [[m["content"] for m in body["messages"] if m["role"] == "tool"] for body in server.received]


def assistant(url, find, **settings):
    given = {"model": "m", "base_url": url, **settings}
    return Pipeline(
        {"policy": ToolCalls(**given), "tools": Tools({"find": find}), "answer": Answer(**given)}, flow=tool_loop
    )


def one_call(body):
    is_answered = body["messages"][-1]["role"] == "tool"
    return "Here you are." if is_answered else calling("find", {})


@pytest.mark.parametrize("content", [*TEXTS, PARTS], ids=str)
def test_what_a_recorded_tool_message_holds_is_sent_unchanged(content):
    dialogue = from_messages(recorded(content), "d")
    with ChatServer(lambda body: "Fine.") as server:
        Execution(assistant(server.url, lambda: None))([Run(dialogue)])
    assert [one for one in tool_messages(server) if one] == [[content]]
    again = to_messages(Dialogue.from_json(dialogue.to_json()))
    assert [m["content"] for m in again if m["role"] == "tool"] == [content]


@pytest.mark.parametrize(
    ("returned", "history"),
    [*((one, "gold") for one in (*TEXTS, *RETURNED)), *((one, "system") for one in (*TEXTS[::4], *RETURNED[::4]))],
    ids=repr,
)
def test_what_a_tool_returns_is_sent_unchanged(returned, history):
    def find():
        return returned

    turns = (Turn("Find it.", response="Here."), Turn("Again.", response="Here."))
    with ChatServer(one_call) as server:
        Execution(assistant(server.url, find), history)([Run(Dialogue("d", "", turns))])
    sent = returned if isinstance(returned, str) else json.dumps(returned, ensure_ascii=False)
    found = tool_messages(server)
    assert {text for contents in found for text in contents} == {sent}
    assert max(map(len, found)) == (1 if history == "gold" else 2)  # the system's own turns hold its results


def test_what_several_tools_return_without_a_flow_stands_behind_each_call():
    def policy(inputs):
        return [[{"api_name": "find", "what": "a"}, {"api_name": "find", "what": "b"}] for _ in inputs]

    with ChatServer(lambda body: "Here.") as server:
        tools = Tools({"find": lambda what: [what]})
        stages = {"policy": policy, "tools": tools, "answer": Answer(model="m", base_url=server.url)}
        Execution(Pipeline(stages))([Run(Dialogue("d", "", (Turn("Find both."),)))])
    assert tool_messages(server) == [['["a"]', '["b"]']]


def test_rewriting_changes_strings_inside_of_a_tool_message_and_nothing_else():
    content = '{"note":  "for his wife\\u0021", "his": [ 1.50, "her \\/ him" ], "id":"x" , "note": "his"}'
    user = {"role": "user", "content": "A table for my father and his wife."}
    messages = [user, *recorded(content)[1:]]
    dialogue = from_messages(messages, "d")
    rewrite = next(
        one
        for seed in range(20)
        for one in draw_rewrites(load_axis("gender"), dialogue, seed=seed, draws=1)
        if one.source == "man" and one.target == "woman"
    )
    rewritten = rewrite(dialogue)
    (sent,) = [m["content"] for m in to_messages(rewritten) if m["role"] == "tool"]
    assert sent != content
    assert all(kept in sent for kept in ('"his": [ 1.50, ', "\\u0021", " \\/ "))
    assert sent.endswith(('"id":"x" , "note": "her"}', '"id":"x" , "note": "hers"}'))
    assert rewrite.inverse(rewritten) == dialogue
    # the same text from a live tool, which T never saw, is turned back inside too
    assert rewrite.inverse(str(sent)) == content
    assert rewrite.inverse(f'{{"other": {json.dumps(str(rewritten.turns[0].user))}}}').count("father") == 1


def test_a_text_that_is_no_json_is_rewritten_as_text():
    assert with_strings_changed("[he said]", str.upper) is None
    assert with_strings_changed('{"a": "b", "api_name": "c"}', str.upper) == '{"a": "B", "api_name": "c"}'
    assert with_strings_changed('{"name": "f", "arguments": {"x": "y"}}', str.upper) == (
        '{"name": "f", "arguments": {"x": "Y"}}'
    )
    assert with_strings_changed('"caf\\u00e9"', lambda text: f"{text} é") == '"caf\\u00e9 \\u00e9"'


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ("You book hotels.", "You book hotels."),
        *((own, "Speak plainly.") for own in ("Speak plainly.", "recorded", "")),
    ],
)
def test_one_system_prompt_is_sent(own, sent, caplog):
    dialogues = [Dialogue(name, "", (Turn("Hi."),), "Speak plainly.") for name in "ab"]
    with ChatServer(lambda body: "Hello.") as server, caplog.at_level(logging.WARNING):
        execution = Execution(assistant(server.url, lambda: None, system=own))
        execution([Run(dialogues[0])])
        execution([Run(dialogues[1])])
    assert {m["content"] for body in server.received for m in body["messages"] if m["role"] == "system"} == {sent}
    said = [record for record in caplog.records if "system prompt" in record.getMessage()]
    assert len(said) == (own == "You book hotels.")
