"""The page of two runs against each other: it holds what compare.json says, needs nothing else, and escapes names."""

import io
import re

import pytest
from builders import fair_pipeline, polite_tone, rude_tone, small_corpus
from rich.console import Console

from tod_bias import Pipeline, attribute, compare
from tod_bias.report.changes import bounds, p_value, rows, table, verdict
from tod_bias.report.changes_page import write_changes
from tod_bias.report.notation import fixed
from tod_bias.results import Change, Estimate, TermsOnly


@pytest.fixture(scope="module")
def runs():
    dialogues = small_corpus(40)
    fair = fair_pipeline(dialogues).stages
    options = {"axes": ["gender"], "metrics": ["corpus_bleu", "length"], "bootstrap": 40, "permutations": 100}
    return [attribute(Pipeline({**fair, "tone": tone}), dialogues, **options) for tone in (rude_tone, polite_tone)]


@pytest.fixture(scope="module")
def result(runs):
    found = compare(*runs, margin=0.02, bootstrap=40, permutations=100)
    return found.model_copy(update={"before": "runs/<b>old</b>", "after": "runs/new"})


def test_the_page_shows_what_was_compared_and_needs_nothing_else(runs, result, tmp_path):
    text = write_changes(result, tmp_path, runs).read_text(encoding="utf-8")
    disparity = result.axes["gender"]["corpus_bleu"].disparity
    minus = fixed(disparity.change.value, sign=True).replace("-", "−")
    assert abs(disparity.before) > 0.02 > abs(disparity.after)
    for shown in (fixed(disparity.before).replace("-", "−"), minus, disparity.verdict, "gap, woman"):
        assert shown in text
    assert "<b>old" not in text
    assert not re.search(r"(src|href)=.(?!#)|@import|url\((?!#)", text)
    assert text.count("<svg") == 3
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "changes-corpus_bleu.svg", "changes-length.svg", "quality.svg"
    ]  # fmt: skip


def test_a_terminal_of_80_columns_shows_every_change_whole(result):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table(result))
    text = console.export_text()
    assert "gender: BLEU\n" in text
    assert max(map(len, text.splitlines())) <= 80
    for *_, record in rows(result):
        change = f"{fixed(record.change.value, sign=True)} {bounds(record)}".rstrip()
        whole = rf"{re.escape(change)} +\S+ +{re.escape(verdict(record))}"
        assert any(re.search(whole, line) for line in text.splitlines()), whole


@pytest.mark.parametrize(
    ("own", "these", "interval", "p"),
    [
        ("inconclusive", "better", "[-0.300, -0.100]‡", "0.010‡"),  # interval and p-value are those of the verdict
        ("better", "better", "[-0.500, +0.100]", "0.900"),
        ("inconclusive", "inconclusive", "[-0.500, +0.100]", "0.900"),
    ],
)
def test_interval_and_p_value_are_those_of_the_verdict(own, these, interval, p):
    terms_only = TermsOnly(ci=(-0.3, -0.1), p=0.01)
    estimate = Estimate(value=-0.2, ci=(-0.5, 0.1), adjusted_p=0.9, terms_only=terms_only)
    change = Change(change=estimate, verdict=own, terms_only_verdict=these)
    assert (bounds(change), p_value(change)) == (interval, p)
