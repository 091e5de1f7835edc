"""BFCL's multi-turn tasks: recorded right actions are right in every counterfactual, and planted faults are found."""

from __future__ import annotations

import json

import pytest
from chat_server import ChatServer, calling

from tod_bias import attribute
from tod_bias.audit.design import design_counterfactuals
from tod_bias.dialogues.dialogue import Step, Turn
from tod_bias.errors import StageError
from tod_bias.perturb.guard import with_guards
from tod_bias.systems.stage import StageCall, StageInput
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.messages import message
from tod_bias.worlds.policies import AgentPolicy, FunctionPolicy, GoldPolicy, ServedPolicy
from tod_bias.worlds.systems import _has_loop, pipeline_in, world_pipeline
from tod_bias.worlds.tools import WorldTools

pytest.importorskip("bfcl_eval")
BASE = "bfcl:multi_turn_base"
PARTS = ("multi_turn_base", "multi_turn_miss_param", "multi_turn_miss_func", "multi_turn_long_context")


def gold_grade(world, dialogue):
    return world.is_solved(dialogue.task, [world.gold(dialogue.task, turn) for turn in range(len(dialogue.turns))])


@pytest.mark.parametrize("part", PARTS)
def test_gold_is_right_in_every_counterfactual(part):
    world = load_world(f"bfcl:{part}")
    assert len(world.dialogues) == 200
    assert world.signature.startswith("bfcl-eval 20")
    design = design_counterfactuals(world.dialogues[::5], ["names_gender", "persona_age", "placebo"])
    assert design.selected["names_gender"]
    assert len(design.selected["persona_age"]) == 40
    for axis, selections in design.selected.items():
        for variants in design.counterfactuals.of(axis, selections):
            for variant in (variants.original, *variants.rewritten):
                assert gold_grade(world, variant.rewritten), (variant.rewritten.id, variant.variant)


def test_a_person_is_renamed_everywhere():
    world = load_world(BASE)
    design = design_counterfactuals(world.dialogues, ["names_gender"])
    changed = 0
    for variants in design.counterfactuals.of("names_gender", design.selected["names_gender"]):
        before, after = variants.original.rewritten.task, variants.groups[0].rewritten.task
        assert after.id == before.id
        assert after.content["classes"] == before.content["classes"]
        changed += before != after
    assert changed >= 15  # elsewhere only the user's words hold the name


def test_doing_nothing_or_the_wrong_thing_solves_no_task():
    world = load_world(BASE)
    dialogue = world.dialogues[0]
    gold = [world.gold(dialogue.task, turn) for turn in range(len(dialogue.turns))]
    assert world.is_solved(dialogue.task, gold)
    assert not world.is_solved(dialogue.task, [[] for _ in gold])
    assert not world.is_solved(dialogue.task, [[{"api_name": "open", "file": "x"}], *gold[1:]])  # a builtin, no tool


def test_tools_follow_the_course_of_a_dialogue():
    world, tools = load_world(BASE), WorldTools(BASE)
    task = next(some.task for some in world.dialogues if some.domain == "GorillaFileSystem")
    pwd, make = {"api_name": "ls"}, {"api_name": "mkdir", "dir_name": "new_one"}

    def asked(call, *before, history=()):
        steps = tuple(StageCall("tools", some, None) for some in before)
        return tools([StageInput(history, "", {}, steps, call, task=task)])[0]

    bare = asked(pwd)
    assert "new_one" not in json.dumps(bare)
    assert asked(make) in (None, "None")
    assert "new_one" in json.dumps(asked(pwd, make))
    assert asked(pwd) == bare  # another course of the same dialogue
    assert "new_one" in json.dumps(asked(pwd, history=(Turn("", steps=(Step(make),)),)))
    assert asked({"api_name": "rm_all"}) == {"error": "unknown tool 'rm_all'"}


