"""What the classifiers behind directions say of the test sets, of items and of users (Beattie section 5.2.4)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.recommenders.embeddings.classification import (
    Histories,
    audience_deciles,
    disparity,
    group_difference,
    group_scores,
    history_centroids,
    predict_users,
)
from tod_bias.recommenders.embeddings.direction import Direction
from tod_bias.recommenders.embeddings.sets import EntitySets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities

if TYPE_CHECKING:
    import pandas as pd

    from tod_bias.recommenders.latent_factor.interactions import Interactions


def classify(
    sets: EntitySets,
    directions: Sequence[Direction],
    usable: Collection[str],
    frame: pd.DataFrame,
    interactions: Interactions | None,
    audience: np.ndarray | None,
) -> dict[str, Any]:
    """What the directions' classifiers make of E, P and the items.

    Args:
        sets: A, B, E and, if there is one, P.
        directions: those without a classifier are passed over.
        usable: names of directions that passed their tests.
        frame: a row per entity of E and P with its labels.
        interactions: whose users say what the items' audience is.
        audience: (items,) share of A in each item's audience, instead of what the interactions say.
    """
    items = sets.e.entities
    shares = audience
    if shares is None and interactions is not None and items.name == "items" and sets.a.entities.name == "users":
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
    """How E (where ``first``) and P are labelled, and the disparity between them, by the true audience if known."""
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
    embeddings: Embeddings, sets: EntitySets, interactions: Interactions, chosen: AuditSettings, notes: list[str]
) -> dict[str, Any]:
    """Whether users' attribute can be predicted from their items; ``notes`` gets what could not be done."""
    if not {"users", "items"} <= set(embeddings.tables) or sets.a.entities.name != "users":
        return {}
    top = _top(interactions, embeddings, chosen.top_items)
    items = embeddings.tables["items"].vectors
    histories = Histories(*(history_centroids(items, top, part.rows) for part in (sets.a, sets.b)))
    if min(len(histories.a), len(histories.b)) < 2:
        notes.append("fewer than two users of A or B have interactions: users were not predicted from items")
        return {}
    return {"users_from_items": predict_users(histories, chosen.seed) | {"top_items": chosen.top_items}}


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
