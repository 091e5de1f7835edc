"""Reading run folders."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tod_bias.errors import TodBiasError
from tod_bias.report.outcome import read_outcomes
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
        ("{}", "expected schema 2, got None"),
        ('{"schema": 1, "axes": {}}', "expected schema 2, got 1"),
        ('{"schema": 2}', "expected results under 'axes', got None"),
        ('{"schema": 2, "axes": {}}', "expected results under 'axes', got {}"),
        ('{"schema": 2, "axes": {"age": {}}}', "axes.age: expected a record a metric, got {}"),
        ('{"schema": 2, "axes": {"age": null}}', "axes.age: expected a record a metric, got None"),
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
        ((), 3, "axes.gender.corpus_bleu: expected an object, got 3"),
        (("disparity",), "high", "axes.gender.corpus_bleu.disparity: expected an object"),
        (("disparity", "value"), "high", "axes.gender.corpus_bleu.disparity.value: expected a number, got 'high'"),
        (("disparity", "value"), 1e308, r"disparity.value: expected a number that can be drawn, got 1e\+308"),
        (("disparity", "value"), -(10**400), "disparity.value: expected a number that can be drawn, got -1000"),
        (("disparity", "ci"), [1], r"axes.gender.corpus_bleu.disparity.ci: expected \[low, high\]"),
        (("disparity", "ci"), "ab", r"disparity.ci: expected \[low, high\], got 'ab'"),
        (("disparity", "ci_these_words"), [1, "x"], "disparity.ci_these_words: expected a number, got 'x'"),
        (("disparity", "mde"), [], "disparity.mde: expected a number"),
        (("disparity", "clusters", "services"), "x", "disparity.clusters.services: expected a number, got 'x'"),
        (("contributions", "db"), True, "axes.gender.corpus_bleu.contributions.db: expected a number, got True"),
        (("groups",), [], r"axes.gender.corpus_bleu.groups: expected an object, got \[\]"),
        (("groups", "man", "gap", "p_holm"), "x", "groups.man.gap.p_holm: expected a number"),
        (("groups", "man", "dialogues"), "x", "groups.man.dialogues: expected a number"),
        (("pairs", "woman>man"), 4, "pairs.woman>man: expected an object"),
        (("above_placebo", "words_changed", "axis"), "x", "above_placebo.words_changed.axis: expected a number"),
        (("words", "strongest"), 3, "words.strongest: expected a list, got 3"),
        (("words", "strongest"), ["x"], "words.strongest: expected an object, got 'x'"),
        (("arms", "db"), "x", "axes.gender.corpus_bleu.arms.db: expected a number"),
        (("su", "attribution", "order"), "db", "su.attribution.order: expected a list, got 'db'"),
        (("su", "fairscore", "value"), {}, "su.fairscore.value: expected a number"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(make_results, place, value, words):
    results = make_results(axes=("gender",))
    target = results["axes"]["gender"]
    for key, following in pairwise(("corpus_bleu", *place)):
        target = target[key]
        last = following
    target[last if place else "corpus_bleu"] = value
    with pytest.raises(RunError, match=words) as caught:
        read_outcomes(results)
    assert "\n" not in str(caught.value)


def test_metrics_of_the_wrong_type_are_named(make_results):
    with pytest.raises(RunError, match=r"metrics\.corpus_bleu: expected an object"):
        read_outcomes(make_results(metrics=("corpus_bleu",)) | {"metrics": {"corpus_bleu": 3}})


def test_a_disparity_alone_is_enough():
    (found,) = read_outcomes(
        {"schema": 2, "axes": {"gender": {"bleu": {"disparity": {"value": 0.5, "p_value": 0.01}}}}}
    )
    assert (found.disparity.value, found.disparity.p) == (0.5, 0.01)
    assert (found.metric.label, found.metric.better, found.key) == ("bleu", "higher", "gender_bleu")
    assert (found.groups, found.pairs, found.su, found.above) == ((), (), None, None)


def test_undefined_numbers_are_missing_not_zero():
    record = json.loads('{"axes": {"gender": {"bleu": {"original": NaN, "disparity": {"value": null, "ci": null}}}}}')
    (found,) = read_outcomes(record)
    assert found.original.value is None
    assert found.disparity.value is None
    assert found.disparity.bounds is None


def test_everything_that_the_contract_names_is_read(make_results):
    (found,) = read_outcomes(make_results(axes=("race",)))
    assert found.disparity.bounds == pytest.approx((0.076, 0.092))
    assert (found.disparity.low, found.words, found.words_number) == (None, 1.4, 9)
    assert found.changed == {"axis": 1.6, "placebo": 0.4}
    assert [group.name for group in found.groups] == ["white", "black", "hispanic", "asian"]
    assert (found.pairs[0].source, found.pairs[0].target) == ("white", "black")
    assert list(found.su.contributions) == ["db", "api_call", "response"]
    assert found.strongest[0].without == 0.09


def test_the_placebo_stands_last(make_results):
    outcomes = read_outcomes(make_results(axes=("placebo", "race", "gender"), metrics=("corpus_bleu", "refusal")))
    assert [(outcome.axis, outcome.metric.name) for outcome in outcomes] == [
        ("race", "corpus_bleu"), ("race", "refusal"), ("gender", "corpus_bleu"), ("gender", "refusal"),
        ("placebo", "corpus_bleu"), ("placebo", "refusal"),
    ]  # fmt: skip
