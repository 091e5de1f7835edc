"""Intervals and tests of Shen's bias scores, the same in every analysis.

Intervals within a city. The items of one list are not independent, and neither are the lists of one name. Names are a
sample of the group's names: a finding about the group must hold for other names too. So whole words and whole templates
are resampled separately (the pigeonhole bootstrap, :mod:`tod_bias.statistics.crossed`). Every group keeps its number of
words, because the groups' sizes are part of the design. Intervals are expanded percentile intervals
(:func:`tod_bias.statistics.intervals.interval`); their number of clusters is that of the words or templates of the
smallest group. A group of fewer than five words has no interval.

Intervals over cities. With several cities, every number over all of them has a t interval over the cities. For a mean
it is the usual one. For a number that pools the cities' items it comes from the jackknife over cities (Efron and Stein
1981). The interval holds for the next city, or the next training of a model, and not only for the lists at hand: a
recommender that was trained once prefers some category for some group by accident, and no number of queries shows that
the preference is an accident. Several models of one city count as cities. Cities that are asked with the same names
share the names' effects. So the t interval over cities, words and templates (the multiway variance, Cameron, Gelbach
and Miller 2011) is used if it is wider.

Permutation test. The null hypothesis is that a query's group does not matter. Groups belong to words (a name is black
or white), so the groups of words are permuted: for all queries of a word together, in all cities at once, within the
groups of the other dimensions. If there are fewer than 100 permutations of words, or if words are not known or belong
to several groups, the groups of queries are permuted within a city. p = (b + 1) / (m + 1), two-sided.

t tests. The permutation test takes an unequal spread of the groups' words for a difference. So there is also a t test
with the multiway variance over words, templates and, if there are several, cities. Its variance leaves out one word of
a group at a time (CV3, MacKinnon and Webb 2017), and its degrees of freedom are those of the group that has most of the
variance. For categories, it tests both the difference and the logarithm of the ratio: shares of few uneven words are
skewed, which makes one p-value too small below the mean and the other too small above it. Over several cities there is
a t test of the cities alone, too.

p-values. The p-value of a shift is the largest of these tests: a shift must be beyond the chance of words, of templates
and of cities. p-values are adjusted within a family, one for each research question and dimension
(:mod:`tod_bias.recommenders.lmrec.families`). If a group has fewer than six
effective words, (Σw)² / Σw² for words with w items, the finding is about these words and not about the group, and the t
test treats them as fixed. If one word carries half of a difference or more, the finding is about that word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec.recommendations import COUPLE, CROSS
from tod_bias.statistics.crossed import Crossing, cells, crossed_sums, crossed_variance, crossing, effective_number
from tod_bias.statistics.jackknife import Jackknife, jackknife
from tod_bias.statistics.needed import ENOUGH_WORDS, FEWEST
from tod_bias.statistics.permutation import Exceedances, relabelled
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.sums import sums_by

SHEN = Inference(level=0.90, correction="bh")
"""The usual settings: Shen shows 90% intervals; corrections are over the tests of one question."""
FEWEST_QUERIES = 5
"""Fewest queries for an interval within a city; resampling fewer shows no spread."""
FEWEST_WAYS = 100
"""Fewest ways in which words can be exchanged; p is at least one in that number."""
_WORDS = ("substitution", "second")
_POSSESSIVE = re.compile(r"\b(his|her)\b")


def templates_of(frame: pd.DataFrame) -> np.ndarray:
    """Return the template of every row, (rows,) texts: as given, else the query without its words.

    Possessives follow the first word (… and his wife), so they are left out of templates made from queries. A query
    without its words is its own template.
    """
    result = []
    keys = zip(*(texts(frame[name]) for name in ("kind", "template", "query", *_WORDS)), strict=True)
    for kind, template, query, first, second in keys:
        text = template
        if not text:
            text = query
            for word, place in ((second, "[SECOND]"), (first, "[FIRST]")):
                text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", place, text) if word else text
            text = _POSSESSIVE.sub("[POSSESSIVE]", text)
        result.append(f"{kind}\0{text}")
    return np.array(result, dtype=object)


def texts(column: pd.Series) -> np.ndarray:
    """A column's cells as Python has them, (rows,): pandas is slow in making each of them on its way."""
    return column.to_numpy(dtype=object)


