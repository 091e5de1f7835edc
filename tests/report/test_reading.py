"""Readings claim no more than the verdict and the adjusted p-values do."""

import itertools
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.audit import claims
from tod_bias.report.reading import amount, direction, is_starred, read, side, terms_of_pair
from tod_bias.results import (
    AuditResult,
    AxisResult,
    BeyondPlacebo,
    Contribution,
    Estimate,
    Gap,
    Group,
    MetricInfo,
    Term,
    Terms,
    TermsOnly,
    Verdict,
)
from tod_bias.statistics.needed import ENOUGH_WORDS

BLEU = {"name": "corpus_bleu", "label": "BLEU", "better": "higher"}
REFUSALS = {"name": "refusal", "label": "refusals", "better": "lower"}
LENGTH = {"name": "length", "label": "length", "better": "neither"}
VERDICTS = tuple(filter(None, get_args(Verdict)))
CLAIMS = ("worse", "better", "differently", "enters in", "enter in")


def estimate(value, half=0.02, p=0.001, p_terms_only=0.001, *, enough=True):
    bounds = (value - half, value + half)
    return Estimate(value=value, ci=bounds if enough else None, p=p, terms_only=TermsOnly(ci=bounds, p=p_terms_only))


def contributions(parts):
    return {name: Contribution(shapley=part) for name, part in parts.items()}


def group(gap, terms=8.0, parts=None, **changes):
    parts = {"response": gap.model_copy(update={"p": None})} if parts is None else parts
    fields = {"dialogues": 100, "terms": Terms(effective=terms), "gap": gap, "contributions": contributions(parts)}
    return Group(**(fields | changes))


def beyond(value=0.08, dialogues=90, edits=(1.6, 1.5)):
    return BeyondPlacebo(
        **dict(estimate(value)), dialogues=dialogues, edits=dict(zip(("axis", "placebo"), edits, strict=True))
    )


def result(metric=BLEU, verdict="disparity", axis="gender", terms=8.2, strongest=(), **changes):
    whole = changes.pop("disparity", estimate(0.1))
    whole = whole.model_copy(update={"adjusted_p": whole.p})
    fields = {
        "verdict": verdict, "dialogues": 100, "rests_on": Terms(number=9, effective=terms), "disparity": whole,
        "contributions": contributions({"api_call": estimate(0.0, 0.01), "response": whole}),
        "beyond_placebo": beyond(), "mde": 0.05, "equivalent_within": 0.3,
        "terms": list(strongest),
        "groups": {"man": group(estimate(-0.2)), "woman": group(estimate(0.2))},
    }  # fmt: skip
    info = MetricInfo(**{key: value for key, value in metric.items() if key != "name"})
    row = AxisResult(**(fields | changes))
    return AuditResult(axes={axis: {metric["name"]: row}}, metrics={metric["name"]: info}).rows[0]


def reading_of(row):
    (reading,) = read([row])
    return reading


def said(row):
    reading = reading_of(row)
    return f"{reading.result} {reading.grounds}".strip()


def test_a_disparity_names_groups_stages_terms_and_what_is_beyond_the_placebo():
    strongest = [Term(term="mom/dad/parent", without=0.09), Term(term="kid", without=0.11)]
    reading = reading_of(result(strongest=strongest))
    whole, worse, better = reading.who.split(";")
    for text, facts in (
        (whole, ("worse", "BLEU 10% lower [8.0%, 12%]", "p=0.001")),
        (worse, ("woman", "BLEU 20% lower [18%, 22%]", "worse than on average")),
        (better, ("man", "BLEU 20% higher [18%, 22%]", "better than on average")),
        (reading.where, ("man", "`response`", "-0.200")),
        (reading.terms, ("8.2", "“mom/dad …”", "+0.090", "“kid”", "+0.110")),
        (reading.placebo, ("90 dialogues", "+0.080 [+0.060, +0.100]", "1.6", "1.5")),
        (reading.limits, ("0.050",)),
    ):
        assert [fact for fact in facts if fact not in text] == []
    assert reading.missing == ""
    assert "`api_call`" not in reading.where


@pytest.mark.parametrize(
    ("metric", "value", "served", "sense"),
    [
        (BLEU, 0.1, "worse", "lower"),
        (BLEU, -0.1, "better", "higher"),
        (REFUSALS, 0.1, "worse", "higher"),
        (REFUSALS, -0.1, "better", "lower"),
        (LENGTH, 0.1, "differently", "lower"),
        (LENGTH, -0.1, "differently", "higher"),
    ],
)
def test_harm_has_the_direction_that_the_metric_gives_it(metric, value, served, sense):
    row = result(metric, disparity=estimate(value))
    whole = reading_of(row).who.split(";")[0]
    assert f"answered {served} than" in whole
    assert f"{metric['label']} 10% {sense}" in whole
    assert direction(value, row) == served


def test_a_metric_that_is_neither_good_nor_bad_is_never_a_harm():
    text = said(result(LENGTH))
    assert "worse" not in text
    assert "better" not in text
    assert (side("neither"), side("neither", positive=False), side("lower")) == ("lower", "higher", "served worse")


