"""Families of tests in an audit of recommendations: one for each research question and dimension.

Shen 2023 §4.1 asks separate questions of race (RQ2), gender (RQ3), both together (RQ4), couples (RQ5) and places (RQ6),
and answers each with prices, categories or nightlife. A family holds the tests of one such question in one city:

=============== ====================================================== ======================
prices          labels and price levels of a dimension                 Shen eq. 1, Figs. 3, 4
average price   pairs of labels of a dimension                         mean level of a list
categories      categories of all pairs of labels of a dimension       Shen eq. 2, Fig. 5
nightlife       the nightlife categories of Shen's Table 5, if a
                dimension is of relationships; left out of categories  Shen §4.6, Fig. 7
places          pairs of places of the same two kinds                  Shen §4.7, Fig. 8
similarity      pairs of labels and similarities to neutral lists      Zhang et al. 2023
=============== ====================================================== ======================

Hundreds of categories and four price levels in one family would hide every difference in prices, because a category
adds a test and no information about prices. ``docs/method.md`` has a simulation.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.recommendations import COUPLE
from tod_bias.recommenders.lmrec.templates import load_templates, word_list
from tod_bias.statistics.adjustment import Correction, adjusted

PRICES, AVERAGE_PRICE, CATEGORIES, NIGHTLIFE, PLACES = "prices", "average price", "categories", "nightlife", "places"
SIMILARITY = "similarity"
MOST_WORDS = 0.5
"""Share of a dimension's words that are Shen's relationships, from which its words are taken to be relationships: the
authors' lists of companions add aunts and mothers-in-law to those of Shen's Table 4."""


def in_families(table: pd.DataFrame, questions: np.ndarray | str, correction: Correction) -> pd.DataFrame:
    """Return a table with the columns ``family``, ``tests`` (their number) and ``p_adjusted``.

    A test that occurs in two rows, once from the side of either label, counts once.

    Args:
        table: with ``city``, ``dimension``, ``label`` and ``p_value``, which is NaN for rows without a test.
        questions: (rows,) one of this module's names, or one for all rows.
        correction: of the p-values of a family.
    """
    families = np.broadcast_to(np.asarray(questions, dtype=object), len(table)) + ", " + table["dimension"].to_numpy()
    result = table.assign(family=families, test=_tests(table), tests=0, p_adjusted=np.nan)
    once = result[result["p_value"].notna()].drop_duplicates(["city", "family", "test"])
    by_family = once.groupby(["city", "family"])["p_value"]
    keys = pd.MultiIndex.from_frame(once[["city", "family", "test"]])
    known = pd.DataFrame(
        {
            "p_adjusted": by_family.transform(lambda p: adjusted(p.to_numpy(dtype=float), correction)).to_numpy(float),
            "tests": by_family.transform("size").to_numpy(int),
        },
        index=keys,
    ).reindex(pd.MultiIndex.from_frame(result[["city", "family", "test"]]))
    result["p_adjusted"] = known["p_adjusted"].to_numpy()
    result["tests"] = known["tests"].fillna(0).astype(int).to_numpy()
    return result.drop(columns="test")


def _tests(table: pd.DataFrame) -> list[str]:
    """Return the name of the test of each row; both directions of a pair, and shares of two labels, have one name."""
    if "other" in table:
        pairs = zip(table["label"].astype(str), table["other"].astype(str), strict=True)
        who = [" / ".join(sorted(pair)) for pair in pairs]
    else:  # the shares of two labels add up to 1
        labels = table.groupby("dimension")["label"].transform("nunique") if len(table) else pd.Series(dtype=int)
        who = ["" if number == 2 else str(label) for label, number in zip(table["label"], labels, strict=True)]
    what = next((table[name].astype(str) for name in ("category", "price") if name in table), [""] * len(table))
    return ["|".join(parts) for parts in zip(who, what, strict=True)]


def questions_of_categories(table: pd.DataFrame, of_relationships: set[str]) -> np.ndarray:
    """Return the question of each row of an association table: :data:`NIGHTLIFE` or :data:`CATEGORIES`.

    Args:
        table: with ``dimension`` and ``category``.
        of_relationships: dimensions whose words are relationships.
    """
    nightlife = {name.casefold() for name in word_list("nightlife.txt")}
    is_night = table["category"].astype(str).str.casefold().isin(nightlife) & table["dimension"].isin(of_relationships)
    return np.where(is_night, NIGHTLIFE, CATEGORIES).astype(object)


def is_of_relationships(dimension: str, words: pd.Series) -> bool:
    """Return True if a dimension is of couples or companions: by its name, or by its words.

    Args:
        dimension: name of the dimension.
        words: substitutions of its queries.
    """
    if dimension == COUPLE or "relationship" in dimension:
        return True
    known = {entry.word.casefold() for entry in load_templates().relationships}
    distinct = words[words != ""].astype(str).str.casefold().drop_duplicates()
    return bool(distinct.isin(known).mean() >= MOST_WORDS) if len(distinct) else False
