"""Options that would be passed over are refused, in one line."""

import pytest

from tod_bias.cli.application import main

IDLE = {
    "a system": (
        ("attribute", "--answers", "corpus.jsonl", "--dtype", "int8", "--batch-out", "asked"),
        "--batch-out, --dtype: no system is asked where its --answers are given",
    ),
    "dry run": (("attribute", "--dry-run", "--workers", "2"), "--workers: of a run, which --dry-run is not"),
    "a pilot": (("plan", "--pilot", "gone", "--axes", "age"), "--axes: --pilot is a finished run"),
    "dialogues": (
        ("perturb", "--source", "woman", "--target", "man", "--draws", "2", "--split", "valid"),
        "--split, --draws: for whole dialogues; give --corpus",
    ),
    "tellings": (
        ("perturb", "--corpus", "corpus.jsonl", "--tellings", "2"),
        "--tellings: for --axes; with --axis a dialogue is told at random",
    ),
    "axis": (
        ("perturb", "--corpus", "corpus.jsonl", "--axes", "age", "--axis", "gender"),
        "--axis: one axis; --axes names all of them",
    ),
    "a gate": (
        ("check", "gone", "--max-disparity", "1", "--tolerance", "1", "--num-beams", "2"),
        "--tolerance, --num-beams: for --cases",
    ),
    "cases": (("check", "--cases", "gone", "--harm-only"), "--harm-only: of a run"),
    "decoding": (("cases", "gone", "--num-beams", "2"), "--num-beams: for a system that is run"),
    "from scratch": (
        ("train", "--out", "m", "--init", "tiny", "--layers", "9", "--width", "64"),
        "--layers, --width: for models from scratch; tiny has its own",
    ),
    "before a command": (
        ("database", "--out", "x.sqlite", "check", "--axes", "gender"),
        "--out: give it after check",
    ),
    "users": (("associate", "train", "--users", "u.csv"), "--users: of the interactions, which are made"),
}


@pytest.mark.parametrize("case", list(IDLE))
def test_no_option_is_passed_over(case, tmp_path, monkeypatch, capsys):
    arguments, message = IDLE[case]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(list(arguments))
    said = capsys.readouterr()
    assert said.err.startswith(f"tod-bias: error: {message}")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not list(tmp_path.iterdir())
