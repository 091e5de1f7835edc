"""Quality of the recommendations: Shen 2022, Table 3.

Every review of the test split is a query. *Venue*: did the ranking find the reviewed venue? P, R and F1 are averages
over venues weighted by their test reviews, as scikit-learn's ``weighted`` (R is then the accuracy, as in the table).
*Category*: a ranked venue is relevant where it shares a category with the reviewed one; R-precision, MAP, MRR and nDCG
are of the whole ranking. All scores are in 0–1, 1 is best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.reading import score
from tod_bias.recommenders.lmrec.recommendations import ALL
from tod_bias.recommenders.lmrec.reviews import Reviews
from tod_bias.report.sheets import Sheet
from tod_bias.statistics.intervals import interval, t_interval
from tod_bias.statistics.resampling import resample_counts

CUTS = (5, 10, 20)
VENUE_SCORES = ("P", "R", "F1", "MRR", "accuracy", *(f"HR@{k}" for k in CUTS))
CATEGORY_SCORES = tuple(f"category {name}" for name in (*(f"P@{k}" for k in CUTS), "R-precision", "MAP", "MRR", "nDCG"))


@dataclass(frozen=True)
class Ranked:
    """Input of the scores of each test review: scores that are means, and true and predicted venue."""

    scores: dict[str, np.ndarray]
    truth: np.ndarray
    predicted: np.ndarray
    venues: int

    def __len__(self) -> int:
        return len(self.truth)


def ranked_scores(rankings: np.ndarray, truth: np.ndarray, related: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of single queries.

    Args:
        rankings: (queries, venues), all venues, the best first.
        truth: (queries,) the reviewed venue.
        related: (venues, venues), whether two venues share a category.

    Returns:
        Score to (queries,); category scores are NaN where no venue is relevant (the reviewed one has no category).
    """
    place = np.argmax(rankings == truth[:, None], axis=1)  # 0: first
    result: dict[str, np.ndarray] = {"MRR": 1.0 / (place + 1), "accuracy": (place == 0).astype(float)}
    for k in CUTS:
        result[f"HR@{k}"] = (place < k).astype(float)
    relevant = related[truth[:, None], rankings]  # (queries, venues)
    count = relevant.sum(axis=1)
    ranks = np.arange(1, rankings.shape[1] + 1)
    hits = np.cumsum(relevant, axis=1)
    gain = 1.0 / np.log2(ranks + 1)
    ideal = np.concatenate([[0.0], np.cumsum(gain)])
    with np.errstate(invalid="ignore", divide="ignore"):
        for k in CUTS:
            result[f"category P@{k}"] = hits[:, min(k, hits.shape[1]) - 1] / k
        at = np.maximum(count - 1, 0)[:, None]
        result["category R-precision"] = np.take_along_axis(hits, at, axis=1)[:, 0] / count
        result["category MAP"] = (relevant * hits / ranks).sum(axis=1) / count
        result["category MRR"] = 1.0 / (np.argmax(relevant, axis=1) + 1)
        result["category nDCG"] = (relevant * gain).sum(axis=1) / ideal[count]
    for name in CATEGORY_SCORES:
        result[name] = np.where(count > 0, result[name], np.nan)
    return result


def related_venues(categories: Sequence[Sequence[str]]) -> np.ndarray:
    """(venues, venues): whether two venues share a category."""
    names = {name: number for number, name in enumerate(dict.fromkeys(c for subset in categories for c in subset))}
    table = np.zeros((len(categories), len(names)), dtype=np.float32)
    for row, subset in enumerate(categories):
        table[row, [names[name] for name in subset]] = 1
    return (table @ table.T) > 0


def precision_recall_f1(
    truth: np.ndarray, predicted: np.ndarray, venues: int, weights: np.ndarray | None = None
) -> tuple[float, float, float]:
    """Averages over venues weighted by how often each is the true one; 0 where a venue is never predicted."""
    weights = np.ones(len(truth)) if weights is None else weights
    right = np.bincount(truth, weights * (truth == predicted), minlength=venues)
    true, guessed = np.bincount(truth, weights, minlength=venues), np.bincount(predicted, weights, minlength=venues)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.nan_to_num(right / guessed)
        recall = np.nan_to_num(right / true)
        f1 = np.nan_to_num(2 * right / (guessed + true))
    share = true / true.sum()
    return float(precision @ share), float(recall @ share), float(f1 @ share)


def rank_reviews(
    model: Any, texts: Sequence[str], truth: Sequence[int], *, batch: int = 256, show_progress: bool = False
) -> Ranked:
    """Rank all venues for every text and keep its scores, some texts at a time."""
    related = related_venues([venue.categories for venue in model.venues])
    goal = np.asarray(truth, dtype=np.int64)
    parts: list[dict[str, np.ndarray]] = []
    predicted = []
    step = 4096
    for start in range(0, len(texts), step):
        rankings = model.rank(texts[start : start + step], len(model.venues), batch=batch, show_progress=show_progress)
        parts.append(ranked_scores(rankings, goal[start : start + step], related))
        predicted.append(rankings[:, 0])
    if not parts:
        raise RecommenderError("nothing to evaluate: there are no test reviews")
    scores = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Ranked(scores, goal, np.concatenate(predicted).astype(np.int64), len(model.venues))


