"""Options that would be passed over are refused, in one line."""

import pytest

from tod_bias.cli.application import main

IDLE = {
    "a system": (
        ("attribute", "--responses", "corpus.jsonl", "--dtype", "bfloat16", "--batch-out", "asked"),
        "--batch-out, --dtype: no system is asked where its --responses are given",
    ),
    "dry run": (("attribute", "--dry-run", "--workers", "2"), "--workers: of a run, which --dry-run is not"),
    "a pilot": (("plan", "--pilot", "gone", "--axes", "age"), "--axes: --pilot is a finished run"),
    "dialogues": (
        ("perturb", "--source", "woman", "--target", "man", "--draws", "2", "--split", "valid"),
        "--split, --draws: for whole dialogues; give --corpus",
    ),
    "tellings": (
        ("perturb", "--corpus", "corpus.jsonl", "--variants", "2"),
        "--variants: for --axes; with --axis a dialogue is told at random",
    ),
    "axis": (
        ("perturb", "--corpus", "corpus.jsonl", "--axes", "age", "--axis", "gender"),
        "--axis: one axis; --axes names all of them",
    ),
    "a gate": (
        ("check", "gone", "--max-gap", "1", "--tolerance", "1", "--num-beams", "2"),
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
    "a datapath": (("words", "--datapath", "d"), "--datapath: holds corpora by their names; say which with --corpus"),
    "the other design": (
        ("attribute", "--design", "draws", "--variants", "2"),
        "--variants: for --design crossed",
    ),
    "answers drawn": (("attribute", "--dry-run", "--samples", "2"), "--samples: of a run, which --dry-run is not"),
    "slots of names": (
        ("words", "--axes", "gender,age", "--name-slots", "s.yaml"),
        "--name-slots: for axes of names, and the axes are gender, age",
    ),
    "a rewriting model": (
        ("attribute", "--axes", "names_gender,placebo", "--perturber", "m"),
        "--perturber: a model rewrites words, not names, introductions, dialects or the placebo",
    ),
    "introductions": (
        ("perturb", "--corpus", "demo", "--introductions", "name"),
        "--introductions: for axes persona_…, and the axes are gender",
    ),
    "a device": (
        ("perturb", "--source", "man", "--target", "woman", "--device", "cpu"),
        "--device: where the model of",
    ),
    "intervals": (("words", "--coverage", "--bootstrap", "9"), "--bootstrap: of the shares of words"),
    "batch files": (("attribute", "--batch-out", "asked"), "batch files hold what servers are asked, and no component"),
    "templates": (("recommend", "train", "--out", "m", "--templates", "t"), "--templates: what --mask takes out"),
    "a head": (
        ("recommend", "train", "--out", "m", "--head-layers", "1", "--hidden", "9"),
        "--hidden: between the head's two layers",
    ),
    "an encoder": (
        ("recommend", "train", "--out", "m", "--init", "tiny", "--width", "9"),
        "--width: for encoders from scratch; tiny has its own",
    ),
    "a database's name": (
        ("database", "check", "--corpus", "corpus.jsonl", "--component", "db"),
        "--component: of a pipeline or a --run",
    ),
    "users": (("associate", "train", "--users", "u.csv"), "--users: of the interactions, which are made"),
}


WRONG = {
    "attribute --axes gender,gender": "--axes gender,gender: 'gender' is given twice",
    "attribute --axes ,": "axes must name at least one, got ','",
    "attribute --metrics ,": "--metrics ',': names nothing",
    "attribute --margin nan": "margin must be a finite number, got nan",
    "attribute --order db,response": "order 'db,response' must name every stage once; the stages are api_call, db",
    "attribute --dry-run --cluster town": "unknown cluster 'town'",
    "attribute --executor slurm": "executor must be 'local' or 'ray', got 'slurm'",
    "attribute --workers 2": "workers: executor 'ray' has them",
    "plan --axes age,age": "--axes age,age: 'age' is given twice",
    "evaluate --metrics length,length": "--metrics length,length: 'length' is given twice",
    "evaluate --metrics disagreement": "metric 'disagreement' compares tellings, and evaluate has one; use attribute",
    "check gone --max-gap 1 --tolerance inf": "--tolerance must be a number from 0, got inf",
    "train --out m --augment gender,gender": "augmentation: axis 'gender' is given twice",
    "database check --call nobody": "--call nobody: the pipeline has none of this name; it has api_call, db, response",
    "database check --component nobody": "--component nobody: the pipeline has none of this name",
    "recommend train --out m --reviews a/b=r.csv --reviews c=r.csv": "the city 'a/b': its model goes into a folder",
    "recommend audit --city A=r.csv --city A=r.csv": "r.csv: is given twice",
}


@pytest.mark.parametrize("command", list(WRONG))
def test_what_is_wrong_at_a_glance_is_said_before_anything_is_loaded(command, tmp_path, monkeypatch, capsys):
    refused(command.split(), WRONG[command], tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("case", list(IDLE))
def test_no_option_is_passed_over(case, tmp_path, monkeypatch, capsys):
    refused(*IDLE[case], tmp_path, monkeypatch, capsys)


def refused(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(list(arguments))
    said = capsys.readouterr()
    assert said.err.startswith(f"tod-bias: error: {message}")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not list(tmp_path.iterdir())
