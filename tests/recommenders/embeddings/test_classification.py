import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import precision_recall_fscore_support

from tod_bias.recommenders.embeddings.classification import (
    audience_deciles,
    disparity,
    group_difference,
    group_scores,
    history_centroids,
    label_change,
    predict_users,
)
from tod_bias.recommenders.embeddings.directions import share


def test_deciles_by_hand():
    audience = np.array([0.0, 0.1, 0.3, 0.3, 0.5, 0.55, 0.7, 0.95, 1.0, np.nan])
    labelled = np.array([False, False, True, False, True, False, True, True, True, True])
    rows = {(row["side"], row["from"]): row["labelled_A"] for row in audience_deciles(labelled, audience)}
    assert [(part["value"], part["n"]) for part in rows.values()] == [
        (0.5, 2),  # A 50-60%: 0.5, 0.55
        (None, 0),
        (1.0, 1),  # 0.7
        (None, 0),
        (1.0, 2),  # 0.95, 1.0
        (1.0, 1),  # B 50-60%: 0.5
        (None, 0),
        (0.5, 2),  # 0.3, 0.3 are 70% B
        (None, 0),
        (0.0, 2),  # 0.1 and 0.0
    ]


def test_group_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    first, labelled = rng.random(60) < 0.4, rng.random(60) < 0.6
    result = group_scores(labelled, first)
    precision, recall, f1, _ = precision_recall_fscore_support(first, labelled, labels=[True, False])
    for place, role in enumerate("EP"):
        assert result[role]["precision"]["value"] == pytest.approx(precision[place])
        assert result[role]["recall"]["value"] == pytest.approx(recall[place])
        assert result[role]["f1"] == pytest.approx(f1[place])


def test_chi_squared_and_mcnemar():
    before = np.array([True] * 30 + [False] * 10)
    after = np.array([True] * 18 + [False] * 12 + [True] * 2 + [False] * 8)
    result = label_change(before, after)
    table = np.array([[30, 10], [20, 20]])
    expected = (
        (table - np.outer(table.sum(1), table.sum(0)) / 80) ** 2 / (np.outer(table.sum(1), table.sum(0)) / 80)
    ).sum()
    assert result["chi_squared"]["statistic"] == pytest.approx(expected)
    assert result["chi_squared"]["p_value"] == pytest.approx(stats.chi2.sf(expected, 1))
    assert (result["mcnemar"]["gained_A"], result["mcnemar"]["lost_A"]) == (2, 12)
    tail = sum(stats.binom.pmf(k, 14, 0.5) for k in range(3))
    assert result["mcnemar"]["p_value"] == pytest.approx(2 * tail)
    same = label_change(before, before)
    assert same["chi_squared"]["p_value"] == same["mcnemar"]["p_value"] == 1
    assert label_change(before[:30], before[:30])["chi_squared"]["p_value"] == 1


def test_difference_between_groups_is_mann_whitney():
    labelled = np.array([True] * 18 + [False] * 2 + [False] * 9 + [True] * 11)
    first = np.arange(40) < 20
    result = group_difference(labelled, first)
    right = [[1] * 18 + [0] * 2, [1] * 9 + [0] * 11]
    assert result["p_value"] == pytest.approx(stats.mannwhitneyu(*right).pvalue)
    assert (result["right_E"], result["right_P"]) == (0.9, 0.45)
    assert group_difference(first, first)["p_value"] == 1


def test_disparity_by_hand():
    labelled = np.array([True, True, False, False, True, False, False, False])
    truth = np.array([True, False, True, False, True, False, True, False])
    result = disparity(labelled, list("eeeepppp"), truth)
    assert result["demographic_parity_difference"] == pytest.approx(0.25)
    # true positive rates 1/2 and 1/2, false positive rates 1/2 and 0
    assert result["equalized_odds_difference"] == pytest.approx(0.5)
    assert disparity(labelled, list("eeeepppp"))["equalized_odds_difference"] is None
    one_label = disparity(labelled, list("eeeepppp"), np.array([True] * 4 + [False] * 4))
    assert one_label["equalized_odds_difference"] is None


def test_histories_are_centroids_of_top_items():
    items = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    top = [np.array([0, 1]), np.array([], dtype=int), np.array([2])]
    result = history_centroids(items, top, np.array([0, 1, 2]))
    assert result == pytest.approx(np.array([[0.5, 0.5], [np.sqrt(0.5), np.sqrt(0.5)]]))


def test_users_are_predicted_from_items_where_they_differ():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200, 4)) + np.array([[[1.5, 0, 0, 0]], [[-1.5, 0, 0, 0]]])
    result = predict_users(a, b)
    assert result["accuracy"]["n"] == 80
    assert result["accuracy"]["value"] > 0.85
    assert result["trained_on"] == 320
    rest = result["A_as_B"]["value"] * 40 + result["B_as_A"]["value"] * 40
    assert rest == pytest.approx(80 * (1 - result["accuracy"]["value"]))
    nothing = predict_users(*rng.normal(size=(2, 200, 4)))
    assert 0.3 < nothing["accuracy"]["value"] < 0.7


def test_shares_have_wilson_intervals():
    result = share(8, 10)
    assert result["ci"] == pytest.approx([0.4902, 0.9433], abs=1e-4)  # Wilson 1927, by hand
    assert share(0, 0) == {"value": None, "ci": None, "n": 0}
