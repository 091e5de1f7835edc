"""Worlds of recommended lists in which the truth is known, and which are unkind to whoever measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

CATEGORIES = ("Bars", "Greek", "Pizza", "Salad", "Thai")
CUTS = (-0.8, 0.3, 1.2)
"""Where the price levels part; few items are of the dearest."""


KINDS = 1 + len(CATEGORIES)
"""Price, and the taste for every category."""


def effect(rng, *own: int, size: float) -> np.ndarray:
    """Draws of a standard deviation of each kind, (…, kinds)."""
    return rng.normal(0, size, (*own, KINDS)) if size else np.zeros((*own, KINDS))


def items(rng, latent: np.ndarray, shape: tuple[int, ...], **columns) -> pd.DataFrame:
    """A row an item of lists, whose last two dimensions are template and rank and first one is the city.

    Args:
        rng: draws prices, then categories.
        latent: (…, kinds), what broadcasts to the lists.
        shape: of the items.
        columns: further ones, each with the prices.
    """
    latent = np.broadcast_to(latent, (*shape[:-1], KINDS))
    price = 1 + np.searchsorted(CUTS, latent[..., 0][..., None] + rng.normal(size=shape)).astype(float)
    missing = rng.random(shape) < columns.pop("missing") if "missing" in columns else np.zeros(shape, dtype=bool)
    taste = latent[..., None, 1:] + rng.gumbel(size=(*shape, len(CATEGORIES)))
    city, *_, template, rank = (index.ravel() for index in np.indices(shape))
    return pd.DataFrame(
        {
            "city": np.char.add("city", city.astype(str)).astype(object),
            "template": np.char.add("t", template.astype(str)).astype(object),
            **columns,
            "rank": rank + 1,
            "item": np.char.add("i", np.arange(len(rank)).astype(str)).astype(object),
            "price": np.where(missing, np.nan, price).ravel(),
            "categories": [(CATEGORIES[code],) for code in taste.argmax(axis=-1).ravel()],
        }
    )


@dataclass(frozen=True)
class World:
    """Names of two groups fill templates in one city or several; standard deviations on the scale of items' noise, 1.

    A name's effect is its own and the same in all cities; a template's is the same for everybody; the two groups'
    difference has a mean of ``planted``, and varies by template (``slant``) and by city (``accident``).
    """

    words: tuple[int, int] = (16, 16)
    templates: int = 8
    cities: int = 1
    items: int = 8
    word: float | tuple[float, float] = 0.0
    """Of names; of those of the second group its own where two are given."""
    template: float = 0.0
    slant: float = 0.0
    accident: float = 0.0
    unpriced: tuple[float, float] = (0.0, 0.0)
    planted: float = 0.0

    def lists(self, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as files of recommendations have them."""
        black = np.repeat([False, True], self.words)
        count = len(black)
        shape = (self.cities, count, self.templates, self.items)
        sign = np.where(black, 0.5, -0.5)[None, :, None]
        steady, uneven = self.word if isinstance(self.word, tuple) else (self.word, self.word)
        latent = effect(rng, 1, count, 1, size=uneven)
        latent[:, ~black] *= steady / uneven if uneven else 1.0
        latent = latent + effect(rng, 1, 1, self.templates, size=self.template)
        apart = effect(rng, 1, 1, self.templates, size=self.slant) + effect(rng, self.cities, 1, 1, size=self.accident)
        apart[..., :2] += self.planted  # dearer items, and more bars, for black names
        _, word, template, _ = (index.ravel() for index in np.indices(shape))
        names = np.array([f"n{number}" for number in range(count)], dtype=object)[word]
        return items(
            rng,
            latent + sign[..., None] * apart,
            shape,
            missing=np.where(black, self.unpriced[1], self.unpriced[0])[None, :, None, None],
            substitution=names,
            query=[f"t{a} for {b}" for a, b in zip(template, names, strict=True)],
            label=np.where(black[word], "black", "white"),
        )


