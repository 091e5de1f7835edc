"""OpenAI's messages as dialogues, and back."""

import json

import pytest
from builders import dialogue_turns, texts
from hypothesis import given
from hypothesis import strategies as st

from tod_bias import load_corpus
from tod_bias.dialogues.chat import from_messages, results_of, to_messages, write_chat
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.errors import CorpusError
from tod_bias.perturb import draw_rewrites, load_axis


def call(name, arguments, id="1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answers(content, id="1"):
    return {"role": "tool", "tool_call_id": id, "name": "ignored", "content": content}


def says(role, content, **other):
    return {"role": role, "content": content, **other}


MESSAGES = [
    says("system", "Be kind."),
    says("developer", [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]),
    says("assistant", "Hello!", refusal=None),
    says("user", "A table for two.", name="Ann"),
    asks(call("find", '{"seats": 2}'), content="Let me look."),
    answers('[{"name": "Luigi\'s"}, {"name": "Mario\'s"}]'),
    asks(call("book", '{"name": "Luigi\'s"}', "2"), call("tell", "", "3")),
    answers("Error: full", "3"),
    answers("null", "2"),
    says("assistant", "It is full."),
    says("assistant", "Sorry."),
    says("user", "Hm."),
    says("user", "Bye."),
]
DIALOGUE = Dialogue(
    "chat",
    "",
    (
        Turn("", response="Hello!"),
        Turn(
            "A table for two.",
            steps=(
                Step({"api_name": "find", "seats": 2}, ({"name": "Luigi's"}, {"name": "Mario's"}), "Let me look."),
                Step({"api_name": "book", "name": "Luigi's"}, content="null"),
                Step({"api_name": "tell"}, ({"content": "Error: full"},)),
            ),
            response="It is full.",
        ),
        Turn("", response="Sorry."),
        Turn("Hm."),
        Turn("Bye."),
    ),
    system="Be kind.\n\nBe brief.",
)


def test_messages_become_turns_with_steps():
    assert from_messages(MESSAGES, "chat") == DIALOGUE


def test_a_dialogue_becomes_messages():
    assert to_messages(DIALOGUE)[:4] == [
        says("system", "Be kind.\n\nBe brief."),
        says("assistant", "Hello!"),
        says("user", "A table for two."),
        asks(call("find", '{"seats": 2}', "call_1_0"), content="Let me look."),
    ]
    roles = " ".join(message["role"] for message in to_messages(DIALOGUE))
    assert roles == "system assistant user assistant tool assistant tool assistant tool assistant assistant user user"
    assert to_messages(DIALOGUE)[8] == {"role": "tool", "tool_call_id": "call_1_2", "content": "Error: full"}


dialogues = st.builds(Dialogue, texts, texts, st.lists(dialogue_turns, max_size=4).map(tuple), texts)
results = st.dictionaries(st.just("content"), texts | st.integers() | st.lists(st.integers()), min_size=1)


@given(dialogues)
def test_every_dialogue_survives_its_messages(dialogue):
    messages = json.loads(json.dumps(to_messages(dialogue)))
    read = from_messages(messages, dialogue.id, dialogue.domain)
    assert read == dialogue
    assert json.dumps(read.to_json(), sort_keys=True) == json.dumps(dialogue.to_json(), sort_keys=True)


@given(results | st.dictionaries(texts, texts, min_size=1))
def test_every_result_survives_a_tools_answer(result):
    dialogue = Dialogue("d", "", (Turn.with_call("u", {"api_name": "a"}, result),))
    assert from_messages(to_messages(dialogue), "d") == dialogue


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ()), ("null", ()), ("{}", ()), ("[]", ()), ("[{}]", ()), ('{"a": 1}', ({"a": 1},)),
        ('[{"a": 1}, {}, {"b": [2]}]', ({"a": 1}, {"b": [2]})), ("Error", ({"content": "Error"},)),
        ("327.5", ({"content": 327.5},)), ("true", ({"content": True},)), ("[1, 2]", ({"content": [1, 2]},)),
        ('"quoted"', ({"content": '"quoted"'},)), ("NaN", ({"content": "NaN"},)),
        ('{"a": 1e9999}', ({"content": '{"a": 1e9999}'},)),
        ("007", ({"content": "007"},)), (" ", ({"content": " "},)),
    ],
)  # fmt: skip
def test_results_in_a_tools_answer(content, expected):
    assert results_of(content) == expected


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([says("robot", "x")], r"unknown role 'robot'; expected one of system, developer"),
        ([says("user", "x"), "x"], r"expected an object with a role, got str"),
        ([says("user", [{"type": "image_url"}])], r"content part 1: only .* is read, got 'image_url'"),
        ([asks(call("a", "{}")), {"role": "tool", "content": "x"}], r".* needs the 'tool_call_id'"),
        ([asks(call("a", "{}")), answers("x", "7")], r"tool_call_id '7' is the id of no tool call"),
        ([asks(call("a", "{}")), answers("x"), answers("y")], r"tool_call_id '1' has been answered"),
        ([asks(call("a", "{}"), call("b", "{}"))], r"tool call 2: the call before with the id '1' has no"),
        ([asks(call("a", "{"))], r"tool call 1: arguments are no JSON object: Expecting"),
        ([asks(call("a", "[1]"))], r"tool call 1: arguments are no JSON object but a list"),
        ([asks(call("a", '{"api_name": "b"}'))], r"tool call 1: call argument 'api_name': this name is kept"),
        ([asks(call("a", '{"b": NaN}'))], r"tool call 1: arguments are no JSON object: NaN is not a number"),
        ([asks({"type": "custom"})], r"tool call 1: expected \{\"id\""),
        ([says("assistant", None, function_call={"name": "a"})], r"'function_call' is OpenAI's former form"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_by_file_dialogue_and_message(tmp_path, messages, message):
    (tmp_path / "c.json").write_text(json.dumps([{"id": "ok", "messages": []}, {"id": "bad", "messages": messages}]))
    where = rf"c\.json, dialogue 2: id 'bad', message {len(messages)}: "
    with pytest.raises(CorpusError, match=where + message) as caught:
        load_corpus(tmp_path / "c.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ([says("user", "x")], ["c_1"]),
        ({"messages": [says("user", "x")], "domain": None}, ["c_1"]),
        ([[says("user", "x")], {"id": 7, "messages": []}], ["c_1", "7"]),
        (
            [{"conversation_id": "prod-0", "messages": [says("user", "x")]}, {"dialogue_id": 5, "messages": []}],
            ["prod-0", "5"],
        ),
        ([{"task_id": 3, "trial": 1, "traj": [says("user", "x")]}, {"task_id": 4, "traj": []}], ["3_1", "4"]),
        ([Dialogue("own", "", (Turn("x"),)).to_json(), {"messages": []}], ["own", "c_2"]),
    ],
)
def test_json_files_hold_a_chat_or_several(tmp_path, content, ids):
    (tmp_path / "c.json").write_text(json.dumps(content))
    dialogues = load_corpus(tmp_path / "c.json")
    assert [dialogue.id for dialogue in dialogues] == ids
    assert dialogues[0].turns == (Turn("x"),)


