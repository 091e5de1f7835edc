import numpy as np
import pytest
from scipy import stats

from tod_bias.statistics.jackknife import jackknife


def test_of_means_it_is_the_usual_t_interval():
    values = np.array([[0.2], [0.5], [0.1], [0.9]])
    found = jackknife(np.stack([values, np.ones((4, 1))], axis=-1), lambda sums: sums[..., 0] / sums[..., 1], 0.9)
    expected = stats.t.interval(0.9, 3, loc=values.mean(), scale=stats.sem(values[:, 0]))
    assert [found.low[0], found.high[0]] == pytest.approx(expected)
    assert found.p_value[0] == pytest.approx(stats.ttest_1samp(values[:, 0], 0).pvalue)
