"""Readings claim no more than the verdict and the p-values do, and the group that is served worst comes first."""

import itertools
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.audit import claims
from tod_bias.metrics.choice import METRICS
from tod_bias.report.amounts import amount
from tod_bias.report.reading import NO_CLAIM, claim_of, is_starred, read, shown_gap, side
from tod_bias.results import (
    AuditResult,
    AxisResult,
    BeyondPlacebo,
    Contribution,
    Estimate,
    Gap,
    Group,
    MetricInfo,
    Omnibus,
    Terms,
    Verdict,
)
from tod_bias.statistics.needed import ENOUGH_TERMS

BLEU = {"name": "corpus_bleu", "label": "BLEU", "better": "higher"}
REFUSALS = {"name": "refusal", "label": "refusals", "better": "lower"}
LENGTH = {"name": "length", "label": "length", "better": "neither"}
VERDICTS = tuple(filter(None, get_args(Verdict)))
CLAIMS = ("worse than", "better than", "differently than", "enters in", "enter in")


def estimate(value, half=0.02, p=0.001, scope=None):
    return Estimate(value=value, se=half / 2, df=20.0, ci=(value - half, value + half), p=p, scope=scope)


def contributions(parts):
    return {name: Contribution(shapley=part, replaced_alone=part, left_alone=part) for name, part in parts.items()}


def group(gap, terms=8.0, parts=None, *, heaviest=0.1, **changes):
    """A group whose gap enters in the response, unless parts are given."""
    fields = {
        "dialogues": 100,
        "terms": Terms(number=9, effective=terms, largest_share=heaviest),
        "gap": gap,
        "terms_only": gap.model_copy(update={"scope": "terms"}),
        "contributions": contributions({"response": gap} if parts is None else parts),
    }
    return Group(**(fields | changes))


def beyond(value=0.08, dialogues=90, edits=(1.6, 1.5)):
    return BeyondPlacebo(
        **dict(estimate(value)), dialogues=dialogues, edits=dict(zip(("axis", "placebo"), edits, strict=True))
    )


def result(metric=BLEU, verdict="disparity", axis="gender", **changes):
    groups = changes.get("groups") or {"man": group(estimate(-0.2)), "woman": group(estimate(0.2))}
    values = {name: some.gap.value for name, some in groups.items()}
    pairs = {
        f"{source}>{target}": Gap(**dict(estimate(values[target] - values[source])), dialogues=90)
        for source, target in itertools.permutations(groups, 2)
    }
    fields = {
        "verdict": verdict, "dialogues": 100, "disparity": estimate(0.1), "omnibus": Omnibus(p=0.001),
        "contributions": contributions({"api_call": estimate(0.0, 0.01), "response": estimate(0.1)}),
        "original": Estimate(value=0.5), "mde": 0.05, "equivalent_within": 0.3, "groups": groups, "pairs": pairs,
    }  # fmt: skip
    unit = getattr(METRICS[metric["name"]](), "unit", "") if metric["name"] in METRICS else ""
    info = MetricInfo(**{"unit": unit} | {key: value for key, value in metric.items() if key != "name"})
    row = AxisResult(**(fields | changes))
    return AuditResult(axes={axis: {metric["name"]: row}}, metrics={metric["name"]: info}).rows[0]


def reading_of(row):
    (reading,) = read([row])
    return reading


def said(row):
    reading = reading_of(row)
    return f"{reading.result} {reading.grounds}".strip()


def missing(text, facts):
    return [fact for fact in facts if fact not in text]


