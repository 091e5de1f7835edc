"""Sign flips: against all signs by hand, and the error of a family of rows under the null hypothesis."""

from itertools import product

import numpy as np
import pytest

from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.simultaneous import Family


def test_a_p_value_is_the_share_of_all_signs_that_are_as_far():
    adds = np.array([3.0, 2.0, -1.0, 4.0, 0.0, 0.0])
    signs = np.array([*product((-1, 1), repeat=4)])
    expected = (np.abs(signs @ adds[:4]) >= abs(adds.sum())).mean()
    rows = FlippedRows.of(adds[:, None], 20_000, seed=1)
    assert Family([rows]).adjusted(float(rows.p[0])) == pytest.approx(expected, abs=0.01)


def test_few_flips_do_not_keep_a_clear_row_of_a_large_family_from_being_claimed():
    rng = np.random.default_rng(6)
    noise = (rng.random((60, 300)) < 0.3) * rng.choice([-1.0, 1.0], (60, 300))
    rows = FlippedRows.of(np.concatenate([np.ones((60, 1)), noise], axis=1), 200, seed=1)
    assert Family([rows]).adjusted(float(rows.p[0])) == pytest.approx(1 / 201)


def test_rows_that_say_the_same_cost_nothing_and_rows_without_hits_neither():
    rng = np.random.default_rng(3)
    row = rng.integers(0, 2, 30).astype(float)
    single = FlippedRows.of(row[:, None], 5000, seed=1)
    several = FlippedRows.of(np.stack([row, row, -2 * row, np.zeros(30)], axis=1), 5000, seed=1)
    p = float(single.p[0])
    assert several.p.tolist() == [p, p, p, 1.0]
    assert Family([several]).adjusted(p) == pytest.approx(Family([single]).adjusted(p))


def test_rows_of_equal_seeds_are_flipped_together_in_whichever_set_they_are():
    adds = np.random.default_rng(4).normal(size=(25, 4))
    together = FlippedRows.of(adds, 1000, seed=2)
    apart = FlippedRows.joined([FlippedRows.of(adds[:, :1], 1000, seed=2), FlippedRows.of(adds[:, 1:], 1000, seed=2)])
    np.testing.assert_allclose(together.p, apart.p)
    np.testing.assert_allclose(together.largest, apart.largest)


def test_a_family_keeps_its_error_over_many_rare_rows():
    rng, rejected, samples = np.random.default_rng(5), 0, 400
    for _ in range(samples):
        adds = (rng.random((60, 12)) < 0.15) * rng.choice([-1.0, 1.0], (60, 12))
        rows = FlippedRows.of(adds, 500, seed=7)
        rejected += Family([rows]).adjusted(float(rows.p.min())) < 0.05
    assert rejected / samples < 0.05 + 3 * np.sqrt(0.05 * 0.95 / samples)
