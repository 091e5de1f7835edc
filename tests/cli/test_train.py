"""``tod-bias train`` on chats, from checkpoints and with adapters."""

import json

import pytest
from builders import small_corpus

from tod_bias.cli import main
from tod_bias.dialogues.chat import write_chat

SIZE = ("--layers", 1, "--width", 16, "--heads", 2, "--vocabulary", 350, "--epochs", 1, "--batch-tokens", 2048)
ALL = ("--corpus", "chats.jsonl", "--held-out", 4)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as error:
        main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return error.value.code or 0, captured.out, captured.err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    write_chat(small_corpus(), folder / "chats.jsonl")
    tools = [{"type": "function", "function": {"name": "FindRestaurants"}}]
    (folder / "tools.json").write_text(json.dumps({"Restaurants": tools}))
    (folder / "broken.json").write_text("[{]")
    (folder / "system.txt").write_text("You find tables.\n")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_a_chat_model_is_made_and_fine_tuned(folder, capsys):
    chat = ("--format", "chat", "--tools", "tools.json", "--system", "system.txt")
    code, out, err = run(capsys, "train", "--arch", "llama", *chat, *ALL, *SIZE, "--max-length", 240, "--out", "model")
    assert code == 0, err
    assert "lowest validation loss" in out
    assert json.loads((folder / "model" / "training.json").read_text())["settings"]["system"] == "You find tables."
    tuned = ("--init", "model", *chat, *ALL, "--epochs", 1, "--lora", 2, "--merge", "--out", "tuned", "--quiet")
    assert run(capsys, "train", *tuned) == (0, "", "")
    assert {"model.safetensors", "chat_template.jinja", "adapter"} <= {
        path.name for path in (folder / "tuned").iterdir()
    }


def test_a_new_bart_learns_more_slowly_than_others(folder, capsys):
    for arch, rate in (("bart", 3e-4), ("t5", 1e-3)):
        command = ("train", "--arch", arch, *ALL, *SIZE, "--max-steps", 1, "--max-length", 64, "--out", arch, "--quiet")
        assert run(capsys, *command) == (0, "", "")
        assert json.loads((folder / arch / "training.json").read_text())["settings"]["learning_rate"] == rate


def test_a_model_that_reads_and_writes_apart_is_said_to_read_or_not(folder, capsys):
    short = (*ALL, *SIZE, "--max-length", 64, "--max-steps", 1)
    code, out, _ = run(capsys, "train", "--arch", "t5", *short, "--learning-rate", 1e-6, "--out", "deaf")
    assert code == 0
    assert "With the prompts of other dialogues the same targets have" in out
    assert "it hardly reads what it is given" in out
    code, out, _ = run(capsys, "train", "--arch", "gpt2", *short, "--out", "one-text")
    assert code == 0
    assert "prompts of other dialogues" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--init", "model", "--arch", "gpt2"), "model: is a llama checkpoint, but --arch is gpt2; leave --arch out"),
        (("--tools", "tools.json"), "--tools is for chats; add --format chat"),
        (("--format", "chat", "--tools", "broken.json"), "broken.json: cannot be read as JSON"),
        (("--format", "chat", "--chat-template", "no.jinja"), "--chat-template no.jinja: cannot be read"),
        (("--format", "chat", "--max-length", 16), "nothing to train on in sequences of 16 tokens; raise --max-length"),
        (("--merge",), "--merge adds adapters to the weights; give --lora RANK"),
    ],
)
def test_mistakes_end_in_one_line(folder, capsys, options, message):
    if "model" in options and not (folder / "model").exists():
        made = ("--arch", "llama", *ALL, *SIZE, "--out", "model")
        assert run(capsys, "train", *made)[0] == 0
    code, out, err = run(capsys, "train", *ALL, *options, "--out", "refused")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_turns_that_do_not_fit_are_told(folder, capsys):
    chat = ("--format", "chat", "--tools", "tools.json", "--max-length", 200)
    code, out, err = run(capsys, "train", "--arch", "llama", *chat, *ALL, *SIZE, "--out", "short")
    assert code == 0, err
    assert "turns of the training dialogues are longer than --max-length and were left out" in out
