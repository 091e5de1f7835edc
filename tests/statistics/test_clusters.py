import numpy as np
import pytest
from scipy import stats

from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.power import affected_within, detectable, equivalent_within, units_needed


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
