"""What a reader must know of how a run went."""

import pytest

from tod_bias.report.circumstances import circumstances

AXES = {"gender": {"corpus_bleu": {}}}


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({"axes": AXES}, []),
        ({"axes": AXES, "attribution": "impossible: recorded"}, ["Attribution to components is impossible: recorded."]),
        (
            {"axes": AXES, "corpus": {"lost": {"dialogues": 1, "told_as": {"original": 1}}}},
            ["1 dialogue is left out of everything, as a question had no answer (told as: original 1)."],
        ),
        (
            {"axes": AXES, "corpus": {"lost": {"dialogues": 3, "told_as": {"gender: man": 1, "gender: woman": 3}}}},
            [
                "3 dialogues are left out of everything, as a question had no answer (told as: gender: man 1, gender: "
                "woman 3). Whether a group's questions fail more often is a finding of its own, which no score here "
                "shows."
            ],
        ),
        (
            {"axes": AXES, "cost": {"distinct": {"policy": 1200}, "outcomes": {"policy": {"unknown tool": 2}}}},
            ["`policy`: unknown tool in 2 of 1,200 different questions."],
        ),
        (
            {
                "axes": AXES,
                "precision": [
                    {
                        "components": ["api_call", "response"],
                        "model": "m",
                        "dtype": "bfloat16",
                        "prompts": 64,
                        "differ": 3,
                    }
                ],
            },
            [
                "`api_call`, `response`: m computes in bfloat16; of 64 questions drawn by chance it answers 3 "
                "otherwise than in float32."
            ],
        ),
        (
            {
                "samples": 3,
                "metrics": {"corpus_bleu": {"label": "BLEU"}},
                "axes": {
                    "gender": {
                        "corpus_bleu": {
                            "sampling": {"floor": {"value": 0.01, "ci": [-0.02, 0.04]}, "share_of_variance": 0.25}
                        }
                    }
                },
            },
            [
                "Answers are drawn, 3 times each. gender (BLEU): the originals against themselves +0.010 [-0.020, "
                "+0.040], 25% of the disparity's variance is sampling. More --samples shrink that part alone."
            ],
        ),
    ],
)
def test_what_was_unusual_is_said(results, said):
    assert circumstances(results) == said
