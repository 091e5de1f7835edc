"""``tod-bias database``."""

from __future__ import annotations

import json

from commands import refused, run_command

from tod_bias import Dialogue, Step, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.stages import LookupDb, SqlDb

DIALOGUES = [
    Dialogue("1", "Hotels", (Turn("Hi", steps=(Step({"api_name": "Find", "city": "Davis"}, ({"name": "Mill"},)),)),)),
    Dialogue("2", "Hotels", (Turn("Hi", steps=(Step({"api_name": "Find", "stars": 3}, ({"name": "Hall"},)),)),)),
]


def test_a_file_of_dialogues_becomes_a_database_and_schemas(tmp_path):
    write_jsonl(DIALOGUES, tmp_path / "mine.jsonl")
    out, tools = tmp_path / "mine.sqlite", tmp_path / "tools.json"
    code, shown, _ = run_command("database --corpus", tmp_path / "mine.jsonl", "--out", out, "--tools", tools)
    assert (code, "Hotels" in shown) == (0, True)
    assert "Database: " in shown.replace("\n", "")
    assert [row["name"] for row in SqlDb(out).look_up({"api_name": "Find"}).rows] == ["Mill", "Hall"]
    (schema,) = json.loads(tools.read_text())
    properties = {"city": {"type": "string"}, "stars": {"type": "integer"}}
    assert schema["function"]["parameters"] == {"type": "object", "properties": properties, "required": []}


def test_splits_are_named_or_all_that_are_there(tmp_path):
    folder = tmp_path / "google_sgd" / "dev"
    folder.mkdir(parents=True)
    call = {"method": "Find", "parameters": {"city": "Davis"}}
    frames = [{"service": "Rest_1", "service_call": call, "service_results": [{"name": "A"}]}]
    spoken = [
        {"speaker": "USER", "utterance": "a", "frames": []},
        {"speaker": "SYSTEM", "utterance": "b", "frames": frames},
    ]
    record = [{"dialogue_id": "1", "services": ["Rest_1"], "turns": spoken}]
    (folder / "dialogues_001.json").write_text(json.dumps(record))
    arguments = ("database --corpus google_sgd", "--datapath", tmp_path, "--out", tmp_path / "sgd.sqlite", "--quiet")
    assert run_command(*arguments)[0] == run_command(*arguments, "--splits", "valid")[0] == 0
    assert SqlDb(tmp_path / "sgd.sqlite").look_up({"api_name": "Find"}).rows == ({"name": "A"},)
    assert "say --split valid" in refused(*arguments, "--splits", "train,valid")
    assert "'dev'" in refused(*arguments, "--splits", "dev")
    (folder / "dialogues_001.json").unlink()
    assert refused(*arguments)


def test_a_check_writes_counts_and_the_missing_rows_as_a_table(tmp_path):
    call = {"api_name": "Find", "for": "my mother"}
    write_jsonl(
        [Dialogue("1", "Halls", (Turn("For my mother", steps=(Step(call, ({"name": "Hall"},)),)),))],
        tmp_path / "mine.jsonl",
    )
    out = tmp_path / "checked"
    corpus = tmp_path / "mine.jsonl"
    code, shown, _ = run_command("database check --axes gender --corpus", corpus, "--out", out)
    assert (code, "2 calls with missing rows" in shown) == (0, True)
    counts = json.loads((out / "database.json").read_text())["axes"]["gender"]
    assert (counts["woman"]["missing"], counts["man"]["missing"], counts["man"]["calls"]) == (0, 1, 1)
    assert len(LookupDb(out / "missing.jsonl")) == 2


STAGES = """
import re

def policy(inputs):
    texts = [re.search("my [a-z]+", item.user)[0] for item in inputs]
    return ["" if item.steps else {"api_name": "Find", "for": text} for item, text in zip(inputs, texts)]

def answer(inputs):
    return ["Here you are." for _ in inputs]
"""
LOOP = """
flow: tool_loop
stages:
  policy: {stage: "hall_stages:policy"}
  tools: {stage: "tod_bias.stages:SqlDb", url: halls.sqlite}
  answer: {stage: "hall_stages:answer"}
"""


def test_a_run_says_which_stage_looks_up_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hall_stages.py").write_text(STAGES)
    (tmp_path / "agent.yaml").write_text(LOOP)
    call = {"api_name": "Find", "for": "my mother"}
    steps = (Step(call, ({"name": "Hall", "for": "my mother"},)),)
    dialogues = [Dialogue(f"{n}", "Halls", (Turn("For my mother", steps=steps, response="Hall."),)) for n in range(6)]
    write_jsonl(dialogues, "mine.jsonl")
    assert run_command("database --corpus mine.jsonl --out halls.sqlite --quiet")[0] == 0
    audit = "attribute --corpus mine.jsonl --axes gender --pipeline agent.yaml --metrics results_found --bootstrap 20"
    code, _, said = run_command(f"{audit} --permutations 20 --out run --quiet")
    assert code == 0, said
    code, _, said = run_command("database check run --out checked")
    assert code == 0, said
    counts = json.loads((tmp_path / "checked" / "database.json").read_text())["axes"]["gender"]
    assert {group: row["missing"] for group, row in counts.items()} == {"woman": 0, "man": 1, "non-binary": 1}
    refusal = "--stage policies: the pipeline has none of this name; it has policy, tools, answer"
    assert refusal in refused("database check run --stage policies")
