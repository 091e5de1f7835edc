"""Reading run folders."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tod_bias.audit.record import read_runs, read_turns
from tod_bias.results import AuditResult, RunError


def test_a_complete_folder_is_read(make_folder):
    folder = make_folder()
    result = AuditResult.load(folder)
    assert (result.corpus.dialogues, result.folder, len(result.turns)) == (1200, folder, 3 * 8 * 2 * 10)
    assert set(read_turns(folder, ["original", ""])["arm"]) == {"original", ""}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "holds no results.json"),
        ("{", "not JSON"),
        ("[1]", "got list"),
        ("{}", "expected schema 3, got None"),
        ('{"schema": 2, "axes": {"age": {}}}', "expected schema 3, got 2"),
        ('{"schema": 3, "axes": {}}', "'axes'"),
        ('{"schema": 3, "axes": {"age": null}}', "'axes'"),
    ],
)
def test_a_wrong_file_ends_in_one_line_that_names_it(tmp_path: Path, content, words):
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(RunError, match=words) as caught:
        AuditResult.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_folder_of_another_audit_is_no_unfinished_run(tmp_path: Path):
    (tmp_path / "report.html").write_text("<html>")
    with pytest.raises(RunError, match="holds no attribution"):
        AuditResult.load(tmp_path)


def test_turns_that_are_no_parquet_file_are_named(make_folder):
    folder = make_folder(keep_turns=False)
    (folder / "turns.parquet").write_text("no parquet")
    with pytest.raises(RunError, match=r"turns\.parquet: cannot be read") as caught:
        read_turns(folder, [""])
    assert "\n" not in str(caught.value)


def test_runs_of_the_same_name_get_longer_names_and_each_is_read_once(make_folder):
    first, second = make_folder("gpt2/run"), make_folder("bart/run")
    assert [run.name for run in read_runs([first, second, first])] == ["gpt2/run", "bart/run"]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("disparity",), "high", "disparity .*got 'high'"),
        (("disparity", "value"), "high", "disparity.value .*got 'high'"),
        (("disparity", "value"), 1e308, r"disparity.value .*got 1e\+308"),
        (("disparity", "ci"), [1], r"disparity.ci.* "),
        (("disparity", "p_holm"), 0.1, "disparity.p_holm "),
        (("groups", "man", "gap", "p"), "x", "groups.man.gap.p .*got 'x'"),
        (("terms",), ["x"], "terms.0 .*got 'x'"),
        (("verdict",), "guilty", "verdict .*got 'guilty'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_place_in_one_line(make_record, tmp_path, place, value, words):
    record = make_record(axes=("gender",))
    target = record["axes"]["gender"]
    last = "corpus_bleu"
    for key, following in pairwise(("corpus_bleu", *place)):
        target = target[key]
        last = following
    target[last] = value
    (tmp_path / "results.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match=words) as caught:
        AuditResult.load(tmp_path)
    assert str(tmp_path / "results.json") in str(caught.value)
    assert "axes.gender.corpus_bleu" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_undefined_numbers_are_missing_not_zero():
    text = '{"axes": {"gender": {"bleu": {"mde": NaN, "disparity": {"value": null, "ci": [null, 1]}}}}}'
    (row,) = AuditResult.model_validate(json.loads(text)).rows
    assert (row.mde, row.disparity.value, row.disparity.ci) == (None, None, None)


def test_what_is_written_is_what_is_read(make_results):
    result = make_results(metrics=("corpus_bleu", "refusal"))
    assert AuditResult.model_validate_json(result.text()) == result
    assert '"schema": 3' in result.text()


def test_the_placebo_stands_last(make_results):
    rows = make_results(axes=("placebo", "race", "gender"), metrics=("corpus_bleu", "refusal")).rows
    assert [(row.axis, row.metric.name) for row in rows] == [
        (axis, metric) for axis in ("race", "gender", "placebo") for metric in ("corpus_bleu", "refusal")
    ]
