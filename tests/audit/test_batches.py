"""Audits by batch files, which are answered elsewhere; and the command with a served assistant."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from assistant import OPTIONS, TOOLS, answer_batches, assistant, comparable, corpus, system
from chat_server import ChatServer
from commands import run_command

from tod_bias import attribute
from tod_bias.dialogues.chat import write_chat
from tod_bias.errors import PendingError, TodBiasError

# batch files -----------------------------------------------------------------------------------------------------


def test_batches_of_several_waves_give_the_result_of_a_server(tmp_path):
    with ChatServer(functools.partial(assistant, policy_bias=True)) as server:
        online = attribute(system(server.url), corpus(24), **OPTIONS)
    nobody = "http://127.0.0.1:9/v1"
    requests, out = tmp_path / "requests", tmp_path / "answered"
    options = {**OPTIONS, "cache": tmp_path / "cache.sqlite", "batch_out": requests}
    # which tool to call; that none is left; what to say where the policy had other requests
    for number, component in enumerate(["policy", "policy", "answer"], start=1):
        with pytest.raises(PendingError) as waiting:
            attribute(system(nobody), corpus(24), **options)
        assert [file.name for file in waiting.value.files] == [f"wave{number:03d}_{component}.jsonl"]
        answer_batches(waiting.value.files, out)
        options["batch_in"] = [out]
    assert comparable(attribute(system(nobody), corpus(24), **options)) == comparable(online)


def test_what_a_batch_left_out_is_requested_again(tmp_path):
    def run(**batch):
        return attribute(system("http://h/v1"), corpus(4), **OPTIONS, cache=tmp_path / "a.sqlite", **batch)

    with pytest.raises(PendingError) as first:
        run(batch_out=tmp_path / "requests")
    with pytest.raises(PendingError) as again:
        run(batch_out=tmp_path / "requests")
    assert again.value.files == first.value.files  # nothing new is requested, nothing is written
    keys = [json.loads(line)["custom_id"] for line in first.value.files[0].read_text().splitlines()]
    answer_batches(first.value.files, tmp_path / "out", skip=keys[:1])
    with pytest.raises(PendingError) as second:
        run(batch_out=tmp_path / "requests", batch_in=[tmp_path / "out"])
    lines = [json.loads(line)["custom_id"] for file in second.value.files for line in file.read_text().splitlines()]
    assert keys[0] in lines
    assert not set(keys[1:]) & set(lines)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "line 1: no JSON"),
        ("[1]", "line 1: expected an object, got list"),
        ('{"custom_id": "x", "response": {}}', "line 1: custom_id 'x' is of no request of ours"),
        ('{"custom_id": "x", "method": "POST", "body": {}}', "holds no output"),
    ],
)
def test_batch_files_that_cannot_be_read(tmp_path, line, said):
    (tmp_path / "out.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(TodBiasError, match=said):
        attribute(system("http://h/v1"), corpus(4), **OPTIONS, batch_in=[tmp_path / "out.jsonl"])


def test_a_refusal_in_a_batch_is_for_good_and_a_full_server_is_not(tmp_path):
    def run(**batch):
        return attribute(system("http://h/v1"), corpus(12), **OPTIONS, cache=tmp_path / "a.sqlite", **batch)

    with pytest.raises(PendingError) as first:
        run(batch_out=tmp_path / "requests")
    keys = [json.loads(line)["custom_id"] for line in first.value.files[0].read_text().splitlines()]
    for status, again in ((429, True), (400, False), (200, False)):  # {} is no chat completion
        line = {"custom_id": keys[0], "response": {"status_code": status, "body": {}}, "error": None}
        (tmp_path / "out.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
        with pytest.raises(PendingError) as second:
            run(batch_out=tmp_path / f"requests{status}", batch_in=[tmp_path / "out.jsonl"], max_failures=1)
        assert (keys[0] in second.value.files[0].read_text()) == again


# the command -----------------------------------------------------------------------------------------------------

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


def test_the_command_goes_on_with_batches(tmp_path, monkeypatch):
    files_of_a_user(tmp_path, "http://127.0.0.1:9/v1", 16)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", KEY)
    line = "attribute --corpus chats.jsonl --pipeline assistant.yaml --axes gender --permutations 50 --out run"
    line += " --metrics corpus_bleu"
    options = ["--batch-out", "requests"]
    for _ in range(4):
        code, said, err = run_command(line, *options)
        if code == 0:
            break
        assert code == 3, err
        assert "requests wait in " in said + err
        waiting = sorted((tmp_path / "requests").iterdir())[-1:]
        answer_batches(waiting, tmp_path / "out")
        options = ["--batch-in", "out"]  # where the files go is known from the first round
    assert code == 0, err
    assert (tmp_path / "run" / "results.json").exists()