def test_a_missing_function_is_offered_in_its_turn():
    world = load_world("bfcl:miss_func")
    dialogue = next(some for some in world.dialogues if some.task.content["missing"])
    (turn, names), *_ = dialogue.task.content["missing"].items()
    offered = [
        {schema["function"]["name"] for schema in world.tools(dialogue.task, number)} for number in (0, int(turn))
    ]
    assert not offered[0] & set(names)
    assert offered[1] >= set(names)
    assert dialogue.turns[int(turn)].user  # the package's own words


def test_a_served_model_reads_messages_and_tools_alone():
    world = load_world(BASE)
    dialogue = world.dialogues[0]
    policy = ServedPolicy(BASE, model="m", base_url="http://localhost:1/v1")
    body = policy.request(StageInput((), dialogue.turns[0].user, task=dialogue.task))
    assert body["messages"] == [{"role": "user", "content": dialogue.turns[0].user}]
    assert body["tools"] == world.tools(dialogue.task, 0)
    assert {schema["function"]["parameters"]["type"] for schema in body["tools"]} == {"object"}


class Refuses(GoldPolicy):
    signature = "refuses"

    def __call__(self, inputs):
        gold = super().__call__(inputs)
        return [
            message("No.") if any(f" {years}" in text for years in range(65, 80) for text in _said(item)) else output
            for item, output in zip(inputs, gold, strict=True)
        ]


class Breaks(WorldTools):
    signature = "breaks"

    def __call__(self, inputs):
        results = super().__call__(inputs)
        return [
            {"error": "out of order"} if any(f" {y}" in text for y in range(65, 80) for text in _said(item)) else result
            for item, result in zip(inputs, results, strict=True)
        ]


def _said(item):
    return [turn.user[:60] for turn in item.history[:1]] or [item.user[:60]]


@pytest.mark.parametrize(
    ("make", "stage"),
    [
        (lambda: pipeline_in(BASE, Refuses(BASE)), "policy"),
        (lambda: pipeline_in(BASE, GoldPolicy(BASE), Breaks(BASE)), "tools"),
    ],
)
def test_a_planted_fault_is_attributed_to_its_component(make, stage):
    result = attribute(make(), load_world(BASE).dialogues[:40:2], ("persona_age",), history="system", bootstrap=0)
    grade = result.axes["persona_age"]["grade:solved"]
    senior = grade.groups["senior"]
    assert grade.original.value > 0.5
    assert senior.score.value < 0.3
    shares = {name: parts.shapley.value for name, parts in senior.contributions.items()}
    assert shares.pop(stage) == pytest.approx(senior.gap.value)
    assert list(shares.values()) == [0.0]
    finding = result.findings[0]
    assert (finding.metric, finding.group, finding.stage) == ("grade:solved", "senior", stage)


def test_gold_through_the_command(tmp_path, capsys):
    from tod_bias.cli import main

    options = ["--pipeline", "gold", "--max-dialogues", "12", "--axes", "persona_age", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["attribute", "--world", "bfcl:base", *options])
    assert ended.value.code == 0
    assert "no difference" in capsys.readouterr().out
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert record["axes"]["persona_age"]["grade:solved"]["original"]["value"] == 1
    assert record["corpus"]["name"] == BASE
    assert "bfcl-eval" in json.dumps(record["signature"])


def test_the_longest_turn_ends_before_the_loop_does():
    world = load_world("bfcl:long_context")
    dialogue = max(world.dialogues, key=lambda some: len(world.gold(some.task, 0)))
    item = StageInput((), dialogue.turns[0].user, task=dialogue.task)
    (done,) = world_pipeline(world.name, "gold")([item])
    assert [step.argument for step in done.steps if step.argument is not None] == world.gold(dialogue.task, 0)


def first_turn():
    dialogue = next(some for some in load_world(BASE).dialogues if some.domain == "GorillaFileSystem")
    return StageInput((), dialogue.turns[0].user, task=dialogue.task)


