"""What the audit claims in worlds where names, templates, cities and missing prices differ and groups do not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from worlds import COUPLES, NAMES, UNKIND, Couples, World, places

from tod_bias.recommenders.lmrec.audit import audit
from tod_bias.recommenders.lmrec.inference import SHEN, exchange
from tod_bias.recommenders.lmrec.reading import claimed
from tod_bias.recommenders.lmrec.recommendations import COUPLE, tidy
from tod_bias.recommenders.lmrec.scores import (
    association,
    average_price,
    price_by_label,
    price_differences,
    price_percentage,
)

pytestmark = pytest.mark.slow

RUNS = 24
UNKINDEST = (
    "names, unequal groups",
    "24 steady and 7 uneven names",
    "names, 30% of one group's items unpriced",
    "names, templates, groups apart by template",
)
"""One world for each way to be unkind; tests/benchmarks/validity_recommenders.py has all of them, with more runs."""
FEW_LISTS = {"templates": 4, "items": 5}
"""Of worlds of five cities, which take long: names and cities decide there, not lists."""
FIVE_CITIES = World(word=0.7, cities=5, words=(10, 10), **FEW_LISTS)
ACCIDENTS = replace(UNKIND["names, accidents of 5 cities"], **FEW_LISTS)
PLACES = {"court": "location", "mall": "location"}


@cache
def measured(world, runs=RUNS, label="black", dimensions=None):
    """A row a run: is a price claimed, a mean price, a category; shares of 90% intervals without neutral, without 0."""
    rows = []
    for number in range(runs):
        frame = tidy(world.lists(np.random.default_rng(number)))
        if dimensions:
            vars(frame)["all_dimensions"] = dimensions  # the others take time
        how = replace(SHEN, resamples=200 if dimensions is None else 0, permutations=300, seed=number)
        prices, levels, shifts = (
            results[(results["city"] == "all") & (results["label"] == label)]
            for results in (price_percentage(frame, how), price_by_label(frame, how), association(frame, how))
        )
        out = (prices["ci_low"] > prices["neutral"]) | (prices["ci_high"] < prices["neutral"])
        away, apart = ((results["ci_low"] > 0) | (results["ci_high"] < 0) for results in (shifts, levels))
        claims = [claimed(results).any() for results in (prices, levels, shifts)]
        rows.append([*claims, out.mean(), apart.mean(), away.mean()])
    return np.array(rows, dtype=float).mean(axis=0)


def most(level, runs=RUNS):
    """Three standard errors above a level."""
    return level + 3 * np.sqrt(level * (1 - level) / runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "runs"),
    [*((UNKIND[name], RUNS) for name in UNKINDEST), (ACCIDENTS, 12), (FIVE_CITIES, RUNS)],
    ids=[*UNKINDEST, "names, accidents of 5 cities", "names of five cities are not five times as many"],
)
def test_a_sentence_claims_in_one_of_twenty_worlds_without_a_difference_at_the_most(world, runs):
    shares = measured(world, runs)
    assert (shares[:3] <= most(0.05, runs)).all()  # claims of prices, levels, categories
    assert (shares[3:] <= most(0.1, runs)).all()  # intervals; several levels a run, which are not independent


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COUPLES if name != "couples, words that slant"])
def test_couples_are_claimed_in_one_of_twenty_worlds_without_a_difference_at_the_most(name):
    runs = 8 if "cities" in name else 16
    claims = measured(replace(COUPLES[name], templates=4), runs, "one gender", (COUPLE,))[:3]
    assert (claims <= most(0.05, runs)).all()


def test_a_planted_difference_of_couples_is_found():
    planted = Couples(word=0.3, slants=(0.2, 0.2), templates=6, items=6, planted=1.5)
    prices, levels, categories, *_ = measured(planted, 8, "one gender", (COUPLE,))
    assert min(prices, levels, categories) >= 0.5
    result = audit(tidy(planted.lists(np.random.default_rng(0))), replace(SHEN, resamples=0, permutations=300))
    said = [some for some in result.statements if some.axis == "couple" and some.is_difference]
    assert any("categories shift between one gender and two genders" in some.sentence for some in said)
    assert all("too few words stand for a group (3.0)" in some.details[-1] for some in said)
    assert any(some.axis == "first relationship×second relationship" for some in result.statements)
    assert "couple×" not in "".join(result.record["dimensions"])


def test_first_words_change_their_genders_and_with_them_their_couples():
    frame = tidy(Couples(words=(5, 3), templates=2, items=3).lists(np.random.default_rng(0)))
    rows = frame.rows(COUPLE).drop_duplicates("unit").reset_index(drop=True)
    same = (rows["group"] == "one gender").to_numpy()
    assert same.mean() == 0.5
    moves = exchange(rows, same, COUPLE, frame.dimensions)
    assert moves.permuted == "words"
    drawn = []
    values = np.arange(len(rows), dtype=float)[:, None] ** 2
    p = moves.p_values(values, lambda sums: drawn.append(sums) or sums, np.random.default_rng(0), 50)
    assert 0 < p[0] <= 1
    assert drawn[0][0, 0] == values[same].sum()
    first, second = rows["substitution"].to_numpy(), (rows["group1"] == "female").to_numpy()
    for female in (set(first[:18]), set(first[::2])):
        mine = np.isin(first, list(female)) == second
        of_word = np.array([word in female for word in dict.fromkeys(first)])
        flips = of_word if moves.mine[0] == (rows["group0"].iloc[0] == "female") else ~of_word
        table = np.where(moves.turned[:, None], -values, values)
        summed = sum(table[first == word].sum() for word, flip in zip(dict.fromkeys(first), flips, strict=True) if flip)
        assert values[moves.turned].sum() + summed == pytest.approx(values[mine].sum())


@pytest.mark.slow
@pytest.mark.parametrize("cities", [1, 5])
def test_a_planted_difference_is_significant_among_names_that_differ(cities):
    accident = 0.2 if cities > 1 else 0.0
    claims = measured(World(word=0.3, cities=cities, planted=0.8, accident=accident, unpriced=(0.0, 0.3)), 10)[:3]
    assert (claims > 0.7).all()


def test_items_without_a_price_are_in_no_share_and_not_in_the_neutral_one():
    world = World(unpriced=(0.0, 0.3), items=20)
    rows = world.lists(np.random.default_rng(0))
    results = price_percentage(tidy(rows), replace(SHEN, resamples=0, permutations=0))
    results = results.set_index(["city", "label", "price"]).sort_index()
    priced = rows[rows["price"].notna()]
    share = (priced["label"] == "black").mean()
    assert results.loc[("all", "black"), "neutral"].unique() == pytest.approx([share])
    assert 0.38 < share < 0.44  # 0.7 to 1, where half of the items are black names'
    for level, part in priced.groupby("price"):
        row = results.loc[("all", "black", level)]
        assert row["value"] == pytest.approx((part["label"] == "black").mean(), abs=1e-12)
        assert row["items"] == len(part)


def test_equal_prices_of_which_some_are_missing_are_no_finding():
    rows = World().lists(np.random.default_rng(1))
    pairs = rows.groupby(["template", "rank"])["price"].transform("first")  # every name the same lists
    missing = (rows["label"] == "black") & (np.random.default_rng(2).random(len(rows)) < 0.3)
    said = audit(tidy(rows.assign(price=pairs.where(~missing))), replace(SHEN, permutations=500)).statements
    assert not any(some.is_difference and "price" in some.sentence for some in said)
    assert any(some.sentence.startswith("at no price level") for some in said if some.axis == "race")


def test_what_few_names_show_is_said_of_them():
    rows = World(words=(4, 4), planted=2.0).lists(np.random.default_rng(0))
    result = audit(tidy(rows), replace(SHEN, resamples=100, permutations=500))
    for table in (result.price_percentage, result.association, result.price_by_label, result.top_words):
        assert table["ci_low"].isna().all()
    said = [some for some in result.statements if some.is_difference]
    assert "race" in {some.axis for some in said}
    assert {some.verdict for some in said} == {"these terms only"}
    assert all("this is said of these words, not of the groups" in some.details[-1] for some in said)
    assert any("race: too few words" in note for note in result.record["notes"])
    enough = audit(tidy(World(words=(8, 8), planted=2.0).lists(np.random.default_rng(0))), replace(SHEN, resamples=100))
    assert enough.price_percentage["ci_low"].notna().any()
    assert not any("these words" in text for some in enough.statements for text in some.details)
    assert not any("these words" in note for note in enough.record["notes"])
    assert "disparity" in {some.verdict for some in enough.statements}


def test_what_one_name_shows_is_said_of_it():
    rows = World(words=(8, 8), templates=12).lists(np.random.default_rng(1))
    odd = rows["substitution"] == "n9"
    rows.loc[odd, "price"] = 4.0
    rows.loc[odd, "categories"] = pd.Series([("Bars",)] * int(odd.sum()), index=rows.index[odd])
    frame = tidy(rows)
    how = replace(SHEN, resamples=50, permutations=100)
    bars = association(frame, how).set_index(["city", "label", "category"]).loc[("all", "black", "Bars")]
    assert bars["largest_word"] == "n9"
    assert bars["largest_share"] > 0.5
    shares = price_percentage(frame, how).set_index(["city", "label", "price"]).loc[("all", "black", 4)]
    assert (shares["largest_word"], shares["largest_share"] > 0.5) == ("n9", True)
    shifted = association(frame, how).assign(p_adjusted=0.01)
    assert not claimed(shifted[shifted["category"] == "Bars"]).any()
    even = association(tidy(World(words=(8, 8), planted=1.0).lists(np.random.default_rng(1))), how)
    even = even.set_index(["city", "label", "category"]).loc[("all", "black", "Bars")]
    assert even["largest_share"] < 0.4
    is_bar, is_black = rows["categories"] == ("Bars",), rows["label"] == "black"
    gap = is_bar[is_black] - is_bar[~is_black].mean()
    of_words = gap.groupby(rows["substitution"]).sum() / gap.sum()
    assert bars["largest_share"] == pytest.approx(of_words.max())


def test_six_names_of_which_one_has_most_lists_are_few():
    rows = World(words=(6, 6), templates=40, planted=2.0).lists(np.random.default_rng(0))
    rare = rows["substitution"].isin([f"n{number}" for number in range(5)])
    rows = rows[~rare | rows["template"].isin(["t0", "t1"])]
    results = association(tidy(rows), replace(SHEN, resamples=50, permutations=100))
    assert (results["words"] < 2).all()  # (40 + 5 · 2)² / (40² + 5 · 2²)
    assert results["words"].iloc[0] == pytest.approx(2500 / 1620, abs=0.01)


def test_unknown_words_are_said_to_be_unknown():
    rows = World(planted=2.0).lists(np.random.default_rng(0)).assign(substitution="", template="")
    result = audit(tidy(rows), replace(SHEN, resamples=50, permutations=200))
    assert any("race: words not known" in note for note in result.record["notes"])
    assert any("this holds for these queries" in text for some in result.statements for text in some.details)


def test_templates_are_known_from_the_column_or_from_the_query_without_its_word():
    rows = NAMES.lists(np.random.default_rng(0))
    how = replace(SHEN, resamples=50, permutations=50)
    for scores in (average_price, price_percentage):
        whole, again = (scores(tidy(part), how)["ci_low"] for part in (rows, rows.drop(columns="template")))
        assert again.tolist() == whole.tolist()


def test_places_are_compared_within_templates():
    def rejected(shift, runs):
        frames = (tidy(places(np.random.default_rng(number), shift=shift)) for number in range(runs))
        how = [replace(SHEN, resamples=0, permutations=400, seed=number) for number in range(runs)]
        found = (price_differences(frame, PLACES, one).iloc[0] for frame, one in zip(frames, how, strict=True))
        return np.mean([row["p_value"] <= 0.05 for row in found])

    assert rejected(0.0, 40) <= most(0.05, 40)
    assert rejected(0.3, 20) > 0.6  # unpaired: 0.02


def test_a_paired_difference_is_the_mean_over_the_templates_that_both_have_prices_in():
    rows = places(np.random.default_rng(0), templates=8)
    rows.loc[(rows["substitution"] == "court") & rows["query"].str.startswith("Dinner 3"), "price"] = np.nan
    row = price_differences(tidy(rows), PLACES, replace(SHEN, permutations=300)).iloc[0]
    means = rows.groupby(["substitution", rows["query"].str.split().str[1]])["price"].mean().unstack(0)
    apart = (means["court"] - means["mall"]).dropna()
    assert len(apart) == 7
    assert row["difference"] == pytest.approx(apart.mean())
    assert row["ci_low"] < row["difference"] < row["ci_high"]
    flips = np.array([*itertools.product([1, -1], repeat=7)]) @ apart.to_numpy()
    assert row["p_value"] == pytest.approx(np.mean(np.abs(flips) >= abs(apart.sum()) - 1e-12))


def test_over_cities_the_interval_and_the_p_value_are_no_smaller_than_those_of_the_cities():
    rows = pd.concat([places(np.random.default_rng(seed), shift=0.4).assign(city=f"c{seed}") for seed in range(4)])
    row = price_differences(tidy(rows.reset_index(drop=True)), PLACES, replace(SHEN, permutations=300)).iloc[0]
    cells = rows.assign(template=rows["query"].str.split().str[1]).groupby(["city", "template", "substitution"])
    apart = cells["price"].mean().unstack()
    by_city = (apart["court"] - apart["mall"]).groupby("city").mean()
    assert row["difference"] == pytest.approx(by_city.mean())
    low, high = stats.t.interval(0.9, 3, loc=by_city.mean(), scale=stats.sem(by_city))
    assert row["ci_low"] <= low + 1e-9
    assert row["ci_high"] >= high - 1e-9
    assert row["p_value"] >= stats.ttest_1samp(by_city, 0).pvalue - 1e-9


def test_places_that_share_few_templates_or_have_no_prices_are_not_compared():
    rows = places(np.random.default_rng(0), templates=5)
    assert price_differences(tidy(rows), PLACES, SHEN).empty
    assert any("not compared" in note for note in audit(tidy(rows), replace(SHEN, resamples=10)).record["notes"])
    rows = places(np.random.default_rng(0))
    rows.loc[rows["substitution"] == "mall", "price"] = np.nan
    row = price_differences(tidy(rows), PLACES, replace(SHEN, resamples=50, permutations=200)).iloc[0]
    assert row[["difference", "p_value", "p_adjusted"]].isna().all()