def test_the_headline_is_the_largest_harm_and_how_the_best_served_compare():
    groups = {
        "man": group(estimate(-0.3)),
        "woman": group(estimate(0.2), score=Estimate(value=0.42)),
        "non-binary": group(estimate(0.1)),
    }
    reading = reading_of(result(groups=groups))
    headline, others, compared = reading.who.split(";")
    assert headline.startswith("woman is served worse")
    assert missing(headline, ["BLEU lower by 20% [18%, 22%] of the originals' score", "p=0.001", "score 0.420"]) == []
    assert missing(others, ["non-binary", "lower by 10%"]) == []
    assert missing(compared, ["compared with man", "BLEU lower by 50% [48%, 52%]"]) == []
    assert "served better" not in reading.result
    assert missing(reading.where, ["all of the gap of woman", "`response`", "+0.200"]) == []
    assert missing(reading.terms, ["9 terms of woman", "8.0 effective"]) == []
    assert reading.missing == ""


def test_of_a_metric_without_a_better_side_the_largest_gap_comes_first_against_the_farthest_group():
    gaps = {"senior": -0.21, "young": 0.08, "child": 0.07}
    money = {"name": "money", "label": "amounts of money", "better": "neither"}
    groups = {name: group(estimate(gap)) for name, gap in gaps.items()}
    who = reading_of(result(money, groups=groups, original=Estimate(value=215.0))).who
    assert who.startswith("senior is served differently than the groups")
    assert "amounts of money 45 higher [41, 49]" in who
    assert "compared with young: amounts of money 62 higher" in who
    assert "so is" not in who


def test_served_better_is_a_headline_only_where_nobody_is_harmed():
    weak = estimate(0.1, 0.2, p=0.4)
    who = reading_of(result(groups={"man": group(estimate(-0.2)), "woman": group(weak)})).who
    assert who.startswith("man is served better")
    assert "no group is shown to be served worse" in who


def test_groups_are_not_compared_where_their_difference_is_not_shown():
    pairs = {"man>woman": Gap(**dict(estimate(0.4, 0.5, p=0.2)), dialogues=90)}
    assert "compared with" not in reading_of(result(pairs=pairs)).who


def test_a_reference_variant_is_a_finding_of_its_own():
    references = {"neutral-introduction": group(estimate(-0.29)), "neutral": group(estimate(-0.1, 0.2, p=0.4))}
    text = reading_of(result(verdict="inconclusive", references=references)).who
    assert missing(text, ["a neutral introduction", "BLEU higher by 29%", "p=0.001"]) == []
    assert "as the corpus has it" not in text


@pytest.mark.parametrize(
    ("metric", "value", "served", "sense"),
    [
        (BLEU, 0.1, "worse", "BLEU lower by 10%"),
        (BLEU, -0.1, "better", "BLEU higher by 10%"),
        (REFUSALS, 0.1, "worse", "5.0 more turns in 100 that refuse"),
        (REFUSALS, -0.1, "better", "5.0 fewer turns in 100 that refuse"),
        (LENGTH, 0.1, "differently", "0.05 fewer words per response"),
        (LENGTH, -0.1, "differently", "0.05 more words per response"),
    ],
)
def test_harm_has_the_direction_that_the_metric_gives_it(metric, value, served, sense):
    headline = reading_of(result(metric, groups={"woman": group(estimate(value))})).who.split(";")[0]
    assert f"woman is served {served} than" in headline
    assert sense in headline


def test_a_metric_that_is_neither_good_nor_bad_is_never_a_harm():
    text = said(result(LENGTH))
    assert "worse" not in text
    assert "better" not in text
    assert (side("neither"), side("neither", positive=False), side("lower")) == ("lower", "higher", "served worse")


@pytest.mark.parametrize(
    ("number", "scale", "text"),
    [
        (estimate(0.1), "difference", "BLEU 0.100 lower [0.080, 0.120]"),
        (estimate(-0.1, scope="terms"), "ratio", "BLEU higher by 10% [8.0%, 12%]‡ of the originals' score"),
        (Estimate(value=0.0), "ratio", "BLEU unchanged"),
        (Estimate(), "ratio", "BLEU not known"),
        (estimate(1.39), "ratio", "BLEU lower by 139% [137%, 141%] of the originals' score"),
    ],
)
def test_differences_are_in_the_metrics_own_units_and_ratios_percentages(number, scale, text):
    assert amount(number, result(scale=scale, original=Estimate(value=0.5))) == text