@pytest.mark.parametrize(
    ("number", "scale", "text"),
    [
        (estimate(0.1), "difference", "BLEU 0.100 lower [0.080, 0.120]"),
        (estimate(-0.1, enough=False), "ratio", "BLEU 10% higher [8.0%, 12%]‡"),
        (Estimate(value=0.0), "ratio", "BLEU unchanged"),
        (Estimate(), "ratio", "BLEU not known"),
        # nothing is lower by more than all of itself
        (estimate(1.39), "ratio", "BLEU lower by 1.390 [1.370, 1.410] times the originals'"),
        (estimate(0.9, 0.2, enough=False), "ratio", "BLEU lower by 0.900 [0.700, 1.100]‡ times the originals'"),
    ],
)
def test_differences_are_in_the_metrics_own_units_and_ratios_percentages(number, scale, text):
    assert amount(number, result(scale=scale)) == text


@pytest.mark.parametrize("name", ["disagreement", "call_disagreement"])
def test_a_metric_that_compares_with_the_original_does_not_say_who_is_served_worse(name):
    """A system that is worse to women treats both directions of rewriting differently."""
    metric = {"name": name, "label": "disagreement", "better": "lower", "counterfactual": True}
    reading = reading_of(result(metric, scale="difference"))
    assert "worse than" not in reading.result
    assert "better than" not in reading.result
    assert "answered differently" in reading.who
    assert "disagreement 0.100 higher" in reading.who
    assert "does not tell which group is served worse" in reading.who
    assert "worse" not in side("lower", counterfactual=True)


@pytest.mark.parametrize(
    ("factors", "changes", "facts"),
    [
        (["placebo"], {}, ["without the placebo it would be claimed:", "90 dialogues"]),
        (["terms", "placebo"], {"terms": 1.0}, ["without the placebo it would be claimed of these terms:"]),
        (["other terms"], {}, ["differs too much"]),
        (["other tests"], {}, ["among all axes and metrics"]),
        (["tests"], {}, ["no permutations"]),
        (["tests"], {"metric": REFUSALS | {"counterfactual": True}}, ["needs a placebo (--axes …,placebo)"]),
        (["terms"], {}, ["man (2.0)", "woman (2.0)", "takes 6"]),
        (["terms"], {"terms": 2.0}, []),
    ],
)
def test_a_verdict_below_a_disparity_says_why(factors, changes, facts):
    groups = {name: group(estimate(0.2), terms=2.0) for name in ("man", "woman")}
    reading = reading_of(result(verdict="inconclusive", limiting_factors=factors, groups=groups, **changes))
    assert [fact for fact in facts if fact not in reading.missing] == []
    assert bool(reading.missing) == bool(facts)
    assert bool(reading.limits) == (factors != ["tests"])
    assert ("takes 6" in reading.terms) == ("terms" in changes)


@pytest.mark.parametrize(
    ("gap", "whose", "number"), [(0.3, "The gap of woman above", "+0.250"), (0.05, "Above", "+0.080")]
)
def test_what_is_beyond_the_placebo_is_that_of_the_gap_that_is_claimed(gap, whose, number):
    woman = group(estimate(gap), beyond_placebo=estimate(0.25))
    grounds = reading_of(result(groups={"woman": woman})).grounds
    assert f"{whose} placebo" in grounds
    assert number in grounds


def test_every_factor_of_the_studies_has_its_reason():
    for name in (claims.PLACEBO, claims.OTHER_TERMS, claims.OTHER_TESTS, claims.TESTS, claims.TERMS):
        assert reading_of(result(verdict="inconclusive", limiting_factors=[name])).missing, name


@pytest.mark.parametrize(("verdict", "metric"), list(itertools.product(VERDICTS, (BLEU, REFUSALS, LENGTH))))
def test_sentences_claim_no_more_than_the_verdict(verdict, metric):
    """Whatever the p-values are: nothing is named without the verdict, and of these terms only it is always said."""
    row = result(metric, verdict)
    reading = reading_of(row)
    assert reading.is_claim == (verdict == "disparity")
    if verdict == "these terms only":
        assert reading.result.startswith("With these ")
        assert "need not speak for the groups" in reading.result
    elif verdict != "disparity":
        assert not any(word in reading.result for word in CLAIMS)
        assert "p=" not in reading.result
    assert is_starred(row, row.disparity, row.effective_terms) == (verdict == "disparity")


@pytest.mark.parametrize("verdict", ["disparity", "these terms only"])
def test_only_groups_with_a_small_p_value_are_named(verdict):
    weak = estimate(0.3, p=0.06, p_terms_only=0.06)
    groups = {"man": group(weak), "woman": group(estimate(0.2))}
    text = said(result(verdict=verdict, disparity=weak, groups=groups))
    assert re.search(r"\bwoman\b", text)
    assert not re.search(r"\bman\b", text)
    assert "twin" not in text
    none = reading_of(result(verdict=verdict, disparity=weak, groups={"woman": group(weak)}))
    assert "woman" not in none.result
    assert none.where == ""


