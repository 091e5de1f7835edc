import dataclasses
import json
import sys

import pytest
from assistant import OPTIONS, assistant, corpus, system
from builders import equivariant_pipeline, numbered, small_corpus
from chat_server import ChatServer
from commands import run_command
from flows import Loop, about_people

from tod_bias import Pipeline, Twin, attribute
from tod_bias.audit.plan import plan
from tod_bias.errors import NothingToPerturbError
from tod_bias.systems.stage import Stage

QUICK = {"bootstrap": 0, "permutations": 0}


class Server:
    remote = True
    signature = "server"

    def __call__(self, inputs):
        raise AssertionError("a remote stage was called")


@pytest.mark.parametrize("history", ["gold", "system"])
def test_the_plan_counts_the_calls_of_the_run(history):
    corpus = numbered(small_corpus(24))
    pipeline = equivariant_pipeline(corpus)
    planned = plan(pipeline, corpus, draws=2, history=history)
    cost = attribute(pipeline, corpus, draws=2, history=history, **QUICK).cost
    for name, part in planned.stages.items():
        assert part.calls == cost.calls[name]
        assert part.at_most >= cost.distinct[name]
        assert part.estimate == pytest.approx(cost.distinct[name], rel=0.3)
        assert part.seconds is not None
    first = planned.stages["api_call"].exact
    assert first == (cost.distinct["api_call"] if history == "gold" else None)
    assert (planned.dialogues, planned.rewritable, planned.audited) == (24, {"gender": 18}, {"gender": 18})


def test_words_and_placebos_are_those_of_the_run():
    corpus = numbered(small_corpus(24))
    pipeline = Pipeline({"response": lambda inputs: [item.user for item in inputs]})
    axes = ("gender", "placebo")
    planned = plan(pipeline, corpus, axes, sample_size=0)
    axes_of_run = attribute(pipeline, corpus, axes, **QUICK).axes
    assert set(planned.effective_terms) == set(planned.placebo) == set(axes_of_run) - {"placebo"}
    for axis, placebo in planned.placebo.items():
        (record,) = axes_of_run[axis].values()
        effective = record.effective_terms
        assert planned.effective_terms[axis] == round(effective, 1)
        beyond = record.beyond_placebo
        assert (placebo.dialogues, placebo.edits) == (beyond.dialogues, beyond.edits)
    assert plan(pipeline, corpus, ("gender",), sample_size=0).placebo == {}


def test_planning_calls_no_remote_stage():
    corpus = small_corpus(12)
    planned = plan(Pipeline({"policy": Server(), "response": Server()}), corpus)
    assert planned.stages["policy"].remote
    assert planned.stages["policy"].exact > 0
    assert planned.stages["policy"].exact == planned.stages["response"].estimate < planned.stages["response"].at_most
    assert planned.price is None
    assert planned.seconds is None

    def server(inputs):
        raise AssertionError("a stage with threads was called")

    assert plan(Pipeline({"response": server}, concurrency={"response": 8}), corpus).seconds is None
    assert plan(Pipeline({"response": Server.__call__}), corpus, sample_size=0).sampled is False


def test_a_flow_is_planned_by_its_sample():
    corpus = about_people(18)
    planned = plan(Loop().pipeline, corpus, draws=2, sample_size=18)
    cost = attribute(Loop().pipeline, corpus, draws=2, **QUICK).cost
    assert {name: part.calls for name, part in planned.stages.items()} == dict.fromkeys(cost.calls)
    for name, part in planned.stages.items():
        assert part.estimate == pytest.approx(cost.distinct[name], rel=0.1)


def test_axes_without_a_dialogue_are_named():
    corpus = small_corpus(6)
    planned = plan(equivariant_pipeline(corpus), corpus, ["gender", "race"])
    assert list(planned.left_out) == ["race"]
    with pytest.raises(NothingToPerturbError):
        plan(equivariant_pipeline(corpus), corpus, ["race"])