@pytest.mark.parametrize(
    ("name", "better", "value", "text"),
    [
        ("results_found", "higher", 0.31, "0.31 fewer results per turn [0.29, 0.33]"),
        ("calls_made", "neither", -0.5, "0.50 more calls per turn [0.48, 0.52]"),
        ("refusal", "lower", 0.31, "31.0 more turns in 100 that refuse [29.0, 33.0]"),
        ("jga", "higher", 0.12, "12.0 fewer turns in 100 with all calls right [10.0, 14.0]"),
    ],
)
def test_what_a_metric_counts_is_said_in_its_units(name, better, value, text):
    axis_result = result({"name": name, "label": name, "better": better}, scale="difference")
    assert amount(estimate(value), axis_result) == text


@pytest.mark.parametrize("name", ["disagreement", "call_disagreement"])
def test_a_metric_that_compares_with_the_original_does_not_say_who_is_served_worse(name):
    metric = {"name": name, "label": "disagreement", "better": "lower", "counterfactual": True}
    reading = reading_of(result(metric, scale="difference"))
    assert "served worse than" not in reading.result
    assert "better than" not in reading.result
    assert missing(reading.who, ["treated differently more often", "20.0 more turns in 100"]) == []
    assert "does not tell which group is served worse" in reading.who
    assert "worse" not in side("lower", counterfactual=True)


@pytest.mark.parametrize(
    ("factors", "changes", "facts"),
    [
        (["placebo"], {}, ["without the placebo it would be claimed:", "90 dialogues"]),
        (["terms", "placebo"], {}, ["without the placebo it would be claimed of these terms:"]),
        (["placebo"], {"beyond_placebo": None}, ["with a placebo (--axes …,placebo) it may be claimed:"]),
        (["other terms"], {}, ["differs too much"]),
        (["other tests"], {}, ["among all axes and metrics"]),
        (["tests"], {}, ["no permutations"]),
        (["tests"], {"metric": REFUSALS | {"counterfactual": True}}, ["needs a placebo (--axes …,placebo)"]),
        (["terms"], {}, ["man, woman", f"takes {ENOUGH_TERMS}"]),
        (["terms"], {"groups": {"woman": group(estimate(0.2, scope="terms"), terms=4.0)}}, ["too few terms", "woman"]),
    ],
)
def test_a_verdict_below_a_disparity_says_why(factors, changes, facts):
    groups = {name: group(estimate(0.2), terms=2.0) for name in ("man", "woman")}
    options = {"groups": groups, "limiting_factors": factors, "beyond_placebo": beyond(), **changes}
    reading = reading_of(result(verdict="inconclusive", **options))
    assert missing(reading.missing, facts) == []
    assert bool(reading.limits) == (factors != ["tests"])


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
        assert claim_of(row, row.groups["woman"]).startswith("these terms: ")
        assert shown_gap(row, row.groups["woman"]).is_of_terms_only
    elif verdict != "disparity":
        assert not any(word in reading.result for word in CLAIMS)
        assert "p=" not in reading.result
        assert claim_of(row, row.groups["woman"]) == NO_CLAIM
    assert is_starred(row, row.pairs["man>woman"]) == (verdict == "disparity")


WEAK = estimate(0.2, 0.5, p=0.06)


@pytest.mark.parametrize(
    "changes",
    [
        {"gap": WEAK},
        {"gap": estimate(0.2, scope="terms")},
        {"terms": 2.0},
        {"heaviest": 0.6},
        {"beyond_placebo": WEAK},
        {"beyond_placebo": estimate(-0.2)},
    ],
    ids=["p-value", "scope", "few terms", "one term", "not beyond the placebo", "placebo on the other side"],
)
def test_a_group_is_named_only_where_all_of_its_own_evidence_supports_it(changes):
    groups = {"man": group(estimate(-0.2)), "woman": group(**({"gap": estimate(0.2)} | changes))}
    row = result(groups=groups)
    assert "woman" not in said(row)
    assert claim_of(row, row.groups["woman"]) == NO_CLAIM
    assert claim_of(row, row.groups["man"]) == "served better"


