"""Quality of recommendations, and both quality and bias before and after mitigation.

Every review of the test split is a query (Shen 2022, Table 3). *Venue* scores measure whether the ranking finds the
reviewed venue. P, R and F1 are averages over venues, weighted by their test reviews, as scikit-learn's ``weighted`` (R
is then the accuracy, as in the table). *Category* scores count a ranked venue as relevant if it shares a category with
the reviewed venue; R-precision, MAP, MRR and nDCG are computed over the whole ranking. All scores are in 0–1, 1 is
best.

Mitigations are masks (Shen 2023 §3.5, Fig. 2), augmentation and re-ranking (Shen 2022 §5):

============ ================ ==================== =========
condition    trained on       asked                re-ranked
============ ================ ==================== =========
original     reviews          queries
test side    reviews          neutralised queries
train side   masked reviews   queries
both         masked reviews   neutralised queries
augmented    augmented        queries
re-ranked    reviews          queries              by price
============ ================ ==================== =========
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.model import K, LMRec, ask
from tod_bias.recommenders.lmrec.reading import score
from tod_bias.recommenders.lmrec.recommendations import ALL, tidy
from tod_bias.recommenders.lmrec.reviews import Reviews
from tod_bias.recommenders.lmrec.scores import association, average_price, price_percentage
from tod_bias.recommenders.lmrec.templates import Neutraliser, TemplateSet, load_templates
from tod_bias.report.canvas import INK, STAGE_COLOURS, new_figure, strip, styled
from tod_bias.report.sheets import Sheet
from tod_bias.statistics.intervals import interval, t_interval
from tod_bias.statistics.resampling import resample_counts
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CUTS = (5, 10, 20)
VENUE_SCORES = ("P", "R", "F1", "MRR", "accuracy", *(f"HR@{k}" for k in CUTS))
CATEGORY_SCORES = tuple(f"category {name}" for name in (*(f"P@{k}" for k in CUTS), "R-precision", "MAP", "MRR", "nDCG"))
SHOWN = ("accuracy", "MRR", "HR@5", "HR@10", "HR@20")
_IN_TABLE = ("accuracy", "HR@20")


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


def quality_scores(
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


class MitigationCondition(NamedTuple):
    """A condition of mitigation."""

    model: str
    """Model of a city: ``plain``, ``masked`` or ``augmented``."""
    masks: bool = False
    """True if queries are neutralised."""
    reranks: bool = False
    """True if lists are re-ranked by price."""


CONDITIONS: Mapping[str, MitigationCondition] = {
    "original": MitigationCondition("plain"),
    "test side": MitigationCondition("plain", masks=True),
    "train side": MitigationCondition("masked"),
    "both": MitigationCondition("masked", masks=True),
    "augmented": MitigationCondition("augmented"),
    "re-ranked": MitigationCondition("plain", reranks=True),
}


def reranked(ranking: Sequence[int], levels: Sequence[int | None], top: int) -> list[int]:
    """A ranking whose first items are chosen by DetGreedy (Geyik, Ambler and Kenthapadi 2019, Algorithm 1); the others
    follow in their order.

    At every rank k of a list each price level has at least ⌊p k⌋ and at most ⌈p k⌉ items, p being its share of the
    venues: all lists are equally expensive. With more than three levels, one may be an item short at some ranks. Among
    the levels that may come next, the one whose best remaining item the recommender ranked highest comes first. Venues
    without a price are a separate level.

    Args:
        ranking: all items, the best first.
        levels: of each item, the price level.
        top: number of chosen items.
    """
    shares = {level: count / len(levels) for level, count in Counter(levels).items()}
    queues: dict[int | None, deque[tuple[int, int]]] = {level: deque() for level in shares}
    for place, item in enumerate(ranking):
        queues[levels[item]].append((place, item))
    counts: Counter[int | None] = Counter()
    chosen: list[int] = []
    for k in range(1, min(top, len(ranking)) + 1):
        left = [level for level in shares if queues[level]]
        below = [level for level in left if counts[level] < math.floor(shares[level] * k + 1e-9)]
        may = below or [level for level in left if counts[level] < math.ceil(shares[level] * k - 1e-9)]
        level = min(may or left, key=lambda level: queues[level][0])
        counts[level] += 1
        chosen.append(queues[level].popleft()[1])
    taken = set(chosen)
    return chosen + [item for item in ranking if item not in taken]


class Reranker(LMRec):
    """A recommender whose lists are re-ranked.

    Args:
        recommender: whose lists.
        top: how many items of a list are chosen.
    """

    def __init__(self, recommender: LMRec, top: int = K) -> None:
        super().__init__(recommender.model, recommender.tokenizer, recommender.venues)
        self._top = top

    def rank(self, texts: Sequence[str], k: int = K, *, batch: int = 128, show_progress: bool = False) -> np.ndarray:
        """Indices of the first k venues of each text after re-ranking, (texts, k)."""
        levels = [venue.price for venue in self.venues]
        rankings = super().rank(texts, len(self.venues), batch=batch, show_progress=show_progress)
        distinct = {row.tobytes(): row for row in rankings}
        made = {key: reranked(row.tolist(), levels, self._top)[:k] for key, row in distinct.items()}
        return np.array([made[row.tobytes()] for row in rankings], dtype=np.int32)


@dataclass(frozen=True)
class CityModels:
    """Models of one city that were trained with one seed, so that they share their test reviews."""

    name: str
    """Name of the city and the training."""
    reviews: Reviews
    seed: int
    models: Mapping[str, LMRec]
    """``plain``, and any of ``masked`` and ``augmented``."""


@dataclass(frozen=True)
class MitigationScores:
    """Quality and bias in every condition with models; city ``all`` is the mean over cities."""

    quality: pd.DataFrame
    """condition, city (and training), score, value, ci_low, ci_high, reviews."""
    bias: pd.DataFrame
    """condition, city, score, value, ci_low, ci_high: mean distance from the neutral reference; 0 is none."""

    @property
    def conditions(self) -> list[str]:
        """Conditions in order."""
        return list(dict.fromkeys(self.bias["condition"]))


def compare(
    trainings: Sequence[CityModels],
    *,
    words: TemplateSet | None = None,
    top: int = K,
    how: Inference = SHEN,
    show_progress: bool = False,
) -> MitigationScores:
    """Score and audit every model in every condition, and give the means over cities with their t intervals.

    Bias is given in three numbers, each 0 for a recommender that does not look at the words: the mean over dimensions,
    labels and price levels of abs(P(l | m) − neutral); the mean of abs(association difference) over dimensions, pairs
    and categories; the spread (standard deviation) of the average price over places. Chance alone does not give 0 in
    the unmitigated conditions; the audit's intervals and tests separate effects from chance.

    Args:
        trainings: the models by city and seed.
        words: templates and words.
        top: items per list.
        how: level, resamples and seed of intervals.
        show_progress: on stderr.
    """
    words = words or load_templates()
    hide = Neutraliser(words)
    cities = {training.name: training.reviews.city for training in trainings}
    qualities, biases = [], []
    for name, condition in CONDITIONS.items():
        if any(condition.model not in training.models for training in trainings):
            continue
        ranked, by_training = {}, {}
        for training in trainings:
            model = training.models[condition.model]
            model = Reranker(model, top) if condition.reranks else model
            mask = hide if condition.masks else None
            ranked[training.name] = rank_held_out(
                model, training.reviews, training.seed, mask, show_progress=show_progress
            )
            by_training[training.name] = bias_of(ask(model, words, city=training.reviews.city, top=top, hide=mask))
        scores = quality_scores(ranked, cities, level=how.level, resamples=how.resamples, seed=how.seed)
        qualities.append(scores.assign(condition=name))
        for bias in next(iter(by_training.values())):
            values = {training: scores_of[bias] for training, scores_of in by_training.items()}
            biases += [(name, training, bias, value, np.nan, np.nan) for training, value in values.items()]
            biases.append((name, ALL, bias, *mean_over_cities(values, cities, how.level)))
    whole = pd.concat(qualities, ignore_index=True)
    columns = ["condition", *(column for column in whole if column != "condition")]
    names = ["condition", "city", "score", "value", "ci_low", "ci_high"]
    return MitigationScores(whole[columns], pd.DataFrame(biases, columns=names))


def bias_of(frame: pd.DataFrame) -> dict[str, float]:
    """The three numbers of :func:`compare` for one frame of recommendations."""
    results = tidy(frame)
    quick = replace(SHEN, resamples=0, permutations=0)
    shares = price_percentage(results, quick)
    shares = shares[shares["city"] == ALL]
    scores = association(results, quick)
    scores = scores[scores["city"] == ALL]
    places = average_price(results, quick)
    names = results.distinct.loc[results.distinct["kind"] == "locations", "substitution"].unique()
    places = places[(places["city"] == ALL) & places["substitution"].isin(names)]
    return {
        "price percentage": float((shares["value"] - shares["neutral"]).abs().mean()),
        "association": float(scores["difference"].abs().mean()),
        "price of places": float(places["value"].std(ddof=0)),
    }


@styled
def figure(result: MitigationScores) -> Figure:
    """Quality and bias in every condition (Shen 2023, Fig. 2), means over cities; of bias 0 is neutral."""
    picture = new_figure(9.0, 3.2)
    panels = picture.subplots(1, 2, width_ratios=(1.5, 1))
    width = 0.8 / len(result.conditions)
    for panel, frame, names in (
        (panels[0], result.quality, list(SHOWN)),
        (panels[1], result.bias, list(dict.fromkeys(result.bias["score"]))),
    ):
        for number, condition in enumerate(result.conditions):
            mine = (frame["condition"] == condition) & (frame["city"] == ALL)
            rows = frame[mine].set_index("score").loc[names]
            places = np.arange(len(names)) + (number - (len(result.conditions) - 1) / 2) * width
            colour = STAGE_COLOURS[number % len(STAGE_COLOURS)]
            panel.bar(places, rows["value"], width * 0.92, color=colour, label=condition, zorder=2)
            panel.vlines(places, rows["ci_low"], rows["ci_high"], color=INK, linewidth=1, zorder=3)
        panel.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
        panel.grid(axis="y", linewidth=0.6)
        panel.set_axisbelow(True)
        strip(panel)
    panels[0].set_title("Quality on test reviews")
    panels[1].set_title("Distance from the neutral reference (0)")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper left", ncols=len(result.conditions))
    return picture


def mitigation_sheet(result: MitigationScores, level: float) -> Sheet:
    """Quality and bias, a row per condition: means over cities."""
    whole = [frame[frame["city"] == ALL] for frame in (result.quality, result.bias)]
    names = (list(_IN_TABLE), list(dict.fromkeys(result.bias["score"])))
    rows: list[tuple[Any, ...]] = []
    for condition in result.conditions:
        cells = []
        for frame, scores in zip(whole, names, strict=True):
            mine = frame[frame["condition"] == condition].set_index("score")
            cells += [score(mine.loc[name], "value") for name in scores]
        rows.append((condition, *cells))
    count = result.bias["city"].nunique() - 1
    over = f", mean over {count} trainings" if count > 1 else ""
    columns = ("condition", *names[0], *(f"bias: {name}" for name in names[1]))
    return Sheet("mitigation", f"Before and after, {level:.0%} intervals{over}", columns, tuple(rows))
