import numpy as np
import pytest

from tod_bias.errors import StatisticsError
from tod_bias.statistics.adjustment import adjusted


@pytest.mark.parametrize(
    ("correction", "expected"),
    [  # by hand: 3 * 0.01; 3/2 * 0.03, but no more than 0.04; 2 * 0.03
        ("bh", [0.03, 0.04, 0.04]),
        ("holm", [0.03, 0.06, 0.06]),
    ],
)
def test_what_is_not_tested_counts_as_no_test(correction, expected):
    found = adjusted(np.array([0.01, np.nan, 0.04, 0.03]), correction)
    assert found[[0, 2, 3]] == pytest.approx(expected)
    assert np.isnan(found[1])


def test_an_unknown_correction_is_named():
    with pytest.raises(StatisticsError, match="'bonferroni'; expected bh or holm"):
        adjusted(np.array([0.1]), "bonferroni")
