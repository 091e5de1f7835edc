"""A pipeline as a ParlAI agent: the same responses as through the core, batched or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from builders import outputs_of
from parlai.core.agents import create_agent
from parlai.core.message import Message
from sgd_files import CALL, DIALOGUES, RESULTS, evaluate_with_parlai, lines_of

from tod_bias import load_corpus
from tod_bias.agents.options import build_pipeline
from tod_bias.agents.protocol import parlai_text
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.text import slots_to_text
from tod_bias.errors import StageError
from tod_bias.pipelines import load_pipeline
from tod_bias.systems.execution import Execution, HistoryMode, Run
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.database import LookupDb

pytestmark = pytest.mark.parlai

AGENT = "tod_bias.agents:PipelineAgent"


def core_answers(pipeline: Pipeline, dialogues: tuple[Dialogue, ...], history: HistoryMode) -> dict[str, list[str]]:
    """What the core makes of dialogues, as the agent's answers to a system teacher."""
    traces = Execution(pipeline, history)([Run(dialogue) for dialogue in dialogues])
    answers = {}
    for dialogue, trace in zip(dialogues, traces, strict=True):
        texts = ["APIS: "]
        for outputs in outputs_of(trace):
            texts += [f"APICALL: {parlai_text(outputs['api_call'])}", f"SYSTEM: {outputs['response']}"]
        answers[lines_of(dialogue)] = [*texts, "APICALL: ", "SYSTEM: "]
    return answers


@pytest.mark.parametrize(("history", "batchsize"), [("gold", 1), ("gold", 16), ("system", 1), ("system", 3)])
def test_answers_are_those_of_the_core(datapath, strict_pipeline, tmp_path, history, batchsize):
    answers, _ = evaluate_with_parlai(
        tmp_path / "log.jsonl", task="google_sgd", datapath=str(datapath), model=AGENT, pipeline=str(strict_pipeline),
        history=history, batchsize=batchsize,
    )  # fmt: skip
    assert answers == core_answers(load_pipeline(strict_pipeline), DIALOGUES, history)


def test_a_checkpoint_answers_as_in_the_core_batched_or_not(datapath, tmp_path, tiny_gpt2):
    LookupDb.from_dialogues(DIALOGUES).save(tmp_path / "db.jsonl")
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"""stages:
          api_call: {{stage: "tod_bias.stages:ApiCall", model: "{tiny_gpt2}", max_new_tokens: 12}}
          db: {{stage: "tod_bias.stages:LookupDb", table: db.jsonl}}
          response: {{stage: "tod_bias.stages:Response", model: "{tiny_gpt2}", max_new_tokens: 12}}"""
    )
    options = {"task": "google_sgd", "datapath": str(datapath), "model": AGENT, "pipeline": str(path)}
    single, _ = evaluate_with_parlai(tmp_path / "one.jsonl", **options, batchsize=1)
    many, _ = evaluate_with_parlai(tmp_path / "many.jsonl", **options, batchsize=16)
    assert single == many == core_answers(load_pipeline(path), DIALOGUES, "gold")
    assert len({answer for answers in single.values() for answer in answers}) > 3  # it does say something


@pytest.mark.parametrize(
    "task", ["google_sgd", "google_sgd:SystemTeacher", "tod_bias.agents:PerturbedGoogleSgdTeacher"]
)
def test_stage_models_look_up_in_the_corpus_of_the_task(datapath, tiny_gpt2, task):
    options = {"model": AGENT, "stage_model": str(tiny_gpt2), "task": task, "datatype": "valid"}
    stages = create_agent({**options, "datapath": str(datapath)}).pipeline.stages
    assert list(stages) == ["api_call", "db", "response"]
    assert stages["db"].look_up(CALL).rows == RESULTS
    assert len(create_agent({**options, "task": "interactive", "datapath": "/nowhere"}).pipeline.stages["db"]) == 0
    short = create_agent({**options, "datapath": str(datapath), "max_new_tokens": 7})
    assert short.pipeline.stages["response"].generator.settings.max_new_tokens == 7
    other = create_agent({**options, "db_corpus": "google_sgd", "task": "interactive", "datapath": str(datapath)})
    assert other.pipeline.stages["db"].look_up(CALL).rows == RESULTS


