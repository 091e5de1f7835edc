"""Su Table 2: the turns whose score changes most between the original and a counterfactual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tod_bias.report.excerpts import UNSWAPPED, Segments, compare, readable_pair, scorer_of
from tod_bias.statistics.arms import ORIGINAL_ARM

_KEYS = ["axis", "dialogue", "turn"]
_TIMES = 2
"""Turns that one pair of groups may have."""


@dataclass(frozen=True)
class ChangedTurn:
    """A turn of a counterfactual beside the original."""

    axis: str
    dialogue: str
    turn: int
    """Counted from 1."""
    source: str
    target: str
    before: float
    """Score of the turn in the original."""
    after: float
    texts: dict[str, tuple[Segments, Segments]]
    """``user``, then each stage whose output differs, to the texts of the original and of the counterfactual."""


def changed_turns(turns: pd.DataFrame, stages: Sequence[str], metrics: Sequence[str], most: int) -> list[ChangedTurn]:
    """Return the turns of each axis whose score changes most, each dialogue once and each pair of groups twice.

    Args:
        turns: rows of ``turns.parquet`` of the arms :data:`UNSWAPPED` and ``original``, with the ``source`` of each
            counterfactual.
        stages: of the pipeline, in order.
        metrics: names; the first that scores single turns decides.
        most: turns of an axis.
    """
    scorer = next(filter(None, (scorer_of(name, turns.columns, {}) for name in metrics)), None)
    if scorer is None:
        return []
    rows = turns[turns["role"].isin(("original", "group")) & (turns["sample"] == 0)]
    rows = rows.assign(score=scorer.turn_scores(rows[list(scorer.columns)].to_numpy(dtype=float)))
    rows[["user", *stages]] = rows[["user", *stages]].fillna("")
    originals = rows[rows["arm"] == ORIGINAL_ARM].drop_duplicates(_KEYS)[[*_KEYS, "score", "user", *stages]]
    joined = rows[rows["arm"] == UNSWAPPED].merge(originals, on=_KEYS, suffixes=("", "_original"))
    joined["change"] = (joined["score"] - joined["score_original"]).abs().round(9)
    joined = joined.sort_values(["change", "dialogue", "turn", "variant"], ascending=[False, True, True, True])
    axes = [joined[joined["axis"] == axis] for axis in rows["axis"].unique()]
    return [_turn(row, stages) for of_axis in axes for row in list(_chosen(of_axis))[:most]]


def _chosen(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    dialogues: set[str] = set()
    pairs: Counter[tuple[str, str]] = Counter()
    for row in rows[rows["change"] > 0].to_dict("records"):
        pair = (row["source"], row["group"])
        if row["dialogue"] not in dialogues and pairs[pair] < _TIMES:
            dialogues.add(row["dialogue"])
            pairs[pair] += 1
            yield {str(name): value for name, value in row.items()}


def _turn(row: dict[str, Any], stages: Sequence[str]) -> ChangedTurn:
    pairs = {name: readable_pair(row[f"{name}_original"], row[name]) for name in ("user", *stages)}
    return ChangedTurn(
        axis=str(row["axis"]),
        dialogue=str(row["dialogue"]),
        turn=int(row["turn"]) + 1,
        source=str(row["source"]),
        target=str(row["group"]),
        before=float(row["score_original"]),
        after=float(row["score"]),
        texts={name: compare(*pair) for name, pair in pairs.items() if name == "user" or pair[0] != pair[1]},
    )