def queries_of(rows: pd.DataFrame) -> tuple[np.ndarray, pd.DataFrame]:
    """The number of every row's query with its group, (rows,), and a row of each of them."""
    numbers = pd.factorize(cells([pd.factorize(texts(rows[name]))[0] for name in ("unit", "group")]))[0]
    return numbers, rows.iloc[np.unique(numbers, return_index=True)[1]].reset_index(drop=True)


class GroupedQueries:
    """The queries of the groups of one dimension, in one city or in all, with what is summed over each.

    Args:
        frame: a row a query and group, as :func:`queries_of` gives it.
        table: (queries, n), what is summed.
        city: its name; ``all`` of several.
        dimension: of the groups.
        dimensions: all of them.
        how: how intervals and tests are made.
        labels: names of the groups in order; as they come if left out.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        table: np.ndarray,
        city: str,
        dimension: str,
        dimensions: Sequence[str],
        how: Inference,
        labels: Sequence[str] | None = None,
    ) -> None:
        self.frame, self.table, self.city = frame, table, city
        self.dimension, self.dimensions, self.how = dimension, dimensions, how
        self.labels = list(labels or dict.fromkeys(frame["group"]))
        self.codes = np.asarray(pd.Categorical(frame["group"], categories=self.labels).codes, dtype=int)
        """(queries,) numbers of their labels."""
        self.cities = pd.factorize(frame["city"])[0]
        """(queries,) numbers of their cities."""
        self.sums = np.zeros((self.cities.max(initial=-1) + 1, len(self.labels), table.shape[1]))
        """(cities, labels, n)."""
        np.add.at(self.sums, (self.cities, self.codes), table)
        self.is_over_cities = len(self.sums) > 1

    def design(self, *, words: bool = True) -> Crossing:
        """Return the clusters: by city if there are several, by each word (one cluster in all cities), by template.

        The labels of other dimensions are by design: white and black women's names are each drawn among their own.
        If words are unknown, every query is its own cluster.

        Args:
            words: True if words are a sample, as those of couples always are; False for statements about these words
                only.
        """
        frame = self.frame
        ways = [self.cities] if self.is_over_cities else []
        named = [name for name in _WORDS if frame[name].ne("").any()]
        for name in (named or ["substitution"]) if words or self.dimension == COUPLE else []:
            known = frame[name].where(frame[name] != "", frame["unit"].map("\0{}".format))
            ways.append(pd.factorize(known)[0])
        ways.append(pd.factorize(templates_of(frame))[0])
        facts = [pd.factorize(frame[name])[0] for name in frame if name == "kind" or str(name).startswith("label:")]
        return crossing(self.codes, ways, facts)


def fewest_clusters(ways: Sequence[np.ndarray], mine: np.ndarray) -> int:
    """Return the number of clusters of the way with the fewest, without ways of one cluster; 1 if there is no other."""
    counts = [len(np.unique(way[mine])) for way in ways]
    return min([count for count in counts if count > 1], default=1)


@dataclass(frozen=True)
class WordCount:
    """Number of words of some groups."""

    words: int | None
    """Number for the group with the fewest; None if the words are unknown."""
    effective: float
    """Effective number, with words weighted by their recommendations; NaN if the words are unknown."""

    @property
    def enough_for_intervals(self) -> bool:
        """True if there are enough words for intervals; unknown words are left to the audit's note."""
        return self.words is None or self.words >= FEWEST

    @property
    def enough(self) -> bool:
        """True if a finding can hold for the groups; unknown words do not count as few."""
        return not self.effective < ENOUGH_WORDS

    @property
    def recorded(self) -> float:
        """Value for the column ``words``."""
        return self.effective if math.isnan(self.effective) else round(self.effective, 2)


