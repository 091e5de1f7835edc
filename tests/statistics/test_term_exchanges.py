"""Exchanges of terms between groups."""

from math import comb

import numpy as np
import pytest
from scipy import sparse

from tod_bias.statistics.exchanges import share_of
from tod_bias.statistics.simultaneous import Family
from tod_bias.statistics.term_exchanges import exchanged_terms

TERMS = 8


def dealt(units, groups, rng):
    """Return (units, terms) weights of each group, every term as often as any other."""
    made = []
    for _ in range(groups):
        terms = rng.permutation(np.arange(units) % TERMS)
        made.append(sparse.csr_array((np.ones(units), (np.arange(units), terms)), shape=(units, TERMS)))
    return made


def test_six_terms_of_one_group_by_hand():
    units, terms = 120, dealt(120, 3, np.random.default_rng(1))
    first = [int(np.flatnonzero(terms[0][:, [term]].toarray()[:, 0])[0]) for term in range(6)]
    values = np.zeros((units, 3, 1))
    values[first, 0] = 1
    rows = exchanged_terms(values, np.ones((units, 3), dtype=bool), terms, 2000, seed=1)
    pool = np.r_[np.ones(6), np.zeros(18)] - 0.25
    scale = np.sqrt(8 * 16 / 23 * (pool**2).mean())
    np.testing.assert_allclose(rows.z[:, 0], [4 / scale, 2 / scale, 2 / scale])
    expected = 3 * comb(18, 2) / comb(24, 8)  # any of the three groups has all six
    assert share_of([rows], rows.z[0, 0]) == pytest.approx((expected * 2000 + 1) / 2001, abs=0.002)


def test_a_term_that_alone_has_all_events_shows_nothing():
    units, terms = 120, dealt(120, 3, np.random.default_rng(2))
    values = np.zeros((units, 3, 1))
    values[terms[0][:, [3]].toarray()[:, 0] > 0, 0] = 1
    rows = exchanged_terms(values, np.ones((units, 3), dtype=bool), terms, 500, seed=1)
    assert share_of([rows], rows.z[0, 0]) == 1


def test_a_difference_that_all_groups_of_a_unit_share_changes_nothing():
    rng = np.random.default_rng(3)
    terms, has = dealt(64, 3, rng), np.ones((64, 3), dtype=bool)
    values = rng.integers(0, 2, (64, 3, 2)).astype(float)
    moved = values + rng.normal(size=(64, 1, 2))
    rows, others = (exchanged_terms(some, has, terms, 300, seed=1) for some in (values, moved))
    np.testing.assert_allclose(rows.z, others.z)
    np.testing.assert_allclose(rows.largest, others.largest)


def test_rows_of_equal_seeds_are_exchanged_together_in_whichever_set_they_are():
    rng = np.random.default_rng(4)
    terms, has = dealt(40, 3, rng), np.ones((40, 3), dtype=bool)
    values = rng.normal(size=(40, 3, 4))
    together = exchanged_terms(values, has, terms, 300, seed=2)
    apart = [exchanged_terms(values[:, :, some], has, terms, 300, seed=2) for some in (slice(0, 1), slice(1, 4))]
    for z in (1.0, 2.0, 3.0):
        assert share_of(apart, z) == share_of([together], z)


@pytest.mark.parametrize(("groups", "draws", "lacks"), [(2, 200, False), (3, 0, False), (3, 200, True)])
def test_two_groups_no_draws_and_groups_without_terms_have_no_exchanges(groups, draws, lacks):
    terms = dealt(24, groups, np.random.default_rng(5))
    terms[-1] = None if lacks else terms[-1]
    assert exchanged_terms(np.ones((24, groups, 1)), np.ones((24, groups), dtype=bool), terms, draws, seed=1) is None
    assert Family([]).under_term_exchanges(100.0) == 1.0


def test_a_family_keeps_its_error_over_events_that_terms_trigger():
    """Each of ten events happens with the terms at rates of a beta distribution, the same for all groups."""
    rng, samples, events, units = np.random.default_rng(6), 300, 10, 120
    has, rejected = np.ones((units, 3), dtype=bool), 0
    for _ in range(samples):
        terms = dealt(units, 3, rng)
        rates = rng.beta(0.2, 1.8, (3, TERMS, events))
        expected = np.stack([weights @ rates[group] for group, weights in enumerate(terms)], axis=1)
        values = (rng.random(expected.shape) < expected).astype(float)
        rows = exchanged_terms(values, has, terms, 500, seed=7)
        rejected += share_of([rows], float(rows.z.max())) < 0.05
    assert rejected / samples < 0.05 + 3 * np.sqrt(0.05 * 0.95 / samples)
