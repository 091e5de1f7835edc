"""Labels of other entities by classifiers trained on the attribute (Beattie sections 4.2.4, 4.3.3 and 5.2.4).

A label is A or B. Shares have Wilson intervals; disparities between groups are those of fairlearn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from tod_bias.recommenders.embeddings.directions import Direction, fit_classifier, share, split
from tod_bias.recommenders.embeddings.sets import EntitySets
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities, unit
from tod_bias.statistics.adjustment import holm

if TYPE_CHECKING:
    from tod_bias.recommenders.embeddings.interactions import Interactions

TOP_ITEMS = 3
"""Items of a user's history that describe the user (Beattie section 5.2.4)."""

DECILES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Bounds of the share of the larger side in an item's audience (Beattie Table 4)."""
SMALLEST_EXPECTED = 5
"""Cochran's rule: the chi-squared test holds where all expected counts are at least this."""


def audience_deciles(labelled_a: np.ndarray, audience: np.ndarray) -> list[dict[str, Any]]:
    """Return the labels of items by decile of their true audience (Beattie Table 4).

    Args:
        labelled_a: (items,) True for items labelled A.
        audience: (items,) share of A in its audience, in [0, 1]; NaN where unknown, and such items are left out.

    Returns:
        One entry a side and decile, from 50-60% to 90-100% of that side: ``side``, ``from``, ``to``, and the share of
        its items labelled A. An audience of exactly one half belongs to both sides. ``change`` is the test against the
        decile before (section 5.3; :func:`table_test`) with its p-value after Holm over all of them; None for the first
        decile of a side and for deciles without items.
    """
    result: list[dict[str, Any]] = []
    known = ~np.isnan(audience)
    tables: list[tuple[int, int]] = []
    for side, part in (("A", audience), ("B", 1 - audience)):
        for low, high in pairwise(DECILES):
            # Shares are ratios of counts: 0.3 as 1 - 0.7 falls short of 0.7 by rounding alone.
            at = known & (part >= low - 1e-9) & ((part < high - 1e-9) | (high == 1.0))
            labelled = share(int(labelled_a[at].sum()), int(at.sum()))
            counts = (int(labelled_a[at].sum()), int((~labelled_a[at]).sum()))
            change = table_test(tables[-1], counts) if low > DECILES[0] else None
            tables.append(counts)
            result.append({"side": side, "from": low, "to": high, "labelled_A": labelled, "change": change})
    changes = {f"{entry['side']} {entry['from']}": entry["change"] for entry in result if entry["change"]}
    for name, adjusted in holm({name: change["p_value"] for name, change in changes.items()}).items():
        changes[name]["p_holm"] = adjusted
    return result


def table_test(first: tuple[int, int], second: tuple[int, int]) -> dict[str, Any] | None:
    """Test if two groups have the same share of a label.

    Args:
        first: counts of the two labels in the first group.
        second: the same of the second.

    Returns:
        ``test`` and ``p_value``: chi-squared without continuity correction if all expected counts are at least 5
        (Cochran's rule), else Fisher's exact test. None for an empty group.
    """
    table = np.array([first, second])
    if not table.sum(axis=1).all():
        return None
    if stats.contingency.expected_freq(table).min() >= SMALLEST_EXPECTED:
        return {"test": "chi-squared", "p_value": float(stats.chi2_contingency(table, correction=False).pvalue)}
    return {"test": "Fisher", "p_value": float(stats.fisher_exact(table).pvalue)}


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
    """Test if E and P are labelled as expected equally often: Mann-Whitney on right (1) and wrong (0), two-sided."""
    right = np.where(is_first, labelled_a, ~labelled_a).astype(float)
    if not is_first.any() or is_first.all():
        return {"p_value": None, "right_E": None, "right_P": None}
    first, second = right[is_first], right[~is_first]
    p = 1.0 if np.ptp(right) == 0 else float(stats.mannwhitneyu(first, second).pvalue)
    return {"p_value": p, "right_E": float(first.mean()), "right_P": float(second.mean())}