def rank_held_out(
    model: Any, reviews: Reviews, seed: int, hide: Callable[[str], str] | None = None, *, show_progress: bool = False
) -> Ranked:
    """Rank all venues for the test reviews of a training.

    Args:
        model: the recommender.
        reviews: that it was trained on.
        seed: of their split.
        hide: masks every review before it is read.
        show_progress: on stderr.
    """
    held_out = list(reviews.of_split(2, seed))
    texts = [hide(review.text) if hide else review.text for review in held_out]
    return rank_reviews(model, texts, [review.venue for review in held_out], show_progress=show_progress)


def quality(
    trainings: Mapping[str, Ranked],
    cities: Mapping[str, str] | None = None,
    *,
    level: float = 0.90,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Scores of each training, and their mean over cities (Shen 2022, Table 3).

    For one training, test reviews are resampled. The mean has a t interval over the cities, each the mean of its
    trainings; with a single city, over its trainings.

    Args:
        trainings: name to its rankings.
        cities: name of a training to its city; by default each is a separate city.
        level: of the intervals.
        resamples: of test reviews.
        seed: of resamples.

    Returns:
        city (name of the training; ``all``: mean over cities), score, value, ci_low, ci_high, reviews.
    """
    made = []
    for city, ranked in trainings.items():
        counts = resample_counts(np.random.default_rng(seed), resamples, len(ranked)).astype(np.float32)
        weights = np.concatenate([np.ones((1, len(ranked))), counts])
        triples = np.array([precision_recall_f1(ranked.truth, ranked.predicted, ranked.venues, row) for row in weights])
        scores = {name: (triples[0, place], triples[1:, place]) for place, name in enumerate(VENUE_SCORES[:3])}
        for name, column in ranked.scores.items():
            present = ~np.isnan(column)
            if present.any():
                samples = counts[:, present] @ column[present] / counts[:, present].sum(axis=1)
                scores[name] = column[present].mean(), samples
        for name in (*VENUE_SCORES, *CATEGORY_SCORES):
            value, samples = scores.get(name, (np.nan, np.zeros(0)))
            low, high = interval(samples, len(ranked), level) if len(samples) else (np.nan, np.nan)
            made.append((city, name, float(value), float(low), float(high), len(ranked)))
    frame = pd.DataFrame(made, columns=["city", "score", "value", "ci_low", "ci_high", "reviews"])
    rows = [
        (ALL, str(score), *_over_trainings(part, cities, level), part["reviews"].sum())
        for score, part in frame.groupby("score", sort=False)
    ]
    return pd.concat([frame, pd.DataFrame(rows, columns=frame.columns)], ignore_index=True)


def _over_trainings(rows: pd.DataFrame, cities: Mapping[str, str] | None, level: float) -> tuple[float, float, float]:
    """Return the mean of one score with its interval; if only one training has a value, its own interval is used."""
    known = rows.dropna(subset="value")
    if len(known) == 1:
        return tuple(known[["value", "ci_low", "ci_high"]].to_numpy(dtype=float)[0])
    value, low, high = mean_over_cities(dict(zip(known["city"], known["value"], strict=True)), cities, level)
    return value, max(low, 0.0), min(high, 1.0)


def mean_over_cities(
    values: Mapping[str, float], cities: Mapping[str, str] | None, level: float
) -> tuple[float, float, float]:
    """Mean over cities with its t interval: over the cities, each the mean of its trainings, or over one's trainings.

    Args:
        values: name of a training to its score.
        cities: name of a training to its city; by default each is a separate city.
        level: of the interval.

    Returns:
        Mean and bounds; NaN if there is too little data.
    """
    every = pd.Series(values, dtype=float)
    means = every.groupby(lambda name: (cities or {}).get(name, name), sort=False).mean()
    sample = (means if len(means) > 1 else every).to_numpy()
    if len(sample) < 2:
        return (float(sample[0]) if len(sample) else np.nan, np.nan, np.nan)
    return (float(sample.mean()), *t_interval(sample, level))


def quality_sheet(scores: pd.DataFrame, level: float) -> Sheet:
    """Scores of recommendation quality, a column per training; of many only what holds over all of them."""
    cities = list(map(str, dict.fromkeys(scores["city"])))
    if len(cities) == 2:
        cities = cities[:1]
    elif len(cities) - 1 > 3:
        cities = [ALL]
    many = f", mean over {scores['city'].nunique() - 1} trainings" if cities == [ALL] else ""
    rows = []
    for name, part in scores.groupby("score", sort=False):
        cells = (score(part[part["city"] == city].iloc[0], "value") for city in cities)
        rows.append((str(name), *cells))
    title = f"Recommendation quality on test reviews, {level:.0%} intervals{many}"
    return Sheet("quality", title, ("score", *cities), tuple(rows))
