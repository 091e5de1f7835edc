import numpy as np
import pytest

from tod_bias.errors import StatisticsError, TodBiasError
from tod_bias.statistics.adjustment import adjusted
from tod_bias.statistics.needed import MOST_RESAMPLES, check_resamples


@pytest.mark.parametrize(
    ("p_values", "correction", "expected"),
    [  # p-values as R's p.adjust gives them; NaN is no test
        ([0.01, np.nan, 0.04, 0.03], "bh", [0.03, np.nan, 0.04, 0.04]),
        ([0.01, np.nan, 0.04, 0.03], "holm", [0.03, np.nan, 0.06, 0.06]),
        ([0.6, 0.9], "holm", [1.0, 1.0]),
        ([0.02], "holm", [0.02]),
    ],
)
def test_adjusted_p_values(p_values, correction, expected):
    assert adjusted(np.array(p_values), correction) == pytest.approx(expected, nan_ok=True)


def test_an_unknown_correction_is_named():
    with pytest.raises(StatisticsError, match="'bonferroni'; expected bh or holm"):
        adjusted(np.array([0.1]), "bonferroni")


@pytest.mark.parametrize("count", [-1, MOST_RESAMPLES + 1, 2.5, "1000", True, None])
def test_other_numbers_of_resamples_than_0_to_a_million_are_refused(count):
    check_resamples(bootstrap=0, permutations=MOST_RESAMPLES)
    with pytest.raises(TodBiasError, match=f"bootstrap must be .* got {count!r}"):
        check_resamples(bootstrap=count)
