import json
from random import Random

import pytest

from tod_bias import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.schemas import describe, described_anew
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
RIDES = "GetRide (to*, seats=1): Request a ride to somewhere\nto: Destination address\nseats: Number of seats"
DIALOGUE = Dialogue(
    "1",
    "Hotels, Rides",
    (
        Turn.with_call(
            "A hotel in Davis", {"api_name": "FindHotel", "city": "Davis"}, {"city": "Davis", "phone": "1"}, "A?"
        ),
        Turn("And a ride", steps=[Step({"api_name": "GetRide", "to": "A"}), Step({"api_name": "Other", "city": "B"})]),
        Turn("Bye"),
    ),
    f"{TOLD}\n\n{RIDES}",
)


def test_a_service_is_told_in_a_line_for_each_api_and_slot_of_a_call():
    assert describe([HOTELS]) == TOLD
    assert describe([HOTELS, HOTELS]) == f"{TOLD}\n\n{TOLD}"
    many = {**HOTELS["slots"][2], "possible_values": [f"value {number}" for number in "abcdefghij"]}
    assert describe([{**HOTELS, "slots": [many]}]).endswith("value e | value f | …]")


def test_services_apis_and_slots_change_their_order_and_nothing_else():
    told = [described_anew(DIALOGUE, Random(seed)) for seed in range(20)]
    assert all(one.turns == DIALOGUE.turns for one in told)
    letters = {"".join(sorted(one.system)) for one in told}
    assert letters == {"".join(sorted(DIALOGUE.system))}
    assert len({one.system for one in told}) > 10
    assert told[3] == described_anew(DIALOGUE, Random(3))
    for one in told:  # a slot stays with its service, behind the APIs
        block = next(block for block in one.system.split("\n\n") if "GetRide" in block)
        assert sorted(block.split("\n")[1:]) == sorted(RIDES.split("\n")[1:])


def test_other_names_are_those_of_calls_and_results_too():
    told = described_anew(DIALOGUE, Random(1), renamed=1.0)
    find = next(line for line in told.system.split("\n") if line.endswith("Search for a hotel in a city"))
    city = next(line for line in told.system.split("\n") if line.endswith(": City of the hotel")).partition(":")[0]
    name = find.partition(" (")[0]
    assert name.startswith("Search")
    assert city not in ("to", "seats")
    assert f"{city}*" in find
    hotel, ride, bye = told.turns
    assert hotel.api_call == {"api_name": name, city: "Davis"}
    assert hotel.api_result == {city: "Davis", "phone": "1"}  # what no description tells of keeps its name
    assert ride.steps[0].name.startswith("Request")
    assert ride.steps[1] == DIALOGUE.turns[1].steps[1]
    assert bye == DIALOGUE.turns[2]
    assert [turn.user for turn in told.turns] == [turn.user for turn in DIALOGUE.turns]


def test_system_messages_of_others_are_shuffled_by_line():
    other = Dialogue("1", "", (Turn("Hello"),), "You are helpful.\nBe brief")
    assert sorted(described_anew(other, Random(0), 1.0).system.split("\n")) == ["Be brief", "You are helpful."]
    assert described_anew(Dialogue("1", "", ()), Random(0), 1.0).system == ""


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