def test_parlai_scores_gold_answers_as_right(datapath, tmp_path):
    (tmp_path / "gold_stages.py").write_text(
        "from sgd_files import DIALOGUES\n"
        "from tod_bias.stages import Replay\n"
        "call, db, response = (Replay.gold(DIALOGUES, part) for part in ('api_call', 'api_result', 'response'))\n"
    )
    pipeline = tmp_path / "gold.yaml"
    pipeline.write_text('stages: {api_call: "gold_stages:call", response: "gold_stages:response"}')
    _, report = evaluate_with_parlai(
        tmp_path / "log.jsonl", task="google_sgd", datapath=str(datapath), model=AGENT, pipeline=str(pipeline)
    )
    # ParlAI reads the predicted value "tacos, noodles" as a set and the one with " ; " as two slots: one turn of 11
    assert report["jga"] == pytest.approx(10 / 11)
    assert report["nlg_f1"] == pytest.approx(1.0)


def test_teacher_results_take_the_place_of_the_database(datapath, strict_pipeline, tmp_path):
    options = {"task": "google_sgd", "datapath": str(datapath), "model": AGENT, "pipeline": str(strict_pipeline)}
    default, _ = evaluate_with_parlai(tmp_path / "own.jsonl", **options)
    teachers, _ = evaluate_with_parlai(tmp_path / "teacher.jsonl", **options, db="teacher")
    stages = load_pipeline(strict_pipeline).stages
    gold_db = Pipeline({**stages, "db": lambda inputs: [_gold_result(item.user) for item in inputs]})
    assert teachers == core_answers(gold_db, DIALOGUES, "gold") != default


def _gold_result(user: str) -> Any:
    return next(turn.api_result for dialogue in DIALOGUES for turn in dialogue.turns if turn.user == user)


def agent_of(pipeline: Path, **options: Any) -> Any:
    return create_agent({"model": AGENT, "datapath": "/nowhere", "pipeline": str(pipeline), **options})


def say(agent: Any, text: str, **fields: Any) -> Any:
    agent.observe(Message({"text": text, "episode_done": False, **fields}))
    return agent.act()


def test_plain_text_runs_the_whole_pipeline_and_is_remembered(strict_pipeline):
    agent = agent_of(strict_pipeline)
    replies = [say(agent, text) for text in ("I want tacos", "In Fremont")]
    turns = tuple(Turn(text) for text in ("I want tacos", "In Fremont"))
    trace = Execution(load_pipeline(strict_pipeline), "system")([Run(Dialogue("typed", "", turns))])[0]
    expected = outputs_of(trace)
    assert [reply["text"] for reply in replies] == [outputs["response"] for outputs in expected]
    assert [reply["api_call"] for reply in replies] == [parlai_text(outputs["api_call"]) for outputs in expected]
    assert [reply["api_result"] for reply in replies] == [parlai_text(outputs["db"]) for outputs in expected]
    typed = say(agent_of(strict_pipeline, interactive_mode=True), "USER: I want tacos")
    assert typed["text"] == replies[0]["text"]


def test_nothing_of_one_dialogue_is_left_in_the_next(strict_pipeline):
    fresh = say(agent_of(strict_pipeline), "USER: hello")["text"]
    agent = agent_of(strict_pipeline)
    say(agent, "old news")
    agent.reset()
    assert say(agent, "USER: hello")["text"] == fresh
    say(agent, "APIRESP: ", episode_done=True)
    assert say(agent, "USER: hello")["text"] == fresh
    say(agent, "APIS: ")
    assert say(agent, "USER: hello")["text"] == fresh


