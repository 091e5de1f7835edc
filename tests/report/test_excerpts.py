"""Which turns are shown, and what of them."""

import pytest

from tod_bias.metrics.responses import Refusal
from tod_bias.report.excerpts import compare, excerpts, readable
from tod_bias.results import AuditResult, RunError


def metrics(*names, better="higher"):
    """What a run says of its metrics."""
    given = {name: {"label": f"label of {name}", "better": better} for name in names}
    return list(AuditResult.model_validate({"axes": {}, "metrics": given}).metrics.values())


METRICS = metrics("corpus_bleu")
STAGES = ["api_call", "db", "response"]


def test_the_largest_changes_come_first_each_dialogue_once_and_each_pair_twice_at_most(turns):
    turns = turns.copy()
    worst = (
        (turns["dialogue"] == "gender-4")
        & (turns["turn"] == 1)
        & (turns["variant"] == "gender:man:1")
        & (turns["arm"] == "")
    )
    turns.loc[worst, ["bleu_correct_1", "response"]] = [0, "?"]
    (found,) = excerpts(turns, STAGES, ["gender"], METRICS)
    assert [excerpt.dialogue for excerpt in found.chosen] == ["gender-4", "gender-0"]
    first = found.chosen[0]
    assert (first.turn, first.source, first.target) == (2, "woman", "man")
    assert first.after == 0.0
    assert first.before == 1.0
    assert found.metric.label == "label of corpus_bleu"


def test_a_turn_whose_own_words_are_unchanged_shows_the_earlier_turn_that_was_rewritten(turns):
    turns = turns.copy()
    turns.loc[turns["turn"] == 1, "user"] = "Yes, please."
    chosen = [item for group in excerpts(turns, STAGES, ["gender"], METRICS) for item in group.chosen]
    late = next(item for item in chosen if item.turn == 2)
    assert late.earlier is not None
    assert late.earlier[0] == 1
    assert late.earlier[1].after[1] == ("dad", True)
    assert all(item.earlier is None for item in chosen if item.turn == 1)


def test_a_missing_column_is_a_user_error(turns):
    with pytest.raises(RunError, match="expected a column 'db'"):
        excerpts(turns.drop(columns="db"), STAGES, ["gender"], METRICS)


def test_the_first_metric_that_scores_single_turns_decides(turns):
    chrf, own, refusals = metrics("chrf", "my_metrics:Polite", "refusal")
    (found,) = excerpts(turns, STAGES, ["gender"], [chrf, own, refusals, *METRICS])
    assert found.metric is refusals
    assert (found.fell, found.rose, found.turns) == (0, 22, 32)
    assert (found.chosen[0].before, found.chosen[0].after) == (0.0, 1.0)
    assert excerpts(turns, STAGES, ["gender"], [chrf, own]) is None


class Tenfold(Refusal):
    name = "tenfold"

    def score(self, sums):
        return 10 * super().score(sums)


def test_a_metric_of_the_users_scores_single_turns(turns):
    (tenfold,) = metrics("tenfold", better="lower")
    assert excerpts(turns, STAGES, ["gender"], [tenfold]) is None
    (found,) = excerpts(turns, STAGES, ["gender"], [tenfold], [Tenfold()])
    assert found.metric is tenfold
    assert (found.chosen[0].before, found.chosen[0].after) == (0.0, 10.0)


def test_turns_without_a_score_are_neither_chosen_nor_counted(turns):
    silent = turns.assign(jga_right=1.0, jga_turns=(turns["turn"] == 0).astype(float))
    silent.loc[(silent["arm"] == "") & (silent["turn"] == 0), "jga_right"] = 0.0
    (found,) = excerpts(silent, STAGES, ["gender"], metrics("jga"))
    assert (found.fell, found.rose, found.turns) == (16, 0, 16)
    assert {excerpt.turn for excerpt in found.chosen} == {1}


def test_variants_of_the_placebo_are_left_out(turns):
    (found,) = excerpts(turns, STAGES, ["gender"], METRICS)
    assert {excerpt.target for excerpt in found.chosen} == {"man"}
    only = turns[(turns["arm"] == "original") | (turns["role"] == "placebo")]
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            'content =  ; tool_calls = \\#[{"api_name":"find","city":"York","limit":3}]',
            "find ; city = York ; limit = 3",
        ),
        (
            'content = Let me see. ; tool_calls = \\#[{"api_name":"find","a":1},{"api_name":"book"}]',
            "Let me see. | find ; a = 1 | book",
        ),
        ("api_name = find ; limit = \\#3 | api_name = book", "find ; limit = 3 | book"),
        (
            'choices = \\#[{"index":0,"message":{"content":"An inn.","role":"assistant"}}] ; model = m ; '
            "object = chat.completion",
            "An inn.",
        ),
        (
            'choices = \\#[{"message":{"content":null,"tool_calls":[{"id":"call_0","type":"function","function":'
            '{"name":"find","arguments":"{}"}}]}}] ; object = chat.completion',
            "find({})",
        ),
        (
            'arguments = {"a": 1} ; call_id = call_0 ; name = find ; type = function_call | '
            'content = \\#[{"text":"Let me see.","type":"output_text"}] ; role = assistant ; type = message',
            'find({"a": 1}) | Let me see.',
        ),
        (
            'kind = response ; parts = \\#[{"content":"An inn."},{"args":{"a":1},"tool_name":"find"}]',
            'An inn. | find({"a": 1})',
        ),
        (
            'command = \\#[null,{"messages":[{"data":{"content":"An inn.","tool_calls":[]},"message":"ai"}]},[]]',
            "An inn.",
        ),
        ('content = \\#[{"text":"York Inn","type":"text"}] ; isError = \\#false', "York Inn"),
        ("content = this ; tool_calls = broken", "content = this ; tool_calls = broken"),
        ("['a', 2]", "a, 2"),
        ("The api_name = find", "The api_name = find"),
    ],
)
def test_outputs_are_shown_without_the_marks_of_their_form(text, shown):
    assert readable(text) == shown
