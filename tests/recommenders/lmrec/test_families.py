"""Families of tests: one for each question and dimension, named beside every adjusted p-value."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from worlds import COUPLES, World

from tod_bias.recommenders.lmrec.audit import audit
from tod_bias.recommenders.lmrec.families import CATEGORIES, NIGHTLIFE, in_families, is_of_relationships
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.reading import LIMITS
from tod_bias.recommenders.lmrec.recommendations import tidy
from tod_bias.recommenders.lmrec.scores import association
from tod_bias.results import INCONCLUSIVE

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

QUICK = replace(SHEN, resamples=50, permutations=200)


def test_a_test_that_is_seen_from_both_labels_counts_once():
    rows = pd.DataFrame(
        {
            "city": "all",
            "dimension": "race",
            "label": ["white", "black", "white", "black"],
            "other": ["black", "white", "black", "white"],
            "category": ["Bars", "Bars", "Thai", "Thai"],
            "p_value": [0.01, 0.01, 0.04, np.nan],
        }
    )
    found = in_families(rows, CATEGORIES, "bh")
    assert found["family"].eq("categories, race").all()
    assert found["p_adjusted"].tolist() == pytest.approx([0.02, 0.02, 0.04, 0.04])
    assert found["tests"].eq(2).all()


def test_prices_are_not_adjusted_for_categories():
    frame = tidy(World(words=(12, 12), planted=0.6).lists(np.random.default_rng(3)))
    audited = audit(frame, QUICK)
    shares = audited.price_percentage[audited.price_percentage["city"] == "all"]
    assert shares["tests"].eq(4).all()  # the shares of two labels are one test
    assert shares["family"].eq("prices, race").all()
    assert audited.price_by_label["tests"].eq(1).all()
    assert audited.association["family"].eq("categories, race").all()
    said = " ".join(" ".join(one.details) for one in audited.statements)
    assert "(prices, race: 4 tests)" in said
    assert "(average price, race: 1 test)" in said


def test_nightlife_of_couples_is_a_question_of_its_own():
    frame = tidy(next(iter(COUPLES.values())).lists(np.random.default_rng(0)))
    rows = association(frame, QUICK)
    questions = rows["family"].str.split(",").str[0]
    assert questions[rows["category"] == "Bars"].eq(NIGHTLIFE).all()
    assert questions[rows["category"] != "Bars"].eq(CATEGORIES).all()
    assert rows.loc[questions == NIGHTLIFE, "tests"].eq(rows.loc[questions == CATEGORIES, "tests"].min() / 4).any()
    assert is_of_relationships("gender", pd.Series(["wife", "aunt", "husband"]))
    assert not is_of_relationships("gender", pd.Series(["Molly", "Brett"]))
    assert not is_of_relationships("gender", pd.Series([], dtype=object))


def test_what_is_not_proven_is_shown_as_seen():
    rows = World(words=(8, 8), word=0.8).lists(np.random.default_rng(1))
    statements = [one for one in audit(tidy(rows), QUICK).statements if one.verdict == INCONCLUSIVE]
    (shift,) = [one for one in statements if "shift of categories" in one.sentence]
    assert "seen, not proven: " in shift.sentence
    assert "% of what " in shift.sentence
    assert "tests)" in shift.details[0]
    (price,) = [one for one in statements if "price level" in one.sentence]
    assert any("seen, not proven: " in detail for detail in price.details)
    assert not any("everything that a sentence covers" in limit for limit in LIMITS)


def test_categories_drown_prices_in_one_family():
    from families import WORLDS, measured

    found = dict(measured(WORLDS["prices differ by race (0.6)"], 4))
    assert found["question"]["prices, race"] == found["sentence"]["prices, race"] == 1
    assert found["everything"]["prices, race"] < 1
    assert found["question"]["false share of claims"] < 0.3
