"""What could be found before anything is run: simulated with single effects of standard deviation 1."""

import math

import numpy as np
import pytest
from scipy import stats

from tod_bias.statistics.power import detectable_in_spreads


@pytest.mark.parametrize(("dialogues", "words", "alpha"), [(120, 12, 0.05), (60, 6, 0.05), (200, 40, 0.0125)])
@pytest.mark.parametrize("alike", [False, True])
def test_what_is_said_to_be_found_is_found_four_times_in_five(dialogues, words, alpha, alike):
    rng = np.random.default_rng([dialogues, words, alike])
    effect = detectable_in_spreads(dialogues, words, alpha)[alike]
    size = words if alike else dialogues  # what varies: the words, or each dialogue by itself
    found = stats.ttest_1samp(effect + rng.standard_normal((20_000, size)), 0, axis=1).pvalue < alpha
    assert found.mean() == pytest.approx(0.8, abs=0.03)


def test_words_as_many_as_dialogues_leave_one_bound():
    low, high = detectable_in_spreads(30, 30.0)
    assert low == high


def test_one_dialogue_or_word_shows_nothing():
    assert all(map(math.isnan, detectable_in_spreads(1, 1.0)))
