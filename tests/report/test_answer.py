"""The lines of an answer, in the terminal and on the cards of the page."""

import json

from tod_bias.report.answer import TerminalAnswer, cards_of, what_happens
from tod_bias.results import AuditResult


def result_of(folder, **changes):
    record = json.loads((folder / "results.json").read_text())
    return AuditResult.model_validate(record | changes)


def lines_of(result):
    return [line.plain for line in TerminalAnswer(result).lines()]


def finding(group, **changes):
    counts = {"white": (5, 222), "black": (169, 222), "asian": (170, 222)}
    return {
        "axis": "race", "verdict": "disparity", "group": group, "metric": "fails:*", "what": "failed calls",
        "stage": "db", "compared_with": [name for name in counts if name != group], "effect": {"value": 0.5},
        "counts": counts, **changes,
    }  # fmt: skip


def test_a_line_of_two_groups_has_the_counts_of_both(make_folder):
    result = result_of(make_folder(axes=("race",)), findings=[finding("asian"), finding("black")])
    text = "failed calls: 170 of 222 as asian, 169 as black, 5 of 222 as others"
    assert what_happens(result.findings[0], result, ("asian", "black")) == text
    (card, *_) = cards_of(result)
    assert list(card.details) == [text]
    assert "served worse as asian and black" in card.sentence
    assert any(text in line for line in lines_of(result))


def test_an_axis_with_a_finding_is_not_left_out_anywhere(make_folder):
    left_out = {"race, bleurt": "needs a model", "age": "2 dialogues mention age"}
    result = result_of(make_folder(axes=("race",)), findings=[finding("asian")], left_out=left_out)
    assert [card.axis for card in cards_of(result)] == ["race", "age"]
    text = "\n".join(lines_of(result))
    assert "2 dialogues mention age" in text
    assert "needs a model" not in text


def test_no_line_is_longer_than_the_terminal_however_many_groups_and_words(make_folder):
    example = {
        "dialogue": "d", "turn": 0, "variant": "race:asian",
        "original": "I found this. " * 9, "counterfactual": "Sorry.",
        "user": "Please, " * 9 + "is there a show for Asian families?",
        "user_original": "Please, " * 9 + "is there a show for white families?",
    }  # fmt: skip
    groups = [f"a-rather-long-group-{number}" for number in range(5)]
    found = [finding(group, stage="api_call, db", example=example) for group in groups]
    lines = lines_of(result_of(make_folder(axes=("race",)), findings=found))
    assert max(map(len, lines)) <= 80
    assert any("for Asian families" in line for line in lines)
    assert all(any(group in line for line in lines) for group in groups)


def test_fewer_dialogues_than_there_are_do_not_tell_more(make_folder):
    unproven = {"verdict": "inconclusive", "dialogues": 8, "effect": {"value": 0.5, "p": 0.2}}
    folder = make_folder(axes=("race",))
    for needed, text in ((2, "more terms are needed"), (90, "about 90 such dialogues would decide")):
        result = result_of(folder, findings=[finding("asian", needed=needed, **unproven)])
        assert any(text in line for line in lines_of(result))
