"""Which turns are shown, and what of them."""

import numpy as np
import pandas as pd
import pytest
from sacrebleu.metrics import BLEU

from tod_bias.report.excerpts import compare, excerpts, turn_bleu, turn_f1
from tod_bias.report.outcome import Metric
from tod_bias.report.record import RunError

METRICS = [Metric("corpus_bleu", "BLEU", "higher")]
STAGES = ["api_call", "db", "response"]


def counts(hypothesis: str, reference: str) -> list[float]:
    score = BLEU(effective_order=True).sentence_score(hypothesis, [reference])
    return [*score.counts, *score.totals, score.sys_len, score.ref_len]


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("a b c d e f", "a b c d e f"),
        ("a b c x e f g", "a b c d e f"),
        ("a b c", "a b c d e f"),
        ("a b c x y z e", "a b c d e f"),
    ],
)
def test_turn_bleu_equals_sacrebleus_with_add_one_smoothing(hypothesis, reference):
    expected = BLEU(smooth_method="add-k", smooth_value=1, effective_order=False).sentence_score(
        hypothesis, [reference]
    )
    found = turn_bleu(pd.DataFrame([counts(hypothesis, reference)]).to_numpy(float))
    assert found[0] == pytest.approx(expected.score / 100, abs=1e-9)


def test_turn_bleu_is_zero_for_nothing_right_and_for_nothing_said():
    assert turn_bleu(pd.DataFrame([counts("x", "a b"), [0.0] * 9 + [2.0]]).to_numpy(float)).tolist() == [0.0, 0.0]


def test_the_largest_changes_come_first_each_dialogue_once_and_each_pair_twice_at_most(turns):
    turns = turns.copy()
    worst = (turns["dialogue"] == "gender-4") & (turns["turn"] == 1) & (turns["draw"] == 1) & (turns["arm"] == "")
    turns.loc[worst, ["bleu_correct_1", "response"]] = [0, "?"]
    (found,) = excerpts(turns, STAGES, ["gender"], METRICS)
    assert [excerpt.dialogue for excerpt in found.chosen] == ["gender-4", "gender-0"]
    first = found.chosen[0]
    assert (first.turn, first.source, first.target, first.word) == (2, "woman", "man", "mom")
    assert first.after == 0.0
    assert first.before == 1.0
    assert found.metric.label == "BLEU"


def test_counts_cover_all_turns_not_only_the_shown_ones(turns):
    (found,) = excerpts(turns, STAGES, ["race"], METRICS)
    assert (found.fell, found.rose, found.turns) == (22, 0, 32)


def test_stages_that_put_out_the_same_are_only_named(turns):
    turns = turns.copy()
    turns["api_call"] = "api_name = Find"
    excerpt = excerpts(turns, STAGES, ["gender"], METRICS)[0].chosen[0]
    assert excerpt.same == ("api_call",)
    assert [output.name for output in excerpt.outputs] == ["db", "response"]


def test_a_turn_whose_own_words_are_unchanged_shows_the_earlier_turn_that_was_rewritten(turns):
    turns = turns.copy()
    turns.loc[turns["turn"] == 1, "user"] = "Yes, please."
    chosen = [item for group in excerpts(turns, STAGES, ["gender"], METRICS) for item in group.chosen]
    late = next(item for item in chosen if item.turn == 2)
    assert late.earlier is not None
    assert late.earlier[0] == 1
    assert late.earlier[1].after[1] == ("dad", True)
    assert all(item.earlier is None for item in chosen if item.turn == 1)


def test_axes_without_turns_are_left_out_and_order_is_kept(turns):
    assert [group.axis for group in excerpts(turns, STAGES, ["race", "nothing", "gender"], METRICS)] == [
        "race",
        "gender",
    ]


def test_missing_outputs_are_read_as_nothing(turns):
    turns = turns.copy()
    turns.loc[turns["arm"] == "", "db"] = None
    excerpt = excerpts(turns, STAGES, ["gender"], METRICS)[0].chosen[0]
    assert next(output for output in excerpt.outputs if output.name == "db").after == ()


def test_a_missing_column_is_a_user_error(turns):
    with pytest.raises(RunError, match="expected a column 'db'"):
        excerpts(turns.drop(columns="db"), STAGES, ["gender"], METRICS)


def test_the_first_metric_that_scores_single_turns_decides(turns):
    chrf, own, refusals = (Metric(name, name, "higher") for name in ("chrf", "my_metrics:Polite", "refusal"))
    (found,) = excerpts(turns, STAGES, ["gender"], [chrf, own, refusals, *METRICS])
    assert found.metric is refusals
    assert (found.fell, found.rose, found.turns) == (0, 22, 32)
    assert (found.chosen[0].before, found.chosen[0].after) == (0.0, 1.0)
    assert excerpts(turns, STAGES, ["gender"], [chrf, own]) is None


def test_turns_without_a_score_are_neither_chosen_nor_counted(turns):
    silent = turns.assign(jga_right=1.0, jga_turns=(turns["turn"] == 0).astype(float))
    silent.loc[(silent["arm"] == "") & (silent["turn"] == 0), "jga_right"] = 0.0
    (found,) = excerpts(silent, STAGES, ["gender"], [Metric("jga", "JGA", "higher")])
    assert (found.fell, found.rose, found.turns) == (16, 0, 16)
    assert {excerpt.turn for excerpt in found.chosen} == {1}


def test_f1_of_turns_is_undefined_without_a_slot():
    assert turn_f1(np.array([[2.0, 3.0, 5.0], [0.0, 0.0, 0.0]])).tolist() == pytest.approx([0.5, np.nan], nan_ok=True)


def test_tellings_that_only_exchange_neutral_words_are_left_out(turns):
    (found,) = excerpts(turns, STAGES, ["gender"], METRICS)
    assert {excerpt.target for excerpt in found.chosen} == {"man"}
    only = turns[(turns["arm"] == "original") | (turns["target"] == "placebo")]
    assert excerpts(only, STAGES, ["gender"], METRICS) == []


@pytest.mark.parametrize(
    ("before", "after", "ours", "theirs"),
    [
        ("for my mom now", "for my dad now", [("mom", True)], [("dad", True)]),
        ("the same", "the same", [], []),
        ("", "all new", [], [("all new", True)]),
        ("Sorry , no .", "Your table is booked .", [("Sorry , no .", True)], [("Your table is booked .", True)]),
    ],
)  # fmt: skip
def test_words_that_differ_are_marked(before, after, ours, theirs):
    left, right = compare(before, after)
    assert [piece for piece in left if piece[1]] == ours
    assert [piece for piece in right if piece[1]] == theirs
    assert ("".join(text for text, _ in left), "".join(text for text, _ in right)) == (before, after)
