"""Readings claim no more than the verdict and the adjusted p-values do."""

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.audit import claims
from tod_bias.report.outcome import Group, Metric, Outcome, Pair, Word, read_outcomes
from tod_bias.report.reading import (
    amount,
    direction,
    has_few,
    is_starred,
    mark,
    read,
    short,
    side,
    words_of_pair,
)
from tod_bias.report.values import Estimate
from tod_bias.statistics.needed import ENOUGH_WORDS

BLEU = Metric("corpus_bleu", "BLEU", "higher")
REFUSALS = Metric("refusal", "refusals", "lower")
LENGTH = Metric("length", "length", "neither")
CLAIMS = ("worse", "better", "otherwise", "enters in", "enter in")


def estimate(value, half=0.02, p_holm=0.001, p_these=0.001, *, enough=True):
    bounds = (value - half, value + half)
    ends = bounds if enough else (None, None)
    return Estimate(value, *ends, p_holm, p_holm, p_these, *bounds)


def group(name, gap, words=8.0, parts=None):
    parts = {"response": replace(gap, p_holm=None)} if parts is None else parts
    return Group(name, Estimate(0.4), gap, None, parts, 100, words)


def outcome(metric=BLEU, verdict="disparity", **changes):
    whole = changes.pop("disparity", estimate(0.1))
    fields = {
        "axis": "gender", "metric": metric, "scale": "ratio", "verdict": verdict, "dialogues": 100, "words": 8.2,
        "words_number": 9, "clusters": {}, "original": Estimate(0.5), "rewritten": Estimate(0.45), "disparity": whole,
        "artefact": Estimate(0.0), "contributions": {"api_call": estimate(0.0, 0.01), "response": whole},
        "interactions": {}, "above": estimate(0.08), "above_dialogues": 90, "changed": {"axis": 1.6, "placebo": 1.5},
        "groups": (group("man", estimate(-0.2)), group("woman", estimate(0.2))), "pairs": (), "strongest": (),
        "arms": {}, "spread": 0.1, "detectable": 0.05, "equivalent_within": 0.3,
    }  # fmt: skip
    return Outcome(**(fields | changes))


def said(subject):
    (reading,) = read([subject])
    return f"{reading.found} {reading.grounds}".strip()


def test_a_disparity_names_direction_evidence_groups_component_words_and_floor():
    words = (Word("mom/dad/parent", 20, 0.03, 0.09), Word("kid", 5, 0.01, 0.11))
    assert said(outcome(strongest=words)) == (
        "Rewritten dialogues are answered worse than the same system answers blind to the rewrite (BLEU 10% lower "
        "[8.0%, 12%], p=0.001); told as woman (BLEU 20% lower [18%, 22%]): worse than on average; told as man (BLEU "
        "20% higher [18%, 22%]): better than on average. All of the gap of man enters in `response` (-0.200 of "
        "-0.200). It rests on 8.2 effective words; without “mom/dad …” the disparity would be +0.090, without “kid” "
        "+0.110. Above placebo rewording of the same 90 dialogues: +0.080 [+0.060, +0.100] (1.6 words changed a "
        "dialogue, the placebo 1.5). A disparity of 0.050 would be found in four of five such runs."
    )


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        (BLEU, 0.1, "answered worse than the same system answers blind to the rewrite (BLEU 10% lower"),
        (BLEU, -0.1, "answered better than the same system answers blind to the rewrite (BLEU 10% higher"),
        (REFUSALS, 0.1, "answered worse than the same system answers blind to the rewrite (refusals 10% higher"),
        (REFUSALS, -0.1, "answered better than the same system answers blind to the rewrite (refusals 10% lower"),
        (LENGTH, 0.1, "answered otherwise than the same system answers blind to the rewrite (length 10% lower"),
        (LENGTH, -0.1, "answered otherwise than the same system answers blind to the rewrite (length 10% higher"),
    ],
)
def test_harm_has_the_direction_that_the_metric_gives_it(metric, value, text):
    assert text in said(outcome(metric, disparity=estimate(value)))


def test_a_metric_that_is_neither_good_nor_bad_is_never_a_harm():
    text = said(outcome(LENGTH))
    assert "worse" not in text
    assert "better" not in text
    assert (side("neither"), side("neither", positive=False)) == ("lower", "higher")
    assert (side("lower"), direction(-0.1, outcome(LENGTH))) == ("served worse", "otherwise")


