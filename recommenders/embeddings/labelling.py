"""What the classifiers behind directions say of the test sets, of items and of users (Beattie section 5.2.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from tod_bias.recommenders.embeddings.significance import Verdict
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities

if TYPE_CHECKING:
    import pandas as pd

    from tod_bias.recommenders.latent_factor.interactions import Interactions


def classify(
    embeddings: Embeddings,
    sets: EntitySets,
    directions: Sequence[Direction],
    verdicts: Mapping[str, Verdict | None],
    frame: pd.DataFrame,
    chosen: AuditSettings,
    interactions: Interactions | None,
    audience: np.ndarray | None,
    notes: list[str],
) -> dict[str, Any]:
    """What the directions' classifiers make of E, P, the items and the users; adds to ``notes`` what was left out."""
    table = sets.e.entities
    shares = audience
    if shares is None and interactions is not None and table.name == "items" and sets.a.entities.name == "users":
        shares = _audience(interactions, sets, table)
    result: dict[str, Any] = {}
    usable_rows = ~table.is_zero
    for part in directions:
        if part.classifier is None:
            continue
        verdict = verdicts[part.name]
        entry: dict[str, Any] = {"usable": bool(verdict and verdict.significant)}
        labelled = frame[f"labelled_A_{part.name}"].to_numpy()
        if sets.p is not None:
            first = (frame["set"] == "E").to_numpy()
            entry["groups"] = group_scores(labelled, first)
            entry["groups_mann_whitney"] = group_difference(labelled, first)
            truth = None
            if shares is not None and sets.p.entities is table:
                truth_shares = shares[np.concatenate([sets.e.rows, sets.p.rows])]
                known = ~np.isnan(truth_shares)
                if known.any():
                    truth = truth_shares[known] > 0.5
                    labelled, first = labelled[known], first[known]
            names = np.where(first, "E", "P")
            if len(set(names.tolist())) == 2:
                entry["disparity"] = disparity(labelled, names.tolist(), truth)
        if shares is not None:
            everything = part.classifier.predict(table.vectors[usable_rows])
            entry["audience_deciles"] = audience_deciles(everything, shares[usable_rows])
        result[part.name] = entry
    if interactions is not None and {"users", "items"} <= set(embeddings.tables) and sets.a.entities.name == "users":
        top = _top(interactions, embeddings, chosen.top_items)
        items = embeddings.tables["items"].vectors
        histories = Histories(*(history_centroids(items, top, part.rows) for part in (sets.a, sets.b)))
        if min(len(histories.a), len(histories.b)) >= 2:
            result["users_from_items"] = predict_users(histories, chosen.seed) | {"top_items": chosen.top_items}
        else:
            notes.append("fewer than two users of A or B have interactions: users were not predicted from items")
    return result


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
