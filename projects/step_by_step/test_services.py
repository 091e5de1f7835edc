"""Scores of dialogues whose services occur in training beside those of the others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tod_bias import Step, Turn
from tod_bias.audit.record import signature_of
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.metrics.calls import CallCounts
from tod_bias.metrics.metric import ScoredTurn

SCRIPT = Path(__file__).parent / "services.py"


@pytest.fixture
def corpus(tmp_path):
    for split, services in {"train": ["Hotels_1", "Buses_1"], "dev": ["Hotels_1", "Hotels_4"]}.items():
        folder = tmp_path / "google_sgd" / split
        folder.mkdir(parents=True)
        made = [{"dialogue_id": f"1_{number}", "services": [name]} for number, name in enumerate(services)]
        (folder / "dialogues_001.json").write_text(json.dumps(made))
    run = tmp_path / "run"
    run.mkdir()
    (run / "evaluation.json").write_text(json.dumps({"corpus": {"split": "valid"}, "signature": {"tod-bias": "0"}}))
    call, reference = {"api_name": "Find", "city": "Davis"}, Turn("", response="In Davis it is.")
    with_call = replace(reference, steps=(Step(call),))
    turns = [
        ScoredTurn("", (call,), (), "In Davis it is.", with_call),
        ScoredTurn("", (), (), "Is it?", reference),
        ScoredTurn("", ({"api_name": "Find"},), (), "No.", with_call),
    ]
    frame = pd.DataFrame({"dialogue": ["1_0", "1_0", "1_1"]})
    for measured in (CallCounts(), CorpusBleu()):
        frame[list(measured.columns)] = measured.statistics(turns)
    frame.to_parquet(run / "turns.parquet")
    return tmp_path


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_dialogues_of_services_that_training_lacks_stand_apart(corpus):
    shown = run(corpus / "run", corpus, corpus / "services.json")
    assert not shown.stderr
    rows = {cells[1].strip(): cells[2:-1] for cells in (line.split("|") for line in shown.stdout.splitlines())}
    assert [re.findall(r"\d+", cell) for cell in rows[""]] == [["1", "2"], ["1", "1"], ["2", "3"]]  # dialogues, turns
    values = {name: [float(cell.split()[0]) for cell in cells] for name, cells in rows.items() if "[" in cells[0]}
    assert values["JGA as ParlAI counts"] == [1, 0, 0.667]
    assert values["JGA over the turns that call"] == [1, 0, 0.5]
    assert values["slot recall"] == [1, 0.5, 0.75]
    written = json.loads((corpus / "services.json").read_text())
    assert [part["scores"]["slot recall"]["value"] for part in written["services"].values()] == [1, 0.5, 0.75]
    assert written["signature"] == {"tod-bias": "0"}  # of the evaluation
    assert written["made by"] == signature_of({})


def test_a_folder_without_the_corpus_is_named(corpus, tmp_path):
    (corpus / "google_sgd" / "train" / "dialogues_001.json").unlink()
    shown = run(corpus / "run", corpus, corpus / "services.json")
    assert shown.returncode == 1
    assert "no dialogues_*.json of Google SGD" in shown.stderr
