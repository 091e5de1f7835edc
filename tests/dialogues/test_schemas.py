import json

import pytest

from tod_bias import load_corpus
from tod_bias.dialogues.schemas import describe
from tod_bias.errors import CorpusError

HOTELS = {
    "service_name": "Hotels_2",
    "slots": [
        {"name": "city", "description": "City of the hotel", "is_categorical": False, "possible_values": []},
        {"name": "wifi", "description": "Has wifi", "is_categorical": True, "possible_values": ["True", "False"]},
        {"name": "kind", "description": "Kind of bed", "is_categorical": True, "possible_values": ["twin", "king"]},
        {"name": "phone", "description": "Phone number", "is_categorical": False, "possible_values": []},
    ],
    "intents": [
        {
            "name": "FindHotel", "description": "Search for a hotel in a city", "is_transactional": False,
            "required_slots": ["city"], "optional_slots": {"wifi": "dontcare"},
        },
        {
            "name": "BookHotel", "description": "Book a hotel", "is_transactional": True,
            "required_slots": ["city"], "optional_slots": {"kind": "king"},
        },
    ],
}  # fmt: skip
TOLD = """\
FindHotel (city*, wifi): Search for a hotel in a city
BookHotel! (city*, kind=king): Book a hotel
city: City of the hotel
wifi: Has wifi
kind: Kind of bed [twin | king]"""


def test_a_service_is_told_in_a_line_for_each_api_and_slot_of_a_call():
    assert describe([HOTELS]) == TOLD
    assert describe([HOTELS, HOTELS]) == f"{TOLD}\n\n{TOLD}"
    many = {**HOTELS["slots"][2], "possible_values": [f"value {number}" for number in "abcdefghij"]}
    assert describe([{**HOTELS, "slots": [many]}]).endswith("value e | value f | …]")


def write(folder, schema):
    place = folder / "google_sgd" / "dev"
    place.mkdir(parents=True)
    turns = [{"speaker": who, "utterance": "Hi", "frames": []} for who in ("USER", "SYSTEM")]
    record = {"dialogue_id": "1_0", "services": ["Hotels_2"], "turns": turns}
    (place / "dialogues_001.json").write_text(json.dumps([record]))
    if schema is not None:
        (place / "schema.json").write_text(json.dumps(schema))


def test_google_sgd_described_is_google_sgd_with_system_messages(tmp_path):
    write(tmp_path, [HOTELS])
    (described,) = load_corpus("google_sgd_described", datapath=tmp_path, split="valid")
    (plain,) = load_corpus("google_sgd", datapath=tmp_path, split="valid")
    assert described.system == TOLD
    assert (described.id, described.domain, described.turns, "") == (plain.id, plain.domain, plain.turns, plain.system)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, r"schema\.json: cannot be read"),
        ([{"service_name": "Hotels_2"}], r"schema\.json: not in Google SGD's format: KeyError\('intents'\)"),
        ([], r"dialogues_001\.json, dialogue 1: not in Google SGD's format: KeyError\('Hotels_2'\)"),
    ],
)
def test_a_schema_that_is_missing_or_damaged_is_named(tmp_path, schema, message):
    write(tmp_path, schema)
    with pytest.raises(CorpusError, match=message):
        load_corpus("google_sgd_described", datapath=tmp_path, split="valid")
