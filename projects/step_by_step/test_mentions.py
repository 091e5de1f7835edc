"""Mentions of several corpora: counted by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tod_bias import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl

DIALOGUES = [
    Dialogue("1", "", (Turn("A table for my mother.", response="Done."),)),
    Dialogue("2", "", (Turn("My mother and my son call for my mother.", response="Hello."),)),
]


def test_several_corpora_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(DIALOGUES, "one.jsonl")
    write_jsonl(DIALOGUES[1:], "other.jsonl")
    script = Path(__file__).with_name("mentions.py")
    options = ["--corpus", "one.jsonl,other.jsonl", "--split", "test", "--axes", "gender,race", "--out", "run"]
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=True)
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("  woman"))
    assert row.split() == ["woman", "75.0%", "(3)", "66.7%", "(2)"]
    assert "–" in done.stdout  # no race is mentioned
    for name in ("one", "other"):
        assert json.loads(Path(f"run/{name}/words.json").read_text())["corpus"]["name"] == f"{name}.jsonl"
    assert "other" in Path("run/figures/corpora.svg").read_text()
