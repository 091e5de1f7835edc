"""The permutation tests of associations: uniform under their null hypotheses, powerful beyond them."""

import numpy as np
import pytest
from scipy import stats
from spaces import planted

from tod_bias.recommenders.embeddings.association import eaa
from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.permutation import group_test, sign_test


def null_p_values(repeats, test):
    rng = np.random.default_rng(11)
    result = []
    for number in range(repeats):
        a, b = rng.normal(0.2, 1, (2, 25, 6))
        e, p = rng.normal(-0.1, 1, (2, 20, 6))
        result.append(test(a, b, e, p, number))
    return np.array(result)


def entities(a, b, e, p, seed):
    """DEAA: labels of E and P exchanged."""
    return group_test(np.concatenate([eaa(e, a, b), eaa(p, a, b)]), len(e), permutations=499, seed=seed).p_value


def attribute(a, b, e, p, seed):
    """GEAA: labels of A and B exchanged."""
    return group_test(unit(np.concatenate([a, b])) @ unit(e).sum(axis=0), len(a), permutations=499, seed=seed).p_value


def one_sided(a, b, e, p, seed):
    scores = np.concatenate([eaa(e, a, b), eaa(p, a, b)])
    return group_test(scores, len(e), permutations=499, seed=seed, alternative="greater").p_value


def signs(a, b, e, p, seed):
    """R-RIPA of one set: the cosines of vectors without a common part are symmetric about 0."""
    along = unit(e + 0.1) @ unit(a.mean(axis=0) - b.mean(axis=0))
    return sign_test(along, permutations=499, seed=seed).p_value


@pytest.mark.parametrize("test", [entities, attribute, one_sided, signs])
def test_p_values_are_uniform_under_the_null(test):
    repeats = 500
    p_values = null_p_values(repeats, test)
    for level in (0.01, 0.05, 0.1):  # with 499 permutations a p-value can equal each of them
        error = np.sqrt(level * (1 - level) / repeats)
        assert (p_values <= level).mean() == pytest.approx(level, abs=3 * error), level
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_power_rises_with_the_planted_strength():
    rejected = []
    for strength in (0.0, 0.2, 0.4, 0.8):
        p_values = []
        for number in range(60):
            a, b, e, p = planted(strength, people=60, things=15, seed=number)
            scores = np.concatenate([eaa(e, a, b), eaa(p, a, b)])
            p_values.append(group_test(scores, len(e), permutations=499, seed=number).p_value)
        rejected.append((np.array(p_values) <= 0.05).mean())
    assert rejected == sorted(rejected)
    assert rejected[0] < 0.15
    assert rejected[-1] > 0.9
