"""Seeded interactions with a known association of an attribute of users with genres of items.

Users have a ``gender`` (half female, half male) and a ``region`` (half north, half south), a control on which nothing
depends. An item has one genre. A user's taste in a genre is a normal draw; women's taste in ``crime`` and men's in
``sport`` is raised by ``strength``, men's in ``crime`` and women's in ``sport`` lowered by it. Genres are drawn with
probability proportional to exp(taste), items within a genre by their popularity (Zipf).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from tod_bias.errors import InteractionsError
from tod_bias.recommenders.embeddings.interactions import Interactions, interactions_of

GENRES = ("crime", "sport", "news", "comedy", "science", "history", "music", "business")
LEANS = {"crime": 1.0, "sport": -1.0}
"""Genre to its lean towards women, in units of the strength."""


STRENGTH = 0.7


def synthetic_interactions(
    *,
    users: int = 1000,
    items: int = 320,
    events: int = 40,
    strength: float = STRENGTH,
    spread: float = 0.8,
    seed: int = 0,
) -> Interactions:
    """Draw interactions.

    Args:
        users: how many, at least 4.
        items: how many, at least one a genre.
        events: mean number of events a user; repeated ones add up to a weight.
        strength: of the association: log of the factor by which women's taste in crime and men's in sport is raised,
            and the other two are lowered; 0 for none.
        spread: standard deviation of tastes between users.
        seed: of everything.

    Raises:
        InteractionsError: too few users or items, or a negative or infinite strength.
    """
    if users < 4 or items < len(GENRES) or events < 1:
        raise InteractionsError(f"{users} users, {items} items, {events} events: expected 4, {len(GENRES)}, 1 or more")
    if not math.isfinite(strength) or strength < 0:
        raise InteractionsError(f"strength {strength}: expected a number of 0 or more")
    rng = np.random.default_rng(seed)
    female = np.arange(users) % 2 == 0
    north = rng.permutation(users) % 2 == 0
    genre = np.arange(items) % len(GENRES)
    popularity = 1 / (1 + rng.permutation(items) // len(GENRES)) ** 0.7
    taste = rng.normal(0, spread, (users, len(GENRES)))  # (users, genres)
    lean = np.array([LEANS.get(name, 0.0) for name in GENRES])
    taste += strength * np.outer(np.where(female, 1.0, -1.0), lean)
    shares = np.exp(taste)
    shares /= shares.sum(axis=1, keepdims=True)
    count = 3 + rng.poisson(max(0, events - 3), users)
    owner = np.repeat(np.arange(users), count)
    chosen = (rng.random(len(owner))[:, None] > shares.cumsum(axis=1)[owner]).sum(axis=1)
    chosen = np.minimum(chosen, len(GENRES) - 1)  # where rounding leaves the last sum below the draw
    item = np.empty(len(owner), dtype=int)
    for number in range(len(GENRES)):
        members = np.flatnonzero(genre == number)
        weights = popularity[members] / popularity[members].sum()
        at = np.flatnonzero(chosen == number)
        item[at] = rng.choice(members, size=len(at), p=weights)
    names = np.array([f"u{number:05d}" for number in range(users)])
    titles = np.array([f"i{number:05d}" for number in range(items)])
    gender, region = np.where(female, "female", "male"), np.where(north, "north", "south")
    return interactions_of(
        pd.DataFrame({"user": names[owner], "item": titles[item]}),
        pd.DataFrame({"user_id": names, "gender": gender, "region": region}),
        pd.DataFrame({"item_id": titles, "genre": np.array(GENRES)[genre]}),
        "the synthetic interactions",
    )
