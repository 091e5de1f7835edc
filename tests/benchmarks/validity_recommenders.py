"""Does what the audits of recommenders say hold where the truth is known? Size, coverage and power, as a table.

python tests/benchmarks/validity_recommenders.py --runs 30
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1] / "recommenders" / "lmrec"))  # the worlds of the tests
sys.path.append(str(Path(__file__).parents[1] / "recommenders" / "embeddings"))

from spaces import SPREAD_ONLY, TEN_SERIES, Space, eaa_rejects, flagged
from test_unequal_sets import p_values as set_p_values
from worlds import COUPLES, UNKIND, Couples, World, places

from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.reading import ALPHA, claimed
from tod_bias.recommenders.lmrec.recommendations import COUPLE, tidy
from tod_bias.recommenders.lmrec.scores import (
    association,
    average_price,
    price_by_label,
    price_differences,
    price_percentage,
)

Row = tuple[str, str, str, float, int]
"""Estimator, world, what, value, runs."""
POWERFUL = {
    "names, planted 0.6": World(word=0.3, planted=0.6),
    "names, planted 0.6, 30% of one group's items unpriced": World(word=0.3, planted=0.6, unpriced=(0.0, 0.3)),
    "names, 5 cities, planted 0.6": World(word=0.3, planted=0.6, cities=5),
    "names, accidents of 5 cities, planted 0.6": World(word=0.3, planted=0.6, cities=5, accident=0.3),
    "24 steady and 7 uneven names, planted 0.6": World(words=(24, 7), word=(0.2, 0.5), planted=0.6),
}
_SERIES = {"users": (400, 400), "apart": 0.5, "series": TEN_SERIES}
SPACES = {
    "spread only": (SPREAD_ONLY, False),
    "ten series a set, ICC 0.2": (Space(**_SERIES, icc=0.2), False),
    "ten series a set, ICC 0.2, as clusters": (Space(**_SERIES, icc=0.2), True),
    "ten series a set, ICC 0.5": (Space(**_SERIES, icc=0.5), False),
    "ten series a set, ICC 0.5, as clusters": (Space(**_SERIES, icc=0.5), True),
    "30 series of 5 and 6 of 25, ICC 0.5, as clusters": (
        Space(users=(400, 400), apart=0.5, series=((5,) * 30, (25,) * 6), icc=0.5),
        True,
    ),
    "planted 0.3, 100 users a group": (Space(apart=0.5, leans=(0.3, -0.3)), False),
    "planted 0.3, 400 users a group": (Space(users=(400, 400), apart=0.5, leans=(0.3, -0.3)), False),
    "planted 0.5, ten series a set, ICC 0.2, as clusters": (Space(**_SERIES, icc=0.2, leans=(0.5, -0.5)), True),
    "planted 0.5, groups of unequal spread": (
        Space(users=(40, 400), spreads=(1.0, 0.35), popular=(1.5, 0.5), apart=0.5, leans=(0.5, -0.5)),
        False,
    ),
}
"""Latent spaces by name, and whether their series are given as clusters."""


def of_all(found: pd.DataFrame, label: str) -> pd.DataFrame:
    """The rows over all cities of one of the two labels."""
    return found[(found["city"] == "all") & (found["label"] == label)]


def claims_of_couples(runs: int) -> Iterator[Row]:
    """Couples of one gender and of two, where they do not differ and where they do."""
    planted = {
        f"couples, 8 and {second} words a gender{', 5 cities' * (cities > 1)}, planted 0.8": Couples(
            words=(8, second), word=0.3, slants=(0.2, 0.2), planted=0.8, cities=cities
        )
        for second, cities in ((3, 1), (8, 1), (3, 5))
    }
    for name, world in {**COUPLES, **planted}.items():
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(runs):
            frame = tidy(world.lists(np.random.default_rng(number)))
            vars(frame)["all_dimensions"] = (COUPLE,)
            how = replace(SHEN, resamples=0, permutations=300, seed=number)
            for estimator, score in (
                ("price percentage", price_percentage),
                ("average price of a label", price_by_label),
                ("association", association),
            ):
                rows = of_all(score(frame, how), "one gender")
                found.setdefault((estimator, "p < 0.05, unadjusted"), []).append((rows["p_value"] < ALPHA).mean())
                found.setdefault((estimator, "a sentence claims"), []).append(claimed(rows).any())
        for (estimator, what), values in found.items():
            if name in COUPLES or what == "a sentence claims":
                yield estimator, name, what, float(np.mean(values)), runs


def measured(world: World, runs: int) -> dict[tuple[str, str], float]:
    """(Estimator, what) to its share over runs: intervals that cover, runs in which a sentence claims."""
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(runs):
        frame = tidy(world.lists(np.random.default_rng(number)))
        how = replace(SHEN, resamples=200, permutations=300, seed=number)
        prices, shifts = of_all(price_percentage(frame, how), "black"), of_all(association(frame, how), "black")
        held = (prices["ci_low"] <= prices["neutral"]) & (prices["neutral"] <= prices["ci_high"])
        levels = of_all(price_by_label(frame, how), "black")
        level = (levels["ci_low"] <= 0) & (levels["ci_high"] >= 0)
        around = (shifts["ci_low"] <= 0) & (shifts["ci_high"] >= 0)
        for name, rows, covered in (
            ("price percentage", prices, held),
            ("average price of a label", levels, level),
            ("association", shifts, around),
        ):
            found.setdefault((name, "90% intervals hold no difference"), []).append(covered.mean())
            found.setdefault((name, "p < 0.05, unadjusted"), []).append((rows["p_value"] < ALPHA).mean())
            found.setdefault((name, "a sentence claims"), []).append(claimed(rows).any())
    return {key: float(np.mean(values)) for key, values in found.items()}


def groups(runs: int) -> Iterator[Row]:
    """Shares of prices and categories, where groups do not differ and where they do."""
    for name, world in {**UNKIND, **POWERFUL}.items():
        for (estimator, what), value in measured(world, runs).items():
            if "planted" not in name or what == "a sentence claims":
                yield estimator, name, what, value, runs


def pairs(runs: int) -> Iterator[Row]:
    """Two places that fill templates of which some ask for dearer items (standard deviation 0.8 price levels)."""
    for shift in (0.0, 0.3):
        rejected, covered = [], []
        for number in range(runs):
            frame = tidy(places(np.random.default_rng(number), shift=shift))
            how = replace(SHEN, resamples=200, permutations=400, seed=number)
            row = price_differences(frame, {"court": "location", "mall": "location"}, how).iloc[0]
            rejected.append(row["p_value"] <= ALPHA)
            covered.append(row["ci_low"] <= 0 <= row["ci_high"])
        world = f"two places, template sd 0.8, shift {shift}"
        yield "price difference", world, "p ≤ 0.05", float(np.mean(rejected)), runs
        if not shift:
            yield "price difference", world, "90% intervals hold no difference", float(np.mean(covered)), runs


def averages(runs: int) -> Iterator[Row]:
    """The average price of one place, over a population of templates."""
    truth = float(np.mean([places(np.random.default_rng(900 + n), templates=200)["price"].mean() for n in range(20)]))
    covered = []
    for number in range(runs):
        frame = tidy(places(np.random.default_rng(number)))
        row = average_price(frame, replace(SHEN, resamples=200, seed=number)).iloc[-1]
        covered.append(row["ci_low"] <= truth <= row["ci_high"])
    yield "average price", "a place, template sd 0.8", "90% intervals hold the truth", float(np.mean(covered)), runs


def sets(runs: int) -> Iterator[Row]:
    """E and P that lean alike, of equal and of unequal size, in one cloud and in two; and where they differ."""
    worlds = [
        (f"{name}, {sizes[0]} and {sizes[1]} items", sizes, {"apart": apart})
        for name, apart in (("one cloud leans alike", 0.0), ("two clouds lean alike", 0.5))
        for sizes in ((100, 100), (300, 60), (1000, 60))
    ]
    worlds.append(("one cloud, leanings 0.2 and 0.5, 300 and 60 items", (300, 60), {"leans": (0.2, 0.5)}))
    for world, sizes, options in worlds:
        found = np.array([set_p_values(number, sizes, **options) for number in range(runs)]) <= ALPHA
        yield "difference of mean EAA", world, "both tests ≤ 0.05", float(found.all(axis=1).mean()), runs
        yield "difference of mean EAA", world, "E ↔ P ≤ 0.05", float(found[:, 0].mean()), runs
        yield "difference of mean EAA", world, "A ↔ B ≤ 0.05", float(found[:, 1].mean()), runs


def spaces(runs: int) -> Iterator[Row]:
    """Whole audits of embeddings: what the paper's tests of EAA reject, what ours reject, and what is claimed."""
    for world, (space, clustered) in SPACES.items():
        audits = [space.audited(number, clustered=clustered) for number in range(runs)]
        found = [flagged(result) for result in audits]
        rejected = [result.record["flags"][2]["rejected"] for result in audits]
        for what, hits in (
            ("both tests of mean EAA ≤ 0.05", map(eaa_rejects, audits)),
            ("E − P rejected (Holm)", rejected),
            ("E − P claimed", ("differential" in claims for claims in found)),
            ("anything claimed", map(bool, found)),
        ):
            yield "embeddings", world, what, float(np.mean(list(hits))), runs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="of each world of lists; four times as many of the rest")
    runs = parser.parse_args().runs
    print("| estimator | world | what | value | runs |\n|---|---|---|---|---|", flush=True)
    for part in (
        groups(runs),
        claims_of_couples(runs),
        pairs(4 * runs),
        averages(4 * runs),
        sets(4 * runs),
        spaces(4 * runs),
    ):
        for estimator, world, what, value, count in part:
            print(f"| {estimator} | {world} | {what} | {value:.3f} | {count} |", flush=True)


if __name__ == "__main__":
    main()
