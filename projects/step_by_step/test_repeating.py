"""The first task of models that read and write apart: to say what the user said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tod_bias.dialogues.corpora import load_corpus

SCRIPT = Path(__file__).parent / "repeating.py"


def test_every_utterance_of_the_corpus_is_said_once_and_repeated(tmp_path):
    said = [("USER", "A room?"), ("SYSTEM", "Where?"), ("USER", "In Davis."), ("SYSTEM", "Where?")]
    turns = [
        {"speaker": speaker, "utterance": text, "frames": [{"service": "Hotels_2"}]} for speaker, text in [*said, *said]
    ]
    folder = tmp_path / "google_sgd" / "train"
    folder.mkdir(parents=True)
    corpus = [{"dialogue_id": f"1_{number}", "services": ["Hotels_2"], "turns": turns} for number in range(3)]
    (folder / "dialogues_001.json").write_text(json.dumps(corpus))
    out = tmp_path / "repeating.jsonl"
    subprocess.run([sys.executable, SCRIPT, tmp_path, out], check=True)
    made = [turn for dialogue in load_corpus(out) for turn in dialogue.turns]
    assert all(turn.user == turn.response and not turn.steps for turn in made)
    assert sorted(turn.user for turn in made) == ["A room?", "In Davis.", "Where?"]
