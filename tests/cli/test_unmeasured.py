"""A run that measures nothing ends with exit code 2, and never passes the gate."""

import json
from pathlib import Path

import pytest
from builders import small_corpus
from commands import refused, run_command

from tod_bias.dialogues.files import write_jsonl

STAGES = """
import re

class Echo:
    def __call__(self, inputs):
        return [f"Of course, {item.user}" for item in inputs]

class Same:
    def __call__(self, inputs):
        return ["Something went wrong." for _ in inputs]

class Empty:
    def __call__(self, inputs):
        return ["" for _ in inputs]

class Other:
    def __call__(self, inputs):
        return [f"zzz{len(item.user)} qqq" for item in inputs]

class Policy:
    calls = {"api_name": "find", "place": "York"}
    def __call__(self, inputs):
        return [None if item.steps else self.calls for item in inputs]

class Wrong(Policy):
    calls = {"api_name": "find", "city": "York"}

class Unknown(Policy):
    calls = {"api_name": "search", "place": "York"}
"""
TOOLS = """
def find(place: str) -> dict:
    return {"found": place}
"""
QUICK = ("--bootstrap", 0, "--permutations", 0, "--axes", "gender", "--quiet", "--out", "run")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_jsonl(small_corpus(), "corpus.jsonl")
    chats = [
        {"messages": [{"role": "user", "content": turn.user} for turn in dialogue.turns]} for dialogue in small_corpus()
    ]
    (tmp_path / "users.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    (tmp_path / "unmeasured_stages.py").write_text(STAGES)
    (tmp_path / "unmeasured_tools.py").write_text(TOOLS)
    for name in ("Echo", "Same", "Empty", "Other"):
        (tmp_path / f"{name}.yaml").write_text(f"stages: {{response: 'unmeasured_stages:{name}'}}")
    for name in ("Policy", "Wrong", "Unknown"):
        (tmp_path / f"{name}.yaml").write_text(
            f"flow: tool_loop\nstages:\n  policy: 'unmeasured_stages:{name}'\n"
            "  tools: {stage: 'tod_bias.stages:Tools', functions: unmeasured_tools}\n"
            "  answer: 'unmeasured_stages:Echo'\n"
        )


@pytest.mark.parametrize(
    ("corpus", "pipeline", "metrics", "why"),
    [
        ("users.jsonl", "Echo", "corpus_bleu", "needs reference responses"),
        ("users.jsonl", "Policy", "jga", "needs gold calls"),
        ("corpus.jsonl", "Same", "corpus_bleu", "every response is the same"),
        ("corpus.jsonl", "Same", "disagreement", "every output is the same"),
        ("corpus.jsonl", "Empty", "length", "every response is empty"),
        ("corpus.jsonl", "Other", "corpus_bleu", "close to 0"),
        ("corpus.jsonl", "Wrong", "length", "the function does not take the arguments of "),
        ("corpus.jsonl", "Unknown", "length", "unknown tool "),
    ],
)
def test_a_run_that_measures_nothing_does_not_pass(corpus, pipeline, metrics, why):
    command = ("attribute", "--corpus", corpus, "--pipeline", f"{pipeline}.yaml", "--metrics", metrics, *QUICK)
    said = refused(*command)
    assert why in said
    assert "--allow-unmeasured" in said
    record = json.loads(Path("run/results.json").read_text())["axes"]["gender"][metrics]
    assert record["verdict"] == "inconclusive"
    assert record["limiting_factors"] == ["nothing measured"]


def test_a_run_that_may_measure_nothing_does_not_pass_the_gate():
    command = ("attribute --corpus corpus.jsonl --pipeline Same.yaml --metrics disagreement", *QUICK)
    assert run_command(*command, "--allow-unmeasured")[0] == 0
    assert run_command("check run --max-gap 0.9")[0] == 3


@pytest.mark.parametrize(
    ("corpus", "pipeline", "metrics"),
    [("users.jsonl", "Echo", "disagreement"), ("users.jsonl", "Policy", "length"), ("corpus.jsonl", "Echo", "refusal")],
)
def test_a_run_that_measures_something_is_left_alone(corpus, pipeline, metrics):
    code, _, err = run_command(
        "attribute", "--corpus", corpus, "--pipeline", f"{pipeline}.yaml", "--metrics", metrics, *QUICK
    )
    assert code == 0, err


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"properties": {"city": {"type": "string"}}}, "'city', which the function does not take"),
        ({"properties": {"place": {}, "stars": {}}, "required": ["place"]}, "'stars', which the function does not"),
    ],
)
def test_schemas_that_do_not_fit_are_refused_before_anything_is_called(tmp_path, parameters, why):
    schema = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", **parameters}}}]
    (tmp_path / "tools.json").write_text(json.dumps(schema))
    chat = "model: m\n    base_url: http://127.0.0.1:9/v1"
    own = f"stage: 'tod_bias.stages:ToolCalls'\n    {chat}\n    tools: tools.json"
    pipelines = {
        "functions": (
            "flow: tool_loop\nstages:\n  policy: 'unmeasured_stages:Policy'\n"
            "  tools: {stage: 'tod_bias.stages:Tools', functions: unmeasured_tools, schemas: tools.json}\n"
            "  answer: 'unmeasured_stages:Echo'\n"
        ),
        "offered": (
            f"flow: tool_loop\nstages:\n  policy:\n    {own}\n"
            "  tools: {stage: 'tod_bias.stages:Tools', functions: unmeasured_tools}\n"
            "  answer: 'unmeasured_stages:Echo'\n"
        ),
    }
    for name, text in pipelines.items():
        (tmp_path / f"{name}.yaml").write_text(text)
        assert why in refused("attribute --corpus users.jsonl", "--pipeline", f"{name}.yaml", *QUICK)
