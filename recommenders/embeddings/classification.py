"""What classifiers trained on the attribute make of other entities (Beattie sections 4.2.4, 4.3.3 and 5.2.4).

A label is A or B. Shares have Wilson intervals; disparities between groups are those of fairlearn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tod_bias.errors import EmbeddingsError
from tod_bias.recommenders.embeddings.direction import LinearClassifier, fit_classifier, split
from tod_bias.recommenders.embeddings.vectors import unit
from tod_bias.statistics.intervals import wilson_interval

DECILES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Bounds of the share of the larger side in an item's audience (Beattie Table 4)."""


def share(hits: int, trials: int) -> dict[str, Any]:
    """A share with its 95% Wilson interval; None without trials."""
    if not trials:
        return {"value": None, "ci": None, "n": 0}
    return {"value": hits / trials, "ci": list(wilson_interval(hits, trials)), "n": trials}


def accuracy(classifier: LinearClassifier, a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
    """Share of A and B that is labelled right (Beattie Table 1), in [0, 1]."""
    return share(*classifier.right(a, b))


def audience_deciles(labelled_a: np.ndarray, audience: np.ndarray) -> list[dict[str, Any]]:
    """How items are labelled, by decile of their true audience (Beattie Table 4).

    Args:
        labelled_a: (items,) true where an item is labelled A.
        audience: (items,) share of A in its audience, in [0, 1]; NaN where unknown, and such items are left out.

    Returns:
        One entry a side and decile, from 50-60% to 90-100% of that side: ``side``, ``from``, ``to``, and the share of
        its items labelled A. An audience of exactly one half stands on both sides.
    """
    result = []
    known = ~np.isnan(audience)
    for side, part in (("A", audience), ("B", 1 - audience)):
        for low, high in pairwise(DECILES):
            # Shares are ratios of counts: 0.3 as 1 - 0.7 falls short of 0.7 by rounding alone.
            at = known & (part >= low - 1e-9) & ((part < high - 1e-9) | (high == 1.0))
            labelled = share(int(labelled_a[at].sum()), int(at.sum()))
            result.append({"side": side, "from": low, "to": high, "labelled_A": labelled})
    return result


def group_scores(labelled_a: np.ndarray, is_first: np.ndarray) -> dict[str, dict[str, Any]]:
    """Precision, recall and F1 of labelling E as A and P as B (Beattie Table 5), each in [0, 1].

    Args:
        labelled_a: (entities,) true where labelled A.
        is_first: (entities,) true for E, whose expected label is A; false for P, whose expected label is B.

    Returns:
        For ``E`` and ``P``: ``precision`` and ``recall`` with Wilson intervals, ``f1``; None where undefined. The
        precision depends on how large E and P are.
    """
    result: dict[str, dict[str, Any]] = {}
    for name, wanted, got in (("E", is_first, labelled_a), ("P", ~is_first, ~labelled_a)):
        hits = int((wanted & got).sum())
        precision, recall = share(hits, int(got.sum())), share(hits, int(wanted.sum()))
        total = int(got.sum() + wanted.sum())
        result[name] = {"precision": precision, "recall": recall, "f1": 2 * hits / total if total else None}
    return result


def group_difference(labelled_a: np.ndarray, is_first: np.ndarray) -> dict[str, Any]:
    """Are E and P labelled as expected equally often? Mann-Whitney on right (1) and wrong (0), two-sided."""
    from scipy import stats

    right = np.where(is_first, labelled_a, ~labelled_a).astype(float)
    if not is_first.any() or is_first.all():
        return {"p_value": None, "right_E": None, "right_P": None}
    first, second = right[is_first], right[~is_first]
    p = 1.0 if np.ptp(right) == 0 else float(stats.mannwhitneyu(first, second).pvalue)
    return {"p_value": p, "right_E": float(first.mean()), "right_P": float(second.mean())}


def label_change(before: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    """Did labels change between two trainings?

    ``chi_squared`` is the paper's test of the 2 x 2 table of training by label, without continuity correction. It takes
    the two trainings for independent samples, which they are not where the same entities are labelled twice; so
    McNemar's exact test on the entities whose label changed stands beside it.

    Args:
        before: (entities,) true where labelled A.
        after: (entities,) the same entities in the other training.
    """
    from scipy import stats

    table = np.array([[before.sum(), (~before).sum()], [after.sum(), (~after).sum()]])
    result: dict[str, Any] = {
        "labelled_A": [share(int(part.sum()), len(part)) for part in (before, after)],
        "chi_squared": None,
    }
    if table.sum(axis=0).all():
        outcome = stats.chi2_contingency(table, correction=False)
        result["chi_squared"] = {"statistic": float(outcome.statistic), "p_value": float(outcome.pvalue)}
    else:
        result["chi_squared"] = {"statistic": 0.0, "p_value": 1.0}  # both trainings give every entity the same label
    gained, lost = int((~before & after).sum()), int((before & ~after).sum())
    p = float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    result["mcnemar"] = {"gained_A": gained, "lost_A": lost, "p_value": p}
    return result


def disparity(labelled_a: np.ndarray, groups: Sequence[str], truth_a: np.ndarray | None = None) -> dict[str, Any]:
    """Demographic parity and equalised odds (Hardt et al. 2016) between groups of entities.

    Args:
        labelled_a: (entities,) true where labelled A.
        groups: one name an entity.
        truth_a: (entities,) true where A is the right label, e.g. where most of an item's audience is in A.

    Returns:
        ``demographic_parity_difference``: largest difference of the share labelled A, in [0, 1], 0 for parity;
        ``equalized_odds_difference``: larger of the differences in true and false positive rate, None without truth or
        where a group lacks one of the true labels.
    """
    names, labelled = np.asarray(groups), np.asarray(labelled_a, dtype=bool)
    distinct = sorted(set(names.tolist()))

    def spread(chosen: np.ndarray) -> float:
        shares = [labelled[chosen & (names == name)].mean() for name in distinct]
        return float(max(shares) - min(shares))

    odds = None
    if truth_a is not None:
        truth = np.asarray(truth_a, dtype=bool)
        if all(0 < truth[names == name].mean() < 1 for name in distinct):
            odds = max(spread(truth), spread(~truth))
    return {
        "groups": distinct,
        "demographic_parity_difference": spread(np.ones(len(names), dtype=bool)),
        "equalized_odds_difference": odds,
    }


@dataclass(frozen=True)
class Histories:
    """Users described by the centroid of their top items."""

    a: np.ndarray
    """(users of A with items, dimensions)."""
    b: np.ndarray


def history_centroids(items: np.ndarray, top: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Centroid of each user's top items, (users with at least one item, dimensions).

    Args:
        items: (items, dimensions).
        top: one array of item rows a user.
        rows: users to describe.
    """
    centroids = [unit(items[top[row]]).mean(axis=0) for row in rows if len(top[row])]
    remaining = [centroid for centroid in centroids if centroid.any()]
    return np.array(remaining).reshape(-1, items.shape[1])


def predict_users(histories: Histories, seed: int = 0) -> dict[str, Any]:
    """Can a user's attribute be predicted from the items alone (Beattie section 6.4.2)?

    A linear SVC on four fifths of the users, tested on the rest.

    Returns:
        ``accuracy`` on the test users, and how many of A are taken for B and of B for A, all with Wilson intervals.

    Raises:
        EmbeddingsError: fewer than two users of A or B have items.
    """
    if min(len(histories.a), len(histories.b)) < 2:
        raise EmbeddingsError("fewer than two users of A or of B have items; no classifier can be trained")
    parts = split(len(histories.a), len(histories.b), seed)
    classifier = fit_classifier(histories.a[parts.train_a], histories.b[parts.train_b])
    test_a, test_b = histories.a[parts.test_a], histories.b[parts.test_b]
    wrong_a, wrong_b = int((~classifier.predict(test_a)).sum()), int(classifier.predict(test_b).sum())
    return {
        "accuracy": accuracy(classifier, test_a, test_b),
        "A_as_B": share(wrong_a, len(test_a)),
        "B_as_A": share(wrong_b, len(test_b)),
        "trained_on": len(parts.train_a) + len(parts.train_b),
    }