def test_a_folder_is_read_in_order_and_lines_may_be_of_either_form(tmp_path):
    own, chat = Dialogue("own", "A", (Turn("x"),)), Dialogue("chat", "B", DIALOGUE.turns, "Be kind.")
    write_chat([chat], tmp_path / "b.jsonl")
    write_jsonl([own], tmp_path / "own.jsonl")
    mixed = (tmp_path / "own.jsonl").read_text() + "\n" + json.dumps([says("user", "y")])
    (tmp_path / "own.jsonl").unlink()
    (tmp_path / "a.jsonl").write_text(mixed)
    (tmp_path / "README.md").write_text("not a corpus")
    assert load_corpus(tmp_path) == [own, Dialogue("a_2", "", (Turn("y"),)), chat]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"no \*\.json or \*\.jsonl there"),
        ({"a.json": '{"id": "x", "turns": []}', "b.jsonl": '{"id": "x", "messages": []}'},
         r"b\.jsonl, line 1: dialogue id 'x' is already on a\.json, dialogue 1"),
        ({"a.jsonl": '[\n{"messages": []}\n]'}, r"a\.jsonl: is a JSON array, so its name must end in \.json: a\.json"),
        ({"a.jsonl": '[{"messages": []}]'}, r"a\.jsonl: is a JSON array"),
        ({"a.json": "{"}, r"a\.json: not JSON: Expecting"),
        ({"a.json": '{"role": "user"}'}, r"expected a dialogue with a list of 'messages' .*, got fields: role"),
        ({"a.json": '[{"messages": 3}]'}, r"expected a dialogue with a list of 'messages'"),
        ({"a.jsonl": '{"id": [], "messages": []}'}, r"line 1: dialogue field 'id' must be a str, got \[\]"),
        ({"a.json": "[]"}, r"holds no dialogue"),
        ({"a.jsonl": '{"id": "x", "mesages_": []}'}, r"expected a dialogue with a list of 'messages' .*id, mesages_"),
        ({"a.jsonl": '{"messages": [{}], "traj": [{}]}'}, r"line 1: has both 'messages' and 'traj'; expected one"),
        ({"a.jsonl": '{"id": "x", "turns": [{}], "messages": [{}]}'}, r"has both 'turns' and 'messages'"),
        ({"a.jsonl": '{"messages": [{"role": "user", "content": "a", "content": "b"}]}'},
         r'line 1: not JSON: "content" is repeated in one object'),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_named(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(tmp_path)


@pytest.mark.real_data
def test_all_runs_of_tau_bench_are_read_and_survive_their_messages_and_every_rewrite(tau_bench, tmp_path):
    dialogues = load_corpus(tau_bench / "trajectories" / "gpt-4o-airline.json")
    assert (len(dialogues), dialogues[0].id, dialogues[-1].id) == (200, "0_0", "49_3")
    assert sum(len(turn.calls) for dialogue in dialogues for turn in dialogue.turns) == 1164
    assert sum(bool(step.said) for dialogue in dialogues for turn in dialogue.turns for step in turn.steps) == 90
    write_chat(dialogues, tmp_path / "again.jsonl")
    assert load_corpus(tmp_path / "again.jsonl") == dialogues
    perturber = load_axis("gender")
    rewritten = 0
    for dialogue in dialogues:
        for rewrite in draw_rewrites(perturber, dialogue, draws=1):
            twin = rewrite(dialogue)
            assert rewrite.inverse(twin) == dialogue
            said = [pair for turn in dialogue.turns for pair in (*turn.utterances, *turn.values)]
            assert all(rewrite.inverse(rewrite(text)) == text for _, text in said)
            rewritten += twin != dialogue
    assert rewritten > 0


def test_a_refusal_is_what_was_said():
    refused = {"role": "assistant", "content": None, "refusal": "I can't."}
    [turn] = from_messages([says("user", "Help."), refused], "1").turns
    assert turn.response == "I can't."
    part = says("assistant", [{"type": "refusal", "refusal": "No."}])
    [turn] = from_messages([says("user", "Help."), part], "1").turns
    assert turn.response == "No."


def test_fields_of_other_programs_are_no_mistakes(tmp_path, caplog):
    other = {"id": "1", "domains": ["a"], "turns": 3, "title": "x", "ID": 4, "dialogue-id": 5, "mesages_": 6}
    messages = {"messages": [says("user", "x", name=None)]}
    for more in (
        messages,
        messages | {"turns": []},
        messages | {"traj": None},
        {"turns": [Turn("x").to_json()], "traj": "x"},
    ):
        (tmp_path / "c.jsonl").write_text(json.dumps(other | more))
        assert load_corpus(tmp_path / "c.jsonl") == [Dialogue("1", "", (Turn("x"),))]
    assert not caplog.records


def test_what_is_read_otherwise_than_it_stands_there_is_said_once(tmp_path, caplog):
    late = [says("system", "A"), says("user", "x", name="Ann"), says("developer", "B"), says("assistant", "y")]
    plain = [says("system", "A"), says("developer", "B"), says("user", "x")]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (late, plain, late)))
    assert [dialogue.system for dialogue in load_corpus(tmp_path / "c.jsonl")] == ["A\n\nB"] * 3
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "in 2 dialogues a system message comes after others; it is read as if it stood at the beginning",
        "in 2 dialogues a message has a speaker's 'name', which is not read; put it into the text",
    ]


def test_an_answer_that_stands_beside_the_messages_is_said_to_be_unread(tmp_path, caplog):
    kept = {"messages": [says("user", "x")], "choices": [{"message": says("assistant", "y")}]}
    (tmp_path / "c.jsonl").write_text(json.dumps(kept))
    assert load_corpus(tmp_path / "c.jsonl") == [Dialogue("c_1", "", (Turn("x"),))]
    assert "an answer is under 'choices', which is not read" in caplog.text
