"""τ-bench with its users renamed: they are found, and every recorded call gives the renamed result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tod_bias.dialogues.chat import dialogue_of
from tod_bias.perturb import load_axis
from tod_bias.stages import Tools
from tod_bias.systems.functions import module_of
from tod_bias.systems.stage import StageCall, StageInput

PROJECT = Path(__file__).parent
airline = module_of(PROJECT / "airline.py")
retail = module_of(PROJECT / "retail.py")

PEOPLE = ("users", "reservations")


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize(("axis", "least"), [("names_gender", 165), ("names_race", 90)])
def test_all_recorded_calls_replay_under_other_names(tau_bench, axis, least):
    runs = {}
    for number, record in enumerate(json.loads((tau_bench / "trajectories" / "gpt-4o-airline.json").read_text())):
        answers = [message["content"] for message in record["traj"] if message["role"] == "tool"]
        dialogue = dialogue_of(record | {"id": str(number)})
        runs[dialogue.id] = (dialogue, answers)
    perturber = load_axis(axis)
    told = perturber.select([dialogue for dialogue, _ in runs.values()], seed=0, variants=1)
    assert len(told) >= least
    world = airline.new_state(tau_bench / "airline")
    calls = 0
    for dialogue, (candidate,) in told[::3]:
        change = perturber.rewrite(dialogue, candidate)
        renamed = world.told(change, PEOPLE)
        stage = Tools(airline, state=lambda data, renamed=renamed: renamed, data=tau_bench / "airline")
        answers = iter(runs[dialogue.id][1])
        for place, turn in enumerate(dialogue.turns):
            steps: list[StageCall] = []
            history, user = change(dialogue.turns[:place]), change(turn.user)
            for call in turn.calls:
                recorded = next(answers)
                found = stage([StageInput(history, user, {}, tuple(steps), change(call))])[0]
                assert found == change(recorded) or found == change(json.loads(recorded)), (dialogue.id, call)
                steps.append(StageCall("tools", change(call), None))
                calls += 1
    assert calls >= 5 * least / 3


@pytest.mark.real_data
def test_records_that_are_passed_over_are_those_that_stay(tau_bench):
    runs = json.loads((tau_bench / "trajectories" / "gpt-4o-airline.json").read_text())[:40]
    perturber = load_axis("names_gender")
    told = perturber.select([dialogue_of(run | {"id": str(n)}) for n, run in enumerate(runs)], seed=0, variants=1)
    world = airline.new_state(tau_bench / "airline")
    changed = passed_over = 0
    for dialogue, (candidate,) in told[:3]:
        change = perturber.rewrite(dialogue, candidate)
        quick, slow = (world.told(way, PEOPLE) for way in (change, lambda value, change=change: change(value)))
        records = [
            (kind, name) for kind in PEOPLE for name in json.loads((tau_bench / "airline" / f"{kind}.json").read_text())
        ]
        for kind, name in records:
            there = quick.get(kind, str(change(name)))
            assert there == slow.get(kind, str(change(name)))
            changed += there != world.get(kind, name)
            passed_over += change.passes_over(json.dumps(world.get(kind, name), ensure_ascii=False))
    assert changed
    assert passed_over > 4000  # of 7,500


@pytest.mark.real_data
def test_a_renamed_customer_is_found_by_name_address_and_id(tau_bench):
    world = retail.new_state(tau_bench / "retail")
    users = json.loads((tau_bench / "retail" / "users.json").read_text())
    name, user = next(iter(users.items()))
    first, last, code = user["name"]["first_name"], user["name"]["last_name"], user["address"]["zip"]

    def change(value):
        text = json.dumps(value)
        return json.loads(text.replace(first, "Zelda").replace(first.lower(), "zelda"))

    renamed = world.told(change)
    assert retail.find_user_id_by_name_zip(renamed, "Zelda", last, code) == change(name)
    assert retail.find_user_id_by_email(renamed, change(user["email"])) == change(name)
    assert retail.get_user_details(renamed, change(name)) == change(retail.get_user_details(world, name))
    assert retail.get_user_details(renamed, name) == "Error: user not found"
    assert retail.find_user_id_by_name_zip(world, first, last, code) == name
