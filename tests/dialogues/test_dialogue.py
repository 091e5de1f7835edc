import copy
import dataclasses
import json
import pickle
import subprocess
import sys

import pytest
from builders import dialogue_turns, json_values, slots, texts
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.files import read_files, write_jsonl
from tod_bias.dialogues.text import slots_from_text, slots_to_text
from tod_bias.errors import CorpusError
from tod_bias.systems.outputs import parse_call
from tod_bias.systems.stages.database import LookupDb

flat = st.dictionaries(texts, texts, max_size=3)
full = st.dictionaries(texts, texts, min_size=1, max_size=3)


def exactly(turns):
    """Turns with the types of their values: in Python 2 == 2.0 and 1 == True."""
    return repr([(turn.user, [step.to_json() for step in turn.steps], turn.response) for turn in turns])


@given(slots)
def test_slots_survive_their_text(mapping):
    read = slots_from_text(slots_to_text(mapping))
    assert read == mapping
    assert slots_to_text(read) == slots_to_text(mapping)


@given(dialogue_turns, dialogue_turns)
def test_different_turns_have_different_texts_of_a_line_per_utterance_call_and_results(turn, other):
    assert len(turn.to_text().split("\n")) == 2 + sum(2 + bool(step.said) for step in turn.steps or (Step({}),))
    shown, same = (
        json.dumps([t.user, t.response, [(step.call, step.results, step.said) for step in t.steps]], sort_keys=True)
        for t in (turn, other)
    )
    assert (turn.to_text() == other.to_text()) == (shown == same)


@given(dialogue_turns)
def test_turns_survive_json(turn):
    assert exactly([Turn.from_json(json.loads(json.dumps(turn.to_json())))]) == exactly([turn])


@given(texts, flat, full, texts)
def test_a_turn_with_a_call_is_one_with_a_step(user, call, result, response):
    old = Turn.with_call(user, call, result, response)
    new = Turn(user, steps=(Step(call, (result,)),), response=response)
    assert old == new
    assert old.digest == new.digest
    assert (new.api_call, new.api_result, new.response) == (call, result, response)
    assert new.to_json() == old.to_json()
    assert set(new.to_json()) == {"user", "steps", "response"}


SEVERAL = Turn(
    "Two seats for my mom.",
    steps=(
        Step({"name": "find", "arguments": {"seats": 2, "tags": ["a ; b", None]}}, ({"id": "7"}, {"id": 8})),
        Step({"api_name": "book", "id": "7"}, said="One moment."),
    ),
    response="Done.",
)


def test_several_steps_are_several_pairs_and_other_values_are_json():
    assert SEVERAL.to_text() == (
        "USER: Two seats for my mom.\n"
        r'APICALL: api_name = find ; seats = \#2 ; tags = \#["a \; b",null]' + "\n"
        r"APIRESP: id = 7 | id = \#8" + "\n"
        "SYSTEM: One moment.\n"
        "APICALL: api_name = book ; id = 7\n"
        "APIRESP: \n"
        "SYSTEM: Done."
    )
    assert SEVERAL.text.split("\n")[2] == "APIRESP: id = 7"
    assert list(SEVERAL.utterances) == [
        ("user", "Two seats for my mom."), ("system", "One moment."), ("system", "Done."),
    ]  # fmt: skip


def test_the_first_step_is_what_one_step_code_reads():
    assert SEVERAL.api_call == {"api_name": "find", "seats": 2, "tags": ["a ; b", None]}
    assert (SEVERAL.api_result, SEVERAL.api_results[1:]) == ({"id": "7"}, ({"id": 8},))
    assert [call["api_name"] for call in SEVERAL.calls] == ["find", "book"]
    assert (SEVERAL.steps[0].name, SEVERAL.steps[0].arguments) == ("find", {"seats": 2, "tags": ["a ; b", None]})
    assert (Turn("u").api_call, Turn("u").api_result, Turn("u").api_results, Turn("u").calls) == ({}, {}, (), ())
    assert Turn.with_call("u", {}, {"a": "b"}).api_result == {"a": "b"}  # a result without a call


def test_json_of_several_steps():
    find = {"call": {"api_name": "find", "seats": 2, "tags": ["a ; b", None]}, "results": [{"id": "7"}, {"id": 8}]}
    book = {"call": {"api_name": "book", "id": "7"}, "results": [], "said": "One moment."}
    assert SEVERAL.to_json() == {"user": "Two seats for my mom.", "steps": [find, book], "response": "Done."}


def test_a_turn_is_copied_replaced_and_stored():
    assert dataclasses.replace(SEVERAL, user="x") == Turn("x", steps=SEVERAL.steps, response="Done.")
    for copied in (copy.copy(SEVERAL), copy.deepcopy(SEVERAL), pickle.loads(pickle.dumps(SEVERAL))):
        assert copied == SEVERAL
        assert copied.digest == SEVERAL.digest
    with pytest.raises(dataclasses.FrozenInstanceError):
        SEVERAL.user = "x"


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Turn.with_call("u", {"party": ["a", 1, {2}]}), r"call argument 'party' \[2\]"),
        (lambda: Turn.with_call("u", {"a": "b"}, {"x": ("y",)}), "result field 'x'"),
        (lambda: Step({"x": {1: "y"}}), "call argument 'x' 1"),
        (lambda: Step({"x": float("nan")}), "call argument 'x'"),
        (lambda: Step({"a": "b"}, {"c": "d"}), "results"),
        (lambda: Step({"name": "a", "arguments": {"api_name": "b"}}), "'api_name'"),
        (lambda: Turn("u", steps=({"a": "b"},)), r"steps \[0\]"),
    ],
)
def test_values_that_are_no_json_are_named_at_once(make, place):
    with pytest.raises(ValueError, match=f"{place}: [^\n]*$"):
        make()