def _standing(frame: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the words of some queries, numbers (queries,) and texts: those that determine the groups, else all known
    ones."""
    groups = pd.factorize(texts(frame["group"]))[0]
    of_groups, known = [], []
    for name in _WORDS:
        codes, words = pd.factorize(texts(frame[name]))
        if "" in words or frame.empty:
            continue
        known.append((codes, words))
        if cells([groups, codes]).max() + 1 == len(words):
            of_groups.append((codes, words))
    return of_groups or known


def word_count(frame: pd.DataFrame, weights: np.ndarray) -> WordCount:
    """Return the number of words of the groups (column ``group``), of words that determine the groups if there are any.

    Words that determine no group, as those of couples, count within their gender: three women and three men are three
    words.

    Args:
        frame: a row per query.
        weights: (queries,) weights, for instance the number of recommended items.
    """
    counts = []
    groups = pd.factorize(texts(frame["group"]))[0]
    for words, _ in _standing(frame):
        halves = [pd.factorize(texts(frame[name]))[0] for name in ("group0", "group1") if name in frame]
        mine = cells([groups, *(codes for codes in halves if cells([words, codes]).max() == words.max())])
        summed = np.zeros((mine.max() + 1, words.max() + 1))
        np.add.at(summed, (mine, words), weights)
        counts.append(WordCount(int((summed > 0).sum(axis=1).min()), min(map(effective_number, summed))))
    return min(counts, key=lambda count: count.effective, default=WordCount(None, math.nan))


def cross_validated(frame: pd.DataFrame, groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(queries,) factors that make linear influences those of leaving out a word at a time (CV3).

    Without a word of the share h, a mean moves by 1 / (1 − h) of its influence; of n words that weigh the same it is
    n / (n − 1), which the multiway variance has already.

    Args:
        frame: a row a query.
        groups: (queries,) numbers.
        weights: (queries,) what each weighs.
    """
    result = np.ones(len(frame))
    for words, _ in _standing(frame)[:1]:
        pairs = cells([groups, words])
        sums = np.bincount(pairs, np.asarray(weights, dtype=float))[pairs]
        totals = np.bincount(groups, np.asarray(weights, dtype=float))[groups]
        of_group = np.zeros(pairs.max() + 1, dtype=int)
        of_group[pairs] = groups
        count = np.bincount(of_group)[groups]
        with np.errstate(invalid="ignore", divide="ignore"):
            factors = (1 - 1 / count) / (1 - sums / totals)
        result = np.where((count > 1) & (sums < totals), factors, 1.0)
    return result


def largest_word(frame: pd.DataFrame, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the word that carries most of a gap, and its share; a gap of one word is not the group's.

    Args:
        frame: a row per query.
        parts: of each of two groups, (queries, scores): contributions of its queries to the gap, 0 for all others.

    Returns:
        (scores,) texts, empty if words are unknown, and (scores,) shares, NaN if words are unknown or there is no gap.
    """
    scores = parts[0].shape[1]
    names, shares = np.full(scores, "", dtype=object), np.full(scores, np.nan)
    groups = pd.factorize(texts(frame["group"]))[0]
    for words, known in _standing(frame):
        carried = []
        for part in parts:
            gap = part.sum(axis=0)
            differs = np.abs(gap) > 1e-9 * np.abs(part).sum(axis=0)  # else it is rounding
            carried.append(sums_by(words, part, len(known)) / np.where(differs, gap, np.nan))
        if cells([groups, words]).max() + 1 > len(known):  # in both groups, what a word adds to one it may take again
            carried = [np.mean(carried, axis=0)]
        for of_words in carried:
            differs = ~np.isnan(of_words[0])
            highest = of_words.max(axis=0)
            larger = differs & ~(highest <= shares)
            names[larger] = known[of_words.argmax(axis=0)][larger]
            shares = np.fmax(shares, highest)
    return names, shares


@dataclass(frozen=True)
class Exchange:
    """Exchangeable units in a test of two groups."""

    codes: np.ndarray
    """(queries,): the cluster that each query moves with."""
    mine: np.ndarray
    """(clusters,), true in the first group."""
    strata: np.ndarray
    """(clusters,); clusters of different strata do not change places."""
    permuted: str
    """``words`` or ``queries``."""
    turned: np.ndarray | None = None
    """(queries,) bool, True for queries that leave the first group when their cluster enters it; left out if there are
    none."""

    def p_values(
        self,
        table: np.ndarray,
        distances: Callable[[np.ndarray], np.ndarray],
        rng: np.random.Generator,
        permutations: int,
    ) -> np.ndarray:
        """Two-sided p-values, (scores,), of exchanging the groups.

        Args:
            table: (queries, n), what is summed over the queries of the first group.
            distances: (rows, n) such sums to (rows, scores) distances from the null hypothesis.
            rng: draws who changes places.
            permutations: how many.
        """
        summed = np.zeros((len(self.mine), table.shape[1]), dtype=np.float32)
        always = np.zeros(table.shape[1])
        if self.turned is not None:
            always = table[self.turned].sum(axis=0, dtype=float)
            table = np.where(self.turned[:, None], -table, table)
        np.add.at(summed, self.codes, table)
        result = Exceedances(distances(always + summed[self.mine].sum(axis=0, dtype=float)[None])[0])
        for drawn in relabelled(rng, self.mine, self.strata, permutations):
            result.add(distances(always + (drawn @ summed).astype(float)))
        return result.p_values()


def exchange(frame: pd.DataFrame, mine: np.ndarray, dimension: str, dimensions: Sequence[str]) -> Exchange:
    """Exchange words within the groups of the other dimensions, or queries within a city if words cannot be exchanged.

    Of couples the first words change their genders, and with them their couples.

    Args:
        frame: a row per query.
        mine: (queries,), True in the first group.
        dimension: of the exchanged groups.
        dimensions: all of them.
    """
    if dimension == COUPLE:
        return _of_couples(frame, mine)
    others = [f"label:{name}" for name in dimensions if name not in dimension.split(CROSS)]
    facts = [pd.factorize(texts(frame[name]))[0] for name in ("city", *others)]
    for word in _WORDS:
        codes, words = pd.factorize(texts(frame[word]))
        first = np.unique(codes, return_index=True)[1]
        part = mine[first]
        if "" in words or (part[codes] != mine).any():
            continue  # words unknown, or of several groups
        fixed = [fact[first] for fact in facts if (fact[first][codes] == fact).all()]
        groups = pd.factorize(cells(fixed))[0] if fixed else np.zeros(len(words), dtype=int)
        ways = math.prod(math.comb(int((groups == g).sum()), int(part[groups == g].sum())) for g in set(groups))
        if ways >= FEWEST_WAYS:
            return Exchange(codes, part, groups, "words")
    return Exchange(np.arange(len(frame)), mine, pd.factorize(cells(facts))[0], "queries")


def _of_couples(frame: pd.DataFrame, mine: np.ndarray) -> Exchange:
    """Exchange the genders of first words if there are enough of them, else the couples of queries within a city."""
    words, known = pd.factorize(texts(frame["substitution"]))
    gender = frame["group0"].to_numpy() == frame["group0"].iloc[0]  # (queries,)
    two = all(frame[name].nunique() == 2 for name in ("group0", "group1"))
    of_word = gender[np.unique(words, return_index=True)[1]]
    ways = math.comb(len(of_word), int(of_word.sum()))
    if two and "" not in known and (of_word[words] == gender).all() and ways >= FEWEST_WAYS:
        return Exchange(words, of_word, np.zeros(len(known), dtype=int), "words", turned=mine != gender)
    return Exchange(np.arange(len(frame)), mine, pd.factorize(texts(frame["city"]))[0], "queries")


def quotients(sums: np.ndarray) -> np.ndarray:
    """(…, n) means or shares: all columns but the last by the last one, which counts; NaN of nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., :-1] / sums[..., -1:])


