"""``tod-bias export --database``."""

from __future__ import annotations

import json

from commands import refused, run_command

from tod_bias import Dialogue, Step, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.stages import SqlDb

DIALOGUES = [
    Dialogue("1", "Hotels", (Turn("Hi", steps=(Step({"api_name": "Find", "city": "Davis"}, ({"name": "Mill"},)),)),)),
    Dialogue("2", "Hotels", (Turn("Hi", steps=(Step({"api_name": "Find", "stars": 3}, ({"name": "Hall"},)),)),)),
]


def test_a_file_of_dialogues_becomes_a_database_and_schemas(tmp_path):
    write_jsonl(DIALOGUES, tmp_path / "mine.jsonl")
    out, tools = tmp_path / "mine.sqlite", tmp_path / "tools.json"
    code, shown, _ = run_command("export --corpus", tmp_path / "mine.jsonl", "--database", out, "--tools", tools)
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
    database = tmp_path / "sgd.sqlite"
    arguments = ("export --corpus google_sgd", "--datapath", tmp_path, "--database", database, "--quiet")
    assert run_command(*arguments)[0] == run_command(*arguments, "--split", "valid")[0] == 0
    assert SqlDb(tmp_path / "sgd.sqlite").look_up({"api_name": "Find"}).rows == ({"name": "A"},)
    assert "say --split valid" in refused(*arguments, "--split", "train")
    (folder / "dialogues_001.json").unlink()
    assert refused(*arguments)