VALUES = ("2", 2, 2.0, r"\#2", True, None, "null", ["b"], {"b": "c"})
DIFFERENT = [
    *(Turn.with_call("u", {"a": value}) for value in VALUES),
    Turn("u", steps=(Step({"a": "2"}), Step({"a": "2"}))),
    Turn("u", steps=(Step({"a": "2"}, said="s"),)),
    Turn.with_call("u", {"a": "2"}, {"b": "c"}),
    Turn.with_call("u", {"a": "2"}, response="s"),
    Turn("u", response="s"),
    Turn("u", steps=(Step({}, said="s"),)),
]


def test_digests_tell_turns_apart_in_every_process():
    assert len({turn.digest for turn in DIFFERENT}) == len(DIFFERENT)
    again = "import sys, pickle; print(b''.join(turn.digest for turn in pickle.load(sys.stdin.buffer)).hex())"
    done = subprocess.run([sys.executable, "-c", again], input=pickle.dumps(DIFFERENT), capture_output=True, check=True)
    assert done.stdout.decode().strip() == b"".join(turn.digest for turn in DIFFERENT).hex()


@given(json_values, json_values)
def test_equal_digests_mean_equal_values(first, second):
    turns = [Turn.with_call("u", {"a": value}) for value in (first, second)]
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (turns[0].digest == turns[1].digest) == same


@pytest.mark.parametrize("text", [r"a = \#", r"a = \#{", r"a = \#NaN", r"a = \#1e999", "a = \\#" + "[" * 100_000])
def test_values_that_are_no_json_make_a_call_malformed(text):
    assert parse_call(text) == text


def test_text_is_parlais_on_ordinary_text():
    call = {"price": "cheap", "api_name": "Find"}
    turn = Turn(
        "Book it for my mom, please.",
        steps=(Step(call, ({"name": "Luigi's"}, {"name": "Mario's"})),),
        response="Done!",
    )
    assert turn.text == (
        "USER: Book it for my mom, please.\nAPICALL: api_name = Find ; price = cheap\n"
        "APIRESP: name = Luigi's\nSYSTEM: Done!"
    )
    assert turn.to_text().split("\n")[2] == "APIRESP: name = Luigi's | name = Mario's"
    assert Turn("Hi", response="Hello").text == "USER: Hi\nAPICALL: \nAPIRESP: \nSYSTEM: Hello"


@pytest.mark.parametrize("text", ["no equals sign", "a = b ; c", "a = b ; a = c", " ; "])
def test_malformed_slots_are_refused(text):
    with pytest.raises(ValueError, match=r"slot|name"):
        slots_from_text(text)


def test_jsonl_round_trip(tmp_path, corpus):
    corpus = [*corpus, Dialogue("several", "", (SEVERAL,), system="Be kind.")]
    write_jsonl(corpus, tmp_path / "c.jsonl")
    assert list(read_files(tmp_path / "c.jsonl")) == corpus
    assert "system" not in corpus[0].to_json()


GOOD = '{"id": "a", "turns": [{"user": "u", "response": "r"}]}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([GOOD, "{"], r"c\.jsonl, line 2: not JSON: Expecting property name"),
        ([GOOD, GOOD], r"line 2: dialogue id 'a' is already on line 1"),
        (['{"turns": []}'], r"line 1: dialogue field 'id' must be a str, got None"),
        (['{"id": "a", "turns": [{"user": "u"}]}'], r"line 1: turn 1: turn field 'response' must be a string"),
        (['{"id": "a", "turns": [{"user": "u", "response": "r", "steps": [{"call": ["a"]}]}]}'], r"'call' must map"),
        (['{"id": "a", "turns": [{"user": "u", "response": "r", "steps": [{"call": {"a": NaN}}]}]}'], "NaN is not a"),
        (['{"id": "a", "turns": [{"user": "u", "response": "r", "steps": [{"call": {}, "result": []}]}]}'],
         r"turn 1: step 1: unknown step field 'result'"),
        (['{"id": "a", "turns": [{"user": "u", "response": "r", "apicall": {}}]}'], r"unknown turn field 'apicall'"),
    ],
)  # fmt: skip
def test_malformed_jsonl_names_file_and_line(tmp_path, lines, message):
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    with pytest.raises(CorpusError, match=message):
        list(read_files(tmp_path / "c.jsonl"))


@pytest.mark.parametrize("said", ["a\u2028b\x85c", "\ud800 alone", "both \u2028 and \udfff"])
def test_every_string_survives_a_file(tmp_path, said):
    dialogue = Dialogue("1", "", (Turn.with_call(said, {"api_name": said}, {"name": said}, said),))
    write_jsonl([dialogue], tmp_path / "d.jsonl")
    assert list(read_files(tmp_path / "d.jsonl")) == [dialogue]
    database = LookupDb.from_dialogues([dialogue])
    database.save(tmp_path / "db.jsonl")
    assert LookupDb(tmp_path / "db.jsonl").look_up({"api_name": said}).rows == ({"name": said},)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    dialogue = Dialogue("1", "", (Turn.with_call("hi", {"api_name": "A"}, {"name": "B"}, "ho"),))
    write_jsonl([dialogue], tmp_path / "d.jsonl")
    LookupDb.from_dialogues([dialogue]).save(tmp_path / "db.jsonl")
    for name in ("d.jsonl", "db.jsonl"):
        path = tmp_path / name
        path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert list(read_files(tmp_path / "d.jsonl")) == [dialogue]
    assert len(LookupDb(tmp_path / "db.jsonl")) == 1
