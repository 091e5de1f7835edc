"""Lexicon files: what they hold, and what a malformed one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb import load_axis, perturb_text
from tod_bias.perturb.lexicon import axes, load_lexicon, read_lexicon

HEADER = "pos\tcat\tdog\tcontext\tnotes\n"


def test_attributes_are_those_of_qian() -> None:
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


def test_a_blank_cell_means_that_the_word_has_no_such_rewriting(tmp_path: Path) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text("pos\tcat\tdog\tfish\nword\tmeow\twoof\t-\nword\tpaw\tpad\tfin\n", "utf-8")
    assert perturb_text("meow paw", "pets", "cat", "fish", lexicon=path) == "meow fin"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no header"),
        (HEADER, "holds no rows"),
        ("word\tmeow\twoof\n", "line 1: the header must start with 'pos', got 'word'"),
        ("pos\tcat\n", "line 1: the header must name at least two groups"),
        (f"pos\tcat\t{'dog' * 40}\n", "line 1: a group's name has 120 characters, expected 100 at the most"),
        (HEADER + "# remark\n\nadverb\tmeow\twoof\n", "line 4: unknown part of speech 'adverb'"),
        (HEADER + "word\tmeow\n", "line 2: a row needs words for at least two groups"),
        (HEADER + "word\t~meow\t~woof\n", "line 2: all forms are marked '~'"),
        (HEADER + "word\tmeow, \twoof\n", "line 2: column 'cat': empty word"),
        (HEADER + "noun\tcat/cats/catses\tdog\n", "line 2: column 'cat': 'cat/cats/catses' has 3 forms, a noun has 2"),
        (HEADER + "word\ta\tb\tc\td\te\n", "line 2: expected at most 5 columns, got 6"),
        (HEADER + "word\tmeow\twoof\tnear: x\n", "line 2: unknown context 'near'"),
        (HEADER + "word\tmeow\twoof\tnext\n", "line 2: context 'next' takes some words after a colon"),
        ("@alias\tx\n" + HEADER, "line 1: expected '@alias'"),
        ("@scope\tturn\n" + HEADER, "line 1: expected '@scope'"),
        ("@alias\tx\tcow\n" + HEADER + "word\tmeow\twoof\n", "alias 'x' names 'cow', which is no column"),
        ("@include\tnone.tsv\n", "none.tsv: cannot be read"),
    ],
)
def test_a_malformed_file_is_told_where_and_what(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(LexiconError) as error:
        read_lexicon(path)
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_attributes_are_found_however_their_column_is_written(tmp_path):
    (tmp_path / "mine.tsv").write_text("pos\tNew_Hire\tOld-Hand\told_hand\nnoun\ta\tb\tc\n")
    lexicon = load_lexicon("mine", tmp_path / "mine.tsv")
    assert [lexicon.group(name) for name in ("New_Hire", " new-hire", "Old-Hand", "old_hand")] == [
        "New_Hire", "New_Hire", "Old-Hand", "old_hand",
    ]  # fmt: skip
    with pytest.raises(AxisError, match="no group 'OLD HAND'"):
        lexicon.group("OLD HAND")
