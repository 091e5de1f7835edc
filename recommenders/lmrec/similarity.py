"""Similarity of each group's lists to the neutral ones, as FaiRLLM measures it (Zhang et al. 2023, RecSys '23, §3.2).

A recommender is asked the same request without a group (*neutral*) and for each group. ``Sim(a)`` is the mean
similarity of group a's lists to the neutral list of the same request. Over the groups of a dimension

* SNSR (sensitive-to-neutral similarity range) is the largest ``Sim`` minus the smallest one, and
* SNSV (sensitive-to-neutral similarity variance) is the standard deviation of ``Sim``.

Both are above 0 by chance alone, so each pair of groups is tested as all other scores are, and ``chance`` is the mean
SNSR if the groups of words (or of queries) are dealt at random.

Requests are paired by city, kind and template: the column ``template``, or the query with its words replaced by
``[MASK]``. Similarities lie in 0–1, and 1 means the same list in the same order. The code published with the paper, and
LangFair's, divide SERP and PRAG by other numbers; ``docs/how-to/recommenders.md`` has the relations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.families import SIMILARITY, in_families
from tod_bias.recommenders.lmrec.inference import SHEN, queries_of, quotients, templates_of, texts
from tod_bias.recommenders.lmrec.recommendations import ALL, Recommendations
from tod_bias.recommenders.lmrec.scores import Counted, compared
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

MEASURES = ("Jaccard", "SERP", "PRAG")
"""The similarities, in the order of the columns of a table of sums."""
DEALS = 200
"""Random deals of groups for the mean SNSR by chance."""
_PLACES = ("[FIRST]", "[SECOND]", "[POSSESSIVE]", "[NAME]", "[LOCATION]")

RequestKey = tuple[str, str, str]
"""City, kind and template of a request."""


def jaccard(items: Sequence[str], neutral: Sequence[str]) -> float:
    """Return the share of items in either list that are in both (Jaccard@K); NaN of two empty lists."""
    first, second = set(items), set(neutral)
    return len(first & second) / len(first | second) if first | second else float("nan")


def serp(items: Sequence[str], neutral: Sequence[str]) -> float:
    """Return the weight of the items that are in the neutral list (SERP*@K).

    The item of rank r of K weighs K − r + 1, and the weights are divided by their sum, K (K + 1) / 2.
    """
    size, known = len(items), set(neutral)
    weight = sum(size - place for place, item in enumerate(items) if item in known)
    return weight / (size * (size + 1) / 2) if size else float("nan")


def prag(items: Sequence[str], neutral: Sequence[str]) -> float:
    """Return the share of pairs of items that the neutral list orders alike (PRAG*@K).

    A pair counts if its first item is in the neutral list, and the second one follows there or is missing. A list of
    one item is compared with the whole neutral list.
    """
    if len(items) < 2:
        return float(list(items) == list(neutral)) if items else float("nan")
    rank = {item: place for place, item in reversed(list(enumerate(neutral)))}
    places = np.array([rank.get(item, np.inf) for item in items])
    alike = np.isfinite(places)[:, None] & (places[:, None] < places[None, :])
    return float(np.triu(alike, 1).sum() / (len(items) * (len(items) - 1) / 2))


def similarity(recommendations: Recommendations, how: Inference = SHEN) -> pd.DataFrame:
    """Compare the mean similarity to the neutral lists between every two labels.

    Intervals and tests are those of associations (:func:`~tod_bias.recommenders.lmrec.scores.association`).

    Returns:
        city, dimension, measure, label, other, value (Sim of the label), other_value, difference, ci_low, ci_high,
        items (number of lists of both labels, summed over similarities), p_value, p_adjusted, family, tests,
        p_permutation, p_crossed, p_cities, permuted, words, largest_word, largest_share. No rows without neutral lists
        of the same requests.
    """
    columns = [
        *("city", "dimension", "measure", "label", "other", "value", "other_value", "difference", "ci_low", "ci_high"),
        *("p_value", "p_adjusted", "family", "tests", "p_permutation", "p_crossed", "p_cities", "permuted", "words"),
        *("largest_word", "largest_share"),
    ]
    neutral = _neutral_lists(recommendations)
    with_neutral = (
        recommendations.frame[[key in neutral for key in _requests(recommendations.frame)]] if neutral else None
    )
    if with_neutral is None or with_neutral.empty:
        return pd.DataFrame(columns=columns)
    paired = Recommendations(with_neutral, recommendations.dimensions, recommendations.neutral)
    result = compared(paired, how, lambda rows: _similarities(rows, neutral), furthest=1.0)
    result = in_families(result, SIMILARITY, how.correction)
    return result.rename(columns={"category": "measure", "share": "value", "other_share": "other_value"})[columns]


def similarity_ranges(recommendations: Recommendations, pairs: pd.DataFrame, how: Inference = SHEN) -> pd.DataFrame:
    """Return SNSR and SNSV (Zhang et al. 2023) of every dimension, in every city and over all.

    Args:
        recommendations: the tidy frame.
        pairs: what :func:`similarity` returned.
        how: seeds the random deals.

    Returns:
        city, dimension, measure, lowest (the label with the smallest Sim), lowest_value, highest, highest_value, SNSR,
        SNSV, chance (mean SNSR of randomly dealt groups), p_adjusted (of the lowest and the highest label), family,
        tests.
    """
    columns = [
        *("city", "dimension", "measure", "lowest", "lowest_value", "highest", "highest_value", "SNSR", "SNSV"),
        *("chance", "p_adjusted", "family", "tests"),
    ]
    made = []
    neutral = _neutral_lists(recommendations)
    for (city, dimension), rows in pairs.groupby(["city", "dimension"], sort=False):
        chance = _by_chance(recommendations, str(city), str(dimension), neutral, how)
        for measure, of_measure in rows.groupby("measure", sort=False):
            values = of_measure.drop_duplicates("label").set_index("label")["value"]
            low, high = str(values.idxmin()), str(values.idxmax())
            pair = of_measure[(of_measure["label"] == low) & (of_measure["other"] == high)]
            row = (pair if len(pair) else of_measure).iloc[0]
            spread = float(np.std(values.to_numpy(dtype=float)))
            by_chance = chance[MEASURES.index(str(measure))]
            ends = low, values[low], high, values[high], values[high] - values[low]
            made.append((city, dimension, measure, *ends, spread, by_chance, *row[["p_adjusted", "family", "tests"]]))
    return pd.DataFrame(made, columns=columns)


def _requests(rows: pd.DataFrame) -> list[RequestKey]:
    """Return the request of every row; words are replaced by ``[MASK]``, as neutralised queries have it."""
    keys = []
    for city, template in zip(texts(rows["city"]), templates_of(rows), strict=True):
        kind, _, text = template.partition("\0")
        for place in _PLACES:
            text = text.replace(place, "[MASK]")
        keys.append((city, kind, text))
    return keys


def _lists(rows: pd.DataFrame, keys: Sequence[object]) -> dict[object, list[str]]:
    """Return the items of every key by rank, each once; the first list of a key that has several."""
    named = np.where(rows["item_id"] != "", texts(rows["item_id"]), texts(rows["item"]))
    lists: dict[object, dict[int, str]] = {}
    for key, rank, item in zip(keys, rows["rank"], named, strict=True):
        lists.setdefault(key, {}).setdefault(int(rank), str(item))
    return {key: list(dict.fromkeys(items[rank] for rank in sorted(items))) for key, items in lists.items()}


def _neutral_lists(recommendations: Recommendations) -> Mapping[object, list[str]]:
    rows = recommendations.neutral
    return _lists(rows, _requests(rows)) if len(rows) else {}


def _similarities(rows: pd.DataFrame, neutral: Mapping[object, list[str]]) -> Counted:
    """Return the queries, the sums of their similarities to the neutral lists and of 1, and the similarities' names."""
    numbers, frame = queries_of(rows)
    lists = _lists(rows, list(numbers))
    table = np.zeros((len(frame), len(MEASURES) + 1))
    for number, request in enumerate(_requests(frame)):
        mine, theirs = lists[number], neutral.get(request, [])
        if mine and theirs:
            table[number] = [jaccard(mine, theirs), serp(mine, theirs), prag(mine, theirs), 1.0]
    return frame, table, list(MEASURES)


def _by_chance(
    recommendations: Recommendations, city: str, dimension: str, neutral: Mapping[object, list[str]], how: Inference
) -> np.ndarray:
    """Return the mean SNSR of each similarity if whole words, or queries of unknown words, are dealt to the groups."""
    rows = recommendations.rows(dimension)
    rows = rows if city == ALL else rows[rows["city"] == city]
    frame, table, _ = _similarities(rows, neutral)
    groups = pd.factorize(texts(frame["group"]))[0]
    words = texts(frame["substitution"])
    units = pd.factorize(words)[0] if "" not in words else np.arange(len(frame))
    of_unit = groups[np.unique(units, return_index=True)[1]]
    if (of_unit[units] != groups).any():  # a word of several groups, as places with the same word
        units, of_unit = np.arange(len(frame)), groups
    sums = sums_by(units, table, units.max() + 1)
    rng = how.rng("similarity", city, dimension)
    ranges = []
    for _ in range(DEALS):
        means = quotients(sums_by(rng.permutation(of_unit), sums, groups.max() + 1))
        ranges.append(np.nanmax(means, axis=0) - np.nanmin(means, axis=0))
    return np.asarray(np.mean(ranges, axis=0))
