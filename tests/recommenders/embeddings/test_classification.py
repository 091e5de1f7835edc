import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import precision_recall_fscore_support
from sklearn.metrics.pairwise import cosine_similarity

from tod_bias.recommenders.embeddings.classification import (
    audience_deciles,
    disparity,
    group_difference,
    group_scores,
    history_centroids,
    label_change,
    predict_users,
    table_test,
)
from tod_bias.recommenders.embeddings.directions import fit_classifier, share, split


def test_deciles_by_hand():
    audience = np.array([0.0, 0.1, 0.3, 0.3, 0.5, 0.55, 0.7, 0.95, 1.0, np.nan])
    labelled = np.array([False, False, True, False, True, False, True, True, True, True])
    rows = {(row["side"], row["from"]): row["labelled_A"] for row in audience_deciles(labelled, audience)}
    assert [(part["value"], part["n"]) for part in rows.values()] == [
        (0.5, 2), (None, 0), (1.0, 1), (None, 0), (1.0, 2),  # A, 50-60%: 0.5, 0.55; 0.7; 0.95, 1.0
        (1.0, 1), (None, 0), (0.5, 2), (None, 0), (0.0, 2),  # B, 50-60%: 0.5; 0.3, 0.3 are 70% B; 0.1 and 0.0
    ]  # fmt: skip


def test_deciles_are_compared_with_the_one_before():
    """20 of 40 items of the first decile and 36 of 40 of the second are labelled A; the third has too few items."""
    audience = np.repeat([0.55, 0.65, 0.75], [40, 40, 4])
    labelled = np.concatenate([np.arange(40) < 20, np.arange(40) < 36, np.arange(4) < 1])
    rows = audience_deciles(labelled, audience)
    assert [row["change"] is None for row in rows] == [True, False, False, *[True] * 7]
    first, second = rows[1]["change"], rows[2]["change"]
    assert first["test"] == "chi-squared"
    assert first["p_value"] == pytest.approx(stats.chi2.sf(80 * (20 * 4 - 20 * 36) ** 2 / (40 * 40 * 56 * 24), 1))
    assert second["test"] == "Fisher"
    hits = stats.hypergeom(44, 37, 4).pmf(np.arange(5))  # of 4 items, 37 of all 44 being labelled A
    assert second["p_value"] == pytest.approx(hits[hits <= hits[1] * (1 + 1e-9)].sum())
    smaller, larger = sorted([first["p_value"], second["p_value"]])
    assert sorted([first["p_holm"], second["p_holm"]]) == pytest.approx([2 * smaller, max(2 * smaller, larger)])


def test_tests_between_deciles_hold_their_level():
    rng = np.random.default_rng(0)
    rejected = {"chi-squared": [], "Fisher": []}
    for _ in range(4000):
        sizes, share_a = rng.integers(3, 60, 2), rng.uniform(0.05, 0.95)
        hits = rng.binomial(sizes, share_a)
        result = table_test(*((int(hit), int(size - hit)) for hit, size in zip(hits, sizes, strict=True)))
        rejected[result["test"]].append(result["p_value"] < 0.05)
    assert min(map(len, rejected.values())) > 1000
    assert 0.03 < np.mean(rejected["chi-squared"]) < 0.065
    assert np.mean(rejected["Fisher"]) < 0.05


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
    expected = stats.chi2_contingency([[30, 10], [20, 20]], correction=False)
    assert result["chi_squared"]["statistic"] == pytest.approx(expected.statistic)
    assert result["chi_squared"]["p_value"] == pytest.approx(expected.pvalue)
    assert (result["mcnemar"]["gained_A"], result["mcnemar"]["lost_A"]) == (2, 12)
    assert result["mcnemar"]["p_value"] == pytest.approx(stats.binomtest(2, 14).pvalue)
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
    users = {"A": a[:, ::-1], "B": b[:, ::-1]}
    result = predict_users(a, b, users)
    assert result["accuracy"]["n"] == 80
    assert result["accuracy"]["value"] > 0.85
    assert result["trained_on"] == 320
    rest = result["A_as_B"]["value"] * 40 + result["B_as_A"]["value"] * 40
    assert rest == pytest.approx(80 * (1 - result["accuracy"]["value"]))
    cosines = result["cosines"]
    assert cosines["A_as_A"]["users"] + cosines["A_as_B"]["users"] == 40
    assert cosines["A_as_B"]["users"] == round(result["A_as_B"]["value"] * 40)
    for name, entry in cosines.items():  # who is taken for the other lies closer to the other's items
        own, other = ("A_items", "B_items") if name[-1] == "A" else ("B_items", "A_items")
        assert entry[own] > entry[other], name
    parts = split(200, 200)
    classifier = fit_classifier(a[parts.train_a], b[parts.train_b])
    wrong = a[parts.test_a][~classifier.predict(a[parts.test_a])]
    centroids = {"A": users["A"].mean(axis=0), "B_items": b[parts.train_b].mean(axis=0)}
    for name, centroid in centroids.items():
        assert cosines["A_as_B"][name] == pytest.approx(cosine_similarity(wrong, [centroid]).mean())
    nothing = predict_users(*rng.normal(size=(2, 200, 4)), users)
    assert 0.3 < nothing["accuracy"]["value"] < 0.7


def test_shares_have_wilson_intervals():
    result = share(8, 10)
    assert result["ci"] == pytest.approx([0.4902, 0.9433], abs=1e-4)  # Wilson 1927, by hand
    assert share(0, 0) == {"value": None, "ci": None, "n": 0}
