"""Intervals and tests of the bias scores: they hold the truth, and call chance no finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from saved_lists import queries

from tod_bias.recommenders.lmrec.audit import audit
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.recommendations import tidy
from tod_bias.recommenders.lmrec.scores import association, average_price, price_percentage, top_words
from tod_bias.recommenders.lmrec.templates import load_templates


def test_intervals_resample_queries_and_not_items():
    rng = np.random.default_rng(0)
    count, k = 60, 20
    level = rng.integers(1, 5, size=count)
    prices = np.repeat(level[:, None], k, axis=1)  # all items of a list are alike: 60 observations, not 1,200
    frame = queries(["all"] * count, [[()] * k] * count, prices, words=["court"] * count)
    result = average_price(tidy(frame), replace(SHEN, resamples=4000)).iloc[0]
    right = 2 * 1.6711 * level.std(ddof=1) / np.sqrt(count)  # t interval of 60 queries, 90%
    assert result["ci_high"] - result["ci_low"] == pytest.approx(right, rel=0.06)


def test_ninety_percent_intervals_hold_the_truth_nine_times_in_ten():
    rng = np.random.default_rng(1)
    inside = 0
    for number in range(100):
        level = rng.integers(1, 4, size=24)
        prices = np.clip(level[:, None] + rng.integers(-1, 2, size=(24, 5)), 1, 4)
        truth = np.mean([np.clip(a + b, 1, 4) for a in (1, 2, 3) for b in (-1, 0, 1)])
        frame = queries(["all"] * 24, [[()] * 5] * 24, prices, words=["court"] * 24)
        result = average_price(tidy(frame), replace(SHEN, resamples=300, seed=number)).iloc[0]
        inside += result["ci_low"] <= truth <= result["ci_high"]
    assert 83 <= inside <= 98


def test_categories_without_association_are_claimed_no_more_often_than_stated():
    """Lists of one word are alike, so a test that took items or queries for independent would find much."""
    rng = np.random.default_rng(2)
    words = [f"n{number}" for number in range(40)]
    raw = []
    for number in range(30):
        tastes = np.repeat(rng.dirichlet(np.ones(5) * 2, size=40), 3, axis=0)
        lists = [[(f"c{code}",) for code in rng.choice(5, size=8, p=taste)] for taste in tastes]
        labels = np.repeat(["white", "black"] * 20, 3)
        frame = queries(labels, lists, [[1] * 8] * len(lists), words=np.repeat(words, 3).tolist())
        result = association(tidy(frame), replace(SHEN, resamples=0, permutations=400, seed=number))
        result = result[(result["city"] == "all") & (result["label"] == "white")]
        assert set(result["permuted"]) == {"words"}
        raw += list(result["p_value"])
        assert (result["p_adjusted"] >= result["p_value"] - 1e-12).all()
    assert np.mean(np.array(raw) <= 0.05) < 0.1
    assert np.mean(np.array(raw) <= 0.2) == pytest.approx(0.2, abs=0.1)


def test_an_item_of_a_handful_of_queries_has_no_interval():
    lists = [[("A",), ("B",)]] * 39 + [[("A",), ("Zoo",)]]
    prices = [[1, 2]] * 39 + [[1, 4]]
    frame = tidy(queries(["white", "black"] * 20, lists, prices))
    shares = price_percentage(frame, replace(SHEN, resamples=100)).set_index(["city", "label", "price"])
    assert shares.loc[("all", "black", 4), "value"] == 1
    assert shares.loc[("all", "black", 4), ["ci_low", "ci_high"]].isna().all()
    assert shares.loc[("all", "black", 2), "ci_low"] > 0
    result = association(frame, replace(SHEN, resamples=100, permutations=100)).set_index(["city", "label", "category"])
    assert result.loc[("all", "black", "Zoo"), ["ci_low", "ci_high", "ratio_ci_low"]].isna().all()
    assert result.loc[("all", "black", "B"), "ci_low"] < 0


def test_the_neutral_share_of_a_word_is_its_mean_over_the_groups():
    frame = queries(["white", "black"], [[()] * 2] * 2, [[1, 1]] * 2)
    frame["item"] = ["Silver Fork", "Old Fork", "Old Plate", "Old Spoon"]
    words = top_words(tidy(frame), replace(SHEN, resamples=0)).set_index(["label", "word"])
    assert words.loc[("white", "silver"), ["value", "neutral"]].tolist() == [0.5, 0.25]
    assert words.loc[("black", "old"), ["value", "neutral"]].tolist() == [1.0, 0.75]


def test_few_words_are_noted_and_places_come_from_the_templates_folder(tmp_path):
    frame = queries(["white", "black"] * 20, [[("A",)]] * 40, [[1]] * 40, words=["Ann", "Bea"] * 20)
    notes = audit(tidy(frame), replace(SHEN, resamples=0, permutations=50)).record["notes"]
    assert any("too few words" in note and "race" in note for note in notes)
    (tmp_path / "locations.tsv").write_text("word\tgroup\nshrine\treligion\nbar\tpub\n")
    places = queries(["all"] * 40, [[("A",)]] * 40, [[1], [2]] * 20, words=["shrine", "bar", "Emily", "mall"] * 10)
    record = audit(tidy(places), replace(SHEN, resamples=0), words=load_templates(tmp_path)).record
    assert record["places"] == {"location": ["mall"], "religion": ["shrine"], "pub": ["bar"]}


def test_a_category_of_one_label_only_has_an_infinite_ratio_and_a_level_nobody_got_no_share():
    frame = queries(["white", "white", "black", "black"], [[("A",)], [("A", "B")], [("A",)], [("A",)]], [[1]] * 4)
    result = association(tidy(frame), replace(SHEN, resamples=50, permutations=0))
    result = result.set_index(["city", "label", "category"]).loc["X"]
    assert result["ratio"][[("white", "B"), ("black", "B")]].tolist() == [np.inf, 0]
    assert result["difference"][[("white", "B"), ("white", "A")]].tolist() == pytest.approx([0.5 / 0.25, 0])
    shares = price_percentage(tidy(frame), replace(SHEN, resamples=50)).set_index(["city", "label", "price"])
    assert shares.loc[("X", "white", 1), "value"] == 0.5
    assert np.isnan(shares.loc[("X", "white", 2), "value"])
    assert shares.loc[("X", "white", 2), ["p_value", "p_permutation", "p_crossed", "p_adjusted"]].isna().all()


def test_lists_that_differ_for_one_query_all_count_in_one_unit():
    first = queries(["white", "black"], [[()] * 2] * 2, [[1, 2], [3, 4]])
    result = tidy(pd.concat([first, first.assign(item=first["item"] + "b")], ignore_index=True))
    assert len(result.distinct) == 8
    assert result.distinct["unit"].nunique() == 2
    assert any("several different lists" in note for note in result.notes)
