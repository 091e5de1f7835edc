import itertools

import numpy as np
import pytest
from scipy import stats

from tod_bias.errors import StatisticsError
from tod_bias.statistics.permutation import (
    Exceedances,
    group_test,
    random_groups,
    relabelled,
    sign_test,
    sum_difference_test,
)
from tod_bias.statistics.ranks import subsample_rank_sum


def welch(first, second):
    """Welch's t; where one group is a single score, in its standard errors of the other."""
    variances = [np.var(part, ddof=1) / len(part) for part in (first, second) if len(part) > 1]
    return (np.mean(first) - np.mean(second)) / np.sqrt(max(sum(variances), 1e-12))


def loop_p(scores, first, alternative):
    """All relabellings, one by one."""
    chosen = itertools.combinations(range(len(scores)), first)
    values = np.array([welch(scores[list(part)], np.delete(scores, part)) for part in chosen])
    side = {"greater": lambda t: t, "less": lambda t: -t, "two-sided": np.abs}[alternative]
    return np.mean(side(values) >= side(welch(scores[:first], scores[first:])) - 1e-9)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("first", [1, 3, 4, 7])
def test_small_sets_are_enumerated(first, alternative):
    scores = np.random.default_rng(first).normal(size=8).round(1)  # rounded: with ties
    found = group_test(scores, first, alternative=alternative)
    assert found.exact
    assert found.p_value == pytest.approx(loop_p(scores, first, alternative), abs=1e-12)


def test_exact_p_values_are_scipys():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, 1, 6), rng.normal(0, 1, 6)
    theirs = stats.permutation_test(
        (first, second), lambda x, y, axis: x.mean(axis) - y.mean(axis), vectorized=True, alternative="greater"
    ).pvalue
    found = group_test(np.concatenate([first, second]), 6, alternative="greater")
    assert found.p_value == pytest.approx(theirs, abs=1e-12)
    for alternative in ("two-sided", "greater", "less"):  # signs are symmetric: scipy doubles the smaller tail
        theirs = stats.permutation_test(
            (first - second,), lambda x, axis: x.mean(axis), vectorized=True, permutation_type="samples",
            alternative=alternative,
        ).pvalue  # fmt: skip
        assert sign_test(first - second, alternative=alternative).p_value == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("first", "second"), [(40, 60), (300, 20), (5, 400)])
def test_random_permutations_agree_with_a_shuffling_loop(first, second):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=first + second)
    scores[:first] -= scores[:first].mean() - scores[first:].mean() - 1.5 / np.sqrt(min(first, second))
    found = group_test(scores, first, permutations=20_000, seed=1)
    assert not found.exact
    assert found.permutations == 20_000
    observed, hits = welch(scores[:first], scores[first:]), 0
    for _ in range(20_000):
        shuffled = rng.permutation(scores)
        hits += abs(welch(shuffled[:first], shuffled[first:])) >= abs(observed)
    p = hits / 20_000
    assert 0.01 < p < 0.5
    assert found.p_value == pytest.approx(p, abs=4 * np.sqrt(2 * p * (1 - p) / 20_000))


def test_a_small_group_that_is_more_uneven_does_not_differ():
    rng = np.random.default_rng(3)
    p_values = [
        group_test(np.concatenate([rng.normal(0, 3, 8), rng.normal(0, 1, 60)]), 8, permutations=199, seed=n).p_value
        for n in range(400)
    ]
    assert (np.array(p_values) <= 0.05).mean() < 0.1  # of a test of the plain difference: 0.35


def test_clusters_change_places_as_a_whole():
    """Four clusters of each group with a common part: by single scores nearly everything differs."""
    rng = np.random.default_rng(5)
    codes = np.repeat(np.arange(8), [3, 9, 5, 12, 6, 10, 4, 8])
    first = int((codes < 4).sum())

    def p_value(clusters):
        scores = rng.normal(size=8)[codes] + rng.normal(0, 0.3, len(codes))
        return group_test(scores, first, clusters=clusters, permutations=99).p_value

    assert np.mean([p_value(codes) <= 0.05 for _ in range(200)]) < 0.1
    assert np.mean([p_value(None) <= 0.05 for _ in range(200)]) > 0.4
    scores = rng.normal(size=20)
    whole = group_test(np.repeat(scores, 3), 24, clusters=np.repeat(np.arange(20), 3), permutations=500, seed=2)
    assert whole.p_value == group_test(scores, 8, permutations=500, seed=2).p_value


def test_monte_carlo_p_is_never_0_and_seeded():
    assert group_test(np.arange(60.0), 30, permutations=999, seed=4).p_value == 1 / 1000
    noisy = np.random.default_rng(0).normal(size=(60, 2))
    again = [group_test(noisy, 30, permutations=999, seed=seed).p_values for seed in (4, 4, 5)]
    assert (again[0] == again[1]).all()
    assert (again[0] != again[2]).any()


