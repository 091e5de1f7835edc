"""Agents that are processes and use embeddings, moderations and models of two providers: components like others."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from builders import WORDS
from commands import run_command
from flows import about_people

from tod_bias import StageInput, attribute, load_pipeline
from tod_bias.dialogues.chat import write_chat
from tod_bias.errors import StageError
from tod_bias.integrations.model_apis import check_texts, request_of

COMMAND = f"{sys.executable} {Path(__file__).parent.parent}/retrieving_agent.py"
KEYS = {"OPENAI": "key-of-the-first-server", "ANTHROPIC": "key-of-the-other-server"}
STAGES = "{guard: {match: {kind: moderation}}, search: {match: {kind: embedding}}, model: {match: {kind: model}}}"


def reply_to(path, body, biased):
    def harms(name, text):
        return name == biased and any(word in text for word in WORDS)

    if path.endswith("/moderations"):
        return {"id": "modr-1", "model": "m", "results": [{"flagged": harms("guard", body["input"])}]}
    if path.endswith("/embeddings"):
        assert "encoding_format" not in body
        vectors = [[0.5, 0.25] if "window" in text else [0.25, 0.5] for text in body["input"]]
        vectors[0] = [0.0, 1.0] if harms("search", body["input"][0]) else [1.0, 0.0]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return {"object": "list", "model": "e", "data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    question = body["messages"][0]["content"]
    text = "No." if harms("model", question) else f"Yes: {question[:29].rpartition('.')[0]}."
    content = [{"type": "text", "text": text}]
    return {"type": "message", "role": "assistant", "model": "c", "content": content, "stop_reason": "end_turn"}


@pytest.fixture
def agent_file(json_server, tmp_path):
    """Write a file of the agent; each of its two servers refuses the keys and requests of the other provider."""

    def write(biased="", stages=STAGES):
        def answers_of(provider):
            def reply(path, headers, body):
                key = headers["x-api-key"] or headers["authorization"]
                is_right = path.endswith("/messages") == (provider == "ANTHROPIC") and key.endswith(KEYS[provider])
                return (200, reply_to(path, body, biased)) if is_right else (400, {"error": key})

            return reply

        first, other = (
            {"base_url": f"{json_server(answers_of(provider))}/v1", "api_key_env": f"{provider}_API_KEY"}
            for provider in KEYS
        )
        upstream = json.dumps({**first, "anthropic": other})
        agent = f"agent: {{command: {json.dumps(COMMAND)}, concurrency: 1}}"
        (tmp_path / "agent.yaml").write_text(f"{agent}\nupstream: {upstream}\nstages: {stages}\n")
        return tmp_path / "agent.yaml"

    return write


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for provider, key in KEYS.items():
        monkeypatch.setenv(f"{provider}_API_KEY", key)


@pytest.mark.parametrize("biased", ["guard", "search", "model"])
def test_a_bias_is_found_in_its_component(biased, agent_file):
    options = {"axes": ["gender"], "metrics": "chrf", "bootstrap": 20, "permutations": 20}
    result = attribute(load_pipeline(agent_file(biased)), about_people(6), **options)
    woman = result.axes["gender"]["chrf"].groups["woman"]
    assert abs(woman.gap.value) > 0.001
    shares = {stage: round(part.shapley.value / woman.gap.value, 9) for stage, part in woman.contributions.items()}
    assert shares == {stage: float(stage == biased) for stage in ("guard", "search", "model")}
    assert woman.unattributed.value == pytest.approx(0)


def test_what_is_no_stage_is_sent_on(agent_file):
    made = load_pipeline(agent_file(stages="{model: {match: {kind: model}}}"))
    (item,) = made([StageInput((), "A table for 4")])
    assert item.outputs["reply"] == "Yes: The table is by the window."


def test_doctor_lists_requests_of_every_kind(agent_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_chat(about_people(2), "chats.jsonl")
    code, said, _ = run_command(f"doctor {agent_file()} --corpus chats.jsonl")
    assert code == 0
    stages = {kind: {"match": {"kind": kind}} for kind in ("model", "embedding", "moderation")}
    assert yaml.safe_load(said)["stages"] == stages


def test_numbers_of_tokens_in_place_of_texts_are_refused():
    with pytest.raises(StageError, match="numbers of tokens cannot be rewritten"):
        check_texts("/embeddings", request_of("/embeddings", {"model": "e", "input": [[1, 2], [3]]}))