def label_change(before: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    """Test if labels changed between two trainings.

    ``chi_squared`` is the paper's test of the 2 x 2 table of training by label, without continuity correction. That
    test assumes that the two trainings are independent samples, but the same entities are labelled twice. Therefore
    McNemar's exact test on the entities with a changed label is given too.

    Args:
        before: (entities,) True for the label A.
        after: (entities,) the same entities in the other training.
    """
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


def predict_users(a: np.ndarray, b: np.ndarray, users: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, Any]:
    """Predict a user's attribute from the items alone (Beattie section 6.4.2).

    A linear SVC on four fifths of the users, tested on the rest.

    Args:
        a: (users of A, dimensions) centroids of their top items.
        b: the same of B.
        users: the vectors of all users of ``A`` and of ``B``, (users, dimensions) each; their means are two of the four
            centroids.
        seed: of the split.

    Returns:
        ``accuracy`` on the test users, and how many of A are taken for B and of B for A, all with Wilson intervals.
        ``cosines`` has, of those of A and of B that were labelled right and wrong, how many they are and the mean
        cosine of their items' centroids with the four centroids of the paper: users of ``A`` and of ``B``, and items of
        the training users of A (``A_items``) and of B (``B_items``). None where there are none.

    Raises:
        EmbeddingsError: fewer than two users on a side.
    """
    parts = split(len(a), len(b), seed)
    classifier = fit_classifier(a[parts.train_a], b[parts.train_b])
    test_a, test_b = a[parts.test_a], b[parts.test_b]
    as_a, as_b = classifier.predict(test_a), ~classifier.predict(test_b)
    centroids = {role: part.mean(axis=0) for role, part in users.items()}
    centroids |= {"A_items": a[parts.train_a].mean(axis=0), "B_items": b[parts.train_b].mean(axis=0)}
    labelled = {"A_as_A": test_a[as_a], "A_as_B": test_a[~as_a], "B_as_B": test_b[as_b], "B_as_A": test_b[~as_b]}
    return {
        "accuracy": classifier.accuracy(test_a, test_b),
        "A_as_B": share(len(labelled["A_as_B"]), len(test_a)),
        "B_as_A": share(len(labelled["B_as_A"]), len(test_b)),
        "cosines": {name: _mean_cosines(vectors, centroids) for name, vectors in labelled.items()},
        "trained_on": len(parts.train_a) + len(parts.train_b),
    }


def _mean_cosines(vectors: np.ndarray, centroids: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The mean cosine of vectors with each centroid, and how many they are."""
    cosines = {
        name: float((unit(vectors) @ unit(centroid)).mean()) for name, centroid in centroids.items() if len(vectors)
    }
    return {"users": len(vectors), **{name: cosines.get(name) for name in centroids}}


def classify(
    sets: EntitySets,
    directions: Sequence[Direction],
    usable: Collection[str],
    frame: pd.DataFrame,
    interactions: Interactions | None,
) -> dict[str, Any]:
    """Return the results of the directions' classifiers for E, P and the items.

    Args:
        sets: A, B, E and, if there is one, P.
        directions: those without a classifier are ignored.
        usable: names of directions that passed their tests.
        frame: a row per entity of E and P with its labels.
        interactions: determine the audience of the items.
    """
    items = sets.e.entities
    shares = None
    if interactions is not None and items.name == "items" and sets.a.entities.name == "users":
        shares = _audience(interactions, sets, items)
    result: dict[str, Any] = {}
    for part in directions:
        if part.classifier is None:
            continue
        entry: dict[str, Any] = {"usable": part.name in usable}
        if sets.p is not None:
            of_sets = (
                None
                if shares is None or sets.p.entities is not items
                else shares[np.concatenate([sets.e.rows, sets.p.rows])]
            )
            entry |= _of_groups(frame[f"labelled_A_{part.name}"].to_numpy(), frame["set"].eq("E").to_numpy(), of_sets)
        if shares is not None:
            labelled = part.classifier.predict(items.vectors[~items.is_zero])
            entry["audience_deciles"] = audience_deciles(labelled, shares[~items.is_zero])
        result[part.name] = entry
    return result


def _of_groups(labelled: np.ndarray, first: np.ndarray, shares: np.ndarray | None) -> dict[str, Any]:
    """Return how E (where ``first``) and P are labelled, and their disparity, by the true audience if it is known."""
    entry: dict[str, Any] = {
        "groups": group_scores(labelled, first),
        "groups_mann_whitney": group_difference(labelled, first),
    }
    truth = None
    if shares is not None and (known := ~np.isnan(shares)).any():
        truth, labelled, first = shares[known] > 0.5, labelled[known], first[known]
    if first.any() and not first.all():
        entry["disparity"] = disparity(labelled, np.where(first, "E", "P").tolist(), truth)
    return entry


def from_items(
    embeddings: Embeddings, sets: EntitySets, interactions: Interactions, seed: int, notes: list[str]
) -> dict[str, Any]:
    """Predict users' attribute from their items; problems are added to ``notes``."""
    if not {"users", "items"} <= set(embeddings.tables) or sets.a.entities.name != "users":
        return {}
    top = _top(interactions, embeddings, TOP_ITEMS)
    items = embeddings.tables["items"].vectors
    a, b = (history_centroids(items, top, part.rows) for part in (sets.a, sets.b))
    if min(len(a), len(b)) < 2:
        notes.append("fewer than two users of A or B have interactions: users were not predicted from items")
        return {}
    users = {part.role: part.vectors for part in (sets.a, sets.b)}
    return {"users_from_items": predict_users(a, b, users, seed) | {"top_items": TOP_ITEMS}}


def _audience(interactions: Interactions, sets: EntitySets, items: Entities) -> np.ndarray:
    """Share of A among each item's users that are in A or B, in the order of the embeddings' items."""
    a, b = set(sets.a.ids), set(sets.b.ids)
    side = np.array([1 if name in a else 2 if name in b else 0 for name in interactions.user_ids])
    count = len(interactions.item_ids)
    counts = [np.bincount(interactions.item[side[interactions.user] == part], minlength=count) for part in (1, 2)]
    total = counts[0] + counts[1]
    share_a = np.divide(counts[0], total, out=np.full(count, np.nan), where=total > 0)
    known = dict(zip(interactions.item_ids, share_a.tolist(), strict=True))
    return np.array([known.get(name, math.nan) for name in items.ids])


def _top(interactions: Interactions, embeddings: Embeddings, count: int) -> list[np.ndarray]:
    users, items = embeddings.tables["users"], embeddings.tables["items"]
    result = [np.zeros(0, dtype=int)] * len(users)
    rows = items.rows_by_id
    for name, top in zip(interactions.user_ids, interactions.top_items(count), strict=True):
        place = users.rows_by_id.get(name)
        if place is not None:
            known = [rows[interactions.item_ids[item]] for item in top if interactions.item_ids[item] in rows]
            result[place] = np.array([row for row in known if not items.is_zero[row]], dtype=int)
    return result
