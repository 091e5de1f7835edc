"""``tod-bias perturb`` with lexicons and protected phrases, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run_command

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl

PETS = "@alias\tkitty\tcat\npos\tcat\tdog\nnoun\tkitten\tpuppy\nword\tmeow\twoof\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets.tsv").write_text(PETS)
    (tmp_path / "text.txt").write_text("Meow, said Happy Kitten, the kitten.\n")
    write_jsonl([Dialogue("d", "", (Turn.with_call("My kitten says meow.", {}, {}, "A kitten?"),))], "corpus.jsonl")
    return tmp_path


def test_a_lexicon_of_ones_own_and_protected_phrases() -> None:
    options = ("text.txt", "--axis", "pets", "--lexicon", "pets=pets.tsv", "--source", "kitty", "--target", "dog")
    assert run_command("perturb", *options)[1] == "Woof, said Happy Kitten, the puppy.\n"  # capitals make it a name
    Path("mine.yaml").write_text("{axis: pets, lexicon: pets.tsv, protected: [the kitten, meow]}")
    code, out, _ = run_command("perturb text.txt --axis mine.yaml --source kitty --target dog")
    assert (code, out) == (0, "Woof, said Happy Kitten, the kitten.\n")


@pytest.mark.parametrize("pair", [("female", "male"), ("women", "men"), ("woman", "man"), ("F", "M")])
def test_other_names_of_groups_are_known(folder: Path, pair: tuple[str, str]) -> None:
    (folder / "text.txt").write_text("She won't.\n")
    assert run_command("perturb text.txt --source", pair[0], "--target", pair[1])[1] == "He won't.\n"


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ("noun\tcat/cats/catses\tdog\n", (), "bad.tsv, line 5: column 'cat': 'cat/cats/catses' has 3 forms"),
        ("", ("--source", "dog"), "source and target are both 'dog'"),
        ("", ("--source", "cow"), "axis 'pets' has no group 'cow'; it has cat, dog"),
        ("", ("--axis", "gender"), "axis 'gender' has no group 'kitty'"),
        ("", ("--lexicon", "pets=gone.tsv"), "gone.tsv: cannot be read"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(row: str, options: tuple[str, ...], message: str) -> None:
    Path("bad.tsv").write_text(PETS + row)
    usual = {"--axis": "pets", "--source": "kitty", "--target": "dog"}
    given = usual | dict(zip(options[::2], options[1::2], strict=True))
    if not {"gender", "--lexicon"} & set(options):
        given["--lexicon"] = "pets=bad.tsv"
    code, out, err = run_command("perturb", *(word for pair in given.items() for word in pair))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