def quotient_bounds(
    table: np.ndarray,
    design: Crossing,
    city: np.ndarray,
    how: Inference,
    rng: np.random.Generator,
    limits: tuple[float, float],
) -> np.ndarray:
    """Return bounds of the :func:`quotients` of all queries together, (2, n).

    Args:
        table: (queries, n + 1).
        design: clusters of queries, by city too if there are several.
        city: (queries,) numbers.
        how: level and resamples.
        rng: draws the clusters of a single city.
        limits: smallest and largest possible value.
    """
    if city.max(initial=0) == 0:
        samples = crossed_sums(rng, table, design, how.resamples)[:, 0]
        return how.bounds(quotients(samples), fewest_clusters(design.ways, np.ones(len(table), dtype=bool)))
    over = jackknife(sums_by(city, table, city.max() + 1), quotients, how.level)
    with np.errstate(invalid="ignore", divide="ignore"):
        influences = (table[:, :-1] - over.value * table[:, -1:]) / table[:, -1].sum()
    return widened(over, crossed_variance(influences, design).half(how.level), limits)


def widened(over: Jackknife, half: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """(2, n) bounds: the wider of the interval over cities and that of half a length, within limits."""
    return np.clip(np.stack([np.fmin(over.low, over.value - half), np.fmax(over.high, over.value + half)]), *limits)
