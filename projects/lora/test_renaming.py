"""Descriptions of services in other orders and under other names."""

from random import Random

from served import recipe

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn

described_anew = recipe("renaming").described_anew

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
