"""How numbers are written."""

import pytest

from tod_bias.report import notation
from tod_bias.results import Estimate


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (notation.fixed(0.12345), "0.123"),
        (notation.fixed(-0.0004, sign=True), "0.000"),
        (notation.fixed(0.0624, sign=True), "+0.062"),
        (notation.fixed(None), "n/a"),
        (notation.p_cell(0.0002), "<0.001"),
        (notation.p_text(0.001), "p=0.001"),
        (notation.p_text(None), "no p-value"),
        (notation.percent(0.0624), "6.2%"),
        (notation.percent(0.0996), "10%"),
        (notation.percent(-1.07), "-107%"),
        (notation.with_interval(Estimate(value=0.0617, ci=(-0.01, 0.0899))), "0.062 [-0.010, 0.090]"),
        (notation.with_interval(Estimate()), "n/a"),
        (notation.interval(Estimate(value=0.15, ci=(0.1, 0.2), scope="terms"), sign=True), "[+0.100, +0.200]‡"),
    ],
)
def test_numbers_are_written_for_people(written, text):
    assert written == text
