"""``tod-bias train`` from scratch and on several corpora."""

import json

import pytest
from builders import small_corpus
from commands import in_file, refused, run_command

from tod_bias.dialogues.chat import write_chat

SIZE = {"layers": 1, "width": 16, "heads": 2, "vocabulary": 350, "epochs": 1, "batch": 8, "held_out": 4, "max_steps": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    write_chat(small_corpus(), folder / "chats.jsonl")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_a_model_that_reads_and_writes_apart_is_said_to_read_or_not(folder):
    short = ("--corpus", "chats.jsonl", *in_file(folder, **SIZE, max_length=64))
    code, out, _ = run_command("train --arch t5", *short, "--learning-rate", 1e-6, "--out", "deaf")
    assert code == 0
    assert "With the prompts of other dialogues the same targets have" in out
    assert "the model hardly reads its input" in out
    code, out, _ = run_command("train --arch gpt2", *short, "--out", "one-text")
    assert code == 0
    assert "prompts of other dialogues" not in out


def test_several_corpora_are_learned_from_in_one_training(folder, monkeypatch):
    """Each training split is split by itself, and a number says how often its dialogues are shown."""
    from tod_bias import load_corpus
    from tod_bias.dialogues.sampling import hold_out
    from tod_bias.models import training

    seen = []
    monkeypatch.setattr(training, "train", lambda *given, **_: seen.append(given) or {"settings": {}})
    options = (*in_file(folder, held_out=3), "--max-dialogues", 20, "--out", "mixed", "--quiet")
    assert run_command("train --corpus demo,chats.jsonl:3", *options) == (0, "", "")
    first, second = (
        hold_out(load_corpus(name, split="train", max_dialogues=20), 3) for name in ("demo", "chats.jsonl")
    )
    (learned, held_out, *_) = seen[0]
    assert learned == first[0] + 3 * second[0]
    assert held_out == first[1] + second[1]
    for corpora, message in {
        "demo,chats.jsonl:0": "with a whole number N from 1 to 1000, joined by commas; got 'chats.jsonl:0'",
        "demo:1.5": "--corpus demo:1.5: expected NAME or NAME:N",
        "demo,": "got ''",
        "demo,nothing": "no corpus 'nothing'",
    }.items():
        assert message in refused("train --corpus", corpora, *options)


def test_a_mixture_is_trained_on(folder):
    short = (*in_file(folder, **SIZE, max_length=64), "--max-dialogues", 10, "--seed", 1)
    sequences = []
    for number, corpora in enumerate(("chats.jsonl", "chats.jsonl:2,demo")):
        code, _, err = run_command("train --arch gpt2 --corpus", corpora, *short, "--out", f"mix{number}")
        assert code == 0, err
        sequences.append(json.loads((folder / f"mix{number}" / "training.json").read_text())["sequences"])
    (alone, mixed) = sequences
    assert mixed[0]["sequences"] > 2 * alone[0]["sequences"]
    assert mixed[1]["sequences"] > alone[1]["sequences"]
