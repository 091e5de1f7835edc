"""Quality scores against scikit-learn, and by hand where it has none."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    label_ranking_average_precision_score,
    ndcg_score,
    precision_recall_fscore_support,
    top_k_accuracy_score,
)

from tod_bias.recommenders.lmrec.mitigation import (
    Ranked,
    mean_over_cities,
    precision_recall_f1,
    quality_scores,
    ranked_scores,
    related_venues,
    reranked,
)

VENUES, QUERIES = 30, 200
RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(QUERIES, VENUES))
TRUTH = RNG.integers(0, VENUES, size=QUERIES)
SCORES[np.arange(QUERIES), TRUTH] += 1.5
RANKINGS = np.argsort(-SCORES, axis=1)
CATEGORIES = [tuple(RNG.choice(["a", "b", "c", "d", "e", "f", "g"], size=2, replace=False)) for _ in range(VENUES)]
RELATED = related_venues(CATEGORIES)
FOUND = ranked_scores(RANKINGS, TRUTH, RELATED)


def test_venue_scores_are_those_of_scikit_learn():
    predicted = RANKINGS[:, 0]
    expected = precision_recall_fscore_support(TRUTH, predicted, average="weighted", zero_division=0)[:3]
    assert precision_recall_f1(TRUTH, predicted, VENUES) == pytest.approx(expected, abs=1e-12)
    assert FOUND["accuracy"].mean() == pytest.approx(accuracy_score(TRUTH, predicted))
    for k in (5, 10, 20):
        expected = top_k_accuracy_score(TRUTH, SCORES, k=k, labels=np.arange(VENUES))
        assert FOUND[f"HR@{k}"].mean() == pytest.approx(expected)
    one_hot = np.eye(VENUES)[TRUTH]  # with one relevant venue its average precision is the reciprocal rank
    assert FOUND["MRR"].mean() == pytest.approx(label_ranking_average_precision_score(one_hot, SCORES))


def test_category_scores_are_those_of_scikit_learn():
    relevant = RELATED[TRUTH]
    for query in range(0, QUERIES, 7):
        expected = average_precision_score(relevant[query], SCORES[query])
        assert FOUND["category MAP"][query] == pytest.approx(expected)
        expected = ndcg_score(relevant[query : query + 1].astype(float), SCORES[query : query + 1])
        assert FOUND["category nDCG"][query] == pytest.approx(expected)


def test_category_scores_by_hand():
    related = related_venues([("thai",), ("thai", "bar"), ("bar",), ("pizza",)])
    assert related.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    result = ranked_scores(np.array([[3, 0, 2, 1]]), np.array([1]), related)
    assert result["category MRR"][0] == 1 / 2
    assert result["category R-precision"][0] == 2 / 3
    assert result["category MAP"][0] == pytest.approx((1 / 2 + 2 / 3 + 3 / 4) / 3)
    assert result["category P@5"][0] == 3 / 5
    assert result["MRR"][0] == 1 / 4
    without_categories = ranked_scores(np.array([[1, 0]]), np.array([0]), related_venues([(), ("bar",)]))
    assert np.isnan(without_categories["category MAP"][0])


def test_means_over_cities_have_an_interval_over_cities():
    ranked = Ranked(FOUND, TRUTH, RANKINGS[:, 0], VENUES)
    half = Ranked({name: part[:100] for name, part in FOUND.items()}, TRUTH[:100], RANKINGS[:100, 0], VENUES)
    frame = quality_scores({"A": ranked, "B": half}, resamples=200).set_index(["city", "score"])
    a, b = (frame.loc[(city, "accuracy"), "value"] for city in "AB")
    whole = frame.loc[("all", "accuracy")]
    assert whole["value"] == pytest.approx((a + b) / 2)
    half_length = 6.3138 * abs(a - b) / 2  # t quantile, one degree of freedom, 90%
    ninety = quality_scores({"A": ranked, "B": half}, level=0.9, resamples=0).set_index(["city", "score"])
    assert ninety.loc[("all", "accuracy"), "ci_low"] == pytest.approx((a + b) / 2 - half_length, rel=1e-3)
    assert frame.loc[("A", "accuracy"), "ci_low"] < a < frame.loc[("A", "accuracy"), "ci_high"]
    assert frame.loc[("A", "R"), "value"] == pytest.approx(a)


def test_trainings_of_one_city_are_one_city():
    values = {"A (0)": 0.2, "A (1)": 0.4, "B (0)": 0.5, "B (1)": 0.7}
    mean, low, high = mean_over_cities(values, {name: name[0] for name in values}, 0.9)
    assert mean == pytest.approx(0.45)
    assert (low, high) == pytest.approx((0.45 - 6.3138 * 0.15, 0.45 + 6.3138 * 0.15), rel=1e-3)  # 0.3 and 0.6
    assert mean_over_cities(values, None, 0.9)[1] > low  # as if there were four
    one = {name: value for name, value in values.items() if name[0] == "A"}
    assert mean_over_cities(one, dict.fromkeys(one, "A"), 0.9)[1] == pytest.approx(0.3 - 6.3138 * 0.1, rel=1e-3)
    assert np.isnan(mean_over_cities({"A": 0.3}, None, 0.9)[1])


def test_a_reranked_list_has_the_venues_share_of_every_price_at_every_rank():
    levels = [1, 1, 1, 1, 2, 2, 3, None]
    assert reranked([0, 1, 2, 3, 4, 5, 6, 7], levels, 4) == [0, 4, 1, 6, 2, 3, 5, 7]
    rng = np.random.default_rng(0)
    levels = rng.choice([1, 2, 3, 4], size=40, p=[0.3, 0.4, 0.2, 0.1]).tolist()
    shares = {level: levels.count(level) / 40 for level in (1, 2, 3, 4)}
    for _ in range(20):
        ranking = rng.permutation(40).tolist()
        result = reranked(ranking, levels, 20)
        assert sorted(result) == list(range(40))
        assert result[20:] == [item for item in ranking if item not in result[:20]]
        for k in range(1, 21):
            for level, share in shares.items():
                count = sum(levels[item] == level for item in result[:k])
                assert np.floor(share * k + 1e-9) - 1 <= count <= np.ceil(share * k - 1e-9)
        for level in shares:
            mine = [item for item in result if levels[item] == level]
            assert mine == [item for item in ranking if levels[item] == level]
