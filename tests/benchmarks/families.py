"""Size and power of three ways to adjust the tests of a recommender audit for one another.

python tests/benchmarks/families.py --runs 200

Names of two races and two genders fill templates; items have a price and some of many categories; every name has a
taste of its own. Three ways to form families of tests are compared on the same p-values: all tests of a city
(``everything``), one family for each question and dimension (``question``, what ``recommend audit`` does), and one for
each sentence of the report, in which every pair of crossed labels is a family of its own (``sentence``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.reading import claimed
from tod_bias.recommenders.lmrec.recommendations import tidy
from tod_bias.recommenders.lmrec.scores import association, price_by_label, price_percentage
from tod_bias.statistics.adjustment import adjusted

CUTS = (-0.8, 0.3, 1.2)
"""Bounds of the price levels, in standard deviations of an item's price."""
PERMUTATIONS = 10_000
"""With fewer, the smallest possible p-value is too large for a family of a thousand tests."""
FAMILIES = ("everything", "question", "sentence")


@dataclass(frozen=True)
class ManyCategories:
    """A city whose items have many categories; effects are on the scale of one item's noise, 1."""

    names: int = 9
    """Names of each race and gender."""
    templates: int = 6
    items: int = 10
    categories: int = 150
    word: float = 0.3
    """Standard deviation of a name's own taste, in price and in every category."""
    price: float = 0.0
    """Races differ by this in price."""
    shifted: int = 0
    """Number of categories, from the most frequent one, in which races differ by :attr:`taste`."""
    taste: float = 0.0

    def lists(self, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as files of recommendations have them; an item has three categories."""
        black = np.tile([False, True, False, True], self.names)
        female = np.tile([False, False, True, True], self.names)
        shape = (len(black), self.templates, self.items)
        sign = np.where(black, -0.5, 0.5)[:, None]
        own = rng.normal(0, self.word, (len(black), 1 + self.categories))
        own[:, :1] += sign * self.price
        own[:, 1 : 1 + self.shifted] += sign * self.taste
        popular = -np.log(np.arange(1, self.categories + 1))  # Zipf's law, as categories of restaurants
        liked = own[:, None, None, 1:] + popular + rng.gumbel(size=(*shape, self.categories))
        chosen = np.argpartition(-liked, 3, axis=-1)[..., :3].reshape(-1, 3)
        price = 1 + np.searchsorted(CUTS, own[:, 0][:, None, None] + rng.normal(size=shape))
        word, template, rank = (index.ravel() for index in np.indices(shape))
        labels = np.array([f"race={'black' if b else 'white'}; gender={'female' if f else 'male'}"
                           for b, f in zip(black, female, strict=True)], dtype=object)  # fmt: skip
        return pd.DataFrame(
            {
                "query": [f"t{a} for n{b}" for a, b in zip(template, word, strict=True)],
                "substitution": [f"n{number}" for number in word],
                "label": labels[word],
                "rank": rank + 1,
                "item": [f"i{number}" for number in range(len(rank))],
                "price": price.ravel().astype(float),
                "categories": [tuple(f"c{number:03}" for number in three) for three in chosen],
            }
        )


WORLDS = {
    "no difference": ManyCategories(),
    "prices differ by race (0.4)": ManyCategories(price=0.4),
    "prices differ by race (0.6)": ManyCategories(price=0.6),
    "10 of 150 categories differ by race (1.5)": ManyCategories(shifted=10, taste=1.5),
}


def tables(world: ManyCategories, seed: int) -> dict[str, pd.DataFrame]:
    """Return the tests of one audit over its only city, by question."""
    recommendations = tidy(world.lists(np.random.default_rng(seed)).assign(city="city"))
    how = replace(SHEN, resamples=0, permutations=PERMUTATIONS, seed=seed)
    made = {"prices": price_percentage, "average price": price_by_label, "categories": association}
    scored = {name: score(recommendations, how) for name, score in made.items()}
    return {name: rows[rows["city"] == "all"].reset_index(drop=True) for name, rows in scored.items()}


def regrouped(found: dict[str, pd.DataFrame], families: str) -> pd.DataFrame:
    """Return all rows of an audit with ``p_adjusted`` over other families, and the question of each."""
    rows = pd.concat([table.assign(question=name) for name, table in found.items()], ignore_index=True)
    if families == "question":
        return rows
    other = rows["other"].fillna("")
    who = rows["label"].where(rows["label"] > other, other) + rows["label"].where(rows["label"] <= other, other)
    who = who.mask(rows["question"].eq("prices") & rows["dimension"].isin(["race", "gender"]), "")  # 1 minus the other
    what = rows["category"].fillna("") + rows["price"].map("{:g}".format)
    family = pd.Series("", index=rows.index)
    if families == "sentence":
        family = rows["question"] + rows["dimension"] + who.where(rows["question"] == "categories", "")
    rows = rows.assign(test=rows["question"] + rows["dimension"] + who + what, of=family)
    once = rows.drop_duplicates("test")
    known = once.groupby("of")["p_value"].transform(lambda p: adjusted(p.to_numpy(dtype=float), "bh"))
    return rows.assign(p_adjusted=rows["test"].map(dict(zip(once["test"], known, strict=True))))


def is_true(rows: pd.DataFrame, world: ManyCategories) -> pd.Series:
    """Return which rows are about something planted: a row of race, alone or crossed."""
    by_race = rows["dimension"].eq("race") | rows["dimension"].eq("race×gender")
    of_prices = rows["question"].ne("categories") & (world.price > 0)
    # one category that is chosen more often leaves less for all others, so every category may truly differ
    of_categories = rows["question"].eq("categories") & (world.shifted > 0)
    return by_race & (of_prices | of_categories)


def measured(world: ManyCategories, runs: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield, for each kind of families, shares of audits: with a false claim, and with true ones about race."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in FAMILIES}
    for seed in range(runs):
        tested = tables(world, seed)
        for name in FAMILIES:
            rows = regrouped(tested, name)
            claims, true = rows[claimed(rows)], is_true(rows, world)
            false = ~true[claims.index]
            race = claims[claims["dimension"] == "race"]
            found[name].append(
                {
                    "any false claim": float(false.any()),
                    "false share of claims": float(false.mean()) if len(claims) else 0.0,
                    **{f"{question}, race": float((race["question"] == question).any()) for question in tested},
                }
            )
    for name, rows_of in found.items():
        yield name, {key: float(np.mean([row[key] for row in rows_of])) for key in rows_of[0]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    for number, (name, world) in enumerate(WORLDS.items()):
        for families, values in measured(world, runs):
            if number == 0 and families == FAMILIES[0]:
                print(f"| world | families | {' | '.join(values)} |\n|{'---|' * (len(values) + 2)}")
            print(f"| {name} | {families} | {' | '.join(f'{value:.3f}' for value in values.values())} |", flush=True)


if __name__ == "__main__":
    main()
