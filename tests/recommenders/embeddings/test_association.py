"""Every metric against a loop written from its formula, and against WEFE."""

import math

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st

from tod_bias.errors import EmbeddingsError
from tod_bias.recommenders.embeddings.association import (
    cosines,
    deaa,
    eaa,
    eaa_interval,
    effect_size,
    geaa,
    r_ripa,
    r_ripa_effect_size,
)

SEEDS = [0, 1, 2]


def sets(seed, sizes=(7, 5, 9, 11), dimensions=6):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(), rng.uniform(0.1, 3), (size, dimensions)) for size in sizes]


def loop_cos(x, y):
    dot = sum(float(i) * float(j) for i, j in zip(x, y, strict=True))
    return dot / (math.sqrt(sum(float(i) ** 2 for i in x)) * math.sqrt(sum(float(j) ** 2 for j in y)))


def loop_eaa(entity, a, b):
    first = sum(loop_cos(entity, other) for other in a) / len(a)
    return first - sum(loop_cos(entity, other) for other in b) / len(b)


def loop_std(values, ddof):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - ddof))


@pytest.mark.parametrize("seed", SEEDS)
def test_metrics_are_equations_1_to_6(seed):
    e, p, a, b = sets(seed)
    psi = a[0] * 3
    scores = [[loop_eaa(entity, a, b) for entity in part] for part in (e, p)]
    along = [[loop_cos(entity, psi) for entity in part] for part in (e, p)]
    assert eaa(e, a, b) == pytest.approx(scores[0], abs=1e-9)
    assert geaa(e, a, b) == pytest.approx(sum(scores[0]), abs=1e-9)
    assert deaa(e, p, a, b) == pytest.approx(sum(scores[0]) - sum(scores[1]), abs=1e-9)
    assert r_ripa(e, psi) == pytest.approx(sum(along[0]) / len(e), abs=1e-9)
    for ddof in (0, 1):
        for value, (first, second) in (
            (effect_size(e, p, a, b, ddof), scores),
            (r_ripa_effect_size(e, p, psi, ddof), along),
        ):
            apart = sum(first) / len(e) - sum(second) / len(p)
            assert value == pytest.approx(apart / loop_std(first + second, ddof), abs=1e-9)


@pytest.fixture
def weat(monkeypatch):
    # WEFE 0.4.1 still names a type that NumPy 2 dropped.
    monkeypatch.setattr(np, "float_", np.float64, raising=False)
    from wefe.metrics import WEAT
    from wefe.query import Query
    from wefe.word_embedding_model import WordEmbeddingModel

    def run(e, p, a, b):
        matrix = np.concatenate([e, p, a, b]).astype(np.float64)
        words = [f"w{number}" for number in range(len(matrix))]
        vectors = KeyedVectors(matrix.shape[1], dtype=np.float64)
        vectors.add_vectors(words, matrix)
        ends = np.cumsum([len(part) for part in (e, p, a, b)])[:-1]
        names = [part.tolist() for part in np.split(np.array(words), ends)]
        query = Query(names[:2], names[2:], ["E", "P"], ["A", "B"])
        return WEAT().run_query(query, WordEmbeddingModel(vectors, "test"))

    return run


@pytest.mark.parametrize("seed", SEEDS)
def test_deaa_and_effect_size_are_wefes_weat(seed, weat):
    e, p, a, b = sets(seed, sizes=(8, 8, 9, 11))
    theirs = weat(e, p, a, b)
    assert deaa(e, p, a, b) == pytest.approx(theirs["weat"], abs=1e-9)
    assert effect_size(e, p, a, b) == pytest.approx(theirs["effect_size"], abs=1e-9)


def test_small_cases_by_hand():
    a, b = [[2.0, 0.0]], [[0.0, 5.0]]
    assert eaa([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-3.0, 0.0]], a, b) == pytest.approx([1, -1, 0, -1])
    assert geaa([[1.0, 0.0], [1.0, 1.0]], a, b) == pytest.approx(1)
    assert deaa([[1.0, 0.0]], [[0.0, 1.0]], a, b) == pytest.approx(2)
    assert effect_size([[1.0, 0.0]], [[0.0, 1.0]], a, b) == pytest.approx(2)  # the largest value with ddof 0
    assert effect_size([[1.0, 0.0]], [[0.0, 1.0]], a, b, 1) == pytest.approx(math.sqrt(2))
    assert r_ripa([[1.0, 0.0], [0.0, 1.0]], [3.0, 0.0]) == pytest.approx(0.5)
    assert math.isnan(effect_size([[1.0, 1.0]], [[2.0, 2.0]], a, b))
    assert np.isnan(eaa_interval([[1.0, 0.0]], a, [[0.0, 1.0], [1.0, 2.0]])).all()  # one user has no spread


@given(st.floats(1e-150, 1e150), st.integers(0, 100))
def test_metrics_do_not_depend_on_lengths(scale, seed):
    e, p, a, b = sets(seed)
    assert effect_size(e * scale, p, a, b * scale) == pytest.approx(effect_size(e, p, a, b), abs=1e-9)
    assert cosines(e * scale, a[0] * scale) == pytest.approx(cosines(e, a[0]), abs=1e-12)


def test_eaa_intervals_cover_the_value_of_the_whole_population():
    rng = np.random.default_rng(5)
    crowd_a, crowd_b = rng.normal(0.3, 1, (4000, 5)), rng.normal(-0.1, 1, (4000, 5))
    items = rng.normal(size=(50, 5))
    truth, covered = eaa(items, crowd_a, crowd_b), []
    for _ in range(200):
        a, b = (crowd[rng.choice(4000, 30, replace=False)] for crowd in (crowd_a, crowd_b))
        low, high = eaa_interval(items, a, b)
        covered.append(((low <= truth) & (truth <= high)).mean())
    assert 0.93 < np.mean(covered) < 0.97


@pytest.mark.parametrize(
    "sides",
    [{"e": [[1.0, math.nan]]}, {"a": [[1.0, 0.0], [0.0, 0.0]]}, {"b": np.zeros((0, 2))}, {"b": [[1.0, 2.0, 3.0]]}],
)
def test_unusable_vectors_are_refused(sides):
    good = {"e": [[1.0, 0.0]], "a": [[1.0, 0.0]], "b": [[0.0, 1.0]]} | sides
    with pytest.raises(EmbeddingsError):
        eaa(good["e"], good["a"], good["b"])
