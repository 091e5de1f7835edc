"""Single stages as ParlAI agents, alone and in ParlAI's TOD world."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import outputs_of
from parlai.core.agents import create_agent
from parlai.core.message import Message
from sgd_files import CALL, DIALOGUES, RESULTS, STRICT_STAGES, evaluate_with_parlai, lines_of, write_strict_pipeline

from tod_bias.agents.protocol import parlai_text
from tod_bias.errors import StageError
from tod_bias.pipelines import load_pipeline
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.stage import StageInput
from tod_bias.testing import inputs_of

pytestmark = pytest.mark.parlai


@pytest.mark.parametrize("batchsize", [1, 16])
@pytest.mark.parametrize(("agent", "stage"), [("ApiCallAgent", "api_call"), ("ResponseAgent", "response")])
def test_a_stage_agent_gives_its_stages_answers_to_gold_input(
    datapath, strict_pipeline, tmp_path, agent, stage, batchsize
):
    said, report = evaluate_with_parlai(
        tmp_path / "log.jsonl", task="google_sgd", datapath=str(datapath), model=f"tod_bias.agents:{agent}",
        pipeline=str(strict_pipeline), batchsize=batchsize,
    )  # fmt: skip
    outputs = iter(load_pipeline(strict_pipeline).stages[stage](inputs_of(DIALOGUES)))
    for dialogue in DIALOGUES:
        replies = said[lines_of(dialogue)][1:]
        calls, responses = replies[::2], replies[1::2]
        answers, silent = (calls, responses) if stage == "api_call" else (responses, calls)
        prefix = "APICALL:" if stage == "api_call" else "SYSTEM:"
        assert answers == [*(f"{prefix} {parlai_text(next(outputs))}" for _ in dialogue.turns), f"{prefix} "]
        assert not any(silent)
    assert ("jga" in report, "nlg_bleu" in report) == (stage == "api_call", stage == "response")


@pytest.mark.parametrize("batchsize", [1, 16])
def test_the_database_agent_reports_how_often_it_finds_the_gold_result(datapath, tmp_path, batchsize):
    options = {"datapath": str(datapath), "model": "tod_bias.agents:LookupDbAgent", "batchsize": batchsize}
    _, report = evaluate_with_parlai(tmp_path / "own.jsonl", task="google_sgd", **options)
    assert report["db_accuracy"] == 1
    assert not {"jga", "nlg_bleu"} & report.keys()
    (tmp_path / "empty.yaml").write_text('stages: {db: {stage: "tod_bias.stages:LookupDb", table: {}}}')
    _, report = evaluate_with_parlai(
        tmp_path / "empty.jsonl", task="google_sgd", pipeline=str(tmp_path / "empty.yaml"), **options
    )
    assert report["db_accuracy"] == 1 / 4  # of four gold calls one finds nothing


def make(agent: str, pipeline: Path) -> Any:
    return create_agent({"model": f"tod_bias.agents:{agent}", "datapath": "/nowhere", "pipeline": str(pipeline)})


def say(agent: Any, text: str) -> str:
    agent.observe(Message({"text": text, "episode_done": False}))
    return agent.act()["text"]


def test_the_database_answers_calls_whatever_their_order(datapath):
    options = {"datapath": str(datapath), "datatype": "valid", "task": "google_sgd"}
    agent = create_agent({**options, "model": "tod_bias.agents:LookupDbAgent"})
    assert say(agent, "APICALL: dish = tacos ; city = Fremont ; api_name = FindRestaurants") == (
        f"APIRESP: {parlai_text(RESULTS[0])}"
    )
    assert say(agent, f"APICALL: {parlai_text({**CALL, 'city': 'Davis'})}") == "APIRESP: "
    assert say(agent, "APICALL: nonsense") == say(agent, "APICALL: ") == "APIRESP: "
    assert say(agent, "APIS: ") == "APIS: "


def test_a_stage_agent_needs_only_its_own_model(datapath, tiny_gpt2):
    options = {"datapath": str(datapath), "datatype": "valid", "task": "google_sgd"}
    for agent, given in (("ApiCallAgent", "api_call_model"), ("ResponseAgent", "response_model")):
        created = create_agent({**options, "model": f"tod_bias.agents:{agent}", given: str(tiny_gpt2)})
        assert list(created.pipeline.stages) == [created.stage_name]


def test_plain_text_is_a_turn_without_an_api_call(strict_pipeline):
    item = StageInput((), "hello", {"api_call": {}, "db": {}})
    stages = load_pipeline(strict_pipeline).stages
    assert say(make("ResponseAgent", strict_pipeline), "hello") == stages["response"]([item])[0]
    assert (
        say(make("ApiCallAgent", strict_pipeline), "hello") == f"APICALL: {parlai_text(stages['api_call']([item])[0])}"
    )


def test_what_a_stage_agent_lacks_is_one_line(strict_pipeline, tmp_path):
    agent = make("ResponseAgent", strict_pipeline)
    say(agent, "USER: hello")
    with pytest.raises(StageError, match="gold API call, which this teacher does not show"):
        say(agent, "APIRESP: ")
    (tmp_path / "one.yaml").write_text('stages: {db: {stage: "tod_bias.stages:LookupDb", table: {}}}')
    with pytest.raises(StageError, match="no stage 'response'; it has db"):
        make("ResponseAgent", tmp_path / "one.yaml")


@pytest.mark.parametrize("batchsize", [1, 3])
def test_in_parlais_tod_world_a_pipeline_and_a_database_agent_talk_as_in_the_core(datapath, tmp_path, batchsize):
    from parlai.scripts.tod_world_script import TodWorldScript

    # here nothing but texts goes from agent to agent, and ParlAI's cannot carry a value with " ; "
    pipeline = write_strict_pipeline(tmp_path, "plain_stages", STRICT_STAGES.replace("b ; a = ", "b a "))
    TodWorldScript.main(
        system_model="tod_bias.agents:PipelineAgent", api_resp_model="tod_bias.agents:LookupDbAgent",
        user_model="parlai.tasks.google_sgd.agents:UserUttAgent",
        goal_grounding_model="parlai.tasks.google_sgd.agents:GoalAgent", pipeline=str(pipeline), history="system",
        db="teacher", datapath=str(datapath), datatype="valid", num_episodes=-1, batchsize=batchsize,
        world_logs=str(tmp_path / "log"), loglevel="error",
    )  # fmt: skip
    said = set()
    for line in (tmp_path / "log_conversations.jsonl").read_text().splitlines():
        said |= {message["text"] for messages in json.loads(line)["dialog"] for message in messages}
    traces = Execution(load_pipeline(pipeline), "system")([Run(dialogue) for dialogue in DIALOGUES])
    expected = {outputs["response"] for trace in traces for outputs in outputs_of(trace)}
    assert {text for text in said if text.startswith("SYSTEM: ")} == {f"SYSTEM: {response}" for response in expected}


def test_parlais_standalone_task_scores_the_database_agent(datapath: Path, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        shutil.copytree(datapath / "google_sgd" / "dev", tmp_path / "google_sgd" / split)
    shutil.copy(datapath / "google_sgd" / ".built", tmp_path / "google_sgd")
    _, report = evaluate_with_parlai(
        tmp_path / "log.jsonl", task="google_sgd:StandaloneApiTeacher", datapath=str(tmp_path),
        model="tod_bias.agents:LookupDbAgent", batchsize=2,
    )  # fmt: skip
    assert report["exs"] == 12
    assert 0.5 < report["accuracy"] <= 1


@pytest.mark.parametrize(
    ("agent", "measured"), [("ApiCallAgent", "jga"), ("LookupDbAgent", "db_accuracy"), ("ResponseAgent", "nlg_bleu")]
)
def test_stage_agents_answer_rewritten_tasks(
    datapath: Path, strict_pipeline: Path, tmp_path: Path, agent: str, measured: str
) -> None:
    options = {} if agent == "LookupDbAgent" else {"pipeline": str(strict_pipeline)}
    _, report = evaluate_with_parlai(
        tmp_path / "log.jsonl", task="tod_bias.agents:PerturbedGoogleSgdTeacher", datapath=str(datapath),
        model=f"tod_bias.agents:{agent}", axis="gender", **options,
    )  # fmt: skip
    assert measured in report