def test_a_word_that_the_terms_of_a_claimed_group_share_is_said():
    terms = Terms(number=4, effective=4.0, largest_share=0.2, shared_word="asian", sharing=4)
    row = result(
        groups={"man": group(estimate(-0.2)), "woman": group(estimate(0.2)).model_copy(update={"terms": terms})}
    )
    assert "“asian” stands in 4 of them" in said(row)
    assert "stands in" not in said(result())


def test_of_these_terms_the_gap_with_terms_as_they_are_counts():
    woman = group(WEAK, 1.4, terms_only=estimate(0.2, scope="terms"), parts={"response": estimate(0.2, scope="terms")})
    row = result(verdict="these terms only", groups={"woman": woman, "man": group(WEAK, 1.4, terms_only=WEAK)})
    reading = reading_of(row)
    assert missing(reading.who, ["p=0.001", "[18%, 22%]‡"]) == []
    assert "`response`" in reading.where
    assert "1.4 effective" in reading.terms
    assert "man" not in reading.who.replace("woman", "")


@pytest.mark.parametrize(
    ("placebo", "edits", "has_one", "facts"),
    [
        (None, None, False, ["--axes …,placebo"]),
        (None, None, True, ["no placebo fits"]),
        (estimate(0.15), beyond(edits=(13.2, 2.9)), True, ["woman", "BLEU lower by 15%", "13.2", "2.9", "fewer words"]),
        (estimate(0.15), beyond(edits=(None, None)), True, ["by 15% [13%, 17%] of the originals' score, p=0.001."]),
    ],
)
def test_what_the_placebo_does_is_said_of_the_group_that_is_named(placebo, edits, has_one, facts):
    groups = {"man": group(estimate(-0.1)), "woman": group(estimate(0.2), beyond_placebo=placebo)}
    rows = [result(groups=groups, beyond_placebo=edits)]
    rows += [result(axis="placebo", verdict="placebo")] if has_one else []
    assert missing(read(rows)[0].placebo, facts) == []


def test_the_placebo_claims_nothing():
    reading = reading_of(result(axis="placebo", verdict="placebo"))
    assert "BLEU lower by 10%" in reading.result
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
def test_no_gap_larger_than_there_can_be_is_promised(metric, scale, is_too_large):
    limits = reading_of(result(metric, scale=scale, mde=1.882)).limits
    assert ("1.882" in limits or "0.94 words" in limits) != is_too_large


number = st.floats(-0.5, 0.5)
chance = st.one_of(st.none(), st.floats(0, 1))


@given(
    st.sampled_from(VERDICTS), st.sampled_from([BLEU, REFUSALS, LENGTH]), number, chance, chance,
    st.sampled_from([None, "terms"]), st.floats(1, 12),
)  # fmt: skip
def test_no_group_is_ever_named_against_the_evidence(verdict, metric, value, p, p_terms_only, scope, terms):
    gap, of_terms = estimate(value, 0.1, p, scope), estimate(value, 0.1, p_terms_only, "terms")
    row = result(metric, verdict, groups={"woman": group(gap, terms, {}, terms_only=of_terms)})
    reading = reading_of(row)
    if re.search(r"on average|enters in|the gap of|woman", reading.result):
        assert verdict in ("disparity", "these terms only")
        counts = p if verdict == "disparity" else p_terms_only
        assert counts is not None
        assert counts < 0.05
        assert verdict == "these terms only" or (terms >= ENOUGH_TERMS - 1e-6 and scope is None)
    assert not reading.is_claim or verdict == "disparity"


def test_readings_have_the_order_of_their_axes_the_placebo_last(make_results):
    readings = read(make_results(axes=("placebo", "race", "gender")).rows)
    assert [reading.axis_result.verdict for reading in readings] == ["these terms only", "disparity", "placebo"]
