import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.dialogues.dialogue import (
    Dialogue,
    Turn,
    read_jsonl,
    slots_from_text,
    slots_to_text,
    turns_from_text,
    turns_to_text,
    write_jsonl,
)
from tod_bias.errors import CorpusError
from tod_bias.systems.stages.database import LookupDb

texts = st.text(st.sampled_from("ab ;|=\\\n\rn,."), max_size=12) | st.text(max_size=12).filter(
    lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)
)
slots = st.dictionaries(texts, texts, max_size=3)
full = st.dictionaries(texts, texts, min_size=1, max_size=3)
turns = st.builds(Turn, texts, slots, slots, texts) | st.builds(
    Turn, texts, slots, full, texts, st.lists(full, max_size=2).map(tuple)
)


@given(slots)
def test_slots_survive_their_text(mapping):
    assert slots_from_text(slots_to_text(mapping)) == mapping


@given(st.lists(turns, max_size=3).map(tuple))
def test_turns_survive_their_text_with_all_results(dialogue):
    text = turns_to_text(dialogue)
    assert turns_from_text(text) == dialogue
    assert len(text.split("\n")) == max(1, 4 * len(dialogue))


@given(turns)
def test_turns_survive_json(turn):
    assert Turn.from_json(json.loads(json.dumps(turn.to_json()))) == turn


def test_text_is_parlais_on_ordinary_text():
    turn = Turn(
        "Book it for my mom, please.",
        {"price": "cheap", "api_name": "Find"},
        {"name": "Luigi's"},
        "Done!",
        ({"name": "Mario's"},),
    )
    assert turn.text == (
        "USER: Book it for my mom, please.\nAPICALL: api_name = Find ; price = cheap\n"
        "APIRESP: name = Luigi's\nSYSTEM: Done!"
    )
    assert turn.to_text().split("\n")[2] == "APIRESP: name = Luigi's | name = Mario's"
    assert Turn("Hi", response="Hello").text == "USER: Hi\nAPICALL: \nAPIRESP: \nSYSTEM: Hello"


@pytest.mark.parametrize("text", ["no equals sign", "a = b ; c", "a = b ; a = c", " ; "])
def test_malformed_slots_are_refused(text):
    with pytest.raises(ValueError, match=r"expected 'name = value'|given twice"):
        slots_from_text(text)


def test_slot_with_a_stripped_empty_value_is_read():
    assert slots_from_text("a =") == {"a": ""}


def test_wrong_line_is_named():
    with pytest.raises(ValueError, match=r"line 3: expected 'APIRESP: …', got 'SYSTEM: x'"):
        turns_from_text("USER: a\nAPICALL: \nSYSTEM: x\nSYSTEM: y")


def test_jsonl_round_trip(tmp_path, corpus):
    write_jsonl(corpus, tmp_path / "c.jsonl")
    assert list(read_jsonl(tmp_path / "c.jsonl")) == corpus


GOOD = '{"id": "a", "turns": [{"user": "u", "response": "r"}]}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([GOOD, "{"], r"c\.jsonl, line 2: not JSON: Expecting property name"),
        ([GOOD, GOOD], r"line 2: dialogue id 'a' is already on line 1"),
        (['{"turns": []}'], r"line 1: dialogue field 'id' must be a str, got None"),
        (['{"id": "a", "turns": [{"user": "u"}]}'], r"line 1: turn 1: turn field 'response' must be a string"),
        (['{"id": "a", "turns": [{"user": "u", "response": "r", "api_call": {"a": 1}}]}'], r"'api_call' must map"),
        (['{"id": "a", "turns": [{"user": "u", "response": "r", "apicall": {}}]}'], r"unknown turn field 'apicall'"),
        (["[]"], r"line 1: a dialogue must be an object, got list"),
    ],
)  # fmt: skip
def test_malformed_jsonl_names_file_and_line(tmp_path, lines, message):
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    with pytest.raises(CorpusError, match=message):
        list(read_jsonl(tmp_path / "c.jsonl"))


def test_more_results_need_a_first_one():
    with pytest.raises(ValueError, match="more_results follow"):
        Turn("u", more_results=({"a": "b"},))
    assert Dialogue("a", "", (Turn("u"),)).turns[0].api_results == ()


@pytest.mark.parametrize("said", ["a\u2028b\x85c", "\ud800 alone", "both \u2028 and \udfff"])
def test_every_string_survives_a_file(tmp_path, said):
    dialogue = Dialogue("1", "", (Turn(said, {"api_name": said}, {"name": said}, said),))
    write_jsonl([dialogue], tmp_path / "d.jsonl")
    assert list(read_jsonl(tmp_path / "d.jsonl")) == [dialogue]
    database = LookupDb.from_dialogues([dialogue])
    database.save(tmp_path / "db.jsonl")
    assert LookupDb(tmp_path / "db.jsonl").look_up({"api_name": said}).rows == ({"name": said},)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    dialogue = Dialogue("1", "", (Turn("hi", {"api_name": "A"}, {"name": "B"}, "ho"),))
    write_jsonl([dialogue], tmp_path / "d.jsonl")
    LookupDb.from_dialogues([dialogue]).save(tmp_path / "db.jsonl")
    for name in ("d.jsonl", "db.jsonl"):
        path = tmp_path / name
        path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert list(read_jsonl(tmp_path / "d.jsonl")) == [dialogue]
    assert len(LookupDb(tmp_path / "db.jsonl")) == 1
