"""Where a gap enters: sentences that ties, interactions and parts that cancel do not mislead."""

import pytest

from tod_bias.report.components import do_level_down, entrance, opposed, outside
from tod_bias.results import AuditResult, AxisResult, Contribution, Estimate, Group


def estimate(value, half=0.02, p=0.001, scope=None):
    return Estimate(value=value, ci=(value - half, value + half), p=p, scope=scope)


def part(shapley, replaced_alone=None, left_alone=None, half=0.02):
    return Contribution(
        shapley=estimate(shapley, half),
        replaced_alone=estimate(shapley if replaced_alone is None else replaced_alone, half),
        left_alone=estimate(shapley if left_alone is None else left_alone, half),
    )


def test_what_arises_in_no_stage_is_said():
    assert outside(estimate(0.4), None) == outside(estimate(0.4), estimate(0.01)) == ""
    text = outside(estimate(0.4), estimate(0.31))
    assert text.startswith("+0.310 of +0.400 arises in code that no stage covers: to find it, declare")


@pytest.mark.parametrize(
    ("parts", "facts", "absent"),
    [
        # alone in one
        ({"api": part(0.4), "response": part(0.0)}, ["all of the gap", "`api` (+0.400 of +0.400)"], ["`response`"]),
        # most: the others have some, or the three numbers do not agree
        ({"api": part(0.35), "response": part(0.05)}, ["most of the gap", "`api` (+0.350 of +0.400"], ["`response`"]),
        (
            {"api": part(0.4, 0.4, 0.2), "response": part(0.0, 0.2, 0.0)},
            ["most of the gap", "`api`", "removes +0.400", "keeps +0.200"],
            ["all of"],
        ),
        # listed until 80% is reached
        ({"a": part(0.2), "b": part(0.13), "c": part(0.07)}, ["`a` (+0.200) and `b` (+0.130) of +0.400"], ["`c`"]),
        # a third is not shown
        ({"a": part(0.2), "b": part(0.2, half=0.3)}, ["`a` (+0.200) of +0.400", "50%"], ["`b`", "most"]),
        # ties
        ({"a": part(0.2), "b": part(0.2)}, ["`a` and `b`, half each"], ["enough", "both"]),
        # OR: either harms alone, so that both must go; AND: mending either mends all
        ({"a": part(0.2, 0.0, 0.4), "b": part(0.2, 0.0, 0.4)}, ["half each", "both must be replaced"], []),
        ({"a": part(0.2, 0.4, 0.0), "b": part(0.2, 0.4, 0.0)}, ["half each", "replacing either is enough"], []),
        ({"a": part(0.2, 0.3, 0.1), "b": part(0.2, 0.3, 0.1)}, ["half each", "removes part of"], ["enough"]),
        ({"a": part(0.2, 0.1, 0.3), "b": part(0.2, 0.1, 0.3)}, ["half each", "part of it goes only"], ["must"]),
        # one works against the others
        ({"a": part(0.6), "b": part(-0.2)}, ["more than all", "`a`", "`b` (-0.200) works the other way"], []),
        # nothing is shown
        ({"a": part(0.2, half=0.3), "b": part(0.2, half=0.3)}, ["no single component"], ["`a`", "`b`"]),
    ],
)  # fmt: skip
def test_components_are_named_by_what_is_shown(parts, facts, absent):
    text = entrance(estimate(0.4), parts, "the gap of woman")
    assert [fact for fact in facts if fact not in text] == []
    assert [word for word in absent if word in text] == []


def test_nothing_is_said_of_needing_each_other_where_twins_serve_everybody_worse():
    parts = {"a": part(0.2, 0.4, 0.0), "b": part(0.2, 0.4, 0.0)}
    text = entrance(estimate(0.4), parts, "the gap of woman", levels_down=True)
    assert "half each" in text
    assert "replac" not in text
    arms = {"": 0.6, "a,b": 0.4}
    assert [levels_down(arms, parts, better) for better in ("higher", "lower", "neither")] == [True, False, False]


def levels_down(arms, parts, better):
    row = AxisResult(arms=arms, contributions=parts, disparity=estimate(0.1))
    metrics = {"m": {"label": "m", "better": better}}
    result = AuditResult(schema=3, stages=["a", "b"], metrics=metrics, axes={"gender": {"m": row}})
    return do_level_down(result.axes["gender"]["m"])


def test_a_gap_on_the_other_side_reads_the_same():
    parts = {"a": part(-0.2, -0.4, 0.0), "b": part(-0.2, -0.4, 0.0)}
    text = entrance(estimate(-0.4), parts, "the gap of man")
    assert "replacing either is enough" in text


def test_nothing_is_said_where_nothing_is_attributed():
    assert entrance(estimate(0.4), {}, "the gap") == ""
    assert entrance(Estimate(value=0.0), {"a": part(0.2)}, "the gap") == ""


def row(**shares):
    """An axis of two groups whose shares are mirrored."""
    groups = {
        name: Group(
            contributions={
                stage: Contribution(shapley=estimate(sign * value, p=p)) for stage, (value, p) in shares.items()
            }
        )
        for name, sign in (("man", -1), ("woman", 1))
    }
    result = AxisResult(verdict="inconclusive", disparity=Estimate(), groups=groups)
    return AuditResult(axes={"gender": {"corpus_bleu": result}}).rows[0]


@pytest.mark.parametrize(
    ("shares", "is_shown"),
    [
        ({"api": (0.3, 0.001), "response": (-0.3, 0.001)}, True),
        ({"api": (0.3, 0.001), "response": (-0.3, 0.02)}, False),  # .02 × 4 tests
        ({"api": (0.3, 0.001), "response": (0.3, 0.001)}, False),
        ({"api": (0.3, None), "response": (-0.3, None)}, False),
    ],
)
def test_components_that_cancel_are_a_finding_of_their_own(shares, is_shown):
    found = opposed(row(**shares))
    assert (found is not None) == is_shown
    if found is not None:
        assert {found.harmful, found.helpful} == {"api", "response"}
        assert found.harmful_share.value > 0 > found.helpful_share.value
        assert found.p == pytest.approx(0.004)
