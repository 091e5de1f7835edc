"""Interactions of users with items, from CSV and Parquet files and from MovieLens' and Last.FM's own layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.documents import check_columns, check_plain
from tod_bias.errors import InteractionsError
from tod_bias.files import write_table
from tod_bias.folder import writable

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

    @property
    def popularity(self) -> np.ndarray:
        """(items,) users of each item."""
        return np.bincount(self.item, minlength=len(self.item_ids))

    def top_items(self, count: int) -> list[np.ndarray]:
        """Each user's ``count`` items of the largest weight, the more popular and then the earlier one first."""
        order = np.lexsort((self.item, -self.popularity[self.item], -self.weight, self.user))
        ends = np.cumsum(np.bincount(self.user, minlength=len(self.user_ids)))
        return [part[:count] for part in np.split(self.item[order], ends[:-1])]

    def audience(self, attribute: str, value: str, other: str) -> np.ndarray:
        """(items,) share of users with ``value`` among an item's users with ``value`` or ``other``; NaN without any.

        Raises:
            InteractionsError: users have no such attribute.
        """
        if attribute not in self.users:
            raise InteractionsError(
                f"users have no attribute {attribute!r}; known: {', '.join(self.users.columns[1:]) or 'none'}"
            )
        column = self.users[attribute].astype(str).to_numpy()
        counts = [
            np.bincount(self.item[(column == wanted)[self.user]], minlength=len(self.item_ids))
            for wanted in (value, other)
        ]
        total = counts[0] + counts[1]
        return np.divide(counts[0], total, out=np.full(len(total), np.nan), where=total > 0)


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
    if frame.empty:
        raise InteractionsError(f"{source}: no interactions")
    missing = np.flatnonzero((frame[user].isna() | frame[item].isna()).to_numpy())
    if len(missing):
        raise InteractionsError(f"{source}, line {missing[0] + 2}: no {user} or no {item}")
    weights = next((name for name in _WEIGHT if name in frame), None)
    values = pd.to_numeric(frame[weights], errors="coerce") if weights else pd.Series(1.0, index=frame.index)
    bad = np.flatnonzero(~(values > 0).to_numpy() | ~np.isfinite(values.to_numpy(dtype=float)))
    if len(bad):
        got = frame[weights].iloc[bad[0]]
        raise InteractionsError(f"{source}, line {bad[0] + 2}: {weights} {got!r}: expected a number above 0")
    every = pd.DataFrame({"user": frame[user].map(str), "item": frame[item].map(str), "weight": values.astype(float)})
    pairs = every.groupby(["user", "item"], sort=False)["weight"].sum().reset_index()
    user_ids, user_frame = _order(pairs["user"], users, _USER, "user_id", source)
    item_ids, item_frame = _order(pairs["item"], items, _ITEM, "item_id", source)
    return Interactions(
        user_ids,
        item_ids,
        pairs["user"].map({name: number for number, name in enumerate(user_ids)}).to_numpy(),
        pairs["item"].map({name: number for number, name in enumerate(item_ids)}).to_numpy(),
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


def _order(
    seen: pd.Series, described: pd.DataFrame | None, names: tuple[str, ...], key: str, source: str
) -> tuple[tuple[str, ...], pd.DataFrame]:
    import pandas as pd

    known = dict.fromkeys(seen)
    if described is None:
        ids = tuple(known)
        return ids, pd.DataFrame({key: ids})
    column = _column(described, names, key, source)
    frame = described.rename(columns={column: key}).astype({key: str})
    if frame[key].duplicated().any():
        raise InteractionsError(f"{source}: {key} {frame.loc[frame[key].duplicated(), key].iloc[0]!r} stands twice")
    left = frame[frame[key].isin(known)]
    rest = [name for name in known if name not in set(left[key])]
    frame = pd.concat([left, pd.DataFrame({key: rest})], ignore_index=True) if rest else left.reset_index(drop=True)
    return tuple(frame[key]), frame[[key, *[name for name in frame if name != key]]]


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


def read_frame(path: str | Path, **options: Any) -> pd.DataFrame:
    """A CSV, TSV or Parquet file as a frame, ids as text.

    Raises:
        InteractionsError: it cannot be read.
    """
    import pandas as pd

    file = Path(path)
    options = {"sep": "\t" if file.suffix == ".tsv" else ",", "dtype": str, **options}
    try:
        if file.suffix == ".parquet":
            check_plain(file)
            return pd.read_parquet(file, engine="pyarrow")
        check_columns(file, options["sep"])
        return pd.read_csv(file, **options)
    except (OSError, ValueError, UnicodeDecodeError) as error:  # pandas' own parsing errors are ValueErrors
        raise InteractionsError(f"{file}: cannot be read as a table: {' '.join(str(error).split())}") from error


def _saved_as(suffix: str) -> Callable[[Path], Interactions]:
    def read(folder: Path) -> Interactions:
        beside = [folder / f"{name}{suffix}" for name in ("users", "items")]
        return load_interactions(
            folder / f"interactions{suffix}", *(file if file.is_file() else None for file in beside)
        )

    return read


def _movielens_100k(folder: Path) -> Interactions:
    plain = {"header": None, "encoding": "latin-1"}
    ratings = read_frame(folder / "u.data", sep="\t", names=["user", "item", "rating", "timestamp"], **plain)
    people = ["user_id", "age", "gender", "occupation", "zip"]
    users = read_frame(folder / "u.user", sep="|", names=people, **plain)
    genres = read_frame(folder / "u.genre", sep="|", names=["genre", "number"], **plain)["genre"].tolist()
    columns = ["item_id", "title", "released", "video", "url", *genres]
    movies = read_frame(folder / "u.item", sep="|", names=columns, **plain)
    flags = movies[genres] == "1"
    movies["genre"] = ["|".join(flags.columns[row]) for row in flags.to_numpy()]
    return interactions_of(ratings, users, movies[["item_id", "title", "genre"]], str(folder))


def _movielens_1m(folder: Path) -> Interactions:
    def read(name: str, columns: list[str]) -> pd.DataFrame:
        return read_frame(folder / name, sep="::", names=columns, header=None, encoding="latin-1", engine="python")

    ratings = read("ratings.dat", ["user", "item", "rating", "timestamp"])
    users = read("users.dat", ["user_id", "gender", "age", "occupation", "zip"])
    return interactions_of(ratings, users, read("movies.dat", ["item_id", "title", "genre"]), str(folder))


def _movielens(folder: Path) -> Interactions:
    movies = read_frame(folder / "movies.csv").rename(columns={"movieId": "item_id", "genres": "genre"})
    return interactions_of(read_frame(folder / "ratings.csv"), None, movies, str(folder))


def _lastfm_360k(folder: Path) -> Interactions:
    import pandas as pd

    plain: dict[str, Any] = {"sep": "\t", "header": None, "quoting": 3}
    plays = read_frame(folder / _LASTFM_360K, names=["user", "artist_id", "item", "plays"], **plain)
    plays = plays[pd.to_numeric(plays["plays"], errors="coerce") > 0].dropna(subset=["item"])  # a few rows have none
    people = ["user_id", "gender", "age", "country", "signup"]
    users = read_frame(folder / "usersha1-profile.tsv", names=people, **plain)
    return interactions_of(plays.reset_index(drop=True), users, None, str(folder))


def _lastfm_1k(folder: Path) -> Interactions:
    plain: dict[str, Any] = {"sep": "\t", "header": None, "quoting": 3}
    columns = ["user", "timestamp", "artist_id", "item", "track_id", "track"]
    plays = read_frame(folder / _LASTFM_1K, names=columns, usecols=["user", "item"], **plain).dropna()
    users = read_frame(folder / "userid-profile.tsv", sep="\t").rename(columns={"#id": "user_id", "id": "user_id"})
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
