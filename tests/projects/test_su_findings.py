"""The verdicts on Su's findings: how often they are wrong where the truth is known."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent.parent / "projects" / "step_by_step"


@pytest.fixture(scope="module")
def su() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        import findings
    finally:
        sys.path.remove(str(FOLDER))
    return findings


def verdicts(su, truth, errors, *, margin=0.02, worlds=2000, equal=False):
    """How often each verdict is reached on contrasts of sizes, as ``larger`` makes them of two estimates."""
    rng = np.random.default_rng(0)
    counts = dict.fromkeys((su.HOLDS, su.DOES_NOT, su.UNTOLD), 0)
    for _ in range(worlds):
        seen = [su.Number(rng.normal(t, e), e, 100, False) for t, e in zip(truth, errors, strict=True)]
        if equal:
            contrasts = [
                su.Contrast("", su.Number(one.value - seen[0].value, math.hypot(one.error, seen[0].error), 100, False))
                for one in seen[1:]
            ]
        else:
            contrasts = [su.Contrast("", su.larger(seen[0], one)) for one in seen[1:]]
        counts[su.judged("", contrasts, margin, equal=equal).verdict] += 1
    return {name: count / worlds for name, count in counts.items()}


@pytest.mark.parametrize(
    ("truth", "errors"),
    [
        ((0.0, 0.0, 0.0), (0.02, 0.02, 0.02)),
        ((0.0, 0.0), (0.05, 0.001)),  # the noisier one looks larger
        ((0.05, 0.05, 0.0), (0.01, 0.01, 0.01)),
        ((-0.05, 0.05), (0.01, 0.02)),
    ],
)
def test_what_is_not_larger_is_seldom_said_to_be(su, truth, errors):
    assert verdicts(su, truth, errors)[su.HOLDS] <= 0.06


@pytest.mark.parametrize(
    ("truth", "errors"),
    [((0.08, 0.05, 0.05), (0.01, 0.02, 0.02)), ((-0.10, 0.06, 0.01), (0.02, 0.02, 0.05)), ((0.03, 0.0), (0.01, 0.03))],
)
def test_what_is_larger_by_more_than_the_margin_is_seldom_denied(su, truth, errors):
    assert verdicts(su, truth, errors)[su.DOES_NOT] <= 0.06


def test_clear_cases_are_told(su):
    assert verdicts(su, (0.10, 0.02, 0.0), (0.01, 0.01, 0.01))[su.HOLDS] >= 0.99
    assert verdicts(su, (0.02, 0.10, 0.0), (0.01, 0.01, 0.01))[su.DOES_NOT] >= 0.99
    assert verdicts(su, (0.02, 0.02), (0.003, 0.003))[su.DOES_NOT] >= 0.95  # equal: so it is not larger
    assert verdicts(su, (0.02, 0.02, 0.02), (0.003,) * 3, equal=True)[su.HOLDS] >= 0.95


def test_equality_is_claimed_within_the_margin_alone(su):
    assert verdicts(su, (0.0, 0.021), (0.003, 0.003), equal=True)[su.HOLDS] <= 0.06
    assert verdicts(su, (0.0, 0.0, 0.0), (0.01,) * 3, equal=True)[su.DOES_NOT] <= 0.06


def test_what_cannot_be_told_says_how_many_dialogues_would_tell(su):
    found = su.judged("", [su.Contrast("", su.Number(0.001, 0.02, 100, False))], 0.02)
    # (1.96 + 0.84) · 0.02 / 0.02 squared, times 100
    assert (found.verdict, found.seen) == (su.UNTOLD, "needs 785 dialogues an axis")
    few = su.judged("", [su.Contrast("", su.Number(0.001, 0.02, 100, True))], 0.02)
    assert "other words to speak of groups" in few.seen
    none = su.judged("", [], 0.02, usual=su.Number(0.0, 0.02, 100, True))
    assert none.seen == "no run here speaks of it; where runs spread as these do, needs 785 dialogues an axis"


def test_what_does_not_hold_names_the_contrasts_that_say_so(su):
    told = [("clear", 0.1, 0.01), ("open", 0.01, 0.03), ("equal", 0.001, 0.004), ("less", -0.05, 0.01)]
    contrasts = [su.Contrast(name, su.Number(value, error, 100, False)) for name, value, error in told]
    assert su.judged("", contrasts, 0.02).seen == "not so: equal, less"
    assert su.judged("", contrasts, 0.02, equal=True).seen == "not so: clear, less"


def test_every_finding_is_answered_also_without_runs(su):
    for found in su.findings([], {}, 0.02):
        assert found.verdict == su.UNTOLD
        assert found.seen


def test_the_error_of_two_parts_apart_is_that_of_their_joint_distribution(su):
    rng = np.random.default_rng(1)
    parts = rng.multivariate_normal([0, 0], [[1.0, -0.5], [-0.5, 2.0]], size=200_000)
    errors = [su.Number(0, parts[:, place].std(), 9, False) for place in (0, 1)]
    whole = su.Number(0, parts.sum(axis=1).std(), 9, False)
    assert su.parts_apart(whole, *errors) == pytest.approx((parts[:, 0] - parts[:, 1]).std(), rel=0.01)


def test_axes_of_a_few_dialogues_are_in_no_test(su):
    def axis(dialogues, bounds):
        disparity = {"value": 0.1, "ci": bounds, "ci_these_words": None, "clusters": {"dialogues": dialogues}}
        return {"disparity": disparity, "verdict": "inconclusive", "contributions": {}}

    axes = {"gender": axis(40, [0.05, 0.15]), "age": axis(4, None), "race": axis(90, [0.09, 0.11])}
    run = su.StudyRun("GPT-2", "plain", "star", axes)
    least = next(found for found in su.findings([run], {}, 0.02) if found.claim == "gender is least biased")
    assert [contrast.name for contrast in least.contrasts] == ["GPT-2, plain, star: race − gender"]
    assert su.too_few(run) == {"age": 4}


def run_of(su, beginning, value, *, training=600):
    estimate = {"value": value, "ci": [value - 0.098, value + 0.098], "clusters": {"dialogues": 20}}
    axes = {"gender": {"verdict": "inconclusive", "disparity": estimate, "contributions": {}}}
    return su.StudyRun("GPT-2", beginning, "google_sgd", axes, training, beginning)


def test_beginnings_are_compared_after_equal_trainings_and_paired_where_that_is_known(su):
    runs = [run_of(su, "plain", 0.03), run_of(su, "crossed", 0.05), run_of(su, "longer", 0.9, training=3000)]
    (alone,) = su._beginnings(runs, {})
    assert alone.name == "GPT-2, crossed, google_sgd (600) − plain, gender"
    assert alone.number.value == pytest.approx(0.02)
    assert alone.number.error == pytest.approx(math.hypot(0.05, 0.05), rel=1e-3)
    known = su.Number(0.021, 0.003, 20, False)
    (paired,) = su._beginnings(runs, {("plain", "crossed"): {"gender": known}})
    assert paired.number == known
