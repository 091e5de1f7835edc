"""Two runs against each other: findings before and after lead, and the page needs nothing else and escapes names."""

import re

import pytest
from builders import fair_pipeline, polite_tone, rude_tone, small_corpus

from tod_bias import Pipeline, attribute, compare
from tod_bias.changes import Change, Comparison
from tod_bias.report.changes import bounds, fate_of, other_line, rows, summary, write_changes
from tod_bias.results import Estimate


@pytest.fixture(scope="module")
def runs():
    dialogues = small_corpus(60)
    fair = fair_pipeline(dialogues).stages
    options = {"axes": ["gender"], "bootstrap": 40, "permutations": 500}
    return [attribute(Pipeline({**fair, "tone": tone}), dialogues, **options) for tone in (rude_tone, polite_tone)]


@pytest.fixture(scope="module")
def result(runs):
    found = compare(*runs, margin=0.02, permutations=500)
    return found.model_copy(update={"before": "runs/<b>old</b>", "after": "runs/new"})


def test_a_finding_that_went_away_is_gone_and_the_other_way_round_it_is_new(runs, result):
    gone = {change.finding.group: change for change in result.findings}
    assert {change.state for change in gone.values()} == {"gone"}
    assert gone["woman"].score.before > 0.1
    assert gone["woman"].score.after == 0
    back = compare(runs[1], runs[0], permutations=500)
    assert [(change.state, change.finding.group) for change in back.findings] == [("new", "woman")]
    same = compare(runs[0], runs[0], permutations=500)
    assert {change.state for change in same.findings} == {"remains"}
    assert same.others == []


def test_other_changes_are_ten_at_the_most_and_not_of_the_findings(result):
    assert len(result.others) <= 10
    named = {metric for change in result.findings for metric in (change.finding.metric, *change.finding.also)}
    for other in result.others:
        assert other.metric not in named
        assert other.change.verdict in ("better", "worse", "changed")
        assert "\n" not in other_line(other, result)


def test_the_page_shows_what_was_compared_and_needs_nothing_else(runs, result, tmp_path):
    text = write_changes(result, tmp_path, runs).read_text(encoding="utf-8")
    (fate, *_) = map(fate_of, result.findings)
    assert fate.values.split(";")[0] in text
    assert "gone" in text
    assert "<b>old" not in text
    assert not re.search(r"(src|href)=.(?!#)|@import|url\((?!#)", text)
    assert "<details><summary>All changes</summary>" in text
    read = Comparison.model_validate(result.model_dump(mode="json"))
    assert read == result


def test_a_terminal_of_80_columns_names_each_finding_first(result):
    lines = [line.plain for line in summary(result, 80)]
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 25
    assert lines[1].startswith("✓ gender  gone: served ")
    assert "no new finding" in lines
    assert [line.plain for line in summary(result, 80, plain=True)][1].startswith("= gender  gone")


def changed(before, verdict, scope=None):
    return Change(before=before, verdict=verdict, change=Estimate(value=-0.2, ci=(-0.3, -0.1), p=0.01, scope=scope))


def test_a_change_of_these_terms_only_is_marked(result):
    assert bounds(changed(0.3, "better")) == "[-0.300, -0.100]"
    assert bounds(changed(0.3, "better", "terms")) == "[-0.300, -0.100]‡"
    assert {axis for axis, *_ in rows(result)} == {"", "gender"}