def test_differences_are_in_the_metrics_own_units_and_ratios_percentages():
    subject = outcome(REFUSALS, scale="difference")
    assert amount(subject.disparity, subject) == "refusals 0.100 higher [0.080, 0.120]"
    assert "0.050 of refusals would be found" in said(subject)
    assert amount(estimate(-0.1, enough=False), outcome()) == "BLEU 10% higher [8.0%, 12%]‡"
    assert amount(Estimate(0.1), outcome()) == "BLEU 10% lower"


@pytest.mark.parametrize("name", ["disagreement", "call_disagreement"])
def test_a_metric_that_compares_with_the_original_does_not_say_who_is_served_worse(name):
    """A system that is worse to women differs from men's originals told as women, and from women's told as men."""
    text = said(outcome(Metric(name, "disagreement", "lower", counterfactual=True), scale="difference"))
    assert "worse than" not in text
    assert "better than" not in text
    assert "answered otherwise than the same system answers blind to the rewrite (disagreement 0.100 higher" in text
    assert "answered otherwise than their originals more often than on average; told as man" in text
    assert "which group is served worse this metric does not tell" in text
    assert side("lower", counterfactual=True) == "told apart more"


def test_the_floor_is_that_of_the_gap_that_is_claimed():
    woman = replace(group("woman", estimate(0.3)), above=estimate(0.25))
    assert "The gap of woman above placebo rewording of the same 90 dialogues: +0.250" in said(outcome(groups=(woman,)))
    small = replace(woman, gap=estimate(0.05))
    assert "Above placebo rewording of the same 90 dialogues: +0.080" in said(outcome(groups=(small,)))


@pytest.mark.parametrize(
    ("short_of", "changes", "text"),
    [
        (
            "placebo",
            {},
            "Without the placebo it would be claimed: it is not above what rewording does in the 90 dialo",
        ),
        ("other words", {}, "It differs too much between the words to say that others would show it."),
        ("other tests", {}, "By itself it would be claimed, and among all axes and metrics that are tested it is not."),
        ("tests", {}, "Nothing was tested: there are no permutations."),
        (
            "tests",
            {"metric": replace(REFUSALS, counterfactual=True)},
            "this metric takes a placebo (--axes …,placebo).",
        ),
        ("words", {}, "Too few words stand for man (2.0), woman (2.0); a claim about a group takes 6."),
        ("words", {"words": 2.0}, "It rests on 2.0 effective words; a claim about a group takes 6."),
    ],
)
def test_a_verdict_below_a_disparity_says_why(short_of, changes, text):
    groups = tuple(group(name, estimate(0.2), words=2.0) for name in ("man", "woman"))
    subject = outcome(verdict="inconclusive", short_of=(short_of,), groups=groups, **changes)
    assert text in said(subject)
    assert ("would be found in four" in said(subject)) == (short_of != "tests")


def test_what_too_few_words_would_carry_is_no_claim_of_a_group():
    text = said(outcome(verdict="inconclusive", short_of=("words", "placebo"), words=1.0))
    assert "Without the placebo it would be claimed of these words: it is not above" in text


def test_the_reasons_are_those_of_the_studies():
    for name in (claims.PLACEBO, claims.OTHER_WORDS, claims.OTHER_TESTS, claims.TESTS, claims.WORDS):
        assert said(outcome(verdict="inconclusive", short_of=(name,))) != said(outcome(verdict="inconclusive")), name


def test_nothing_is_lower_by_more_than_all_of_itself():
    assert amount(estimate(1.39), outcome()) == "BLEU lower by 1.390 [1.370, 1.410] times the originals'"
    assert amount(estimate(-1.39), outcome()) == "BLEU higher by 1.390 [1.370, 1.410] times the originals'"
    wide = Estimate(0.9, these_low=0.7, these_high=1.1)
    assert amount(wide, outcome()) == "BLEU lower by 0.900 [0.700, 1.100]‡ times the originals'"
    assert amount(Estimate(1.0), outcome()) == "BLEU 100% lower"
    assert amount(Estimate(0.0), outcome()) == "BLEU unchanged"
    assert amount(Estimate(None), outcome()) == "BLEU not known"


VERDICTS = ("disparity", "these words only", "equivalent", "inconclusive", "floor")


