"""Labels of saved lists that may be misspelt: said, never merged, and never lost in silence."""

from __future__ import annotations

import pytest

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.recommendations import read_recommendations

HEAD = "query,rank,label,price,item\n"


def read(tmp_path, labels, name="lists.csv"):
    path = tmp_path / name
    rows = (f"q{query},{rank},{label},1,i{rank}\n" for query, label in enumerate(labels) for rank in (1, 2))
    path.write_text(HEAD + "".join(rows))
    return path


def odd(result):
    return [note for note in result.notes if note.startswith("the label")]


def test_a_label_alone_in_its_dimension_is_said(tmp_path):
    result = read_recommendations([(None, read(tmp_path, ["female", "male", "femail"]))])
    assert result.dimensions == ("gender",)
    assert odd(result) == [
        "the label 'femail' is alone in the dimension 'label' and is compared with nobody; did you mean 'female'?"
    ]


def test_a_rare_label_that_is_nearly_another_is_said(tmp_path):
    often = ["label=regular", "label=guest"] * 20
    assert odd(read_recommendations([(None, read(tmp_path, [*often, "label=regulr"]))])) == [
        "the label 'regulr' of 'label' is a group of its own; did you mean 'regular'?"
    ]
    assert odd(read_recommendations([(None, read(tmp_path, [*often, *["label=regulr"] * 20]))])) == []
    assert odd(read_recommendations([(None, read(tmp_path, ["gender=men", "gender=women"] * 9))])) == []


def test_labels_that_differ_in_case_alone_are_refused(tmp_path):
    with pytest.raises(RecommenderError, match="the labels of 'gender' 'female' and 'Female' differ in case"):
        read_recommendations([(None, read(tmp_path, ["female", "male", "female", "Female"]))])


def test_files_of_one_city_are_said_to_be_one(tmp_path):
    entry, other = read(tmp_path, ["female", "male"]), read(tmp_path, ["male", "female"], "more.csv")
    notes = read_recommendations([("A", entry), ("A", other)]).notes
    assert "A: 2 files are read as one city" in notes
    assert not any("one city" in note for note in read_recommendations([("A", entry), ("B", other)]).notes)
