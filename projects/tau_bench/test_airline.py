"""The airline's tools, on a database of two users and against what GPT-4o was recorded to get."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tod_bias.dialogues.chat import from_messages
from tod_bias.stages import Tools
from tod_bias.systems.functions import module_of
from tod_bias.systems.stage import StageCall, StageInput

PROJECT = Path(__file__).parent
airline = module_of(PROJECT / "airline.py")
World = module_of(PROJECT / "world.py").World


def day(status: str = "available", seats: int = 5, price: int = 100) -> dict[str, Any]:
    if status != "available":
        return {"status": status}
    cabins = ("basic_economy", "economy", "business")
    return {
        "status": status,
        "available_seats": dict.fromkeys(cabins, seats),
        "prices": {cabin: price * n for n, cabin in enumerate(cabins, start=1)},
    }


def flight(number: str, origin: str, destination: str, **days: Any) -> dict[str, Any]:
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": "06:00:00",
        "scheduled_arrival_time_est": "09:00:00",
        "dates": {f"2024-05-{number[1:]}": on_day for number, on_day in days.items()},
    }


FLIGHTS = [
    flight("H1", "SFO", "DEN", d20=day(), d21=day("delayed"), d22=day(seats=1)),
    flight("H2", "DEN", "JFK", d20=day(price=50), d21=day(price=70)),
]
GIFT = {"source": "gift_card", "amount": 1000, "id": "gift_card_1"}
CARD = {"source": "credit_card", "brand": "visa", "last_four": "1111", "id": "credit_card_1"}
CHEQUE = {"source": "certificate", "amount": 250, "id": "certificate_1"}
ANN = {
    "name": {"first_name": "Ann", "last_name": "Lee"},
    "address": {"city": "Davis", "state": "CA"},
    "payment_methods": {method["id"]: method for method in (GIFT, CARD, CHEQUE)},
    "reservations": ["R1"],
}
PASSENGER = {"first_name": "Ann", "last_name": "Lee", "dob": "1990-01-01"}
R1 = {
    "reservation_id": "R1",
    "user_id": "ann",
    "cabin": "economy",
    "flights": [{"flight_number": "H1", "date": "2024-05-20", "price": 150, "origin": "SFO", "destination": "DEN"}],
    "passengers": [PASSENGER, PASSENGER],
    "payment_history": [{"payment_id": "credit_card_1", "amount": 300}],
    "total_baggages": 1,
    "nonfree_baggages": 0,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("airline")
    flights = {one["flight_number"]: one for one in FLIGHTS}
    for name, content in {"users": {"ann": ANN}, "reservations": {"R1": R1}, "flights": flights}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def world(files) -> World:
    return copy.deepcopy(airline.new_state(files))


def book(world: World, flights: str = "H1", passengers: int = 1, *, pay: dict[str, int], **other: Any) -> Any:
    given = {
        "user_id": "ann",
        "origin": "SFO",
        "destination": "DEN",
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [{"flight_number": number, "date": other.pop("date", "2024-05-20")} for number in flights.split()],
        "passengers": [PASSENGER] * passengers,
        "payment_methods": [{"payment_id": name, "amount": amount} for name, amount in pay.items()],
        "total_baggages": 1,
        "nonfree_baggages": 0,
        "insurance": "no",
    }
    return airline.book_reservation(world, **{**given, **other})


def test_a_booking_is_written_and_paid(world):
    booked = book(
        world, "H1 H2", 2, pay={"certificate_1": 250, "gift_card_1": 460}, insurance="yes", nonfree_baggages=1
    )  # 2 × (200 + 100) + 2 × 30 + 50
    assert booked["reservation_id"] == "HATHAT"
    assert booked["flights"][1] == {
        "flight_number": "H2", "date": "2024-05-20", "price": 100, "origin": "DEN", "destination": "JFK",
    }  # fmt: skip
    user = airline.get_user_details(world, "ann")
    assert user["reservations"] == ["R1", "HATHAT"]
    assert user["address"] == {"city": "Davis", "province": "CA"}
    assert user["payment_methods"] == {"gift_card_1": {**GIFT, "amount": 540}, "credit_card_1": CARD}
    assert airline.get_reservation_details(world, "HATHAT") == booked
    assert [book(world, pay={"credit_card_1": 200})["reservation_id"] for _ in range(2)] == ["HATHAU", "HATHAV"]
    assert book(world, pay={"credit_card_1": 200}) == "Error: no more reservations can be made"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"user_id": "bob", "pay": {}}, "user not found"),
        ({"flights": "H9", "pay": {}}, "flight H9 not found"),
        ({"date": "2024-05-21", "pay": {}}, "flight H1 not available on date 2024-05-21"),
        ({"date": "2024-07-21", "pay": {}}, "flight H1 not found on date 2024-07-21"),
        ({"date": "2024-05-22", "passengers": 2, "pay": {}}, "not enough seats on flight H1"),
        ({"pay": {"credit_card_9": 200}}, "payment method credit_card_9 not found"),
        ({"pay": {"certificate_1": 300}}, "not enough balance in payment method certificate_1"),
        ({"pay": {"credit_card_1": 20}}, "payment amount does not add up, total price is 200, but paid 20"),
    ],
)
def test_what_cannot_be_booked_changes_nothing(world, arguments, error):
    assert book(world, **arguments) == f"Error: {error}"
    assert airline.get_user_details(world, "ann")["reservations"] == ["R1"]


def test_flights_that_are_kept_keep_their_price(world):
    kept = {"flight_number": "H1", "date": "2024-05-20"}
    new = {"flight_number": "H2", "date": "2024-05-21"}
    changed = airline.update_reservation_flights(world, "R1", "economy", [kept, new], "gift_card_1")
    assert [one["price"] for one in changed["flights"]] == [150, 140]
    assert changed["payment_history"][1:] == [{"payment_id": "gift_card_1", "amount": 280}]  # 2 × 140
    assert airline.get_user_details(world, "ann")["payment_methods"]["gift_card_1"]["amount"] == 720
    upgraded = airline.update_reservation_flights(world, "R1", "business", [kept], "credit_card_1")
    assert [one["price"] for one in upgraded["flights"]] == [300]
    assert upgraded["payment_history"][-1] == {"payment_id": "credit_card_1", "amount": 20}  # 2 × (300 - 290)
    for method, error in {"certificate_1": "certificate cannot", "gift_card_9": "payment method not found"}.items():
        found = airline.update_reservation_flights(world, "R1", "economy", [kept], method)
        assert found.startswith(f"Error: {error}")


def test_passengers_keep_their_number_and_certificates_differ(world):
    assert "number of passengers" in airline.update_reservation_passengers(world, "R1", [PASSENGER])
    assert "certificate_3221322" in airline.send_certificate(world, "ann", 50)
    assert "certificate_3221323" in airline.send_certificate(world, "ann", 50)


@pytest.mark.real_data
def test_all_recorded_calls_of_gpt_4o_replay(tau_bench):
    stage = Tools(PROJECT / "airline.py", data=tau_bench / "airline")
    questions, expected = [], []
    for run in json.loads((tau_bench / "trajectories" / "gpt-4o-airline.json").read_text()):
        answers = [message["content"] for message in run["traj"] if message["role"] == "tool"]
        dialogue = from_messages(run["traj"], "run")
        calls = [call for turn in dialogue.turns for call in turn.calls]
        assert len(calls) == len(answers)
        expected += answers
        for place, turn in enumerate(dialogue.turns):
            steps: list[StageCall] = []
            for call in turn.calls:
                questions.append(StageInput(dialogue.turns[:place], turn.user, {}, tuple(steps), call))
                steps.append(StageCall("tools", call, None))
    assert len(questions) == 1164
    for found, recorded in zip(stage(questions), expected, strict=True):
        assert found == recorded or found == json.loads(recorded)


@pytest.mark.real_data
def test_every_expected_action_runs(tau_bench):
    stage = Tools(PROJECT / "airline.py", data=tau_bench / "airline")
    for task in json.loads((tau_bench / "airline" / "tasks.json").read_text()):
        steps: list[StageCall] = []
        for action in task["actions"]:
            call = {"api_name": action["name"], **action["arguments"]}
            (found,) = stage([StageInput((), "", {}, tuple(steps), call)])
            steps.append(StageCall("tools", call, found))
            assert "error" not in str(found).lower()[:10], (call, found)