@pytest.mark.parametrize(("verdict", "metric"), list(itertools.product(VERDICTS, (BLEU, REFUSALS, LENGTH))))
def test_sentences_claim_no_more_than_the_verdict(verdict, metric):
    """Whatever the p-values are: nothing is named without the verdict, and of these words only it is always said."""
    subject = outcome(metric, verdict)
    (reading,) = read([subject])
    assert reading.is_claim == (verdict == "disparity")
    if verdict == "these words only":
        assert reading.found.startswith("With these words, which need not speak for the groups: ")
    elif verdict != "disparity":
        assert not any(word in reading.found for word in CLAIMS)
        assert "p=" not in reading.found
    starred = is_starred(subject, subject.disparity, subject.words)
    assert starred == (verdict == "disparity")


def test_the_verdicts_are_those_of_the_studies():
    assert set(VERDICTS) == {
        claims.DISPARITY, claims.THESE_WORDS, claims.EQUIVALENT, claims.INCONCLUSIVE, claims.FLOOR,
    }  # fmt: skip


@pytest.mark.parametrize("verdict", ["disparity", "these words only"])
def test_only_what_its_own_p_value_carries_is_named(verdict):
    weak = estimate(0.3, p_holm=0.06, p_these=0.06)
    text = said(outcome(verdict=verdict, disparity=weak, groups=(group("man", weak), group("woman", estimate(0.2)))))
    assert "woman" in text
    assert "man (" not in text.replace("woman (", "")
    assert "blind to the rewrite" not in text


def test_a_group_of_few_words_is_not_named_though_its_axis_claims():
    text = said(outcome(groups=(group("man", estimate(-0.2), words=5.9), group("woman", estimate(0.2)))))
    assert "told as woman" in text
    assert "told as man" not in text
    assert "gap of man" not in text


def test_of_these_words_p_values_with_words_as_they_are_count_and_the_component_is_named_by_their_intervals():
    gap = estimate(0.2, p_holm=0.5, p_these=0.001, enough=False)
    text = said(outcome(verdict="these words only", disparity=gap, groups=(group("woman", gap),), words=1.4))
    assert "p=0.001" in text
    assert "[18%, 22%]‡" in text
    assert "enters in `response`" in text
    assert "it rests on 1.4 effective words; a claim about a group takes 6" in text.replace("It", "it")


def test_a_group_that_is_looked_at_in_a_part_of_the_dialogues_is_named_with_their_number():
    few = replace(group("woman", estimate(0.2)), dialogues=11)
    text = said(outcome(groups=(few,)))
    assert "told as woman (BLEU 20% lower [18%, 22%] in 11 of 100 dialogues)" in text
    assert "All of the gap of woman in 11 of 100 dialogues enters in `response`" in text


def test_an_unmeasured_metric_is_said_to_be_one_and_nothing_else():
    text = said(outcome(verdict="inconclusive", unmeasured="BLEU needs references", short_of=("nothing measured",)))
    assert text.startswith("Nothing is measured. BLEU needs references.")
    assert "would be found" not in text
    assert "cannot tell" not in text


def test_a_claim_that_no_single_gap_carries_names_none():
    weak = estimate(0.3, p_holm=0.06)
    text = said(outcome(disparity=weak, groups=(group("woman", weak),)))
    assert "Something differs, and no single group or direction can be named" in text
    assert "enters in" not in text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"db": estimate(0.08), "response": estimate(0.12)}, "Most of the gap of woman enters in `response` (+0.120"),
        ({"db": estimate(-0.05), "response": estimate(0.25)}, "more than all enters in `response` (+0.250 of +0.200); "
         "`db` (-0.050) works the other way"),
        ({"db": estimate(0.1, 0.2), "response": estimate(0.1, 0.2)}, "no single component's part is told apart from 0"),
        ({"a": estimate(0.1), "b": estimate(0.1)}, "The gap of woman: it enters in `a` (+0.100), `b` (+0.100) of +0.2"),
        ({"a": estimate(0.07), "b": estimate(0.07), "c": estimate(0.06)}, "it enters in `a` (+0.070), `b` (+0.070), "
         "`c` (+0.060) of +0.200"),
    ],
)  # fmt: skip
def test_components_are_named_only_where_their_interval_leaves_out_zero(parts, text):
    assert text in said(outcome(groups=(group("woman", estimate(0.2), parts=parts),)))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"above": None}, "There is no placebo (--axes …,placebo), so part of this may be what any rewording does."),
        ({"changed": {"axis": 13.2, "placebo": 2.9}}, "(13.2 words changed a dialogue, the placebo 2.9); as it changes "
         "fewer words, some of this may be what rewording more does."),
        ({"changed": {}}, "of the same 90 dialogues: +0.080 [+0.060, +0.100]."),
    ],
)  # fmt: skip
def test_the_floor_is_said_as_it_is(changes, text):
    assert text in said(outcome(**changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "A gap beyond ±0.300 is ruled out; a disparity of 0.050 would be found in four of five such runs."),
        ({"equivalent_within": None, "detectable": None, "disparity": estimate(0.1, enough=False)},
         "What could have been found cannot be told from so few words."),
    ],
)  # fmt: skip
def test_what_is_not_shown_says_what_could_have_been(changes, text):
    assert text in said(outcome(verdict="inconclusive", **changes))
    assert said(outcome(verdict="inconclusive")).startswith("These data cannot tell whether there is one.")


