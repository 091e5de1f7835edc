"""How numbers are written."""

import pytest

from tod_bias.report import notation
from tod_bias.results import Estimate, TermsOnly


@pytest.mark.parametrize(
    ("value", "options", "text"),
    [
        (0.12345, {}, "0.123"),
        (-0.0004, {}, "0.000"),
        (-0.0004, {"sign": True}, "0.000"),
        (0.0624, {"sign": True}, "+0.062"),
        (-0.0626, {"sign": True}, "-0.063"),
        (0, {"sign": True}, "0.000"),
        (None, {}, "n/a"),
    ],
)
def test_fixed_decimals(value, options, text):
    assert notation.fixed(value, **options) == text


@pytest.mark.parametrize(
    ("p_value", "cell", "text"),
    [
        (0.0002, "<0.001", "p<0.001"),
        (0.001, "0.001", "p=0.001"),
        (1.0, "1.000", "p=1.000"),
        (None, "n/a", "no p-value"),
    ],
)
def test_p_values(p_value, cell, text):
    assert (notation.p_cell(p_value), notation.p_text(p_value)) == (cell, text)


@pytest.mark.parametrize(
    ("share", "text"), [(0.0624, "6.2%"), (0.79, "79%"), (0.0996, "10%"), (-1.07, "-107%"), (0, "0.0%"), (None, "n/a")]
)
def test_percentages(share, text):
    assert notation.percent(share) == text


def test_intervals_stand_in_brackets_beside_their_value():
    assert notation.with_interval(Estimate(value=0.0617, ci=(-0.01, 0.0899))) == "0.062 [-0.010, 0.090]"
    assert notation.with_interval(Estimate(value=0.0617)) == "0.062"
    assert notation.with_interval(Estimate()) == "n/a"


def test_an_interval_of_these_terms_is_marked_and_stands_only_where_there_is_no_other():
    these = TermsOnly(ci=(0.1, 0.2))
    assert notation.interval(Estimate(value=0.15, terms_only=these), sign=True) == "[+0.100, +0.200]‡"
    assert notation.interval(Estimate(value=0.15, ci=(0.0, 0.3), terms_only=these)) == "[0.000, 0.300]"
    assert notation.interval(Estimate(value=0.15)) == ""


@pytest.mark.parametrize(
    ("key", "text"), [("", "none"), ("db", "db"), ("api_call,db", "api_call + db"), ("a,b,c", "all")]
)
def test_arms_in_words(key, text):
    assert notation.arm_label(key, 3) == text


def test_counts_have_commas():
    assert (notation.count(20113), notation.count(None)) == ("20,113", "n/a")
