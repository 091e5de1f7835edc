import numpy as np
import pytest
from scipy import stats

from tod_bias.statistics.clusters import Clusters, Shared, spread
from tod_bias.statistics.flips import flip_test
from tod_bias.statistics.power import detectable, equivalent_within, units_needed


def means(sums):
    """(…, 2) sums of values and ones to (…, 1) means."""
    return (sums[..., 0] / sums[..., 1])[..., None]


def test_effective_number_of_clusters():
    assert Clusters.of(["a", "b", "c", "a", "b", "c"]).effective == pytest.approx(3)
    assert Clusters.of(["a"] * 9 + ["b"]).effective == pytest.approx(100 / 82)
    assert Clusters.of([None, None]).effective == 0


def test_units_of_no_cluster_count_nowhere():
    clusters = Clusters.of(["b", None, "a", "b"])
    assert clusters.sums(np.array([[1.0], [9.0], [3.0], [5.0]])).tolist() == [[3.0], [6.0]]
    part = clusters.within(np.array([True, True, False, True]))
    assert part.names == ("b",)
    assert part.codes.tolist() == [0, -1, -1, 0]


def test_spread_of_a_mean_of_equal_clusters_is_the_t_interval_of_their_means():
    values = np.random.default_rng(0).normal(size=(12, 5))
    table = np.stack([values.ravel(), np.ones(60)], axis=1)
    clusters = Clusters.of([f"{number // 5:02d}" for number in range(60)])
    found = spread(clusters.sums(table), table.sum(axis=0), means, clusters.effective)
    of_clusters = values.mean(axis=1)
    assert found.error[0] == pytest.approx(of_clusters.std(ddof=1) / np.sqrt(12))
    low, high = found.interval(np.array([of_clusters.mean()]), 0.95)[:, 0]
    expected = stats.t.interval(0.95, 11, of_clusters.mean(), stats.sem(of_clusters))
    assert (low, high) == pytest.approx(expected)
    assert found.p_values(np.array([of_clusters.mean()]))[0] == pytest.approx(stats.ttest_1samp(of_clusters, 0).pvalue)


def test_no_interval_of_fewer_than_five_clusters():
    table = np.stack([np.arange(8.0), np.ones(8)], axis=1)
    clusters = Clusters.of(list("aabbccdd"))
    found = spread(clusters.sums(table), table.sum(axis=0), means, clusters.effective)
    assert np.isnan(found.interval(np.array([3.5]), 0.95)).all()
    assert np.isnan(found.p_values(np.array([3.5]))).all()


def test_flips_of_one_statistic_are_the_exact_sign_test():
    parts = np.array([[3.0], [1.0], [2.0], [4.0]])
    found = flip_test(parts, 1000, 0)
    assert found.p_values.tolist() == [2 / 16]
    assert found.joint.tolist() == [2 / 16]
    assert flip_test(np.zeros((4, 2)), 1000, 0).joint.tolist() == [1, 1]


def test_the_family_of_flips_keeps_its_level_and_repeats_of_a_statistic_cost_nothing():
    rng = np.random.default_rng(5)
    alone, family, same = [], [], []
    for number in range(400):
        parts = rng.normal(size=(20, 6)) * rng.lognormal(0, 1, (20, 1))
        alone.append(flip_test(parts[:, :1], 500, number).joint[0] < 0.05)
        family.append(flip_test(parts, 500, number).joint.min() < 0.05)
        repeated = flip_test(np.repeat(parts[:, :1], 6, axis=1) * np.arange(1, 7), 500, number)
        same.append(repeated.joint.min() < 0.05)
    assert same == alone
    assert np.mean(alone) == pytest.approx(0.05, abs=0.035)
    assert np.mean(family) == pytest.approx(0.05, abs=0.035)


def test_where_flips_can_give_no_smaller_p_value_a_t_test_does():
    parts = np.array([[1.0, 1.0], [1.1, -1.0], [0.9, 1.0], [1.0, 1.0], [1.0, -1.0], [1.1, 0.5]])
    plain = flip_test(parts, 1000, 0)
    found = plain.beyond(np.array([1e-5, 1e-5]))
    assert plain.p_values[0] == 2 / 64
    assert found.p_values[0] == 1e-5
    assert found.joint[0] == 2e-5
    assert found.p_values[1] == plain.p_values[1]


def test_detectable_effects_are_found_as_often_as_they_say():
    rng = np.random.default_rng(0)
    effect = detectable(1 / np.sqrt(20), 19, 0.05)
    hits = [stats.ttest_1samp(rng.normal(effect, 1, 20), 0).pvalue < 0.05 for _ in range(2000)]
    assert np.mean(hits) == pytest.approx(0.8, abs=0.03)
    assert np.isnan(detectable(0.0, 19, 0.05))  # nothing varied


def test_equivalence_is_two_one_sided_tests():
    values = np.random.default_rng(1).normal(0.1, 1, 50)
    margin = equivalent_within(values.mean(), stats.sem(values), 49, 50)
    below = stats.ttest_1samp(values, margin, alternative="less").pvalue
    above = stats.ttest_1samp(values, -margin, alternative="greater").pvalue
    assert max(below, above) == pytest.approx(0.05)
    assert equivalent_within(0.0, 0.0, 49, 59) == pytest.approx(0.0495, abs=1e-3)  # nothing seen in 59: about 3 / 59


def test_more_units_help_only_where_words_do_not_stand_in_the_way():
    few = units_needed(0.028, 100, 0.01)
    assert few == pytest.approx(100, abs=2)
    assert units_needed(0.014, 100, 0.01) == pytest.approx(400, abs=2)
    assert units_needed(0.014, 100, 0.01, fixed=0.004) > 800
    assert units_needed(0.014, 100, 0.01, fixed=0.006) == np.inf


def test_units_that_share_any_word_are_dependent_and_with_one_word_each_it_leaves_out_a_word_at_a_time():
    rng = np.random.default_rng(0)
    labels = [f"{number % 7}" for number in range(63)]
    table = np.stack([rng.normal(size=63) + np.array([int(label) for label in labels]), np.ones(63)], axis=1)
    clusters = Clusters.of(labels)
    jackknife = spread(clusters.sums(table), table.sum(axis=0), means, clusters.effective).error[0]
    shared = Shared.of([frozenset([label]) for label in labels])
    there = np.ones(63, dtype=bool)
    assert shared.error(table[:, :1] / 63, there)[0] == pytest.approx(jackknife * np.sqrt(7 / 6), rel=0.02)
    apart = Shared.of([frozenset([str(number)]) for number in range(63)])
    assert apart.error(table[:, :1] / 63, there)[0] == pytest.approx(stats.sem(table[:, 0]), rel=0.02)


def test_intervals_over_words_of_which_units_hold_two_cover():
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, 21)
    covered = []
    for _ in range(300):
        words = rng.choice(20, (130, 2), p=share / share.sum())
        values = rng.normal(0, 0.2, 20)[words].mean(axis=1) + rng.normal(0, 0.15, 130)
        shared = Shared.of([frozenset(map(str, pair)) for pair in words])
        error = shared.error(values[:, None] / 130, np.ones(130, dtype=bool))[0]
        covered.append(abs(values.mean()) <= stats.t.ppf(0.975, 7) * error)
    assert np.mean(covered) == pytest.approx(0.96, abs=0.035)
