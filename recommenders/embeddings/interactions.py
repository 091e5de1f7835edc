"""Interactions of users with items, from CSV and Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tod_bias.errors import InteractionsError
from tod_bias.recommenders.files import read_frame

_USER, _ITEM = ("user", "user_id", "userId"), ("item", "item_id", "itemId", "movieId")
_WEIGHT = ("weight", "count", "plays", "rating")


@dataclass(frozen=True)
class Interactions:
    """Interactions of users with items, with their weights. Users and items are numbered in the order of their ids'
    tuples."""

    user_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    user: np.ndarray
    """(interactions,) number of the user; each pair of user and item occurs once."""
    item: np.ndarray
    """(interactions,) number of the item."""
    weight: np.ndarray
    """(interactions,) plays, ratings or counts, above 0."""
    users: pd.DataFrame
    """One row a user, in order: ``user_id`` and attributes."""
    items: pd.DataFrame
    """One row an item, in order: ``item_id`` and attributes; several values in one cell are joined by ``|``."""

    def __len__(self) -> int:
        return len(self.user)

    def top_items(self, count: int) -> list[np.ndarray]:
        """Each user's ``count`` items of the largest weight, the more popular and then the earlier one first."""
        popularity = np.bincount(self.item, minlength=len(self.item_ids))
        order = np.lexsort((self.item, -popularity[self.item], -self.weight, self.user))
        ends = np.cumsum(np.bincount(self.user, minlength=len(self.user_ids)))
        return [part[:count] for part in np.split(self.item[order], ends[:-1])]


def interactions_of(
    frame: pd.DataFrame,
    users: pd.DataFrame | None = None,
    items: pd.DataFrame | None = None,
    source: str = "the interactions",
) -> Interactions:
    """Make interactions from frames.

    Args:
        frame: columns of users and items (``user``/``user_id``, ``item``/``item_id``), and of weights (``weight``,
            ``count``, ``plays`` or ``rating``) if they are known; repeated pairs are summed.
        users: ids and attributes of users; users without interactions are left out.
        items: ids and attributes of items; likewise.
        source: for messages.

    Raises:
        InteractionsError: a column is missing, a weight is not a positive number, or no id has interactions.
    """
    user, item = _column(frame, _USER, "users", source), _column(frame, _ITEM, "items", source)
    weight = next((name for name in _WEIGHT if name in frame), None)
    every = pd.DataFrame({"user": frame[user], "item": frame[item], "weight": 1.0})
    if weight is not None:
        every["weight"] = pd.to_numeric(frame[weight], errors="coerce")
    if every.empty:
        raise InteractionsError(f"{source}: no interactions")
    wrong = every.isna().any(axis=1) | ~(every["weight"] > 0) | np.isinf(every["weight"])
    if wrong.any():
        line = int(np.argmax(wrong))
        raise InteractionsError(
            f"{source}, line {line + 2}: expected {user}, {item}"
            + (f" and {weight}, a number above 0" if weight else "")
        )
    every = every.astype({"user": str, "item": str})
    pairs = every.groupby(["user", "item"], sort=False)["weight"].sum().reset_index()
    user_frame = _described(pairs["user"], users, _USER, "user_id", source)
    item_frame = _described(pairs["item"], items, _ITEM, "item_id", source)
    user_ids, item_ids = tuple(user_frame["user_id"]), tuple(item_frame["item_id"])
    return Interactions(
        user_ids,
        item_ids,
        pd.Index(user_ids).get_indexer(pairs["user"]),
        pd.Index(item_ids).get_indexer(pairs["item"]),
        pairs["weight"].to_numpy(),
        user_frame,
        item_frame,
    )


def _column(frame: pd.DataFrame, names: tuple[str, ...], what: str, source: str) -> str:
    for name in (*names, "id"):
        if name in frame:
            return name
    raise InteractionsError(
        f"{source}: no column of {what} among {', '.join(map(str, frame.columns))}; name it {names[0]}"
    )


def _described(
    seen: pd.Series, described: pd.DataFrame | None, names: tuple[str, ...], key: str, source: str
) -> pd.DataFrame:
    """Return a row for each user or item: first those with attributes, in their order."""
    everybody = pd.DataFrame({key: seen.unique()})
    if described is None:
        return everybody
    frame = described.rename(columns={_column(described, names, key, source): key}).astype({key: str})
    if (doubled := frame[key].duplicated()).any():
        raise InteractionsError(f"{source}: {key} {frame.loc[doubled, key].iloc[0]!r} stands twice")
    frame = frame[frame[key].isin(everybody[key])]
    rest = everybody[~everybody[key].isin(frame[key])]
    frame = pd.concat([frame, rest], ignore_index=True)
    return frame[[key, *frame.columns.drop(key)]]


def load_interactions(
    path: str | Path, users: str | Path | None = None, items: str | Path | None = None
) -> Interactions:
    """Read interactions, every rating or play counting as one.

    Args:
        path: CSV, TSV or Parquet.
        users: attributes of users, CSV, TSV or Parquet.
        items: attributes of items, likewise.

    Raises:
        TodBiasError: a file cannot be read, or is not what is expected.
    """
    people, shelf = (None if part is None else read_frame(part) for part in (users, items))
    return interactions_of(read_frame(path), people, shelf, str(path))
