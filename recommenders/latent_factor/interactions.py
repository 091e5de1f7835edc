"""Interactions of users with items, from CSV and Parquet files and from MovieLens' and Last.FM's own layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.errors import InteractionsError
from tod_bias.files import write_table
from tod_bias.folder import writable
from tod_bias.recommenders.files import read_frame

if TYPE_CHECKING:
    import pandas as pd

_USER, _ITEM = ("user", "user_id", "userId"), ("item", "item_id", "itemId", "movieId")
_WEIGHT = ("weight", "count", "plays", "rating")


@dataclass(frozen=True)
class Interactions:
    """Who had to do with what, and how much. Users and items are numbered in the order of their ids' tuples."""

    user_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    user: np.ndarray
    """(interactions,) number of the user; each pair of user and item stands once."""
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
    """Interactions from frames.

    Args:
        frame: columns of users and items (``user``/``user_id``, ``item``/``item_id``), and of weights (``weight``,
            ``count``, ``plays`` or ``rating``) where they are known; repeated pairs are summed.
        users: ids and attributes of users; users without interactions are left out.
        items: ids and attributes of items; likewise.
        source: for messages.

    Raises:
        InteractionsError: a column is missing, a weight is no positive number, or an id has no interaction at all.
    """
    import pandas as pd

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
    """A row for everybody who is seen: first those that are described, in that order."""
    import pandas as pd

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
    """Read interactions from a file or a folder.

    A file is CSV, TSV or Parquet, with ``users`` and ``items`` as files of attributes beside it. A folder is one of
    ``interactions.csv|parquet`` with ``users.…`` and ``items.…``; MovieLens 100K (``u.data``), 1M (``ratings.dat``),
    20M and later (``ratings.csv``); Last.FM 360K (``usersha1-artmbid-artname-plays.tsv``), 1K
    (``userid-timestamp-artid-artname-traid-traname.tsv``). Every rating or play counts as an interaction.

    Raises:
        InteractionsError: no such file, or none of these layouts.
    """
    place = Path(path)
    if place.is_dir():
        for name, reader in LAYOUTS.items():
            if (place / name).is_file():
                return reader(place)
        raise InteractionsError(
            f"{place}: none of the files {', '.join(LAYOUTS)} is there; give a file of interactions"
        )
    people, shelf = (None if part is None else read_frame(part) for part in (users, items))
    return interactions_of(read_frame(place), people, shelf, str(place))


def _saved_as(suffix: str) -> Callable[[Path], Interactions]:
    def read(folder: Path) -> Interactions:
        beside = [folder / f"{name}{suffix}" for name in ("users", "items")]
        return load_interactions(
            folder / f"interactions{suffix}", *(file if file.is_file() else None for file in beside)
        )

    return read


def _bare(file: Path, names: list[str], sep: str = "\t", **options: Any) -> pd.DataFrame:
    """A table without a header or quotes."""
    return read_frame(file, sep=sep, names=names, header=None, quoting=3, **options)


def _movielens_100k(folder: Path) -> Interactions:
    latin: dict[str, Any] = {"encoding": "latin-1"}
    ratings = _bare(folder / "u.data", ["user", "item", "rating", "timestamp"])
    users = _bare(folder / "u.user", ["user_id", "age", "gender", "occupation", "zip"], "|", **latin)
    genres = _bare(folder / "u.genre", ["genre", "number"], "|", **latin)["genre"].tolist()
    movies = _bare(folder / "u.item", ["item_id", "title", "released", "video", "url", *genres], "|", **latin)
    flags = movies[genres] == "1"
    movies["genre"] = ["|".join(flags.columns[row]) for row in flags.to_numpy()]
    return interactions_of(ratings, users, movies[["item_id", "title", "genre"]], str(folder))


def _movielens_1m(folder: Path) -> Interactions:
    how: dict[str, Any] = {"sep": "::", "encoding": "latin-1", "engine": "python"}
    ratings = _bare(folder / "ratings.dat", ["user", "item", "rating", "timestamp"], **how)
    users = _bare(folder / "users.dat", ["user_id", "gender", "age", "occupation", "zip"], **how)
    movies = _bare(folder / "movies.dat", ["item_id", "title", "genre"], **how)
    return interactions_of(ratings, users, movies, str(folder))


def _movielens(folder: Path) -> Interactions:
    movies = read_frame(folder / "movies.csv").rename(columns={"movieId": "item_id", "genres": "genre"})
    return interactions_of(read_frame(folder / "ratings.csv"), None, movies, str(folder))


def _lastfm_360k(folder: Path) -> Interactions:
    import pandas as pd

    plays = _bare(folder / _LASTFM_360K, ["user", "artist_id", "item", "plays"])
    plays = plays[pd.to_numeric(plays["plays"], errors="coerce") > 0].dropna(subset=["item"])  # a few rows have none
    users = _bare(folder / "usersha1-profile.tsv", ["user_id", "gender", "age", "country", "signup"])
    return interactions_of(plays.reset_index(drop=True), users, None, str(folder))


def _lastfm_1k(folder: Path) -> Interactions:
    columns = ["user", "timestamp", "artist_id", "item", "track_id", "track"]
    plays = _bare(folder / _LASTFM_1K, columns, usecols=["user", "item"]).dropna()
    users = read_frame(folder / "userid-profile.tsv").rename(columns={"#id": "user_id", "id": "user_id"})
    return interactions_of(plays.reset_index(drop=True), users, None, str(folder))


_LASTFM_360K = "usersha1-artmbid-artname-plays.tsv"
_LASTFM_1K = "userid-timestamp-artid-artname-traid-traname.tsv"
LAYOUTS: dict[str, Callable[[Path], Interactions]] = {
    "interactions.csv": _saved_as(".csv"),
    "interactions.parquet": _saved_as(".parquet"),
    "u.data": _movielens_100k,
    "ratings.dat": _movielens_1m,
    "ratings.csv": _movielens,
    _LASTFM_360K: _lastfm_360k,
    _LASTFM_1K: _lastfm_1k,
}
"""The file that tells a folder's layout, and its reader."""


def save_interactions(interactions: Interactions, folder: str | Path) -> None:
    """Write ``interactions.csv``, ``users.csv`` and ``items.csv``, which :func:`load_interactions` reads."""
    import pandas as pd

    place = writable(folder)
    names = np.array(interactions.user_ids)[interactions.user], np.array(interactions.item_ids)[interactions.item]
    frame = pd.DataFrame({"user": names[0], "item": names[1], "weight": interactions.weight})
    write_table(place / "interactions.csv", frame)
    write_table(place / "users.csv", interactions.users)
    write_table(place / "items.csv", interactions.items)