def test_the_command_writes_and_prints_it(tmp_path):
    (tmp_path / "my_bot.py").write_text("def speak(inputs):\n    return ['Of course.' for _ in inputs]\n")
    (tmp_path / "pipeline.yaml").write_text("stages:\n  speak: my_bot:speak\n")
    pipeline = tmp_path / "pipeline.yaml"
    code, out, _ = run_command(
        "attribute --dry-run --sample 0 --pipeline", pipeline, "--axes", "gender", "--out", tmp_path / "o"
    )
    assert code == 0
    written = json.loads((tmp_path / "o" / "plan.json").read_text())
    assert written["audited"] == {"gender": 81}
    assert f"{written['stages']['speak']['calls']:,}" in out
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["plan.json"]


def test_of_an_agent_elsewhere_turns_are_bounded(tmp_path):
    (tmp_path / "agent.yaml").write_text(
        f"agent: {{command: {sys.executable} never_started.py}}\nupstream: {{base_url: 'http://127.0.0.1:9/v1'}}\n"
        "stages: {model: {match: {kind: model}}}\n"
    )
    options = ("--axes", "gender", "--out", tmp_path / "o")
    code, out, err = run_command("attribute --dry-run --pipeline", tmp_path / "agent.yaml", *options)
    assert code == 0, err
    written = json.loads((tmp_path / "o" / "plan.json").read_text())
    assert f"At most {written['turns'] * written['arms']:,} turns are run" in out


def talk(word):
    return lambda inputs: [f"{word} {item.user} {len(item.history)} {item.outputs}" for item in inputs]


def test_a_plan_bounds_free_running_systems_too():
    corpus = [dataclasses.replace(d, turns=d.turns * 3) for d in small_corpus(12)]
    pipeline = Pipeline({name: talk(name) for name in "abc"})
    planned = plan(pipeline, corpus, design="draws", draws=1, history="system")
    cost = attribute(pipeline, corpus, history="system", design="draws", draws=1, **QUICK).cost
    for name, part in planned.stages.items():
        assert part.at_most >= cost.distinct[name]
    assert plan(Pipeline({"a": Twin(talk("a"))}), corpus).stages["a"].exact is None


def test_a_loop_of_tools_is_planned_with_its_rounds():
    """The model is called once more than tools are; a corpus without calls says nothing of how often, so: twice."""

    class Model(Stage):
        remote = True
        tools = ({"type": "function", "function": {"name": "find"}},)

        def __call__(self, inputs):
            raise AssertionError("a remote stage was called")

    def flow(turn):
        while (yield "policy"):
            yield "tools"

    corpus = small_corpus(24)
    pipeline = Pipeline({"policy": Model(), "tools": lambda inputs: [None] * len(inputs)}, flow=flow)
    stage = plan(pipeline, corpus, sample_size=0, **QUICK).stages["policy"]
    recorded = sum(len(turn.steps) for dialogue in corpus for turn in dialogue.turns)
    turns = sum(len(dialogue.turns) for dialogue in corpus)
    assert stage.estimate == pytest.approx(stage.at_least * (1 + recorded / turns), rel=0.3)
    bare = [
        dataclasses.replace(dialogue, turns=tuple(dataclasses.replace(turn, steps=()) for turn in dialogue.turns))
        for dialogue in corpus
    ]
    stage = plan(pipeline, bare, sample_size=0, **QUICK).stages["policy"]
    assert stage.estimate == 2 * stage.at_least


@pytest.mark.parametrize("is_one_model", [True, False])
def test_requests_and_price_of_a_served_assistant(is_one_model):
    """An answer of the policy's own model repeats its last request, and costs nothing."""
    with ChatServer(assistant) as server:
        other = None if is_one_model else server.url.replace("127.0.0.1", "localhost")
        pipeline = system(server.url, answer=other, price={"input": 2.0, "output": 8.0})
        planned = plan(pipeline, corpus(), sample_size=0)
        assert not server.received
        cost = attribute(pipeline, corpus(), **OPTIONS).cost
    stages = [planned.stages["policy"], planned.stages["answer"]]
    for name, stage in zip(("policy", "answer"), stages, strict=True):
        assert stage.estimate == pytest.approx(cost.distinct[name] - cost.cached[name], rel=0.15)
        assert stage.price == pytest.approx((2.0 * stage.read + 8.0 * stage.written) / 1e6)
    assert planned.price == sum(stage.price for stage in stages) > 0
    assert plan(system(server.url), corpus(), sample_size=0).price is None