def test_copies_share_the_stages_and_a_batch_calls_each_stage_once(strict_pipeline):
    agent = agent_of(strict_pipeline)
    copies = [agent.clone() for _ in range(4)]
    assert all(copy.pipeline is agent.pipeline for copy in copies)
    batches = sys.modules["strict_stages"].batches
    batches.clear()
    lines = ["USER: a", "USER: b", "plain", "USER: c"]
    seen = [copy.observe(Message({"text": line})) for copy, line in zip(copies, lines, strict=True)]
    replies = agent.batch_act([*seen, Message.padding_example()])
    assert batches == [("api_call", 3), ("api_call", 1), ("response", 1)]
    assert "text" not in replies[-1]
    assert replies[0]["text"] == say(agent.clone(), "USER: a")["text"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["APIRESP: a = b"], "came before any USER: line"),
        (["GOAL: a = b"], "a user simulator's task"),
        (["APIS: \nAPIS: \nUSER: hello"], "one line at a time"),
        (["USER: a", "APIRESP: ", "USER: b"], "use --history system"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_error(strict_pipeline, lines, expected):
    agent = agent_of(strict_pipeline)
    *before, last = lines
    for line in before:
        say(agent, line)
    with pytest.raises(StageError, match=expected):
        say(agent, last)


def test_the_end_mark_is_answered_by_its_labels(strict_pipeline):
    agent = agent_of(strict_pipeline)
    assert [say(agent, line)["text"] for line in ("USER: [DONE]", "APIRESP: ")] == ["APICALL: ", "SYSTEM: "]
    assert say(agent, "USER: hello")["text"] == say(agent_of(strict_pipeline), "USER: hello")["text"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pipeline": "demo", "stage_model": "x"}, "either --pipeline or --stage-model"),
        ({"api_call_model": "x"}, "add --response-model"),
        ({"response_model": "x"}, "add --api-call-model"),
        ({"pipeline": "demo", "db_corpus": "google_sgd"}, "--db-corpus goes with --stage-model"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, expected):
    with pytest.raises(StageError, match=expected):
        create_agent({"model": AGENT, "datapath": "/nowhere", **options})


def test_gold_slots_are_read_from_the_message_where_the_text_is_ambiguous(strict_pipeline):
    call = {**CALL, "note": "a ; b = c"}
    agent = agent_of(strict_pipeline)
    text = " ; ".join(f"{name} = {value}" for name, value in sorted(call.items()))
    say(agent, "USER: a", slots=call, eval_labels=[f"APICALL: {text}"])
    say(agent, f"APIRESP: {parlai_text(RESULTS[0])}", slots=RESULTS[0], eval_labels=["SYSTEM: b"])
    agent.observe(Message({"text": "USER: c"}))
    context = agent.observation["tod_bias_request"].item.context
    heard = ["USER: a", f"APICALL: {slots_to_text(call)}", f"APIRESP: {slots_to_text(RESULTS[0])}"]
    assert context.splitlines()[:3] == heard


FLOW = """
def route(turn):
    name = yield 'router'
    yield name
def router(inputs): return ['second' if 'tacos' in item.user else 'first' for item in inputs]
def first(inputs): return ['the first'] * len(inputs)
def second(inputs): return [f'the second after {len(item.history)}' for item in inputs]
"""


def test_a_flow_answers_whole_turns(tmp_path):
    (tmp_path / "my_flow.py").write_text(FLOW)
    stages = ", ".join(f'{name}: "my_flow:{name}"' for name in ("router", "second", "first"))
    (tmp_path / "flow.yaml").write_text(f"flow: my_flow:route\nstages: {{{stages}}}\n")
    agent = agent_of(tmp_path / "flow.yaml")
    texts = ("I want tacos", "In Fremont", "More tacos")
    assert [say(agent, text)["text"] for text in texts] == ["the second after 0", "the first", "the second after 2"]
    with pytest.raises(StageError, match="a pipeline with a flow decides itself when it calls"):
        say(agent_of(tmp_path / "flow.yaml"), "USER: I want tacos")


def test_a_guard_is_an_option():
    options = {"pipeline": "demo", "guard": "response=canonical:gender,age"}
    stage = build_pipeline(options).stages["response"]
    assert [stage.axis.name, stage.inner.axis.name] == ["gender", "age"]
    with pytest.raises(StageError, match="no such stage; there are api_call, db, response"):
        build_pipeline({"pipeline": "demo", "guard": "reply=canonical:gender"})


@pytest.mark.real_data
@pytest.mark.slow
def test_answers_on_real_dialogues_are_those_of_the_core(
    sgd_datapath: Path, strict_pipeline: Path, tmp_path: Path
) -> None:
    dialogues = load_corpus("google_sgd", datapath=sgd_datapath, split="valid")
    options = {"task": "google_sgd", "datapath": str(sgd_datapath), "n_shot": 60, "batchsize": 16}
    options |= {"model": AGENT, "pipeline": str(strict_pipeline)}
    for history in ("gold", "system"):
        answers, _ = evaluate_with_parlai(tmp_path / f"{history}.jsonl", **options, history=history)
        chosen = tuple(dialogue for dialogue in dialogues if lines_of(dialogue) in answers)
        assert len(answers) == 60
        assert answers == core_answers(load_pipeline(strict_pipeline), chosen, history)
