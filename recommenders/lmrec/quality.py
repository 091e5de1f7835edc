"""How good the recommendations are: Shen 2022, Table 3.

Every review of the test split is a query. *Venue*: did the ranking find the reviewed venue? P, R and F1 are averages
over venues weighted by their test reviews, as scikit-learn's ``weighted`` (R is then the accuracy, as in the table).
*Category*: a ranked venue is relevant where it shares a category with the reviewed one; R-precision, MAP, MRR and nDCG
are of the whole ranking. All scores are in 0–1, 1 is best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.errors import RecommenderError
from tod_bias.files import write_json, write_table
from tod_bias.folder import writable
from tod_bias.recommenders.lmrec.inference import mean_of_shares
from tod_bias.recommenders.lmrec.recommendations import ALL
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.resampling import resample_counts

if TYPE_CHECKING:
    import pandas as pd

CUTS = (5, 10, 20)
VENUE_SCORES = ("P", "R", "F1", "MRR", "accuracy", *(f"HR@{k}" for k in CUTS))
CATEGORY_SCORES = tuple(f"category {name}" for name in (*(f"P@{k}" for k in CUTS), "R-precision", "MAP", "MRR", "nDCG"))


@dataclass(frozen=True)
class Ranked:
    """What is needed of each test review: scores that are means, and true and predicted venue."""

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
        raise RecommenderError("nothing to evaluate: there is no test review")
    scores = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Ranked(scores, goal, np.concatenate(predicted).astype(np.int64), len(model.venues))


def quality(cities: Mapping[str, Ranked], *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Scores a city, and their mean over cities (Shen 2022, Table 3).

    Within a city test reviews are resampled; the mean over several cities has a t interval over the cities.

    Returns:
        city (``all``: mean over cities), score, value, ci_low, ci_high, reviews.
    """
    import pandas as pd

    made = []
    for city, ranked in cities.items():
        rng = np.random.default_rng(seed)
        counts = resample_counts(rng, resamples, len(ranked)).astype(np.float32) if resamples else None
        triple = precision_recall_f1(ranked.truth, ranked.predicted, ranked.venues)
        sampled = (
            np.array([precision_recall_f1(ranked.truth, ranked.predicted, ranked.venues, row) for row in counts])
            if counts is not None
            else None
        )
        for name in (*VENUE_SCORES, *CATEGORY_SCORES):
            if name in ("P", "R", "F1"):
                number = ("P", "R", "F1").index(name)
                value, samples = triple[number], None if sampled is None else sampled[:, number]
            else:
                column = ranked.scores[name]
                present = ~np.isnan(column)
                value = float(column[present].mean()) if present.any() else np.nan
                samples = None
                if counts is not None and present.any():
                    samples = counts[:, present] @ column[present] / counts[:, present].sum(axis=1)
            low, high = (np.nan, np.nan) if samples is None else interval(samples, len(ranked), level)
            made.append((city, name, value, float(low), float(high), len(ranked)))
    frame = pd.DataFrame(made, columns=["city", "score", "value", "ci_low", "ci_high", "reviews"])
    rows = []
    for score, subset in frame.groupby("score", sort=False):
        mean = mean_of_shares(subset, level)
        rows.append((ALL, str(score), *mean, subset["reviews"].sum()))
    return pd.concat([frame, pd.DataFrame(rows, columns=frame.columns)], ignore_index=True)


def save(frame: pd.DataFrame, folder: str | Path, record: Mapping[str, Any]) -> None:
    """Write ``quality.csv`` and the record ``quality.json``."""
    folder = writable(folder)
    write_table(folder / "quality.csv", frame)
    write_json(folder / "quality.json", record)