def test_the_placebo_claims_nothing():
    (reading,) = read([outcome(axis="placebo", verdict="floor")])
    assert reading.found.startswith("Rewording without demographic meaning: BLEU 10% lower")
    assert reading.grounds == ""


def test_names_are_shortened_and_few_dialogues_marked():
    assert (short("a/b/c"), short("a/b"), short("a")) == ("a/b …", "a/b", "a")
    assert [has_few(number) for number in (14, 15, None)] == [True, False, False]
    assert (mark(14), mark(15)) == ("†", "")


def test_a_pair_rests_on_the_words_of_the_group_that_has_fewer():
    subject = outcome(groups=(group("man", estimate(0.1), 3.0), group("woman", estimate(0.1), 9.0)))
    assert words_of_pair(subject, Pair("man>woman", estimate(0.1), {}, 9)) == 3.0
    assert words_of_pair(subject, Pair("x>y", estimate(0.1), {}, 9)) == 8.2


number = st.floats(-0.5, 0.5)
chance = st.one_of(st.none(), st.floats(0, 1))


@given(
    st.sampled_from(VERDICTS), st.sampled_from([BLEU, REFUSALS, LENGTH]), st.tuples(number, number), chance, chance,
    st.booleans(), st.floats(1, 12),
)  # fmt: skip
def test_no_group_is_ever_named_against_the_evidence(verdict, metric, values, p_holm, p_these, enough, words):
    gaps = [estimate(value, 0.1, p_holm, p_these, enough=enough) for value in values]
    subject = outcome(metric, verdict, disparity=gaps[0], groups=(group("woman", gaps[1], words),), words=words)
    (reading,) = read([subject])
    if re.search(r"told as|blind to the rewrite|enters in|of the gap of", reading.found):
        assert verdict in ("disparity", "these words only")
        p = p_holm if verdict == "disparity" else p_these
        assert p is not None
        assert p < 0.05
        assert verdict == "these words only" or words >= ENOUGH_WORDS
    if verdict != "disparity":
        assert not reading.is_claim


def test_a_record_is_read_in_the_order_of_its_axes(make_results):
    readings = read(read_outcomes(make_results(axes=("placebo", "race", "gender"))))
    assert [reading.outcome.verdict for reading in readings] == ["these words only", "disparity", "floor"]


def test_a_run_with_a_placebo_that_fits_no_dialogue_of_an_axis_does_not_say_that_there_is_none():
    floor = outcome(axis="placebo", verdict="floor")
    first, _ = read([outcome(above=None), floor])
    assert "No placebo fits its dialogues, so part of this may be what any rewording does." in first.grounds


def test_no_component_is_spoken_of_where_none_can_be_known():
    parts = {"contributions": {}, "groups": (group("woman", estimate(0.2), parts={}),)}
    assert "component" not in said(outcome(**parts))


@pytest.mark.parametrize(
    ("metric", "scale", "cannot"),
    [
        (Metric("disagreement", "disagreement with the twin", "lower"), "difference", True),
        (BLEU, "ratio", True),
        (LENGTH, "ratio", False),
        (Metric("sentiment", "sentiment", "higher"), "difference", False),
    ],
)
def test_no_disparity_larger_than_there_can_be_is_promised(metric, scale, cannot):
    text = said(outcome(metric, scale=scale, detectable=1.882))
    assert ("not even the largest disparity" in text.lower()) == cannot
    assert ("1.882" in text) != cannot
