"""Reading run folders."""

import json
from pathlib import Path

import pytest

from tod_bias.errors import TodBiasError
from tod_bias.report.outcome import read_axes
from tod_bias.report.record import RunError, read_results, read_runs, read_turns


def test_a_complete_folder_is_read(make_folder):
    folder = make_folder()
    assert read_results(folder)["corpus"]["dialogues"] == 1200
    assert set(read_turns(folder, ["original", ""])["arm"]) == {"original", ""}


def test_a_run_without_turns_has_none(make_folder):
    assert read_turns(make_folder(keep_turns=False), [""]) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "holds no results.json"),
        ("{", "not JSON"),
        ("[1]", "expected a JSON object, got list"),
        ("{}", "expected schema 1, got None"),
        ('{"schema": 2, "axes": {}}', "expected schema 1, got 2"),
        ('{"schema": 1}', "expected results under 'axes', got None"),
        ('{"schema": 1, "axes": {}}', "expected results under 'axes', got {}"),
    ],
)
def test_a_wrong_file_ends_in_one_line_that_names_it(tmp_path: Path, content, words):
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(RunError, match=words) as caught:
        read_results(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_folder_of_another_audit_is_told_from_an_unfinished_run(tmp_path: Path):
    (tmp_path / "report.html").write_text("<html>")
    with pytest.raises(RunError, match="holds no attribution; the report of what it holds is"):
        read_results(tmp_path)


def test_a_missing_folder_is_a_user_error(tmp_path: Path):
    with pytest.raises(TodBiasError, match="no such folder"):
        read_results(tmp_path / "nothing")


def test_turns_that_are_no_parquet_file_are_named(make_folder):
    folder = make_folder(keep_turns=False)
    (folder / "turns.parquet").write_text("no parquet")
    with pytest.raises(RunError, match=r"turns\.parquet: cannot be read") as caught:
        read_turns(folder, [""])
    assert "\n" not in str(caught.value)


def test_runs_of_the_same_name_are_told_apart_and_each_is_read_once(make_folder):
    first, second = make_folder("gpt2/run"), make_folder("bart/run")
    assert [run.name for run in read_runs([first, second, first])] == ["gpt2/run", "bart/run"]


def test_no_folder_is_a_user_error():
    with pytest.raises(RunError, match="no run folder"):
        read_runs([])


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("fairscore",), "high", "axes.gender.fairscore: expected a number, got 'high'"),
        (("fairscore", "value"), "high", "axes.gender.fairscore.value: expected a number"),
        (("fairscore", "ci"), [1], r"axes.gender.fairscore.ci: expected \[low, high\]"),
        (("pairs",), [], r"axes.gender.pairs: expected an object, got \[\]"),
        (("attribution", "db"), True, "axes.gender.attribution.db: expected a number"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(make_results, place, value, words):
    results = make_results(axes=("gender",))
    target = results["axes"]["gender"]
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    with pytest.raises(RunError, match=words):
        read_axes(results)


def test_the_contract_minimum_is_enough():
    axis = {
        "bleu_original": 0.2, "bleu_perturbed": 0.1, "fairscore": {"value": 0.5, "ci": [0.4, 0.6], "p_value": 0.01},
        "signed": 0.5, "mean_over_pairs": {"value": 0.5, "ci": [0.4, 0.6]},
        "attribution": {"order": ["response"], "response": {"value": 0.5, "ci": [0.4, 0.6]}, "residual": {"value": 0}},
        "shapley": {}, "arms": {"": 0.5, "response": 0.0}, "pairs": {"woman>man": {"fairscore": {}, "dialogues": 3}},
    }  # fmt: skip
    (found,) = read_axes({"schema": 1, "axes": {"gender": axis}})
    assert found.fairscore.p == 0.01
    assert found.pairs[0].fairscore.value is None
    assert list(found.contributions) == ["response"]


def test_undefined_numbers_are_missing_not_zero():
    (axis,) = read_axes(json.loads('{"axes": {"gender": {"bleu_original": NaN, "fairscore": {"value": null}}}}'))
    assert axis.bleu_original is None
    assert axis.fairscore.value is None


def test_the_placebo_stands_last(make_results):
    assert [axis.name for axis in read_axes(make_results(axes=("placebo", "race", "gender")))] == [
        "race",
        "gender",
        "placebo",
    ]


def test_attributes_stand_in_their_usual_order_and_unknown_ones_after(make_results):
    results = make_results(axes=("gender",))
    results["axes"]["gender"]["pairs"]["agender>man"] = {"fairscore": {"value": 0.1}}
    (axis,) = read_axes(results)
    assert axis.attributes == ["woman", "man", "non-binary", "agender"]
