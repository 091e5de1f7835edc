import numpy as np
import pytest
from scipy import stats

from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.power import (
    affected_within,
    detectable,
    detectable_rate,
    equivalent_within,
    units_needed,
    unseen_rate,
)


def test_units_of_no_cluster_count_nowhere():
    clusters = Clusters.of(["b", None, "a", "b"])
    assert clusters.sums(np.array([[1.0], [9.0], [3.0], [5.0]])).tolist() == [[3.0], [6.0]]
    part = clusters.within(np.array([True, True, False, True]))
    assert part.names == ("b",)
    assert part.codes.tolist() == [0, -1, -1, 0]
    assert clusters.effective == pytest.approx(9 / 5)
    assert Clusters.of([None, None]).effective == 0


def test_equivalence_is_shown_where_the_90_percent_interval_lies_within_the_margin():
    assert equivalent_within(-0.02, 0.01, 20) == pytest.approx(0.02 + stats.t.ppf(0.95, 20) * 0.01)


def test_how_many_more_may_be_affected_than_were_seen():
    for hits, units in ((0, 60), (1, 60), (5, 12)):
        upper = stats.binomtest(hits, units, alternative="less").proportion_ci(0.95, method="exact").high
        assert affected_within(hits, units) == pytest.approx(upper - hits / units)
    assert affected_within(0, 59) > 0.049 > affected_within(0, 60)
    assert (affected_within(3, 3), affected_within(0, 0)) == (0, 1)
    assert affected_within(5, 12, largest=1.0) == affected_within(5, 12)
    assert affected_within(50, 600, largest=0.1) < affected_within(50, 600) / 2
    assert affected_within(0, 60, largest=0.0) == affected_within(0, 60)


@pytest.mark.parametrize(
    ("share", "effect", "opposite", "units"),
    [(0.125, 0.35, 0.04375, 48), (0.2, 0.1, 0.02, 96), (0.3, 0.05, 0.015, 288), (0.05, 0.35, 0.0, 30)],
)
def test_bounds_of_means_of_small_effects_hold_where_large_opposite_ones_are_rare(share, effect, opposite, units):
    rng = np.random.default_rng(0)
    drawn = rng.random((4000, units))
    effects = np.where(drawn < share, effect, np.where(drawn < share + opposite, -1.0, 0.0))
    off = np.abs(effects.mean(axis=1) - (share * effect - opposite))
    hits, largest = (effects != 0).sum(axis=1), np.abs(effects).max(axis=1)
    bounds = [affected_within(int(k), units, 0.025, some) for k, some in zip(hits, largest, strict=True)]
    assert np.mean(off <= bounds) >= 0.95


def test_an_effect_at_the_detectable_one_is_found_in_four_of_five():
    rng = np.random.default_rng(0)
    effect = detectable(1.0, 30, 0.05)
    t = rng.normal(effect, 1, 20_000) / np.sqrt(rng.chisquare(30, 20_000) / 30)
    assert np.mean(np.abs(t) > stats.t.ppf(0.975, 30)) == pytest.approx(0.8, abs=0.015)
    assert np.isnan(detectable(0.0, 30, 0.05))


def test_half_the_effect_takes_four_times_the_units():
    assert units_needed(0.05, 100, 0.02) == pytest.approx(units_needed(0.1, 100, 0.02) * 4, abs=4)
    assert units_needed(0.05, 100, 0.02, fixed=0.1) == np.inf


def test_uneven_clusters_are_as_few_as_their_effective_number():
    even, uneven = (Clusters.of([str(n) for n in np.repeat(range(8), sizes)]) for sizes in ([5] * 8, [30, *[4] * 7]))
    assert not even.are_few
    assert even.freedom == pytest.approx(7)
    assert uneven.are_few
    assert uneven.effective == pytest.approx(58**2 / (30**2 + 7 * 16))


@pytest.mark.parametrize(("units", "noise"), [(60, 0.0), (120, 0.1), (300, 0.3)])
def test_an_all_or_nothing_effect_at_the_detectable_one_is_found_in_four_of_five(units, noise):
    rng = np.random.default_rng(0)
    variance = 2 * noise * (1 - noise)
    effect = detectable_rate(np.sqrt(variance / units), units - 1, 0.01, units, 1.0, 1 - 2 * noise)
    harmed, other = rng.random((2, 4000, units)) < np.array([noise + effect, noise])[:, None, None]
    gap = harmed.astype(float) - other
    mean = gap.mean(axis=1)
    t = np.abs(mean) / np.maximum(gap.std(axis=1, ddof=1) / np.sqrt(units), 1e-9)
    z = np.abs(gap.sum(axis=1)) / np.sqrt(np.maximum((gap**2).sum(axis=1), 1))
    found = (t > stats.t.ppf(0.995, units - 1)) & (z > stats.norm.ppf(0.995))
    assert 0.75 <= found.mean() <= 0.9


def test_an_effect_that_no_share_of_units_shows_is_not_detectable():
    assert np.isnan(detectable_rate(0.0, 4, 0.01, 5))
    assert np.isnan(detectable_rate(np.nan, 30, 0.05, 100))
    assert detectable_rate(0.1, 100, 0.05, 100, 1.0, 0.0) == pytest.approx(detectable(0.1, 100, 0.05), rel=0.05)


def test_what_was_not_seen_is_a_rate_of_dialogues():
    assert unseen_rate(100) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert unseen_rate(100) == pytest.approx(3 / 100, rel=0.02)
    assert unseen_rate(0) == 1
