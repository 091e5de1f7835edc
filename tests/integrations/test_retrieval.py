"""Agents that are processes and use embeddings, moderations and models of two providers: components like others."""

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Server(ThreadingHTTPServer):
    """Of one provider: it refuses the keys and requests of the other."""

    def __init__(self, provider, biased):
        super().__init__(("127.0.0.1", 0), Handler)
        self.provider, self.biased = provider, biased
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.headers["x-api-key"] or self.headers["authorization"]
        is_anthropics = self.path.endswith("/messages")
        is_right = key.endswith(KEYS[self.server.provider]) and is_anthropics == (self.server.provider == "ANTHROPIC")
        data = json.dumps(reply_to(self.path, body, self.server.biased) if is_right else {"error": key}).encode()
        self.send_response(200 if is_right else 400)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@contextmanager
def agent_file(folder, biased="", stages=STAGES):
    servers = [Server(provider, biased) for provider in KEYS]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    first, other = ({"base_url": server.url, "api_key_env": f"{server.provider}_API_KEY"} for server in servers)
    upstream = json.dumps({**first, "anthropic": other})
    path = folder / "agent.yaml"
    path.write_text(
        f"agent: {{command: {json.dumps(COMMAND)}, concurrency: 1}}\nupstream: {upstream}\nstages: {stages}\n"
    )
    yield path
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for provider, key in KEYS.items():
        monkeypatch.setenv(f"{provider}_API_KEY", key)


@pytest.mark.parametrize("biased", ["guard", "search", "model"])
def test_a_bias_is_found_in_its_component(biased, tmp_path):
    with agent_file(tmp_path, biased) as path:
        result = attribute(
            load_pipeline(path), about_people(6), axes=["gender"], metrics="chrf", bootstrap=20, permutations=20
        )
    woman = result.axes["gender"]["chrf"].groups["woman"]
    assert abs(woman.gap.value) > 0.001
    shares = {stage: round(part.shapley.value / woman.gap.value, 9) for stage, part in woman.contributions.items()}
    assert shares == {stage: float(stage == biased) for stage in ("guard", "search", "model")}
    assert woman.unattributed.value == pytest.approx(0)


def test_what_is_no_stage_is_sent_on(tmp_path):
    with agent_file(tmp_path, stages="{model: {match: {kind: model}}}") as path:
        (item,) = load_pipeline(path)([StageInput((), "A table for 4")])
    assert item.outputs["reply"] == "Yes: The table is by the window."


def test_doctor_lists_requests_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_chat(about_people(2), "chats.jsonl")
    with agent_file(tmp_path) as path:
        code, said, _ = run_command(f"doctor {path} --corpus chats.jsonl")
    assert code == 0
    stages = {kind: {"match": {"kind": kind}} for kind in ("model", "embedding", "moderation")}
    assert yaml.safe_load(said)["stages"] == stages


def test_numbers_of_tokens_in_place_of_texts_are_refused():
    with pytest.raises(StageError, match="numbers of tokens cannot be rewritten"):
        check_texts("/embeddings", request_of("/embeddings", {"model": "e", "input": [[1, 2], [3]]}))
