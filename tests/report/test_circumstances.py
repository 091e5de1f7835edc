"""What a reader must know of how a run went."""

import pytest

from tod_bias.report.circumstances import circumstances
from tod_bias.results import AuditResult

SAMPLED = {
    "disparity": {},
    "sampling": {"samples": 3, "noise": {"value": 0.01, "ci": [-0.02, 0.04]}, "share_of_variance": 0.25},
}
LACKING = {
    "disparity": {"value": 0.15},
    "verdict": "inconclusive",
    "contributions": {
        "db": {"shapley": {"value": 0.17, "ci": [0.09, 0.25]}},
        "response": {"shapley": {"value": -0.02, "ci": [-0.03, -0.01]}},
    },
}


def said(**record):
    axes = {"gender": {"corpus_bleu": {"disparity": {}}}}
    return circumstances(AuditResult.model_validate({"axes": axes} | record))


def test_nothing_is_said_where_nothing_was_unusual():
    assert said() == []


@pytest.mark.parametrize(
    ("record", "facts"),
    [
        ({"corpus": {"lost": {"dialogues": 1, "variants": {"original": 1}}}}, ["1 dialogue is", "(original 1)"]),
        (
            {"corpus": {"lost": {"dialogues": 3, "variants": {"gender: man": 1, "gender: woman": 3}}}},
            ["3 dialogues are", "gender: man 1, gender: woman 3"],
        ),
        (
            {
                "cost": {
                    "distinct": {"policy": 1200},
                    "outcomes": {"policy": {"unknown tool": 9, "text too long": 1}},
                    "tools": {"policy": {"unknown tool": {"find_bus": 5, "book": 2, "pay": 1}}},
                }
            },
            [
                "`policy`: unknown tool in 9 (`find_bus` 5, `book` 2, `pay` 1, others 1), "
                "text too long in 1 of 1,200 different calls."
            ],
        ),
        (
            {
                "precision": [
                    {"stages": ["api_call", "response"], "model": "m", "dtype": "bfloat16", "prompts": 64, "differ": 3}
                ]
            },
            ["`api_call`, `response`: m", "bfloat16", "of 64", " 3 "],
        ),
        (
            {
                "samples": 3,
                "metrics": {"corpus_bleu": {"label": "BLEU"}},
                "axes": {"gender": {"corpus_bleu": SAMPLED}},
            },
            ["3 times", "gender (BLEU)", "+0.010 [-0.020, +0.040]", "25%"],
        ),
    ],
)
def test_what_was_unusual_is_said_in_one_line(record, facts):
    (line,) = said(**record)
    assert [fact for fact in facts if fact not in line] == []


def test_a_table_without_rows_for_rewritten_calls_is_blamed_where_no_group_is():
    record = {
        "cost": {"distinct": {"db": 900}, "outcomes": {"db": {"no such row": 200}}},
        "metrics": {"corpus_bleu": {"label": "BLEU"}, "length": {"label": "length"}},
        "axes": {
            "names_gender": {"corpus_bleu": LACKING, "length": LACKING},
            "gender": {"corpus_bleu": {"disparity": {}}},
        },
    }
    count, line = said(**record)
    assert "no such row in 200 of 900" in count
    assert (
        "`db` lacks rows for rewritten calls; its share of the pooled difference: names_gender +0.170 [+0.090, +0.250]."
        in line
    )
    record["cost"]["outcomes"] = {"db": {"malformed call": 200}}
    assert len(said(**record)) == 1


def test_saved_responses_attribute_nothing_and_those_unused_are_counted():
    assert len(said(responses={"number": 40})) == 1
    unused = {"variant": {"number": 3, "first": "line 7"}, "turn": {"number": 1, "first": "line 9"}}
    _, line = said(responses={"number": 40, "unused": unused})
    assert [fact for fact in ("4 of 40", "3 ", "line 7", "1 ", "line 9") if fact not in line] == []
