"""Numbers over several cities: intervals and tests over the cities; accidents of one training are no findings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.recommendations import tidy
from tod_bias.recommenders.lmrec.scores import association, average_price, price_percentage, top_words

WORDS = [f"n{number}" for number in range(24)]
CATEGORIES = ("Thai", "Greek", "Vegan", "Salad", "Pizza")
QUICK = replace(SHEN, resamples=0, permutations=500)


def city(name, rng, *, accident=0.0, planted=0.0, words=WORDS):
    """One city: a list a word, black and white words alternate; how much more often each group gets each category."""
    bent = rng.normal(0, accident, size=len(CATEGORIES))
    bent[0] += planted
    rows = []
    for number, word in enumerate(words):
        label = ("white", "black")[number % 2]
        odds = np.exp(bent if number % 2 else -bent)
        for rank, code in enumerate(rng.choice(len(CATEGORIES), size=20, p=odds / odds.sum()), start=1):
            venue = (f"{CATEGORIES[code]} House {rank}", float(1 + code % 4), (CATEGORIES[code],))
            rows.append((name, f"table for {word}", word, rank, label, *venue))
    columns = ["city", "query", "substitution", "rank", "label", "item", "price", "categories"]
    return pd.DataFrame(rows, columns=columns)


def pooled(rows, category):
    share = {
        label: part["categories"].map(lambda cell: category in cell).mean()
        for label, part in [*rows.groupby("label"), ("whole", rows)]
    }
    return (share["black"] - share["white"]) / share["whole"]


def of_all(result, **wanted):
    rows = result[result["city"] == "all"]
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    return rows


def test_the_interval_is_that_of_leaving_out_a_city_at_a_time():
    rng = np.random.default_rng(0)
    rows = pd.concat([city(name, rng, accident=0.3) for name in "ABCDE"], ignore_index=True)
    row = of_all(association(tidy(rows), QUICK), label="black", category="Thai").iloc[0]
    value = pooled(rows, "Thai")
    without = np.array([pooled(rows[rows["city"] != name], "Thai") for name in "ABCDE"])
    error = np.sqrt(4 / 5 * ((without - without.mean()) ** 2).sum())
    half = stats.t.ppf(0.95, 4) * error
    assert row["difference"] == pytest.approx(value, abs=1e-12)
    shorter = [row["ci_low"] - (value - half), row["ci_high"] - (value + half)]
    assert shorter[0] <= 1e-9 <= shorter[1] + 2e-9  # never shorter; longer only by what words and templates add
    assert shorter == pytest.approx([0, 0], abs=0.02)
    assert row["p_cities"] == pytest.approx(2 * stats.t.sf(abs(value) / error, 4))
    assert row["p_value"] == max(row["p_permutation"], row["p_crossed"], row["p_cities"])
    assert row["ratio_ci_low"] < row["ratio"] < row["ratio_ci_high"]


def test_words_of_one_city_do_not_stand_for_another():
    """Cities differ in their words, their share of labels and their tastes; the label itself does nothing."""
    rng = np.random.default_rng(6)
    p_values = []
    for number in range(10):
        parts = []
        for place in range(6):
            words = [f"{place}w{word}" for word in range(16)]
            rows = city(f"city{place}", rng, words=words)
            thai = rng.random(len(rows)) < 0.1 + 0.15 * place
            black = rows["substitution"].isin(words[: 4 + 2 * place])
            categories = [("Thai",) if part else ("Pizza",) for part in thai]
            parts.append(rows.assign(categories=categories, label=np.where(black, "black", "white")))
        frame = tidy(pd.concat(parts, ignore_index=True))
        how = replace(SHEN, resamples=0, permutations=200, seed=number)
        result = of_all(association(frame, how), label="black", category="Thai")
        p_values.append(result["p_permutation"].iloc[0])
    assert np.mean(np.array(p_values) <= 0.05) <= 0.2
    assert np.mean(p_values) > 0.3


def test_a_city_without_a_label_stays_out():
    rng = np.random.default_rng(7)
    rows = [city(name, rng, accident=0.3) for name in "ABC"]
    lone = city("D", rng)
    lone = lone[lone["label"] == "white"]
    with_lone, without = (tidy(pd.concat(part, ignore_index=True)) for part in ([*rows, lone], rows))
    for scores, columns in (
        (association, ["category", "label", "difference", "ratio", "ci_low", "ci_high", "p_cities"]),
        (price_percentage, ["label", "price", "value", "ci_low", "ci_high", "neutral"]),
    ):
        found, expected = (of_all(scores(rows, QUICK))[columns] for rows in (with_lone, without))
        pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True))


def test_a_label_of_one_city_only_has_the_rows_of_that_city():
    rng = np.random.default_rng(8)
    plain = city("B", rng).assign(label="all")
    rows = tidy(pd.concat([city("A", rng), plain], ignore_index=True))
    result = association(rows, replace(SHEN, resamples=200, permutations=200))
    part, whole = (result[result["city"] == name].drop(columns="city").reset_index(drop=True) for name in ("A", "all"))
    pd.testing.assert_frame_equal(part, whole)


def test_one_city_alone_says_nothing_of_the_next():
    rng = np.random.default_rng(3)
    rows = [city(name, rng, planted=0.5) for name in "ABC"]
    rows[0]["categories"] = rows[0]["categories"].map(lambda cell: (*cell, "Ramen") if cell == ("Thai",) else cell)
    result = association(tidy(pd.concat(rows, ignore_index=True)), QUICK)
    part = result[(result["label"] == "black") & (result["category"] == "Ramen")].set_index("city")
    assert part.loc["A", "p_value"] < 0.05
    assert part.loc["all", ["ci_low", "ci_high", "p_value", "p_adjusted"]].isna().all()
    assert part.loc["all", "difference"] > 0


def test_prices_and_item_names_have_intervals_over_cities_within_their_range():
    rng = np.random.default_rng(4)
    rows = tidy(pd.concat([city(name, rng, accident=1.0) for name in "AB"], ignore_index=True))
    for found, least, most in ((of_all(average_price(rows, QUICK)), 1, 4), (top_words(rows, QUICK), 0, 1)):
        assert found["ci_low"].ge(least).all()
        assert found["ci_high"].le(most).all()
