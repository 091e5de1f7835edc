"""Average prices of labels, and prices that are amounts: the numbers are those of plain counting."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from worlds import World

from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.recommendations import ListFormat, read_recommendations, tidy
from tod_bias.recommenders.lmrec.scores import price_by_label
from tod_bias.recommenders.lmrec.venue import price_amount

QUICK = replace(SHEN, resamples=100, permutations=200)


@pytest.mark.parametrize("cities", [1, 3])
def test_the_mean_of_a_label_is_that_of_its_items(cities):
    rows = World(word=0.5, cities=cities, unpriced=(0.0, 0.3), planted=1.5).lists(np.random.default_rng(0))
    result = price_by_label(tidy(rows), QUICK).set_index(["city", "label"])
    for city in [*dict.fromkeys(rows["city"]), "all"]:
        part = rows if city == "all" else rows[rows["city"] == city]
        means = part.groupby("label")["price"].mean()
        for label, other in (("black", "white"), ("white", "black")):
            row = result.loc[(city, label)]
            assert (row["value"], row["other_value"]) == pytest.approx((means[label], means[other]))
            assert row["difference"] == pytest.approx(means[label] - means[other])
            assert row["ci_low"] < row["difference"] < row["ci_high"]
    assert (result["difference"].abs() > 0.2).all()
    assert result.loc[("all", "black"), "p_adjusted"] < 0.05


def test_an_interval_goes_no_further_than_the_levels():
    rows = World(cities=3).lists(np.random.default_rng(0))
    rows["price"] = np.where(rows["label"] == "black", 4.0, 1.0)
    result = price_by_label(tidy(rows), QUICK)
    assert result[["ci_low", "ci_high"]].abs().max().max() <= 3


def test_without_labels_or_prices_there_is_no_row():
    rows = World().lists(np.random.default_rng(0))
    for lacking in (rows.drop(columns=["label"]), rows.assign(price=np.nan)):
        assert price_by_label(tidy(lacking), QUICK).empty


def test_three_labels_are_three_pairs_of_one_family():
    rows = World().lists(np.random.default_rng(0))
    thirds = rows["substitution"].str[1:].astype(int) % 3
    rows["label"] = thirds.map({0: "asian", 1: "black", 2: "white"})
    result = price_by_label(tidy(rows), QUICK)
    assert len(result) == 2 * 2 * 3
    part = result[result["city"] == "all"]
    assert (part["p_adjusted"] >= part["p_value"]).all()
    assert part["p_adjusted"].min() > part["p_value"].min()


def test_amounts_of_prices():
    amounts = {"€ 18.50": 18.5, "18,50": 18.5, "1,250.00": 1250, "1,250": 1250, "": None, "n/a": None, 7.5: 7.5}
    assert {cell: price_amount(cell) for cell in amounts} == amounts
    for cell in ("dear", "-3", "inf", "1e13", "1,2,3", "$$"):
        with pytest.raises(ValueError, match="is not an amount"):
            price_amount(cell)


def written(path, prices):
    items = [{"query": f"q{n}", "rank": 1, "label": "all", "item": f"i{n}", "price": p} for n, p in enumerate(prices)]
    pd.DataFrame(items).to_csv(path, index=False)
    return path


def test_amounts_are_cut_into_levels(tmp_path):
    path = written(tmp_path / "lists.csv", ["10", "15", "15.01", "30", "60", "€99", ""])
    result = read_recommendations([(None, path)], ListFormat(price_levels=(15, 30, 60)))
    assert result.frame["price"].fillna(0).tolist() == [1, 1, 2, 2, 3, 4, 0]
    assert "lists: prices are amounts, cut into four levels after 15, 30, 60" in result.notes
    equal = read_recommendations([(None, written(path, range(100)))], ListFormat(price_levels=()))
    assert equal.frame["price"].value_counts().tolist() == [25] * 4


def test_what_groups_pay_and_categories_that_look_like_several_are_noted(tmp_path):
    path = tmp_path / "lists.csv"
    labels = ["team=red", "team=red", "team=blue"]
    items = [{"query": f"q{n}", "rank": 1, "label": label, "price": 10 * n} for n, label in enumerate(labels)]
    pd.DataFrame(items).assign(categories=["Grill|Bar", "Pasta", "Sushi"]).to_csv(path, index=False)
    notes = read_recommendations([(None, path)], ListFormat(price_levels=(5, 15, 25))).notes
    assert "team: the mean price is red 5.00, blue 20.00; tests are of the levels" in notes
    assert any(note.startswith("'Grill|Bar' and others look like several categories") for note in notes)


def test_quartiles_are_those_of_the_items_of_a_city_and_neutral_lists_follow_them(tmp_path):
    often = [1] * 50 + [2, 3, 4]  # one item, recommended fifty times
    files = []
    dear, few = [100, 200, 300, 400], [1, 4, 1000]
    for city, prices, label in (("A", often, "all"), ("B", dear, "all"), ("A", few, "neutral")):
        path = tmp_path / f"{city}-{label}.csv"
        frame = pd.read_csv(written(path, prices))
        frame.assign(label=label, item=[f"i{price}" for price in prices]).to_csv(path, index=False)
        files.append((city, path))
    result = read_recommendations(files, ListFormat(price_levels=()))
    levels = result.frame.groupby("city")["price"].agg(lambda part: part.drop_duplicates().tolist())
    assert levels["A"] == levels["B"] == [1, 2, 3, 4]
    assert result.neutral["price"].tolist() == [1, 4, 4]
