"""``tod-bias database``."""

from __future__ import annotations

import json

import pytest

from tod_bias import Dialogue, Step, Turn
from tod_bias.cli import main
from tod_bias.dialogues.jsonl import write_jsonl
from tod_bias.stages import LookupDb, SqlDb

DIALOGUES = [
    Dialogue("1", "Hotels", (Turn("Hi", steps=(Step({"api_name": "Find", "city": "Davis"}, ({"name": "Mill"},)),)),)),
    Dialogue("2", "Hotels", (Turn("Hi", steps=(Step({"api_name": "Find", "stars": 3}, ({"name": "Hall"},)),)),)),
]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in ("database", *arguments)])
    return int(end.value.code or 0)


def test_a_file_of_dialogues_becomes_a_database_and_schemas(tmp_path, capsys):
    write_jsonl(DIALOGUES, tmp_path / "mine.jsonl")
    out, tools = tmp_path / "mine.sqlite", tmp_path / "tools.json"
    assert run("--corpus", tmp_path / "mine.jsonl", "--out", out, "--tools", tools) == 0
    shown = capsys.readouterr().out
    assert "Hotels" in shown
    assert "Database: " in shown.replace("\n", "")
    assert [row["name"] for row in SqlDb(out).look_up({"api_name": "Find"}).rows] == ["Mill", "Hall"]
    (schema,) = json.loads(tools.read_text())
    properties = {"city": {"type": "string"}, "stars": {"type": "integer"}}
    assert schema["function"]["parameters"] == {"type": "object", "properties": properties, "required": []}


def test_splits_are_named_or_all_that_are_there(tmp_path, capsys):
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
    arguments = ("--corpus", "google_sgd", "--datapath", tmp_path, "--out", tmp_path / "sgd.sqlite", "--quiet")
    assert run(*arguments) == 0
    assert run(*arguments, "--splits", "valid") == 0
    assert SqlDb(tmp_path / "sgd.sqlite").look_up({"api_name": "Find"}).rows == ({"name": "A"},)
    assert run(*arguments, "--splits", "train,valid") == 2
    assert "say --split valid" in capsys.readouterr().err
    assert run(*arguments, "--splits", "dev") == 2
    assert "unknown split 'dev'" in capsys.readouterr().err
    (folder / "dialogues_001.json").unlink()
    assert run(*arguments) == 2


def test_a_folder_that_is_not_there_is_one_line(tmp_path, capsys):
    assert run("--out", tmp_path / "no" / "such" / "a.sqlite") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_check_writes_counts_and_the_missing_rows_as_a_table(tmp_path, capsys):
    call = {"api_name": "Find", "for": "my mother"}
    write_jsonl(
        [Dialogue("1", "Halls", (Turn("For my mother", steps=(Step(call, ({"name": "Hall"},)),)),))],
        tmp_path / "mine.jsonl",
    )
    out = tmp_path / "checked"
    assert run("check", "--corpus", tmp_path / "mine.jsonl", "--axes", "gender", "--out", out) == 0
    assert "2 calls with missing rows" in capsys.readouterr().out
    counts = json.loads((out / "database.json").read_text())["axes"]["gender"]
    assert (counts["woman"]["none"], counts["man"]["none"], counts["man"]["calls"]) == (0, 1, 1)
    assert len(LookupDb(out / "missing.jsonl")) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--stage", "store"), "the pipeline has none of this name; it has api_call, db, response"),
        (("--database", "nowhere.sqlite"), "no such SQLite file"),
    ],
)
def test_a_check_refuses_what_it_cannot_ask(tmp_path, capsys, options, says):
    assert run("check", *options, "--out", tmp_path / "out") == 2
    assert says in capsys.readouterr().err.replace("\n", " ")
