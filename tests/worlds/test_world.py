"""Worlds without their packages: databases whose keys are values, tasks in dialogues, and options."""

from __future__ import annotations

import pytest

from tod_bias.cli.configuration import configured
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.task import Task
from tod_bias.errors import TodBiasError
from tod_bias.perturb.loading import load_axis
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageInput
from tod_bias.systems.twin import Twin
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.state import closed, opened

STATE = {"users": {"Angela": {"id": 1, "tags": ["Angela's"]}}, "limit": 2.5, "open": None}


def test_keys_of_a_database_become_values_and_keys_again():
    assert closed(opened(STATE)) == STATE
    assert [pair[0] for pair in opened(STATE)["entries"]] == ["users", "limit", "open"]


def renamed():
    turns = (Turn("Hi, my name is Angela. Book a table for Angela."),)
    dialogue = Dialogue("d", "", turns, task=Task("d", {"state": opened(STATE)}))
    axis = load_axis("names_gender")
    (selection,) = axis.select([dialogue])
    (variants,) = axis.variants([selection])
    return dialogue, variants.groups[0].rewrite


def test_a_person_has_one_name_in_the_dialogue_and_in_the_database():
    dialogue, rewrite = renamed()
    image = rewrite(dialogue)
    name = image.turns[0].user.split("is ")[1].split(".")[0]
    assert name != "Angela"
    assert closed(image.task.content["state"])["users"] == {name: {"id": 1, "tags": [f"{name}'s"]}}
    assert image.task.id == "d"
    assert rewrite.inverse(image.task) is dialogue.task


def test_a_name_that_only_the_database_holds_is_not_dealt():
    dialogue, rewrite = renamed()
    name = rewrite("Angela")
    other = Dialogue("d", "", dialogue.turns, task=Task("d", {"state": opened({"contacts": [name]})}))
    axis = load_axis("names_gender")
    (variants,) = axis.variants(axis.select([other]))
    assert variants.groups[0].rewrite("Angela") != name


def test_introductions_keep_the_task():
    dialogue, _ = renamed()
    (variants,) = load_axis("persona_age").variants(load_axis("persona_age").select([dialogue]))
    assert all(variant.rewritten.task == dialogue.task for variant in variants.rewritten)


def test_a_twin_reads_the_task_of_the_original():
    dialogue, rewrite = renamed()
    seen = []

    def look(items: list[StageInput]) -> list[str]:
        seen.extend(item.task for item in items)
        return [str(list(closed(item.task.content["state"])["users"])) for item in items]

    image = rewrite(dialogue)
    (done,) = Pipeline({"tools": Twin(look, rewrite)})([StageInput((), image.turns[0].user, task=image.task)])
    assert seen == [dialogue.task]
    assert done.outputs["tools"] == str(list(closed(image.task.content["state"])["users"]))


def test_an_unknown_world_is_one_line():
    with pytest.raises(TodBiasError, match="unknown world 'alfworld'"):
        load_world("alfworld")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_url": "http://localhost:1/v1"}, "--model-url: goes with --world"),
        ({"world": "bfcl:multi_turn_bass"}, "PART one of multi_turn_base"),
    ],
)
def test_options_that_do_not_go_together(settings, words):
    with pytest.raises(TodBiasError, match=words):
        configured(AuditConfig.with_settings(None, settings), None)