@pytest.mark.parametrize(("count", "size"), [(6, 2), (6, 3), (40, 1)])
def test_random_groups_are_uniform(count, size):
    drawn = random_groups(np.random.default_rng(3), 30_000, count, size)
    assert (drawn.sum(axis=1) == size).all()
    _, seen = np.unique(drawn, axis=0, return_counts=True)
    cells = len(list(itertools.combinations(range(count), size)))
    assert len(seen) == cells
    assert stats.chisquare(seen).pvalue > 1e-3


def test_equal_scores_have_p_1():
    assert group_test(np.full(50, 0.3), 20, permutations=500).p_value == 1
    assert group_test(np.full(6, 0.3), 2).p_value == 1
    assert sign_test(np.zeros(40), permutations=500).p_value == 1


def test_many_statistics_share_permutations():
    scores = np.random.default_rng(0).normal(size=(80, 3))
    together = group_test(scores, 30, permutations=2000, seed=7).p_values
    alone = [group_test(scores[:, column], 30, permutations=2000, seed=7).p_value for column in range(3)]
    assert together == pytest.approx(alone)


def test_rank_sum_cuts_disjoint_subsamples():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, 100), rng.normal(0, 1, 60)
    found = subsample_rank_sum(first, second, size=5)
    assert found["subsamples"] == [20, 12]
    assert found["p_value"] < 0.01
    assert subsample_rank_sum(first[:4], second, size=3)["p_value"] is None
    p_values = [
        subsample_rank_sum(rng.normal(size=60), rng.normal(size=60), size=5, seed=n)["p_value"] for n in range(400)
    ]
    assert 0.02 < (np.array(p_values) <= 0.05).mean() < 0.085


@pytest.mark.parametrize(
    ("first", "alternative", "message"),
    [(0, "less", "at least one"), (5, "less", "at least one"), (2, "larger", "two-sided, greater, less")],
)
def test_empty_groups_and_unknown_alternatives_are_refused(first, alternative, message):
    with pytest.raises(StatisticsError, match=message):
        group_test(np.arange(5.0), first, alternative=alternative)


def test_labels_change_places_within_strata():
    mine = np.array([True, False, False, True, True, False])
    strata = np.array([0, 0, 1, 1, 1, 2])
    drawn = np.concatenate(list(relabelled(np.random.default_rng(0), mine, strata, 600)))
    assert drawn.shape == (600, 6)
    assert (drawn[:, :2].sum(axis=1) == 1).all()
    assert (drawn[:, 2:5].sum(axis=1) == 2).all()
    assert (drawn[:, 5] == 0).all()
    assert len(np.unique(drawn, axis=0)) == 2 * 3


def test_ties_up_to_rounding_count_as_far():
    found = Exceedances(np.array([0.3, 1.0]))
    found.add(np.array([[0.1 + 0.2, 2.0], [0.3 - 1e-15, 0.5], [0.2, np.nan]]))
    assert list(found.p_values(exact=True)) == [2 / 3, 1 / 3]
    assert list(found.p_values()) == [3 / 4, 2 / 4]


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_a_difference_of_sums_is_tested_by_all_relabellings(alternative):
    values = np.random.default_rng(5).normal(0.3, 1.0, 9)

    def deaa(first):
        return sum(values[number] if number in first else -values[number] for number in range(9))

    observed = deaa(range(3))
    every = np.array([deaa(first) for first in itertools.combinations(range(9), 3)])
    hits = {
        "two-sided": np.abs(every) >= abs(observed) - 1e-12,
        "greater": every >= observed - 1e-12,
        "less": every <= observed + 1e-12,
    }[alternative]
    result = sum_difference_test(values, 3, alternative=alternative)
    assert result.exact
    assert result.p_value == pytest.approx(hits.mean())


def test_a_difference_of_sums_of_equal_groups_is_tested_as_welchs_t():
    values = np.random.default_rng(6).normal(0.0, 1.0, 12)
    values[:6] += 1.0
    assert sum_difference_test(values, 6).p_value == pytest.approx(group_test(values, 6).p_value)
    drawn = sum_difference_test(values, 6, permutations=500, seed=1)
    assert not drawn.exact
    assert drawn.p_value == pytest.approx(group_test(values, 6, permutations=500, seed=1).p_value)
    alone = sum_difference_test(values, 6, clusters=np.tile(np.arange(6), 2))
    assert alone.p_value == pytest.approx(sum_difference_test(values, 6).p_value)
    with pytest.raises(StatisticsError):
        sum_difference_test(values, 12)
