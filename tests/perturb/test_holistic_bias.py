"""Lexicons laid out like HolisticBias' JSON files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tod_bias.errors import LexiconError
from tod_bias.perturb.holistic_bias import load_holistic_bias
from tod_bias.perturb.lexicon_perturber import LexiconPerturber
from tod_bias.perturb.rewriter import TextRewriter

DESCRIPTORS = {
    "age": {
        "young": [{"descriptor": "green", "preference": "dispreferred"}, "youthful", "20-year-old"],
        "middle_aged": ["middle-aged"],
        "old": ["grey", {"descriptor": "aged", "preference": "reviewed"}],
    },
    "gender_and_sex": {"binary": ["female"], "non_binary_or_gnc": ["agender"]},
}
NOUNS = {"female": [["mom", "moms"], ["lady", "ladies"]], "male": [["dad", "dads"]], "neutral": [["parent", "parents"]]}


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_buckets_become_attributes_and_a_preferred_descriptor_is_written(tmp_path: Path) -> None:
    lexicon = load_holistic_bias("age", write(tmp_path / "descriptors.json", DESCRIPTORS))
    assert lexicon.attributes == ("young", "middle-aged", "old")
    assert TextRewriter(lexicon, "old", "young")("a grey man, an aged woman, a grey car") == (
        "a youthful man, a youthful woman, a grey car"
    )
    assert TextRewriter(lexicon, "young", "old")("a green man") == "a grey man"
    assert LexiconPerturber(lexicon).axis == "age"


def test_buckets_can_be_renamed_joined_and_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "descriptors.json", DESCRIPTORS)
    lexicon = load_holistic_bias("age", path, attributes={"young": "junior", "old": "senior"})
    assert lexicon.attributes == ("junior", "senior")


def test_nouns_answer_to_each_other_as_in_the_gender_lexicon(tmp_path: Path) -> None:
    names = {"binary": "woman", "non_binary_or_gnc": "non-binary"}
    lexicon = load_holistic_bias(
        "gender_and_sex",
        write(tmp_path / "descriptors.json", DESCRIPTORS),
        write(tmp_path / "nouns.json", NOUNS),
        names,
    )
    assert TextRewriter(lexicon, "woman", "man")("Moms and a lady") == "Dads and a lady"


@pytest.mark.parametrize(
    ("content", "axis", "message"),
    [
        ("{", "age", "descriptors.json, line 1: no JSON"),
        ([], "age", "expected an object, got list"),
        ({"age": {"a": ["x"]}}, "race", "no axis 'race'; it has age"),
        ({"age": {"a": [3], "b": ["x"]}}, "age", "bucket 'a': expected a word or {'descriptor': word}, got 3"),
        ({"age": {"a": ["x"]}}, "age", "axis 'age' has fewer than two attributes: a"),
    ],
)
def test_a_malformed_file_is_told_where_and_what(tmp_path: Path, content: object, axis: str, message: str) -> None:
    with pytest.raises(LexiconError) as error:
        load_holistic_bias(axis, write(tmp_path / "descriptors.json", content))
    assert message in str(error.value)