NAMES = World(word=0.5)
"""Names differ, and their groups do not."""
UNKIND = {
    "noise alone": World(),
    "names": NAMES,
    "names, 5 cities": World(word=0.5, cities=5),
    "names, unequal groups": World(word=0.5, words=(30, 8)),
    "24 steady and 7 uneven names": World(word=(0.3, 1.0), words=(24, 7)),
    "names, 30% of one group's items unpriced": World(word=0.5, unpriced=(0.0, 0.3)),
    "30% of one group's items unpriced": World(unpriced=(0.0, 0.3)),
    "names, templates, groups apart by template": World(word=0.3, template=0.5, slant=0.5),
    "names, accidents of 5 cities": World(word=0.3, cities=5, accident=0.3),
}
"""By name; in none of them do the groups differ on average."""


def places(rng: np.random.Generator, *, shift: float = 0.0, template: float = 0.8, templates: int = 18) -> pd.DataFrame:
    """Two places that fill the same templates, of which some ask for dearer items; mean prices differ by ``shift``."""
    rows = []
    effects = rng.normal(0, template, templates)
    for word, plus in (("court", shift), ("mall", 0.0)):
        price = np.clip(np.rint(2.5 + plus + effects[:, None] + rng.normal(0, 0.8, (templates, 8))), 1, 4)
        for number in range(templates):
            for rank in range(8):
                rows.append(
                    {"query": f"Dinner {number} near the {word}", "substitution": word, "label": "all",
                     "rank": rank + 1, "item": f"{word}{number}i{rank}", "price": price[number, rank]}
                )  # fmt: skip
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Couples:
    """Two people who are mentioned as a couple, of one gender or of two; standard deviations as of :class:`World`.

    Every word has a taste of its own, and one more that turns with the gender of the other word (a slant); so has
    every couple of words, and each gender of either. ``planted``: what couples of one gender have more of
    Bars, and in price.
    """

    words: tuple[int, int] = (8, 3)
    """First and second words of each gender."""
    templates: int = 8
    cities: int = 1
    items: int = 8
    word: float = 0.0
    slants: tuple[float, float] = (0.0, 0.0)
    """With the other one's gender: of first and of second words."""
    couple: float = 0.0
    genders: float = 0.0
    template: float = 0.0
    planted: float = 0.0

    def lists(self, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as files of recommendations have them."""
        first, second = (np.repeat([-0.5, 0.5], count) for count in self.words)  # (words,) genders
        one, two = len(first), len(second)
        latent = effect(rng, one, 1, 1, size=self.word) + effect(rng, 1, two, 1, size=self.word)
        latent = latent + effect(rng, one, two, 1, size=self.couple)
        latent = latent + effect(rng, 1, 1, self.templates, size=self.template)
        latent = latent + first[:, None, None, None] * effect(rng, 1, 1, 1, size=self.genders)
        latent = latent + second[None, :, None, None] * effect(rng, 1, 1, 1, size=self.genders)
        latent = latent + second[None, :, None, None] * effect(rng, one, 1, 1, size=self.slants[0])
        latent = latent + first[:, None, None, None] * effect(rng, 1, two, 1, size=self.slants[1])
        latent[..., :2] += 2 * self.planted * (first[:, None] * second[None, :])[..., None, None]
        shape = (self.cities, one, two, self.templates, self.items)
        _, a, b, template, _ = (index.ravel() for index in np.indices(shape))
        genders = np.array(["male", "female"], dtype=object)
        labels = zip(genders[(first[a] > 0).astype(int)], genders[(second[b] > 0).astype(int)], strict=True)
        return items(
            rng,
            latent[None],
            shape,
            substitution=np.char.add("f", a.astype(str)).astype(object),
            second=np.char.add("s", b.astype(str)).astype(object),
            query=[f"t{t} for f{x} and s{y}" for t, x, y in zip(template, a, b, strict=True)],
            label=[f"first relationship={x}; second relationship={y}" for x, y in labels],
        )


COUPLES = {
    "couples, words and genders": Couples(word=0.5, genders=0.3),
    "couples, words that slant": Couples(word=0.5, slants=(0.5, 0.5)),
    "couples, second words that slant": Couples(slants=(0.0, 0.8)),
    "couples, every couple of its own": Couples(word=0.3, couple=0.5, template=0.5),
    "couples, words that slant, 5 cities": Couples(word=0.5, slants=(0.4, 0.4), cities=5, items=4),
}
"""By name; in none of them do couples of one gender differ on average."""
