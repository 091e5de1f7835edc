import numpy as np
import pytest
from sklearn.decomposition import PCA
from spaces import planted

from tod_bias.errors import EmbeddingsError
from tod_bias.recommenders.embeddings.directions import (
    centroid_direction,
    csvc_direction,
    direction_tests,
    fit_directions,
    most_biased,
    pair_direction,
    random_pairs,
    split,
    svc_direction,
)
from tod_bias.recommenders.embeddings.space import picture
from tod_bias.recommenders.embeddings.vectors import unit


@pytest.fixture(scope="module")
def people():
    a, b, _, _ = planted(0, people=300, dimensions=8)
    return a, b


def test_all_directions_find_the_planted_axis_and_point_to_a(people):
    a, b = people
    axis = np.eye(8)[0]
    pairs = np.stack([np.arange(300)] * 2, axis=1)
    for direction in (
        centroid_direction(a, b),
        svc_direction(a, b),
        csvc_direction(a, b, 60),
        pair_direction(a, b, pairs, "bolukbasi"),
    ):
        assert np.linalg.norm(direction.vector) == pytest.approx(1)
        assert direction.vector @ axis > 0.85, direction.name
        assert (direction.vector @ a.T).mean() > (direction.vector @ b.T).mean()


def test_centroid_difference_is_of_raw_vectors_which_must_not_coincide():
    result = centroid_direction(np.array([[4.0, 0.0], [0.0, 0.0001]]), np.array([[0.0, 1.0]]))
    expected = np.array([2.0, 0.00005 - 1])
    assert result.vector == pytest.approx(expected / np.linalg.norm(expected))
    with pytest.raises(EmbeddingsError, match="same centroid"):
        centroid_direction(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.5]]))


def test_most_biased_are_furthest_along_the_centroid_difference():
    a = np.array([[1.0, 0.0], [1.0, 1.0], [0.2, 1.0]])
    b = np.array([[-1.0, 0.0], [-0.1, 1.0], [-1.0, 1.0]])
    rows_a, rows_b = most_biased(a, b, 2)
    assert rows_a.tolist() == [0, 1]
    assert rows_b.tolist() == [0, 2]


@pytest.mark.parametrize("count", [3, 50, 400])
def test_directions_of_pairs_are_scikit_learns(count):
    """``pca``: of the differences; ``bolukbasi``: of all entities, each less the middle of its pair."""
    rng = np.random.default_rng(count)
    a, b = rng.normal(size=(2, count, 6)) * np.arange(1, 7) + 0.5
    a += [0, 3, 0, 0, 0, 0]
    pairs = random_pairs(count, count, seed=1)
    first, second = a[pairs[:, 0]], b[pairs[:, 1]]
    middle = (first + second) / 2
    observed = {"pca": first - second, "bolukbasi": np.concatenate([first - middle, second - middle])}
    for name, rows in observed.items():
        result = pair_direction(a, b, pairs, name)
        assert result.name == name
        assert abs(result.vector @ PCA(n_components=1).fit(rows).components_[0]) == pytest.approx(1, abs=1e-12)
        assert np.linalg.norm(result.vector) == pytest.approx(1)


def test_pairs_whose_differences_do_not_vary_have_no_centred_component():
    a, b = np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[0.0, 2.0], [2.0, 1.0]])
    for pairs in (np.array([[0, 0]]), np.array([[0, 0], [1, 1]]), np.zeros((0, 2), dtype=int)):
        with pytest.raises(EmbeddingsError, match="do not vary"):
            pair_direction(a, b, pairs, "pca")
    assert pair_direction(a, b, np.array([[0, 0]]), "bolukbasi").vector == pytest.approx([1, 0])
    directions, notes = fit_directions(a, b, None, np.array([[0, 0], [1, 1]]), 0)
    assert [part.name for part in directions] == ["centroid", "bolukbasi"]
    assert notes[-1].startswith("direction pca: 2 pair(s) whose differences do not vary")


def test_bolukbasi_keeps_the_mean_difference_of_given_pairs():
    """Pairs that differ in nothing but the attribute: the difference is constant, which centring would remove."""
    rng = np.random.default_rng(0)
    b = rng.normal(size=(50, 6)) * 3
    a = b + np.array([0.0, 0.7, 0, 0, 0, 0])
    result = pair_direction(a, b, np.stack([np.arange(50)] * 2, axis=1), "bolukbasi")
    assert result.vector[1] == pytest.approx(1)
    assert result.warning is None


@pytest.mark.parametrize("name", ["pca", "bolukbasi"])
def test_random_pairs_follow_another_direction_of_large_variance(name):
    """The paper's finding: the first component of random pairs is where people differ most, not the attribute."""
    a, b, _, _ = planted(0, people=300, dimensions=8)
    a, b = (side * np.array([1, 6, 1, 1, 1, 1, 1, 1]) for side in (a, b))
    pairs = random_pairs(300, 300)
    assert [len(set(column)) for column in pairs.T] == [300, 300]  # everybody once
    result = pair_direction(a, b, pairs, name, random=True)
    assert "drawn at random" in result.warning
    assert abs(result.vector[1]) > 0.95
    assert abs(result.vector @ centroid_direction(a, b).vector) < 0.4


@pytest.mark.parametrize(("count", "held"), [(2, 1), (8, 4), (10, 5), (30, 6), (9500, 1900)])
def test_a_fifth_is_held_out_and_five_where_half_allows(count, held):
    parts = split(count, 40, seed=1)
    assert len(parts.test_a) == held
    assert sorted([*parts.train_a, *parts.test_a]) == list(range(count))
    assert len(parts.test_b) == 8


def test_direction_of_nothing_passes_the_three_tests_no_more_often_than_by_chance():
    rng = np.random.default_rng(9)
    passed = np.zeros(4)
    for number in range(200):
        a, b = rng.normal(0.2, 1, (2, 60, 10))
        parts = split(60, 60, seed=number)
        direction = centroid_direction(a[parts.train_a], b[parts.train_b]).vector
        tests = direction_tests(direction, a[parts.test_a], b[parts.test_b], seed=number, random_vectors=400)
        below = [p <= 0.05 for p in tests.values()]
        passed += [*below, all(below)]
    shares = passed / 200
    assert shares[0] < 0.1  # A against B: the test that looks at the labels
    assert shares[3] <= shares[0]


def test_direction_that_separates_where_entities_vary_little_passes():
    """Cosines along it are smaller than along random directions for everybody, yet A and B lie on its two sides."""
    rng = np.random.default_rng(4)
    spread = np.array([0.3, *[2.0] * 3, *[1.0] * 12])
    axis = np.eye(16)[0]
    a, b = rng.normal(size=(2, 80, 16)) * spread + np.array([[[0.5]], [[-0.5]]]) * axis
    everybody = unit(np.concatenate([a, b]))
    assert np.abs(everybody @ axis).mean() < np.abs(everybody @ unit(rng.normal(size=(500, 16))).T).mean(axis=0).min()
    assert max(direction_tests(axis, a, b, random_vectors=2000).values()) < 0.001


def test_picture_points_to_a_and_projects_by_pca(people):
    a, b = people
    result = picture(a, b, {"things": a[:5]}, size=50)
    assert len(result.a) == len(result.b) == 50
    assert result.a[:, 0].mean() > result.b[:, 0].mean()
    assert 0.9 < result.cosine <= 1
    assert result.groups["things"].shape == (5, 2)
    assert np.concatenate([result.a, result.b]).mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert picture(a[:1], b[:1], {}) is None
