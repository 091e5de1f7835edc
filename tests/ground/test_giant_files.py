"""Giant files are refused by a bound that the error says, before they cost time or memory."""

import json
import sys
import time
import tracemalloc

import numpy as np
import pandas  # noqa: F401  # loaded before memory is measured
import pytest

from tod_bias import load_corpus
from tod_bias.cli.application import main
from tod_bias.errors import TodBiasError
from tod_bias.io.documents import COLUMNS, LARGEST_LIST, LARGEST_RECORD, LONGEST
from tod_bias.recommenders.embeddings.readers import load_embeddings

LONG = "a woman " * (LONGEST // 8 + 1)
HEADER = ",".join(f"c{number}" for number in range(COLUMNS + 1))
MESSAGE = {"role": "user", "content": "Hi"}
CASES = {
    "a table of many columns": ("f.csv", HEADER, "recommend audit --recommendations f.csv", f"{COLUMNS + 1:,} columns"),
    "interactions": (
        "f.csv", HEADER, "associate --embeddings e.npz --attribute a --interactions f.csv", f"{COLUMNS + 1:,} columns",
    ),
    "a long line": ("f.jsonl", LONG, "export --corpus f.jsonl", f"line 1 is longer than {LONGEST:,} characters"),
    "a long answer": (
        "f.jsonl", LONG, "attribute --responses f.jsonl --max-dialogues 5", f"longer than {LONGEST:,} characters",
    ),
    "a long line of text": (
        "f.txt", LONG, "perturb --axis gender --source woman --target man f.txt", f"longer than {LONGEST:,} characters",
    ),
    "one long dialogue": (
        "f.json", json.dumps({"messages": [MESSAGE], "x": LONG}), "export --corpus f.json", f"one has {LONGEST:,}",
    ),
    "a long dialogue of several": (
        "f.json", json.dumps([{"messages": [MESSAGE | {"content": LONG}]}]), "export --corpus f.json", "cut it up",
    ),
    "many turns": (
        "f.json", json.dumps([{"messages": [MESSAGE] * 10_001}]), "export --corpus f.json", "10,001 turns; one has 10,",
    ),
    "a lexicon": (
        "f.tsv", " " * (LARGEST_LIST + 1), "export --axes x --lexicon x=f.tsv", f"larger than {LARGEST_LIST:,} bytes",
    ),
    "a wide lexicon": (
        "f.tsv", "pos\t" + HEADER.replace(",", "\t"), "export --axes x --lexicon x=f.tsv", "expected 200 at the most",
    ),
    "sets": (
        "f.json", " " * (LARGEST_RECORD + 1), "associate --embeddings e.npz --sets f.json",
        f"larger than {LARGEST_RECORD:,} bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_giant_file_is_refused_in_one_line_that_says_the_bound(tmp_path, monkeypatch, capsys, case):
    name, content, command, message = CASES[case]
    monkeypatch.chdir(tmp_path)
    np.savez("e.npz", vectors=np.ones((3, 2)))
    (tmp_path / name).write_text(content)
    monkeypatch.setattr(sys, "argv", ["tod-bias", *command.split(), *([] if "perturb" in command else ["--out", "o"])])
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(SystemExit) as ended:
        main()
    seconds, memory = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ended.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert seconds < 20  # with the allocations traced; 1 s without
    assert memory < 200e6


def test_an_archive_that_swells_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "e.npz", vectors=np.zeros((5000, 4000), np.float32))
    with pytest.raises(TodBiasError, match="unpacks to 80,000,"):
        load_embeddings(tmp_path / "e.npz")


def test_many_short_lines_are_no_giant_file(tmp_path, monkeypatch):
    line = json.dumps({"messages": [MESSAGE, {"role": "assistant", "content": "Hello."}]}) + "\n\n"
    (tmp_path / "f.jsonl").write_text(line * 20_000)
    assert len(load_corpus(tmp_path / "f.jsonl", max_dialogues=3)) == 3
