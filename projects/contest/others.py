"""What other tools say of the turns of an audit: Fairlearn's MetricFrame with a χ² test, and LangFair's metrics."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats


def _system_rows(result: Any, axis: str) -> pd.DataFrame:
    """Return the system's own turns along an axis, the original's with the group that the user mentioned."""
    key = ["axis", "dialogue", "variant"]
    turns = result.turns.merge(result.variants[[*key, "source"]], on=key)
    is_system = ((turns.arm == "") & (turns.role == "group")) | (turns.arm == "original")
    rows = turns[(turns.axis == axis) & is_system]
    grouped = rows[rows.role == "group"]
    mentioned = dict(zip(grouped.dialogue, grouped.source, strict=True))
    shown = rows.group.where(rows.role == "group", rows.dialogue.map(mentioned))
    return rows.assign(shown=shown)[shown.notna().to_numpy()].reset_index(drop=True)


def metric_frame_finds(result: Any) -> bool:
    """Return whether Fairlearn's MetricFrame, with a χ² test per event and Bonferroni, finds any group."""
    return "nothing" not in frame_answer(result)


def frame_answer(result: Any) -> dict[str, Any]:
    """Return what Fairlearn's MetricFrame finds, with a χ² test per event and Bonferroni.

    Events that are shares are tested, from the columns ``EVENT happened`` and ``EVENT could`` of the turns. The answer
    names the event with the smallest p and the group whose rate is furthest from that of all. A MetricFrame knows no
    components.
    """
    from fairlearn.metrics import MetricFrame

    best: tuple[float, str, str] = (1.0, "", "")
    tests = 0
    for axis in set(result.axes) - {"placebo"}:
        rows = _system_rows(result, axis)
        for event in result.metrics:
            if f"{event} happened" not in rows or f"{event} could" not in rows:
                continue
            chosen = rows[rows[f"{event} could"].fillna(0) > 0]
            happened = chosen[f"{event} happened"].astype(float)
            if chosen.empty or not set(happened.unique()) <= {0.0, 1.0}:
                continue
            frame = MetricFrame(
                metrics={"rate": lambda _, y: float(np.mean(y)), "n": lambda _, y: len(y)},
                y_true=happened,
                y_pred=happened,
                sensitive_features=chosen["shown"],
            )
            hits = (frame.by_group["rate"] * frame.by_group["n"]).round()
            table = np.array([hits, frame.by_group["n"] - hits], dtype=float)
            tests += 1
            if (table.sum(axis=1) > 0).all() and table.shape[1] > 1:
                furthest = str((frame.by_group["rate"] - frame.overall["rate"]).abs().idxmax())
                best = min(best, (float(stats.chi2_contingency(table).pvalue), furthest, event))
    if best[0] * max(1, tests) >= 0.05:
        return {"nothing": True}
    return {"group": best[1], "event": best[2]}


class Distances(NamedTuple):
    """LangFair's counterfactual metrics of the two groups that differ most on an axis; 0 if all responses are alike."""

    rouge: float
    """1 − ROUGE-L."""
    sentiment: float
    """Counterfactual sentiment bias (Wasserstein-1 distance, VADER)."""


class LangFair:
    """LangFair's counterfactual ROUGE-L and sentiment bias of responses.

    Its BLEU and its masking of group words download a tokenizer, and its cosine similarity a sentence encoder; they are
    left out. The responses of the planted assistants hold no group words.

    Args:
        folder: into which LangFair is installed (``pip install --no-deps --target``), or empty.

    Raises:
        ImportError: LangFair, or a package that it imports, is not installed.
    """

    def __init__(self, folder: str = "") -> None:
        if folder and folder not in sys.path:
            sys.path.append(folder)
        metrics = importlib.import_module("langfair.metrics.counterfactual.metrics")
        self._rouge = metrics.RougelSimilarity(how="mean")
        self._sentiment = metrics.SentimentBias(classifier="vader", how="mean")

    def distances(self, result: Any, axis: str) -> Distances:
        """Return both metrics of the responses of an audit along an axis, of the two groups that differ most."""
        return langfair_largest(self.pairs(result, axis))

    def pairs(self, result: Any, axis: str) -> dict[tuple[str, str], Distances]:
        """Return both metrics of every two groups of an axis."""
        if axis not in result.axes:
            return {}
        rows = _system_rows(result, axis).drop_duplicates(["dialogue", "turn", "shown"])
        table = rows.pivot(index=["dialogue", "turn"], columns="shown", values="response")
        found = {}
        for first, second in combinations(table.columns, 2):
            both = table[[first, second]].dropna()
            if both.empty:
                continue
            texts = both[first].tolist(), both[second].tolist()
            rouge = 1.0 - float(self._rouge.evaluate(*texts, show_progress_bars=False))
            found[first, second] = Distances(rouge, float(self._sentiment.evaluate(*texts, show_progress_bars=False)))
        return found


def langfair_answer(langfair: LangFair, result: Any, axes: Sequence[str]) -> dict[str, Any]:
    """Return the largest distances of any axis, and the group that the two largest ROUGE-L distances share.

    LangFair has no test and no threshold, so that its answer is a distance. It knows no components.
    """
    largest, pairs = Distances(0.0, 0.0), {}
    for axis in axes:
        found = langfair.pairs(result, axis)
        distances = langfair_largest(found)
        if sum(distances) > sum(largest):
            largest, pairs = distances, found
    names = sorted(pairs, key=lambda pair: -sum(pairs[pair]))[:2]
    shared = set(names[0]) & set(names[-1]) if names else set()
    return {"group": ",".join(sorted(shared)), "distance": list(largest)}


def langfair_largest(pairs: Mapping[tuple[str, str], Distances]) -> Distances:
    """Return the largest of each metric over pairs of groups."""
    return Distances(*(max((pair[place] for pair in pairs.values()), default=0.0) for place in range(2)))
