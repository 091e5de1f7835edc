"""The page of two runs against each other: it holds what compare.json says, needs nothing else, and escapes names."""

import io
import re

import pytest
from builders import fair_pipeline, polite_tone, rude_tone, small_corpus
from rich.console import Console

from tod_bias import Pipeline, attribute, compare
from tod_bias.report.notation import fixed
from tod_bias.report.page import SHOWN, bounds, chosen_gaps, leading_changes, rows, summary, write_changes
from tod_bias.results import AxisChange, Change, Estimate, GroupChange


@pytest.fixture(scope="module")
def runs():
    dialogues = small_corpus(40)
    fair = fair_pipeline(dialogues).stages
    options = {"axes": ["gender"], "metrics": ["corpus_bleu", "length"], "bootstrap": 40, "permutations": 100}
    return [attribute(Pipeline({**fair, "tone": tone}), dialogues, **options) for tone in (rude_tone, polite_tone)]


@pytest.fixture(scope="module")
def result(runs):
    found = compare(*runs, margin=0.02, permutations=100)
    return found.model_copy(update={"before": "runs/<b>old</b>", "after": "runs/new"})


def test_the_page_shows_what_was_compared_and_needs_nothing_else(runs, result, tmp_path):
    text = write_changes(result, tmp_path, runs).read_text(encoding="utf-8")
    (gap, *_) = chosen_gaps(result.axes["gender"]["corpus_bleu"]).values()
    minus = fixed(gap.change.value, sign=True).replace("-", "−")
    assert abs(gap.before) > 0.02 > abs(gap.after)
    for shown in (fixed(gap.before).replace("-", "−"), minus, gap.verdict, "gap, woman"):
        assert shown in text
    assert "<b>old" not in text
    assert not re.search(r"(src|href)=.(?!#)|@import|url\((?!#)", text)
    assert text.count("<svg") == 2 * 3  # for a screen, and for a phone
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "changes-corpus_bleu.svg", "changes-length.svg", "quality.svg"
    ]  # fmt: skip


def test_a_terminal_of_80_columns_counts_all_changes_and_shows_the_clearest_ones(runs, result):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(summary(result, runs, 80))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert f"{len([*rows(result)])} changes: " in " ".join(text.split())
    leading = [*leading_changes(result)]
    assert leading[1][0] == "gender"
    for axis, what, record, _ in leading:
        change = f"{fixed(record.before)} → {fixed(record.after)} +{re.escape(fixed(record.change.value, sign=True))}"
        assert re.search(rf"{record.verdict} .*{(axis or what).split()[0]}.*{change}", text), text
        assert bounds(record) in text
    gaps = [record for axis, _, record, _ in leading if axis]
    assert {record.verdict for record in gaps} <= set(SHOWN)
    assert all(max(record.before, record.after, key=abs) > 0 for record in gaps)


def changed(before, verdict, scope=None):
    return Change(before=before, verdict=verdict, change=Estimate(value=-0.2, ci=(-0.3, -0.1), p=0.01, scope=scope))


def test_a_change_of_these_terms_only_is_marked():
    assert bounds(changed(0.3, "better")) == "[-0.300, -0.100]"
    assert bounds(changed(0.3, "better", "terms")) == "[-0.300, -0.100]‡"


@pytest.mark.parametrize(
    ("verdicts", "chosen"), [(("better", "inconclusive"), ["man"]), (("inconclusive", "inconclusive"), ["woman"])]
)
def test_the_gaps_whose_change_is_shown_come_first_or_else_the_largest_one(verdicts, chosen):
    gaps = {"man": changed(-0.1, verdicts[0]), "woman": changed(0.3, verdicts[1])}
    groups = {name: GroupChange(dialogues=9, score=Change(), gap=gap) for name, gap in gaps.items()}
    whole = {name: Change() for name in ("original", "rewritten", "disparity")}
    assert [*chosen_gaps(AxisChange(dialogues=9, groups=groups, **whole))] == chosen
