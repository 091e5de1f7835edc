"""MultiWOZ 2.2 in ParlAI's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tod_bias import load_corpus
from tod_bias.errors import CorpusError

SCHEMA = [
    {
        "service_name": domain,
        "slots": [{"name": f"{domain}-{slot}"} for slot in slots],
        "intents": [{"name": f"{verb}_{domain}"} for verb in verbs],
    }
    for domain, slots, verbs in (
        ("restaurant", ("area", "food", "name", "phone"), ("find", "book")),
        ("train", ("leaveat", "arriveby", "day"), ("find",)),
        ("taxi", ("type", "phone"), ("book",)),
        ("hospital", ("department",), ("find",)),
    )
]
RESTAURANTS = [
    {"name": "A", "area": "centre", "Food": "thai", "location": ["b", "a"]},
    {"name": "B", "area": "centre", "Food": "thai", "phone": "1"},
    {"name": "C", "area": "south", "Food": "thai"},
]
TRAINS = [{"day": "monday", "leaveAt": at, "arriveBy": by} for at, by in (("05:00", "06:00"), ("11:00", "12:00"))]
HOSPITAL = '## Hospital address:\n# Telephone: 0123\n# Address: Hills Rd\n##\n\n[{"department": "oncology", "id": 2}]'


def state(intent: str, **slots: str) -> dict[str, Any]:
    domain = intent.split("_")[1]
    values = {f"{domain}-{slot}": [value] for slot, value in slots.items()}
    return {"service": domain, "state": {"active_intent": intent, "slot_values": values}}


def write(datapath: Path, *rounds: tuple[dict[str, Any] | None, dict[str, Any]], services: str = "restaurant") -> Path:
    """One dialogue: a round is the user's state and the acts of the system."""
    folder = datapath / "multiwoz_v22"
    (folder / "dev").mkdir(parents=True)
    (folder / "db").mkdir()
    turns: list[dict[str, Any]] = []
    acts = {}
    for frame, act in rounds:
        turns.append({"speaker": "USER", "utterance": "Hello", "frames": [frame] if frame else []})
        acts[str(len(turns))] = {"dialog_act": act}
        turns.append({"speaker": "SYSTEM", "utterance": "Hi", "frames": []})
    record = {"dialogue_id": "A1.json", "services": services.split(), "turns": turns}
    (folder / "dev" / "dialogues_001.json").write_text(json.dumps([record]))
    (folder / "dialog_acts.json").write_text(json.dumps({"A1.json": acts}))
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "db" / "restaurant_db.json").write_text(json.dumps(RESTAURANTS))
    (folder / "db" / "train_db.json").write_text(json.dumps(TRAINS))
    (folder / "db" / "hospital_db.json").write_text(HOSPITAL)
    return datapath


INFORM = {"Restaurant-Inform": [["choice", "2"]]}
FIRST = {"name": "A", "area": "centre", "food": "thai", "location": "a, b", "COUNT": "2"}
THAI = state("find_restaurant", food="thai", area="centre")


@pytest.mark.parametrize(
    ("frame", "acts", "call", "result"),
    [
        (THAI, INFORM, {"food": "thai", "area": "centre"}, FIRST),
        (THAI, {"Restaurant-NoOffer": []}, {"food": "thai", "area": "centre"}, FIRST),
        (THAI, {"Restaurant-Inform": [["colour", "red"]]}, {}, {}),
        (THAI, {"Restaurant-Request": [["food", "?"]]}, {}, {}),
        (
            THAI,
            {**INFORM, "Restaurant-Recommend": [["name", "B"], ["colour", "red"]]},
            {"food": "thai", "area": "centre"},
            {"name": "B", "area": "centre", "food": "thai", "phone": "1", "COUNT": "1"},
        ),
        (state("find_restaurant", food="dontcare"), INFORM, {"food": "dontcare"}, {}),
        (state("book_restaurant", name="A"), {"Booking-Book": [["ref", "X1"]]}, {"name": "A"}, {"ref": "X1"}),
        (state("book_restaurant", name="A"), INFORM, {}, {}),
        (
            state("find_train", leaveat="09:00"),
            {"Train-Inform": [["day", "monday"]]},
            {"leaveat": "09:00"},
            {"day": "monday", "leaveat": "11:00", "arriveby": "12:00", "COUNT": "1"},
        ),
        (
            state("find_train", arriveby="09:00"),
            {"Train-Inform": [["day", "monday"]]},
            {"arriveby": "09:00"},
            {"day": "monday", "leaveat": "05:00", "arriveby": "06:00", "COUNT": "1"},
        ),
        (state("find_taxi"), {"Taxi-Inform": [["type", "red audi"]]}, {}, {"type": "red audi"}),
        (state("find_taxi"), {"Taxi-NoOffer": []}, {}, {"taxi": "taxi"}),
        (
            state("find_hospital", department="oncology"),
            {"Hospital-Inform": [["department", "oncology"]]},
            {"department": "oncology"},
            {"telephone": " 0123", "address": " hills rd", "oncology": "{'department': 'oncology', 'id': 2}"},
        ),
        (None, INFORM, {}, {}),
    ],
)
def test_calls_and_results_come_from_state_acts_and_database(
    tmp_path: Path, frame: dict[str, Any] | None, acts: dict[str, Any], call: dict[str, str], result: dict[str, str]
) -> None:
    (dialogue,) = load_corpus("multiwoz_v22", datapath=write(tmp_path, (frame, acts)), split="valid")
    (turn,) = dialogue.turns
    name = {"api_name": frame["state"]["active_intent"]} if frame and (call or result) else {}
    assert (turn.api_call, turn.api_result) == (call | name, result)
    assert (dialogue.id, dialogue.domain, turn.user, turn.response) == ("A1.json", "restaurant", "Hello", "Hi")


def test_a_call_that_repeats_the_last_one_is_dropped(tmp_path: Path) -> None:
    other = state("find_restaurant", area="south")
    rounds = [(THAI, INFORM), (THAI, INFORM), (None, {}), (THAI, INFORM), (other, INFORM), (THAI, INFORM)]
    (dialogue,) = load_corpus("multiwoz_v22", datapath=write(tmp_path, *rounds), split="valid")
    assert [turn.api_call.get("area") for turn in dialogue.turns] == ["centre", None, None, None, "south", "centre"]


def test_dialogues_with_badly_formed_domains_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no dialogue"):
        load_corpus("multiwoz_v22", datapath=write(tmp_path, services="restaurant police"), split="valid")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("dev/dialogues_001.json", "{"),
        ("dev/dialogues_001.json", '[{"services": ["taxi"]}]'),
        ("dialog_acts.json", "{}"),
        ("dialog_acts.json", "[]"),
        ("schema.json", '[{"service_name": "taxi"}]'),
        ("db/restaurant_db.json", "x"),
    ],
)
def test_another_format_names_the_file(tmp_path: Path, file: str, content: str) -> None:
    write(tmp_path, (THAI, {"Restaurant-Inform": [["area", "centre"]]}))
    (tmp_path / "multiwoz_v22" / file).write_text(content)
    with pytest.raises(CorpusError, match=f"{Path(file).name}[:,] [^\n]*$"):
        load_corpus("multiwoz_v22", datapath=tmp_path, split="valid")


def test_a_missing_split_names_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="say --split valid"):
        load_corpus("multiwoz_v22", datapath=write(tmp_path), split="test")
