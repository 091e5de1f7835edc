"""The command with a served assistant."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from assistant import TOOLS, assistant, corpus
from chat_server import ChatServer

from tod_bias.dialogues.chat import write_chat

YAML = """\
flow: tool_loop
stages:
  policy: &model
    stage: tod_bias.stages:ToolCalls
    base_url: {url}
    model: m
    api_key_env: MY_KEY
    system: You book hotels.
    tools: tools.json
    concurrency: 8
  tools: {{stage: "tod_bias.stages:Tools", functions: hotels.py, schemas: tools.json}}
  answer: {{<<: *model, stage: "tod_bias.stages:Answer"}}
"""
HOTELS = """\
def find_hotels(city: str, limit: int, guest: str = "") -> list:
    names = ("Fjord House", "Harbour Inn", "The Old Mill")
    return [{"name": f"{name} {city}", "city": city, "price": 80 + 10 * n} for n, name in enumerate(names)][:limit]
"""
KEY = "sk-test-0123456789"


def files_of_a_user(folder, url, count=24):
    (folder / "assistant.yaml").write_text(YAML.format(url=url), encoding="utf-8")
    (folder / "hotels.py").write_text(HOTELS, encoding="utf-8")
    (folder / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    write_chat(corpus(count), folder / "chats.jsonl")


@pytest.mark.slow
def test_the_command_writes_the_key_nowhere(tmp_path):
    with ChatServer(functools.partial(assistant, policy_bias=True), key=KEY) as server:
        files_of_a_user(tmp_path, server.url, 16)
        arguments = ["--corpus", "chats.jsonl", "--pipeline", "assistant.yaml", "--axes", "gender", "--out", "run"]
        arguments += ["--metrics", "corpus_bleu"]
        done = subprocess.run(
            [sys.executable, "-m", "tod_bias.attribute", *arguments, "--bootstrap", "0", "--permutations", "0"],
            cwd=tmp_path, env={**os.environ, "MY_KEY": KEY, "OPENAI_LOG": "debug"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    requests = [json.dumps(body, sort_keys=True) for body in server.received]
    assert len(set(requests)) == len(requests) > 60
    assert KEY not in done.stdout + done.stderr
    for file in Path(tmp_path).rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert sum(1 for line in YAML.splitlines() if line.strip()) <= 20
