"""Before and after mitigation: masks (Shen 2023 §3.5, Fig. 2), augmentation and re-ranking (Shen 2022 §5).

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from tod_bias.recommenders.lmrec import associations, prices, quality
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import K, LMRec
from tod_bias.recommenders.lmrec.queries import ask
from tod_bias.recommenders.lmrec.reading import score
from tod_bias.recommenders.lmrec.recommendations import ALL, tidy
from tod_bias.recommenders.lmrec.reviews import Reviews
from tod_bias.recommenders.lmrec.templates import TemplateSet, load_templates
from tod_bias.report.figures import INK, STAGE_COLOURS, new_figure, strip, styled
from tod_bias.report.sheets import Sheet
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
SHOWN = ("accuracy", "MRR", "HR@5", "HR@10", "HR@20")
_IN_TABLE = ("accuracy", "HR@20")


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
        """In order."""
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
            ranked[training.name] = quality.rank_held_out(
                model, training.reviews, training.seed, mask, show_progress=show_progress
            )
            by_training[training.name] = bias_of(ask(model, words, city=training.reviews.city, top=top, hide=mask))
        scores = quality.quality(ranked, cities, level=how.level, resamples=how.resamples, seed=how.seed)
        qualities.append(scores.assign(condition=name))
        for bias in next(iter(by_training.values())):
            values = {training: scores_of[bias] for training, scores_of in by_training.items()}
            biases += [(name, training, bias, value, np.nan, np.nan) for training, value in values.items()]
            biases.append((name, ALL, bias, *quality.mean_over_cities(values, cities, how.level)))
    whole = pd.concat(qualities, ignore_index=True)
    columns = ["condition", *(column for column in whole if column != "condition")]
    names = ["condition", "city", "score", "value", "ci_low", "ci_high"]
    return MitigationScores(whole[columns], pd.DataFrame(biases, columns=names))


def bias_of(frame: pd.DataFrame) -> dict[str, float]:
    """The three numbers of :func:`compare` for one frame of recommendations."""
    results = tidy(frame)
    quick = replace(SHEN, resamples=0, permutations=0)
    shares = prices.price_percentage(results, quick)
    shares = shares[shares["city"] == ALL]
    scores = associations.association(results, quick)
    scores = scores[scores["city"] == ALL]
    places = prices.average_price(results, quick)
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
