"""A file of results that was edited says so: what one run writes does not contradict itself."""

import json

import pytest

from tod_bias.cli import main
from tod_bias.report.consistency import contradictions
from tod_bias.report.outcome import read_outcomes


def outcome_of(results):
    return next(iter(results["axes"]["gender"].values()))


def outside(record):
    record["disparity"]["value"] += 5.0
    next(iter(record["contributions"].values()))["value"] += 5.0


def parts(record):
    next(iter(record["contributions"].values()))["value"] += 0.001


def gap(record):
    group = next(iter(record["groups"].values()))
    group["gap"]["value"], group["gap"]["ci"] = 0.5, [0.4, 0.6]


def removed(record):
    record["groups"].popitem()


def none(record):
    record["groups"] = {}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (outside, "outside of its interval ["),
        (parts, "the components' parts add up to "),
        (gap, "and the gap of "),
        (removed, "which is none of its groups"),
        (none, "which is none of its groups"),
    ],
)
def test_an_edited_file_contradicts_itself(make_results, edit, said, tmp_path, capsys):
    results = make_results()
    assert contradictions(read_outcomes(results)) == []
    edit(outcome_of(results))
    found = contradictions(read_outcomes(results))
    assert any(text.startswith("gender (BLEU): ") and said in text for text in found)
    (tmp_path / "results.json").write_text(json.dumps(results))
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path), "--max-gap", "9"])
    warned = capsys.readouterr().err.splitlines()[0]
    assert warned.startswith(f"! {tmp_path}: results.json contradicts itself")
    assert found[0] in warned
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(tmp_path)])
    assert "results.json contradicts itself" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("check", "{}", "--max-gap", "1"), ("compare", "{}", "{}")])
def test_a_text_in_the_place_of_a_number_is_named(make_results, command, tmp_path, capsys):
    results = make_results()
    outcome_of(results)["disparity"]["value"] = "high"
    (tmp_path / "results.json").write_text(json.dumps(results))
    with pytest.raises(SystemExit, match="2"):
        main([part.format(tmp_path) for part in command])
    assert "axes.gender.corpus_bleu.disparity.value: expected a number, got 'high'" in capsys.readouterr().err
