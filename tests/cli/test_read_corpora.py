"""Commands over the corpora that are read from ParlAI's layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run_command
from made_corpora import write_metalwoz, write_taskmaster3

from tod_bias import load_corpus
from tod_bias.audit.mentions import word_statistics

CORPORA: dict[str, Callable[[Path], Path]] = {
    "parlai:metalwoz": write_metalwoz,  # which has no calls
    "taskmaster3": write_taskmaster3,
}
STAGES = """
from tod_bias import load_corpus
from tod_bias.systems.stages.replay import Replay

dialogues = load_corpus({corpus!r}, datapath={datapath!r}, split="train")
api_call = Replay.gold(dialogues, "api_call", missing={{}})
db = Replay.gold(dialogues, "api_result", missing={{}})
response = Replay.gold(dialogues, "response", missing="I do not know.")
"""


@pytest.mark.parametrize("corpus", [pytest.param("parlai:metalwoz", marks=pytest.mark.parlai), "taskmaster3"])
def test_counts_export_and_attribute_take_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: str
) -> None:
    monkeypatch.chdir(tmp_path)
    stages_module = f"known_{corpus.replace(':', '_')}"
    datapath = str(CORPORA[corpus](tmp_path / "data"))
    read = ("--corpus", corpus, "--datapath", datapath, "--split", "train")
    counts = word_statistics(load_corpus(corpus, datapath=datapath, split="train"), ["gender"], bootstrap=0)
    assert counts["axes"]["gender"]["woman"]["both"]["mentions"] > 5
    assert run_command("export --axes gender --out exported", *read)[0] == 0
    assert [path for path in (tmp_path / "exported").iterdir() if path.stat().st_size]
    (tmp_path / f"{stages_module}.py").write_text(STAGES.format(corpus=corpus, datapath=datapath))
    stages = ", ".join(f'{name}: "{stages_module}:{name}"' for name in ("api_call", "db", "response"))
    (tmp_path / "pipeline.yaml").write_text(f"stages: {{{stages}}}")
    line = "attribute --pipeline pipeline.yaml --axes gender --bootstrap 0 --permutations 0 --max-dialogues 30"
    assert run_command(line, *read, "--quiet", "--out", "run")[0] == 0
    report = json.loads((tmp_path / "run" / "results.json").read_text())["axes"]["gender"]["corpus_bleu"]
    assert report["disparity"]["value"] > 0  # a system that knows the originals only
