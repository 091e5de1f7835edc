"""Readings claim no more than the numbers support."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.report.outcome import Axis, Effect, Estimate
from tod_bias.report.reading import Support, adjusted_pairs, excess, read, support

PARTS = {"db": Estimate(0.01, -0.01, 0.03), "response": Estimate(0.09, 0.07, 0.11)}


def axis(value=0.1, half=0.02, p=0.001, *, name="gender", sign=1, parts=None, residual=None, shapley=None, pairs=()):
    signed = sign * value
    return Axis(
        name=name, dialogues=100, bleu_original=0.2, bleu_perturbed=0.2 * (1 - signed),
        fairscore=Estimate(value, max(0.0, value - half), value + half, p),
        signed=Estimate(signed, signed - half, signed + half),
        contributions=PARTS if parts is None else parts,
        residual=residual or Estimate(0.0, -0.001, 0.001), shapley=shapley or {}, pairs=tuple(pairs),
    )  # fmt: skip


def pair(name, signed, p=0.001, half=0.02):
    value = abs(signed)
    part = {"response": Estimate(value, value - half, value + half)}
    fairscore = Estimate(value, max(0.0, value - half), value + half, p)
    return Effect(name, 50, 0.2, 0.2, fairscore, Estimate(signed, signed - half, signed + half), part)


PLACEBO = axis(0.01, 0.005, 0.3, name="placebo", parts={})


def reading(subject, *others):
    return read([subject, *others])[0]


def test_a_disparity_names_direction_evidence_and_the_stage_that_holds_most():
    found = reading(axis(), PLACEBO)
    assert found.support is Support.SUPPORTED
    assert found.text == (
        "gender: rewritten dialogues are answered worse (BLEU 10% lower, p=0.001, above the placebo's 1.0%); "
        "most of it enters in `response` (0.090 of 0.100)."
    )


def test_a_negative_signed_score_is_answered_better():
    assert "answered better (BLEU 10% higher, p=0.001" in reading(axis(sign=-1), PLACEBO).text


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (axis(p=0.2), "no difference is supported (fairscore 0.100, p=0.200), which does not show that there is none."),
        (axis(p=0.05), "no difference is supported"),
        (axis(p=None), "no difference is supported (fairscore 0.100, no p-value)"),
        (axis(half=0.2), "p=0.001, but the interval reaches 0"),
    ],
)
def test_without_the_test_or_the_interval_nothing_is_claimed(subject, words):
    found = reading(subject, PLACEBO)
    assert found.support is Support.UNSUPPORTED
    assert not found.is_claim
    assert words in found.text
    assert "worse" not in found.text


def test_a_holm_adjusted_p_value_counts_where_there_is_one():
    subject = axis(p=0.03)
    assert support(subject, PLACEBO) is Support.SUPPORTED
    assert support(replace(subject, fairscore=replace(subject.fairscore, p_holm=0.09)), PLACEBO) is Support.UNSUPPORTED


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        (0.09, "not clearly more than after placebo rewording (9.0%): no disparity is supported."),
        (0.1, "no more than after placebo rewording (10%): no disparity is supported."),
        (0.3, "no more than after placebo rewording (30%): no disparity is supported."),
    ],
)
def test_what_the_placebo_reaches_too_is_no_disparity(floor, words):
    found = reading(axis(), axis(floor, 0.02, name="placebo"))
    assert found.support is Support.AT_FLOOR
    assert not found.is_disparity
    assert words in found.text


def test_without_a_placebo_the_difference_is_hedged():
    found = reading(axis())
    assert found.support is Support.NO_FLOOR
    assert not found.is_disparity
    assert found.text.endswith("without a placebo axis, all of this may be the effect of any rewording.")


def test_the_placebo_is_the_floor_and_claims_nothing():
    found = read([PLACEBO])[0]
    assert found.support is Support.FLOOR
    assert found.text.startswith("placebo: rewording without demographic meaning changes BLEU by 1.0% (p=0.300)")


def test_an_undefined_fairscore_is_said_to_be_so():
    subject = replace(axis(), fairscore=Estimate(), signed=Estimate(), contributions={})
    assert reading(subject, PLACEBO).support is Support.UNDEFINED


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"db": (0.04, 0.03, 0.05), "a": (0.045, 0.03, 0.06)}, "it enters in `db` (0.040), `a` (0.045) of 0.100"),
        ({"db": (0.06, -0.01, 0.1), "response": (0.04, -0.01, 0.09)}, "no single stage's part is told apart from 0"),
        ({"db": (-0.03, -0.05, -0.01), "response": (0.13, 0.1, 0.15)}, "(0.130 of 0.100); `db` takes some back"),
        ({}, "it is not attributed to stages"),
    ],
)  # fmt: skip
def test_stages_are_named_only_where_their_interval_leaves_out_zero(parts, words):
    assert words in reading(axis(parts={name: Estimate(*part) for name, part in parts.items()}), PLACEBO).text


def test_a_residual_is_not_blamed_on_a_stage():
    found = reading(axis(residual=Estimate(0.03, 0.02, 0.04)), PLACEBO)
    assert "0.030 stays with every stage swapped, so it is not due to a stage" in found.text


def test_a_top_stage_that_depends_on_the_order_is_flagged():
    found = reading(axis(shapley={"db": Estimate(0.08), "response": Estimate(0.02)}), PLACEBO)
    assert "in this order, though most in `db` as the mean over orders" in found.text


def test_pairs_that_cancel_are_read_out_though_the_axis_shows_nothing():
    subject = axis(0.005, 0.02, 0.6, pairs=[pair("man>woman", 0.12), pair("woman>man", -0.11)])
    found = reading(subject, PLACEBO)
    assert found.support is Support.UNSUPPORTED
    assert found.headline == "single pairs differ"
    assert found.text.startswith("gender: over all pairs together, no difference is supported")
    assert found.pairs == (
        "By pair: man>woman (+0.120) answered worse; woman>man (-0.110) answered better; opposite directions cancel in "
        "the corpus value; the largest part of each enters in `response`."
    )


@pytest.mark.parametrize(
    "weak", [pair("man>woman", 0.12, p=0.04), pair("man>woman", 0.02), pair("man>woman", 0.12, half=0.2)]
)
def test_pairs_need_the_same_support_as_axes_adjusted_for_their_number(weak):
    assert reading(axis(pairs=[weak, pair("woman>man", 0.0, p=0.9)]), PLACEBO).pairs == ""


def test_pairs_are_adjusted_by_holm():
    # Holm by hand: 0.01 * 3, then max(0.03, 0.02 * 2), then max(0.04, 0.03 * 1)
    found = adjusted_pairs(axis(pairs=[pair("a>b", 0.1, 0.03), pair("b>a", 0.1, 0.01), pair("a>c", 0.1, 0.02)]))
    assert [item.fairscore.p for item in found] == pytest.approx([0.04, 0.03, 0.04])


def test_the_interval_above_the_placebo_combines_both_intervals():
    above = excess(axis(0.1, 0.03), axis(0.06, 0.04, name="placebo"))
    assert above is not None
    assert (above.value, above.low, above.high) == pytest.approx((0.04, 0.04 - 0.05, 0.04 + 0.05))  # a 3-4-5 triangle


finite = st.floats(0, 1)


@given(finite, finite, st.floats(0, 0.5), st.floats(0, 0.5), st.one_of(st.none(), finite), st.sampled_from([1, -1]))
def test_no_disparity_is_ever_claimed_against_the_evidence(value, floor, half, floor_half, p, sign):
    found = reading(axis(value, half, p, sign=sign), axis(floor, floor_half, name="placebo"))
    if found.is_disparity:
        assert p is not None
        assert p < 0.05
        assert value > half
        assert value - floor > math.hypot(half, floor_half) - 1e-9
    else:
        assert "most of it enters" not in found.text