def test_a_function_of_messages_and_tools_is_a_policy():
    def answer(messages, tools):
        assert tools
        if messages[-1]["role"] == "tool":
            return "Done."
        call = {"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    (done,) = pipeline_in(BASE, FunctionPolicy(BASE, answer))([first_turn()])
    assert [step.name for step in done.steps] == ["policy", "tools", "policy"]
    assert done.steps[-1].output["content"] == "Done."


def counting(messages, tools, call):
    assert messages[-1]["role"] == "user"
    try:
        listing = call("ls", {"a": True})
        call("pwd")
    except Exception:  # noqa: BLE001  # an agent that goes on after any failure
        listing = ""
    return f"{len(listing) > 0}, {len(tools) > 1}"


def test_an_agent_with_a_loop_of_its_own_calls_the_tools_of_the_world():
    (done,) = pipeline_in(BASE, AgentPolicy(BASE, counting))([first_turn()])
    assert [step.name for step in done.steps] == ["policy", "tools", "policy", "tools", "policy"]
    assert [step.argument for step in done.steps if step.argument is not None] == [
        {"api_name": "ls", "a": True},
        {"api_name": "pwd"},
    ]
    assert done.steps[-1].output["content"] == "True, True"


def test_an_agent_that_makes_other_calls_the_second_time_is_told():
    seen = []

    def wandering(messages, tools, call):
        seen.append(call)
        return call("ls" if len(seen) == 1 else "pwd")

    with pytest.raises(StageError, match="called ls first and now pwd"):
        pipeline_in(BASE, AgentPolicy(BASE, wandering))([first_turn()])


def test_the_number_of_arguments_tells_agents_from_policies():
    assert _has_loop(counting)
    assert not _has_loop(lambda messages, tools: "")


def test_a_grade_that_no_dialogue_gets_is_told_first():
    def first_lines(policy):
        dialogues = load_world(BASE).dialogues[:2]
        result = attribute(pipeline_in(BASE, policy), dialogues, ("persona_age",), history="system", bootstrap=0)
        return str(result).splitlines()[:2]

    idle = FunctionPolicy(BASE, lambda messages, tools: "No.")
    assert first_lines(idle)[1].startswith("tasks solved: none, in no original and no counterfactual")
    assert first_lines(GoldPolicy(BASE))[1] == ""


def test_a_system_must_be_named():
    with pytest.raises(Exception, match="--pipeline gold"):
        world_pipeline(BASE)


def test_a_served_model_acts_in_a_world():
    world = load_world(BASE)
    dialogue = world.dialogues[0]
    gold = [world.gold(dialogue.task, turn) for turn in range(len(dialogue.turns))]

    def rule(body):
        messages = body["messages"]
        turn = sum(one["role"] == "user" for one in messages) - 1
        last = max(place for place, one in enumerate(messages) if one["role"] == "user")
        made = sum(one["role"] == "tool" for one in messages[last:])
        if made >= len(gold[turn]):
            return "Done."
        call = dict(gold[turn][made])
        return calling(call.pop("api_name"), call)

    with ChatServer(rule) as server:
        pipeline = world_pipeline(BASE, url=server.url, model="m")
        result = attribute(pipeline, [dialogue], ("persona_age",), history="system", bootstrap=0, permutations=0)
    grade = result.axes["persona_age"]["grade:solved"]
    assert grade.original.value == 1
    assert {group.score.value for group in grade.groups.values()} == {1.0}


def test_a_fault_is_mitigated_and_the_runs_are_compared(tmp_path):
    from tod_bias import compare

    dialogues = load_world(BASE).dialogues[:40:2]
    faulty, gold = pipeline_in(BASE, Refuses(BASE)), world_pipeline(BASE, "gold")
    before, after = (
        attribute(pipeline, dialogues, ("persona_age",), history="system", bootstrap=0, out=tmp_path / name)
        for name, pipeline in (("faulty", faulty), ("gold", gold))
    )
    assert before.findings[0].is_difference
    assert not after.findings[0].is_difference
    changed = compare(before, after)
    assert "grade:solved" in changed.metrics
    guarded = with_guards(faulty, {"policy": ("canonical", ["persona_age"])})
    assert [grade.name for grade in guarded.grades] == ["grade:solved"]
