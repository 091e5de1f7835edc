"""E and P of unequal size that lean alike: neither test flags more often than it says, and words follow the means."""

import numpy as np
import pytest
from spaces import audited, entity_sets

from tod_bias.recommenders.embeddings.association import eaa, effect_size
from tod_bias.recommenders.embeddings.directions import centroid_direction
from tod_bias.recommenders.embeddings.measurement import Scores, make_tests
from tod_bias.recommenders.embeddings.reading import statements
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.permutation import group_test


def leaning(rng, sizes, *, people=60, leans=(0.5, 0.5), apart=0.0, dimensions=12):
    """A and B lie apart along the first axis; E and P lean along it by ``leans`` and lie ``apart`` along others."""
    side = np.eye(dimensions)[0] * 0.6
    a, b = rng.normal(size=(2, people, dimensions)) + np.array([side, -side])[:, None]
    away = rng.normal(size=dimensions) * apart
    away[0] = 0.0
    sets = []
    for size, lean, sign in zip(sizes, leans, (1, -1), strict=True):
        part = rng.normal(size=(size, dimensions)) + sign * away
        part[:, 0] = rng.normal(lean, 1, size=size)
        sets.append(part)
    return a, b, *sets


def p_values(seed, sizes, permutations=199, **options):
    a, b, e, p = leaning(np.random.default_rng(seed), sizes, **options)
    scores = Scores.of(entity_sets(a, b, e, p)[1], [centroid_direction(a, b)])
    results = make_tests(scores, AuditSettings(permutations=permutations, seed=seed))[0]["mean_difference"]
    return results["entities"]["p_value"], results["attribute"]["p_value"]


@pytest.mark.parametrize("sizes", [(100, 100), (300, 60)])
def test_sets_that_lean_alike_are_flagged_one_time_in_twenty(sizes):
    results = np.array([p_values(seed, sizes) for seed in range(120)])
    assert (results[:, 0] <= 0.05).mean() < 0.11  # the items are a sample; the second test takes them as they are
    assert (results <= 0.05).all(axis=1).mean() < 0.08


def test_genres_that_lie_apart_and_lean_alike_are_not_said_to_differ():
    """Labels of E and P flag often, as clusters do; those of A and B hold the level, and only both are read."""
    results = np.array([p_values(1000 + seed, (300, 60), apart=0.5) for seed in range(200)])
    assert (results[:, 1] <= 0.05).mean() < 0.1
    assert (results <= 0.05).all(axis=1).mean() < 0.1


def test_sets_of_unequal_size_that_differ_are_flagged():
    results = np.array([p_values(2000 + seed, (300, 60), leans=(0.2, 0.9)) for seed in range(20)])
    assert (results <= 0.05).all(axis=1).mean() > 0.8


def test_words_follow_the_means_where_the_sums_say_the_opposite():
    a, b, e, p = leaning(np.random.default_rng(0), (300, 60), leans=(0.3, 1.0))
    result = audited(a, b, e, p, AuditSettings(permutations=999, bootstrap=50))
    assert result.record["DEAA"] == pytest.approx(eaa(e, a, b).sum() - eaa(p, a, b).sum())
    assert result.record["DEAA"] > 0 > result.record["effect_size"]
    assert result.record["mean_difference"] == pytest.approx(eaa(e, a, b).mean() - eaa(p, a, b).mean())
    low, high = result.record["intervals"]["mean_difference"]
    assert low < result.record["mean_difference"] < high < 0
    assert "leans less to" in " ".join(said.sentence for said in statements(result.record))
    assert result.record["tests"]["DEAA"]["entities"]["p_value"] <= 1  # the paper's own test of sums claims nothing
    assert [flag["of"] for flag in result.record["flags"]] == ["E", "P", "differential"]


def test_with_sets_of_equal_size_p_is_that_of_the_sums():
    """The WEAT case (Caliskan et al. 2017): to the last digit, both tests."""
    for seed in range(5):
        a, b, e, p = leaning(np.random.default_rng(seed), (8, 8), people=20, leans=(0.2, 0.6))
        sums = unit(e).sum(axis=0) - unit(p).sum(axis=0)
        people = unit(np.concatenate([a, b]))
        of_sums = group_test(people @ sums, len(a), permutations=999, seed=seed + 1).p_value
        scores = np.concatenate([eaa(e, a, b), eaa(p, a, b)])
        assert p_values(seed, (8, 8), 999, people=20, leans=(0.2, 0.6)) == (
            group_test(scores, 8, permutations=999, seed=seed).p_value,
            of_sums,
        )
        assert np.sign(effect_size(e, p, a, b)) == np.sign(scores[:8].mean() - scores[8:].mean())
