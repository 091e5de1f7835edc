"""Before and after masking: test-side neutralisation, train-side masking, and both (Shen §3.5, Fig. 2).

============ ================ ====================
condition    trained on       asked
============ ================ ====================
original     reviews          queries
test side    reviews          neutralised queries
train side   masked reviews   queries
both         masked reviews   neutralised queries
============ ================ ====================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.recommenders.lmrec import associations, prices, quality
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import K, LMRec
from tod_bias.recommenders.lmrec.queries import ask
from tod_bias.recommenders.lmrec.reading import score
from tod_bias.recommenders.lmrec.recommendations import ALL, tidy
from tod_bias.recommenders.lmrec.reviews import Reviews
from tod_bias.recommenders.lmrec.templates import TemplateSet, load_templates
from tod_bias.report.notation import fixed
from tod_bias.report.palette import INK, STAGE_COLOURS, new_figure, strip, styled
from tod_bias.report.sheets import Sheet
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CONDITIONS: Mapping[str, tuple[bool, bool]] = {
    "original": (False, False),
    "test side": (False, True),
    "train side": (True, False),
    "both": (True, True),
}
"""Condition → (train-side masking, test-side neutralisation)."""
SHOWN = ("accuracy", "MRR", "HR@5", "HR@10", "HR@20")


@dataclass(frozen=True)
class MitigationScores:
    """Quality and bias in every condition."""

    quality: pd.DataFrame
    """condition, city, score, value, ci_low, ci_high, reviews."""
    bias: pd.DataFrame
    """condition, city, score, value: mean distance from the neutral reference; 0 is none."""


def compare(
    plain: LMRec,
    trained_masked: LMRec,
    reviews: Reviews,
    *,
    split_seed: int = 0,
    words: TemplateSet | None = None,
    top: int = K,
    inference: Inference | None = None,
    show_progress: bool = False,
) -> MitigationScores:
    """Score and audit both models with and without neutralisation.

    Bias is given in three numbers, each 0 for a recommender that does not look at the words: the mean over dimensions,
    labels and price levels of abs(P(l | m) − neutral); the mean of abs(association difference) over dimensions, pairs
    and categories; the spread (standard deviation) of the average price over places. Chance alone does not give 0 in
    the unmitigated conditions; the audit's intervals and tests tell what is more than chance.

    Args:
        plain: trained on reviews as they are.
        trained_masked: trained on masked reviews (``RecommenderTrainConfig.mask``).
        reviews: whose test split is ranked.
        split_seed: the seed that both were trained with.
        words: templates and words.
        top: items a list.
        inference: for the level, resamples and seed of intervals.
        show_progress: on stderr.
    """
    import pandas as pd

    how = inference or SHEN
    words = words or load_templates()
    hide = Neutraliser(words)
    held_out = list(reviews.of_split(2, split_seed))
    qualities, biases = [], []
    for condition, (train_side, test_side) in CONDITIONS.items():
        model = trained_masked if train_side else plain
        texts = [hide(review.text) if test_side else review.text for review in held_out]
        ranked = quality.rank_reviews(model, texts, [r.venue for r in held_out], show_progress=show_progress)
        scores = quality.quality({reviews.city: ranked}, level=how.level, resamples=how.resamples, seed=how.seed)
        qualities.append(scores[scores["city"] != ALL].assign(condition=condition))
        frame = ask(model, words, city=reviews.city, top=top, hide=hide if test_side else None)
        for name, value in bias_of(frame).items():
            biases.append((condition, reviews.city, name, value))
    whole = pd.concat(qualities, ignore_index=True)
    columns = ["condition", *(column for column in whole if column != "condition")]
    return MitigationScores(whole[columns], pd.DataFrame(biases, columns=["condition", "city", "score", "value"]))


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
    """Quality and bias in every condition (Shen Fig. 2); the neutral reference of every bias is 0."""
    picture = new_figure(9.0, 3.2)
    left, right = picture.subplots(1, 2, width_ratios=(1.5, 1))
    width = 0.8 / len(CONDITIONS)
    names = list(dict.fromkeys(result.bias["score"]))
    for number, condition in enumerate(CONDITIONS):
        colour = STAGE_COLOURS[number]
        rows = result.quality[result.quality["condition"] == condition].set_index("score").loc[list(SHOWN)]
        places = np.arange(len(SHOWN)) + (number - 1.5) * width
        left.bar(places, rows["value"], width * 0.92, color=colour, label=condition, zorder=2)
        for place, (_, row) in zip(places, rows.iterrows(), strict=True):
            left.plot([place, place], [row["ci_low"], row["ci_high"]], color=INK, linewidth=1, zorder=3)
        part = result.bias[result.bias["condition"] == condition].set_index("score").loc[names]
        right.bar(np.arange(len(names)) + (number - 1.5) * width, part["value"], width * 0.92, color=colour, zorder=2)
    left.set_xticks(range(len(SHOWN)), SHOWN)
    left.set_title("Quality on test reviews")
    right.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
    right.set_title("Distance from the neutral reference (0)")
    for panel in (left, right):
        panel.grid(axis="y", linewidth=0.6)
        panel.set_axisbelow(True)
        strip(panel)
    picture.legend(loc="outside upper left", ncols=len(CONDITIONS))
    return picture


def mitigation_sheet(result: MitigationScores, level: float) -> Sheet:
    """Quality and bias side by side, a column per condition."""
    rows: list[tuple[Any, ...]] = []
    for name in SHOWN:
        part = result.quality[result.quality["score"] == name]
        cells = (score(part[part["condition"] == condition].iloc[0], "value") for condition in CONDITIONS)
        rows.append((name, *cells))
    for bias, part in result.bias.groupby("score", sort=False):
        values = part.set_index("condition")["value"]
        rows.append((f"bias: {bias}", *(fixed(values[condition]) for condition in CONDITIONS)))
    return Sheet("mitigation", f"Before and after masking, {level:.0%} intervals", ("score", *CONDITIONS), tuple(rows))
