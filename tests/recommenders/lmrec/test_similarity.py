"""Similarity to neutral lists: SNSR and SNSV of FaiRLLM (Zhang et al. 2023), against a second computation."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from tod_bias.recommenders.lmrec.audit import audit
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.recommendations import tidy
from tod_bias.recommenders.lmrec.similarity import jaccard, prag, serp, similarity, similarity_ranges
from tod_bias.results import INCONCLUSIVE

QUICK = replace(SHEN, resamples=50, permutations=300)
ITEMS = [f"song {number}" for number in range(30)]


def saved(likeness: dict[str, float], names: int = 8, seed: int = 0) -> pd.DataFrame:
    """Lists of ten songs for fans of six singers, without a name and for names of each group: an item of the neutral
    list stays with the group's probability, else another song is in its place."""
    rng = np.random.default_rng(seed)
    rows = []
    for singer in range(6):
        neutral = list(rng.permutation(ITEMS)[:10])
        queries = [("neutral", "", neutral)]
        for label, keeps in likeness.items():
            for number in range(names):
                others = [item for item in rng.permutation(ITEMS) if item not in neutral]
                mine = [item if rng.random() < keeps else others.pop() for item in neutral]
                queries.append((label, f"{label}{number}", mine))
        for label, name, items in queries:
            query = f"I am {name or '[MASK]'} and a fan of singer {singer}"
            for rank, item in enumerate(items, start=1):
                rows.append((query, rank, label, name, item, rank % 4 + 1))
    return pd.DataFrame(rows, columns=["query", "rank", "label", "substitution", "item", "price"])


@pytest.mark.parametrize("seed", range(20))
def test_measures_are_those_of_the_paper_written_out(seed):
    rng = np.random.default_rng(seed)
    first, second = (list(rng.permutation(ITEMS)[: rng.integers(2, 12)]) for _ in range(2))
    size = len(first)
    assert jaccard(first, second) == pytest.approx(
        sum(item in second for item in first) / (size + len(second) - sum(item in first for item in second))
    )
    weights = [size - rank + 1 for rank, item in enumerate(first, start=1) if item in second]
    assert serp(first, second) == pytest.approx(2 * sum(weights) / (size * (size + 1)))
    alike = [
        one in second and (two not in second or second.index(one) < second.index(two))
        for one, two in combinations(first, 2)
    ]
    assert prag(first, second) == pytest.approx(np.mean(alike))


def test_measures_relate_to_published_code_as_documented():
    """Values of LangFair 0.8 for these two lists; on 200 random pairs of lists the same relations hold to 1e-16."""
    first, second = ["a", "b", "c", "d", "e"], ["b", "a", "x", "d", "y"]
    size, shared = 5, 3
    published_serp, published_prag = 0.23333333333333334, 0.23333333333333334
    assert serp(first, second) / 4 + 0.5 * shared / (size * (size + 1)) == pytest.approx(published_serp)
    assert prag(first, second) * (size - 1) / (2 * (size + 1)) == pytest.approx(published_prag)
    assert jaccard(first, second) == pytest.approx(3 / 7)


def test_equal_lists_have_similarity_1():
    for measure in (jaccard, serp, prag):
        assert measure(ITEMS[:9], ITEMS[:9]) == 1
        assert measure(ITEMS[:9], ITEMS[10:19]) == 0
        assert np.isnan(measure([], []))
    assert prag(ITEMS[:9], ITEMS[8::-1]) == 0
    assert prag(["a"], ["a"]) == 1
    assert prag(["a"], ["a", "b"]) == 0


def test_ranges_are_those_of_the_groups_means():
    frame = tidy(saved({"north": 0.5, "south": 0.8, "east": 0.6}))
    pairs = similarity(frame, QUICK)
    ranges = similarity_ranges(frame, pairs, QUICK)
    neutral = {request: part["item"].tolist() for request, part in frame.neutral.groupby("query", sort=False)}
    means = {}
    for label, rows in frame.frame.groupby("label", sort=False):
        values = [
            [measure(part["item"].tolist(), neutral[query.replace(part["substitution"].iloc[0], "[MASK]")])
             for measure in (jaccard, serp, prag)]
            for query, part in rows.groupby("query", sort=False)
        ]  # fmt: skip
        means[label] = np.mean(values, axis=0)
    table = np.array([*means.values()])
    over = ranges[ranges["city"] == "all"]
    assert over["measure"].tolist() == ["Jaccard", "SERP", "PRAG"]
    assert over["SNSR"].tolist() == pytest.approx(list(table.max(axis=0) - table.min(axis=0)))
    assert over["SNSV"].tolist() == pytest.approx(list(table.std(axis=0)))
    assert over["lowest"].eq("north").all()
    assert (over["chance"] < over["SNSR"] / 2).all()
    assert (over["tests"] == 9).all()  # three pairs, three similarities
    assert over["family"].str.startswith("similarity, ").all()


def test_a_group_with_other_lists_is_named_and_an_even_one_is_not():
    found = audit(tidy(saved({"female": 0.5, "male": 0.8})), QUICK).statements
    assert any("lists of female are less like the neutral lists than lists of male" in one.sentence for one in found)
    even = audit(tidy(saved({"female": 0.6, "male": 0.6}, seed=1)), QUICK).statements
    (open_,) = [one for one in even if "neutral ones" in one.sentence]
    assert open_.verdict == INCONCLUSIVE
    assert "seen, not proven: Jaccard" in open_.details[0]


def test_without_neutral_lists_there_is_no_similarity():
    frame = saved({"female": 0.5, "male": 0.8})
    result = audit(tidy(frame[frame["label"] != "neutral"]), QUICK)
    assert result.similarity.empty
    assert result.similarity_ranges.empty


@pytest.mark.slow
def test_few_false_claims():
    """Words have tastes of their own, and the groups do not differ: at most 4 of 40 audits claim a similarity."""
    claims = 0
    for seed in range(40):
        pairs = similarity(tidy(saved({"female": 0.6, "male": 0.6}, seed=seed)), QUICK)
        claims += bool((pairs["p_adjusted"] < 0.05).any())
    assert claims <= 4