def test_a_group_of_few_terms_is_not_named_though_its_axis_claims():
    text = said(result(groups={"man": group(estimate(-0.2), terms=5.9), "woman": group(estimate(0.2))}))
    assert re.search(r"\bwoman\b", text)
    assert not re.search(r"\bman\b", text)


def test_of_these_terms_p_values_with_terms_as_they_are_count_and_stages_are_named_by_their_intervals():
    gap = estimate(0.2, p=0.5, p_terms_only=0.001, enough=False)
    reading = reading_of(result(verdict="these terms only", disparity=gap, groups={"woman": group(gap)}, terms=1.4))
    assert "p=0.001" in reading.who
    assert "[18%, 22%]‡" in reading.who
    assert "`response`" in reading.where
    assert "1.4" in reading.terms
    assert "takes 6" in reading.terms


@pytest.mark.parametrize(
    ("parts", "facts"),
    [
        ({"db": (0.08, 0.02), "response": (0.12, 0.02)}, ["most", "`response` (+0.120 of +0.200)"]),
        ({"db": (-0.05, 0.02), "response": (0.25, 0.02)}, ["more than all", "`response` (+0.250", "`db` (-0.050)"]),
        ({"db": (0.1, 0.2), "response": (0.1, 0.2)}, ["no single stage"]),
        ({"a": (0.1, 0.02), "b": (0.1, 0.02)}, ["`a` (+0.100), `b` (+0.100) of +0.2"]),
    ],
)
def test_stages_are_named_only_where_their_interval_leaves_out_zero(parts, facts):
    named = {name: estimate(*numbers) for name, numbers in parts.items()}
    where = reading_of(result(groups={"woman": group(estimate(0.2), parts=named)})).where
    assert "gap of woman" in where
    assert [fact for fact in facts if fact not in where] == []
    assert ("`" in where) == ("no single stage" not in facts)


@pytest.mark.parametrize(
    ("placebo", "has_one", "facts"),
    [
        (None, False, ["--axes …,placebo"]),
        (None, True, ["no placebo fits"]),
        (beyond(edits=(13.2, 2.9)), True, ["+0.080", "13.2", "2.9", "fewer words"]),
        (beyond(edits=(None, None)), True, ["90 dialogues: +0.080 [+0.060, +0.100]."]),
    ],
)
def test_what_the_placebo_does_is_said_as_it_is(placebo, has_one, facts):
    rows = [result(beyond_placebo=placebo), *([result(axis="placebo", verdict="placebo")] if has_one else [])]
    text = read(rows)[0].placebo
    assert [fact for fact in facts if fact not in text] == []


def test_the_placebo_claims_nothing():
    reading = reading_of(result(axis="placebo", verdict="placebo"))
    assert "BLEU 10% lower" in reading.result
    assert reading.grounds == ""


@pytest.mark.parametrize(
    ("metric", "scale", "is_too_large"),
    [
        ({"name": "disagreement", "label": "disagreement", "better": "lower"}, "difference", True),
        (BLEU, "ratio", True),
        (LENGTH, "ratio", False),
        ({"name": "sentiment", "label": "sentiment", "better": "higher"}, "difference", False),
    ],
)
def test_no_disparity_larger_than_there_can_be_is_promised(metric, scale, is_too_large):
    assert ("1.882" in reading_of(result(metric, scale=scale, mde=1.882)).limits) != is_too_large


def test_a_pair_rests_on_the_terms_of_the_group_that_has_fewer():
    pairs = {name: Gap(**dict(estimate(0.1)), dialogues=9) for name in ("man>woman", "x>y")}
    groups = {"man": group(estimate(0.1), 3.0), "woman": group(estimate(0.1), 9.0)}
    row = result(groups=groups, pairs=pairs)
    assert [terms_of_pair(row, pair) for pair in row.pairs.values()] == [3.0, 8.2]


number = st.floats(-0.5, 0.5)
chance = st.one_of(st.none(), st.floats(0, 1))


@given(
    st.sampled_from(VERDICTS), st.sampled_from([BLEU, REFUSALS, LENGTH]), st.tuples(number, number), chance, chance,
    st.booleans(), st.floats(1, 12),
)  # fmt: skip
def test_no_group_is_ever_named_against_the_evidence(verdict, metric, values, p, p_terms_only, enough, terms):
    gaps = [estimate(value, 0.1, p, p_terms_only, enough=enough) for value in values]
    row = result(metric, verdict, disparity=gaps[0], groups={"woman": group(gaps[1], terms)}, terms=terms)
    reading = reading_of(row)
    if re.search(r"twin|on average|enters in|of the gap of|woman", reading.result):
        assert verdict in ("disparity", "these terms only")
        counts = p if verdict == "disparity" else p_terms_only
        assert counts is not None
        assert counts < 0.05
        assert verdict == "these terms only" or terms >= ENOUGH_WORDS
    assert not reading.is_claim or verdict == "disparity"


def test_readings_have_the_order_of_their_axes_the_placebo_last(make_results):
    readings = read(make_results(axes=("placebo", "race", "gender")).rows)
    assert [reading.axis_result.verdict for reading in readings] == ["these terms only", "disparity", "placebo"]
