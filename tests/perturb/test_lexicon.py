"""Lexicon files: what they hold, and what a malformed one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb import load_axis, perturb_text
from tod_bias.perturb.lexicon import axes, load_lexicon, read_lexicon

HEADER = "pos\tcat\tdog\tcontext\tnotes\n"


def test_groups_are_those_of_qian() -> None:
    assert load_lexicon("gender").groups == ("man", "woman", "non-binary")
    assert load_lexicon("age").groups == ("child", "young", "middle-aged", "senior", "adult")
    assert load_lexicon("race").groups == (
        "white",
        "black",
        "hispanic",
        "asian",
        "native-american",
        "pacific-islander",
    )
    assert set(axes()) >= {"gender", "age", "race", "placebo"}


@pytest.mark.parametrize("axis", axes())
def test_every_source_form_of_a_shipped_lexicon_is_found_once_in_its_column(axis: str) -> None:
    lexicon = load_lexicon(axis)
    free = [paradigm for paradigm in lexicon.paradigms if not paradigm.context and paradigm.pos != "pronoun"]
    seen = [
        (attribute, form.text.lower(), slot)
        for paradigm in free
        for attribute, cell in paradigm.cells.items()
        for forms in cell
        for slot, form in enumerate(forms)
        if form.mention
    ]
    repeated = {entry for entry in seen if seen.count(entry) > 1}
    assert repeated <= {("man", "male", 0), ("woman", "female", 0)}, "a second row without context can never apply"


def test_a_user_lexicon_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text("@alias\tkitty\tcat\n@protect\tcat food\n" + HEADER + "noun\tkitten, cat\tpuppy/puppies\n", "utf-8")
    assert perturb_text("Two cats, an old kitten, cat food.", "pets", "kitty", "dog", lexicon=path) == (
        "Two puppies, an old puppy, cat food."
    )
    assert load_axis("pets", lexicon=path).groups == ("cat", "dog")


def test_a_marked_form_is_recognised_or_written_only(tmp_path: Path) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text("pos\tcat\tdog\nnoun\tcat, !kitty/!kitties\tdog, ~pooch/~pooches\n", "utf-8")
    assert perturb_text("Two kitties, a cat.", "pets", "cat", "dog", lexicon=path) == "Two dogs, a dog."
    assert perturb_text("A pooch and a dog.", "pets", "dog", "cat", lexicon=path) == "A pooch and a cat."
    axis = load_axis("pets", lexicon=path)
    dialogues = [Dialogue(str(number), "", (Turn("My kitty. Her dog."),)) for number in range(8)]
    forms = {(one.target, one.form) for _, some in axis.select(dialogues) for one in some}
    assert forms == {("dog", "pooch"), ("cat", "cat")}  # who has a dog gets the other one


def test_a_blank_cell_means_that_the_term_has_no_such_rewriting(tmp_path: Path) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text("pos\tcat\tdog\tfish\nword\tmeow\twoof\t-\nword\tpaw\tpad\tfin\n", "utf-8")
    assert perturb_text("meow paw", "pets", "cat", "fish", lexicon=path) == "meow fin"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),  # no header
        (HEADER, 0),  # no rows
        ("word\tmeow\twoof\n", 1),  # no header
        ("pos\tcat\n", 1),  # one group
        (f"pos\tcat\t{'dog' * 40}\n", 1),
        (HEADER + "# remark\n\nadverb\tmeow\twoof\n", 4),
        (HEADER + "word\tmeow\n", 2),  # a row of one group
        (HEADER + "word\t~meow\t~woof\n", 2),  # no mention
        (HEADER + "word\tmeow, \twoof\n", 2),
        (HEADER + "word\t!meow\twoof\n", 2),  # nothing to write
        (HEADER + "noun\tcat/cats/catses\tdog\n", 2),
        (HEADER + "word\ta\tb\tc\td\te\n", 2),
        (HEADER + "word\tmeow\twoof\tnear: x\n", 2),  # no such condition
        (HEADER + "word\tmeow\twoof\tnext\n", 2),  # no words
        ("@alias\tx\n" + HEADER, 1),
        ("@scope\tturn\n" + HEADER, 1),
        ("@alias\tx\tcow\n" + HEADER + "word\tmeow\twoof\n", 0),  # no such group
    ],
)
def test_a_malformed_file_is_named_with_the_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(LexiconError) as error:
        read_lexicon(path)
    assert str(error.value).startswith(f"{path}, line {line}: " if line else f"{path}: ")
    assert "\n" not in str(error.value)


def test_an_included_file_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "pets.tsv").write_text("@include\tnone.tsv\n")
    with pytest.raises(LexiconError, match=r"none\.tsv: cannot be read"):
        read_lexicon(tmp_path / "pets.tsv")


def test_groups_are_found_however_their_column_is_written(tmp_path):
    (tmp_path / "mine.tsv").write_text("pos\tNew_Hire\tOld-Hand\told_hand\nnoun\ta\tb\tc\n")
    lexicon = load_lexicon("mine", tmp_path / "mine.tsv")
    assert [lexicon.group(name) for name in ("New_Hire", " new-hire", "Old-Hand", "old_hand")] == [
        "New_Hire", "New_Hire", "Old-Hand", "old_hand",
    ]  # fmt: skip
    with pytest.raises(AxisError, match="no group 'OLD HAND'"):
        lexicon.group("OLD HAND")
