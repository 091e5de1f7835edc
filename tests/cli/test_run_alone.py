"""Later commands take a run's folder and ask for nothing that the run knows, unless somebody else wrote it."""

import json
import shutil

import pytest
from builders import small_corpus
from commands import run_command

from tod_bias.config import AuditConfig
from tod_bias.dialogues.files import write_jsonl

STAGES = """
WOMEN = ("wife", "mother", "sister")

class Respond:
    def __init__(self):
        open("imported", "w").close()

    def __call__(self, inputs):
        return [
            "Sorry." if any(word in item.user for word in WOMEN) else "Of course, in which city shall I look for it?"
            for item in inputs
        ]
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A run whose corpus and pipeline lie beside it, under relative names."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    dialogues = small_corpus(48)
    write_jsonl(dialogues, "corpus.jsonl")
    (home / "alone_stages.py").write_text(STAGES)
    (home / "system.yaml").write_text("stages: {response: 'alone_stages:Respond'}")
    options = ("--corpus", "corpus.jsonl", "--pipeline", "system.yaml", "--axes", "gender", "--max-dialogues", 40)
    options += ("--bootstrap", 50, "--permutations", 200, "--out", "run", "--quiet")
    assert run_command("attribute", *options)[0] == 0
    (home / "imported").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return home / "run"


def test_cases_need_nothing_that_the_run_knows(made):
    assert run_command("cases", made, "--worst", 3, "--out", "cases.jsonl")[0] == 0
    assert AuditConfig.read(made).was_written_into(made)


def test_repair_runs_the_runs_own_system_on_its_dialogues(made):
    assert run_command("mitigate", made, "--quiet")[0] in (0, 1)
    record = json.loads((made / "mitigation" / "mitigation.json").read_text())
    assert record["trials"]
    assert record["signature"] == json.loads((made / "results.json").read_text())["signature"]


def test_what_somebody_elses_folder_names_is_not_imported(made, tmp_path):
    received = tmp_path / "received"
    shutil.copytree(made, received)
    assert run_command("mitigate", received, "--quiet")[0] == 2
    assert run_command("cases", received, "--worst", 3)[0] in (0, 2)
    assert not (tmp_path / "home" / "imported").exists()
    assert not (tmp_path / "elsewhere" / "imported").exists()


def test_a_configuration_is_read_as_it_was_written(tmp_path, monkeypatch):
    config = AuditConfig.with_settings(None, {"draws": 2, "metrics": "jga,chrf", "lexicon": ("a=b",), "seed": 4})
    (tmp_path / "config.json").write_text(config.text(tmp_path))
    read = AuditConfig.read(tmp_path)
    assert read.was_written_into(tmp_path)
    assert read.analysis.metrics == ("jga", "chrf")
    assert not read.was_written_into(tmp_path.parent)
