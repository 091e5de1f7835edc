"""Gaps between groups with terms as the sample: arithmetic, and worlds in which the truth is known."""

import numpy as np
import pytest
from scipy import sparse

from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.group_model import GroupDesign
from tod_bias.statistics.simultaneous import Family, JointRows, p_value


def weights(labels):
    """One term per unit."""
    names, codes = np.unique(labels, return_inverse=True)
    cells = (np.ones(len(codes)), (np.arange(len(codes)), codes))
    return sparse.csr_array(sparse.coo_array(cells, shape=(len(codes), len(names))))


def dealt(rng, units, terms):
    """Every term about equally often."""
    return np.concatenate([rng.permutation(terms) for _ in range(-(-units // terms))])[:units]


def gaps(values, terms, source=None, clusters=()):
    """Rows, simultaneous p-values and the family of the gaps of all groups."""
    units, groups = values.shape
    is_original = None
    if source is not None:
        is_original = np.zeros(values.shape, dtype=bool)
        is_original[np.arange(units), source] = True
    design = GroupDesign(~np.isnan(values), [weights(column) for column in terms.T], is_original, clusters)
    rows = design.fit(values).rows(np.eye(groups) - 1 / groups)
    family = Family([JointRows(rows.covariance, rows.freedom)])
    single = [p_value(*row) for row in zip(rows.values, rows.errors, rows.freedom, strict=True)]
    return rows, np.array([family.adjusted(p) for p in single]), family


def world(rng, units=120, groups=3, terms=8, quirks=0.1, *, aligned=False, uneven=1.0, steady=0):
    """Values without any effect of groups, and the terms of each."""
    used = np.stack([dealt(rng, units, terms) for _ in range(groups)], axis=1)
    if aligned:  # words of one paradigm stand for each other, as wife and husband do
        used[:] = used[:, :1]
    quirk = rng.normal(0, quirks, (groups, terms))
    quirk[0] *= uneven
    quirk[groups - steady :] = 0.0
    values = rng.normal(0, 0.3, units)[:, None] + rng.normal(0, 0.2, (units, groups))
    return values + np.stack([quirk[h, used[:, h]] for h in range(groups)], axis=1), used


def test_a_gap_is_the_groups_mean_less_the_mean_of_groups():
    values, used = world(np.random.default_rng(0))
    rows, _, _ = gaps(values, used)
    means = values.mean(axis=0)
    assert rows.values == pytest.approx(means - means.mean())


def test_missing_cells_are_compared_within_units():
    """A unit's level falls out even where it has not all groups: here hard units lack group 0."""
    rng = np.random.default_rng(1)
    values = np.where(np.arange(60) < 30, 5.0, 0.0)[:, None] + np.array([0.0, 0.5, 1.0])
    values[:30, 0] = np.nan
    rows, _, _ = gaps(values, np.stack([dealt(rng, 60, 6) for _ in range(3)], axis=1))
    assert rows.values == pytest.approx([-0.5, 0.0, 0.5], abs=1e-9)


def test_being_the_original_is_no_harm_of_the_other_group():
    """Rewriting harms by .5, and most units are of group 0."""
    rng = np.random.default_rng(2)
    source = (rng.random(200) < 0.2).astype(int)
    values = np.full((200, 2), 0.5) + rng.normal(0, 0.01, (200, 2))
    values[np.arange(200), source] -= 0.5
    used = np.stack([dealt(rng, 200, 10) for _ in range(2)], axis=1)
    assert gaps(values, used, source)[0].values == pytest.approx([0, 0], abs=0.01)
    assert abs(gaps(values, used)[0].values[0]) > 0.1


def test_p_is_below_5_percent_where_the_interval_leaves_out_0():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        values, used = world(rng)
        values[:, 0] += rng.uniform(0, 0.3)
        rows, p, family = gaps(values, used)
        half = np.array([family.reach(freedom) for freedom in rows.freedom]) * rows.errors
        assert ((p < 0.05) == (np.abs(rows.values) > half)).all()


def test_one_contrast_that_everybody_shares_has_no_price():
    """The gaps of two groups are one hypothesis: its p-value is that of a single test."""
    rows, p, _ = gaps(*world(np.random.default_rng(3), groups=2))
    assert p[0] == pytest.approx(p_value(rows.values[0], rows.errors[0], rows.freedom[0]))


def test_terms_that_differ_make_intervals_wider_than_units_do():
    values, used = world(np.random.default_rng(4), quirks=0.5)
    design = GroupDesign(np.ones(values.shape, dtype=bool), [weights(column) for column in used.T])
    contrasts = np.eye(3) - 1 / 3
    over_terms, of_these = (design.fit(values).rows(contrasts, over) for over in (True, False))
    assert (over_terms.errors > 2 * of_these.errors).all()
    assert (over_terms.freedom < 30).all()
    assert (of_these.freedom > 100).all()


WORLDS = {
    "three groups": {},
    "six groups of four terms": {"groups": 6, "terms": 4},
    "no quirks": {"quirks": 0.0},
    "one group's terms four times as uneven": {"groups": 4, "terms": 6, "uneven": 4.0},
    "one group's terms uneven and no others, three groups of four": {"terms": 4, "steady": 2},
    "one group's terms uneven and no others, six groups of four": {"groups": 6, "terms": 4, "steady": 5},
    "words of one paradigm": {"groups": 2, "terms": 10, "aligned": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_without_an_effect_any_group_is_claimed_in_5_percent(name):
    """Short; tests/benchmarks/validity.py makes the whole table."""
    claimed = [(gaps(*world(np.random.default_rng([5, seed]), **WORLDS[name]))[1] < 0.05).any() for seed in range(100)]
    assert np.mean(claimed) <= 0.11


def test_domains_that_differ_are_no_difference_of_groups():
    claimed = []
    for seed in range(100):
        rng = np.random.default_rng([6, seed])
        values, used = world(rng, groups=2, terms=12, quirks=0.05)
        domain = rng.integers(0, 8, len(values))
        values += rng.normal(0, 0.15, (8, 2))[domain]
        _, p, _ = gaps(values, used, clusters=[Clusters.of([str(number) for number in domain])])
        claimed.append(p.min() < 0.05)
    assert np.mean(claimed) <= 0.12


def test_a_groups_effect_is_claimed_where_terms_are_enough():
    claimed = []
    for seed in range(30):
        values, used = world(np.random.default_rng([7, seed]), groups=6, terms=4)
        values[:, 2] += 0.25
        claimed.append(gaps(values, used)[1][2] < 0.05)
    assert np.mean(claimed) >= 0.7


def test_what_is_the_same_everywhere_still_has_an_error():
    """All terms show the same to the last digit: one that does not is possible."""
    used = np.stack([np.arange(40) % 8] * 2, axis=1)
    rows, p, _ = gaps(np.tile([0.0, 1.0], (40, 1)), used)
    assert rows.errors == pytest.approx([0.5 / 8] * 2)
    assert p.max() < 0.01
    rows, p, _ = gaps(np.zeros((40, 2)), used)
    assert rows.values.tolist() == [0, 0]
    assert np.isnan(p).all()


def test_rare_effects_in_no_original_of_the_rarer_group_are_not_taken_for_certain():
    """Rewriting changes something in a tenth of the dialogues; nine of ten are originals of one group."""
    claimed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        source = (rng.random(100) < 0.1).astype(int)
        values = np.repeat((np.arange(100) < 10).astype(float)[:, None], 2, axis=1)
        values[np.arange(100), source] = 0.0
        terms = [weights(dealt(rng, 100, 8)) for _ in range(2)]
        is_original = np.eye(2, dtype=bool)[source]
        design = GroupDesign(np.ones((100, 2), dtype=bool), terms, is_original)
        rows = design.fit(values).rows(np.array([[0.5, -0.5]]))
        claimed += design.has_originals and p_value(rows.values[0], rows.errors[0], rows.freedom[0]) < 0.05
    assert claimed <= 6


def test_the_sums_of_clusters_are_flipped_and_their_variance_is_always_estimated():
    rng = np.random.default_rng(0)
    kind, few = (Clusters.of([str(n % number) for n in range(80)]) for number in (8, 4))
    terms = [weights(dealt(rng, 80, 8)) for _ in range(2)]
    design = GroupDesign(np.ones((80, 2), dtype=bool), terms, None, [kind, few])
    assert [len(some.names) for some in design.clusters] == [8]
    assert [len(some.names) for some in design.kinds] == [8, 4]
    merged = design.merged(np.ones((80, 1)))
    assert np.flatnonzero(merged[:, 0]).tolist() == list(range(8))
    assert design.merged(np.ones((80, 1)), over_clusters=False).all()
    fit, contrast = design.fit(rng.normal(size=(80, 2))), np.array([[0.5, -0.5]])
    over, within = fit.rows(contrast, over_terms=False), fit.rows(contrast, over_terms=False, over_clusters=False)
    assert over.freedom[0] <= 7 < within.freedom[0]
    assert over.errors[0] >= within.errors[0]
