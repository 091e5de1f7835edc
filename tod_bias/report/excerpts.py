"""Turns to look at: where rewriting changed the score most, with the output of every stage (as in Su Table 2)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from tod_bias.dialogues.text import slots_from_text, slots_to_text
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import TodBiasError
from tod_bias.metrics.choice import known_metric
from tod_bias.metrics.metric import Metric as Scorer
from tod_bias.report.differences import in_column, of_turn
from tod_bias.report.record import ORIGINAL
from tod_bias.report.replies import texts_of_reply
from tod_bias.results import MetricInfo, RunError

if TYPE_CHECKING:
    import pandas as pd

UNSWAPPED = ""
"""The arm that runs the pipeline as it is on the rewritten dialogues."""

_KEYS = ["axis", "dialogue", "turn", "variant", "sample", "role", "source", "group", "arm", "user", "reference"]

_LONGEST = 10_000
"""Characters of a list that is read."""
_ALIKE = 0.4
"""Below this similarity, texts share words by chance only, and are marked as a whole."""

_MESSAGE = re.compile(r"content = .*? ; tool_calls = ", re.DOTALL)
"""How what a model said and called begins."""

_NAME = f"{API_NAME} = "

Segments = tuple[tuple[str, bool], ...]
"""A text in pieces; ``True`` marks those that differ from the text it is compared with."""


@dataclass(frozen=True)
class Difference:
    """One text before and after rewriting."""

    name: str
    """``user``, ``reference`` or a stage."""
    before: Segments
    """In the original dialogue."""
    after: Segments
    """In the rewritten dialogue."""

    @property
    def texts(self) -> tuple[str, str]:
        """Before and after, without marks."""
        before, after = ("".join(text for text, _ in segments) for segments in (self.before, self.after))
        return before, after

    @property
    def is_empty(self) -> bool:
        """Whether the two are the same."""
        return self.texts[0] == self.texts[1]


@dataclass(frozen=True)
class Excerpt:
    """One turn of one rewritten dialogue beside the original."""

    dialogue: str
    """The dialogue's id."""
    turn: int
    """Counted from 1."""
    source: str
    """The group of the original."""
    target: str
    """The group it is rewritten for."""
    user: Difference
    """What the user said."""
    differs_first: str
    """The first step that differs from T of the original's, in words; empty where none does."""
    earlier: tuple[int, Difference] | None
    """Where the user's words are the same: the last earlier turn, counted from 1, that was rewritten."""
    outputs: tuple[Difference, ...]
    """Outputs that differ, in the pipeline's order."""
    same: tuple[str, ...]
    """The stages whose outputs are equal."""
    reference: Difference
    """The gold response."""
    before: float
    """Score of the turn in the original dialogue."""
    after: float
    """The same in the rewritten dialogue."""


@dataclass(frozen=True)
class Focus:
    """What is claimed on an axis."""

    metric: str = ""
    """By which metric; turns are chosen by it where it scores single turns."""
    harmed: tuple[str, ...] = ()
    """The groups that it is claimed of."""


@dataclass(frozen=True)
class Excerpts:
    """The excerpts of one axis, and what they were chosen from."""

    axis: str
    """The axis."""
    metric: MetricInfo
    """By whose scores of single turns they were chosen."""
    chosen: tuple[Excerpt, ...]
    """The most harmful first, or where no harm is claimed the largest change of the score."""
    fell: int
    """Rewritten turns whose score is lower than in the original."""
    rose: int
    """Rewritten turns whose score is higher."""
    turns: int
    """All rewritten turns that have a score, over all counterfactuals."""


def excerpts(
    turns: pd.DataFrame,
    stages: Sequence[str],
    axes: Sequence[str],
    metrics: Sequence[MetricInfo],
    scorers: Sequence[Scorer] = (),
    *,
    focus: Mapping[str, Focus] | None = None,
    most: int = 3,
) -> list[Excerpts] | None:
    """Choose for each axis the turns whose score changes most between the original and the rewritten dialogue.

    Where groups are claimed to be served worse, their turns whose score worsens most. A dialogue is shown once and a
    (source, target) pair twice at most, so that one odd dialogue does not fill the list. Placebos are left out.

    Args:
        turns: rows of ``turns.parquet``, at least of the arms :data:`UNSWAPPED` and ``original``.
        stages: the pipeline's stages in order.
        axes: the axes in the order wanted; those without turns are left out.
        metrics: the run's, in order; the first that is shipped or among ``scorers`` decides.
        scorers: the user's metrics; those that a run's folder names are not imported.
        focus: axis to what is claimed on it; by default turns as all groups are shown, by the first metric.
        most: how many turns to choose for an axis.

    Returns:
        One entry per axis; ``None`` where no metric of the run gives single turns a score.

    Raises:
        RunError: a column is missing.
    """
    if missing := [name for name in [*_KEYS, *stages] if name not in turns.columns]:
        raise RunError(f"turns.parquet: expected a column {missing[0]!r}; repeat the run to write the file again")
    by_name = {scorer.name: scorer for scorer in scorers}
    if _scorer(turns, metrics, by_name) is None:
        return None
    turns = turns[turns["role"].isin(("original", "group")) & (turns["sample"] == 0)]
    texts = [*dict.fromkeys(("user", "reference", *stages, "response"))]
    turns = turns.assign(
        **{name: turns[name].map(lambda value: value if isinstance(value, str) else "") for name in texts}
    )
    chosen = []
    for axis in axes:
        claimed = (focus or {}).get(axis, Focus())
        scored = _scorer(turns, sorted(metrics, key=lambda metric: metric.name != claimed.metric), by_name)
        of_axis = turns[turns["axis"] == axis]
        if scored is not None and (of_axis["arm"] == UNSWAPPED).any():
            chosen.append(_of_axis(axis, _changes(of_axis, texts, scored[1]), stages, scored[0], claimed, most))
    return chosen


def _changes(turns: pd.DataFrame, texts: Sequence[str], scorer: Scorer) -> pd.DataFrame:
    """Turns of one axis beside their originals, with the change of their score."""
    turns = turns.assign(turn_score=scorer.turn_scores(turns[list(scorer.columns)].to_numpy(dtype=float)))
    originals = turns[turns["arm"] == ORIGINAL].drop_duplicates(["axis", "dialogue", "turn"])
    joined = turns[turns["arm"] == UNSWAPPED].merge(
        originals[["axis", "dialogue", "turn", "turn_score", *texts]],
        on=["axis", "dialogue", "turn"],
        suffixes=("", "_original"),
    )
    joined["change"] = joined["turn_score"] - joined["turn_score_original"]
    return joined


def _of_axis(
    axis: str, rows: pd.DataFrame, stages: Sequence[str], metric: MetricInfo, claimed: Focus, most: int
) -> Excerpts:
    """The excerpts of one axis: of the groups that are harmed those that harm, else the largest changes."""
    fell, rose = (rows["change"] < 0).sum(), (rows["change"] > 0).sum()
    size, candidates = rows["change"].abs(), rows
    if (of_groups := rows["group"].isin(claimed.harmed)).any():
        candidates = rows[of_groups]
        if metric.better != "neither" and metric.name == claimed.metric:
            size = rows["change"] * (-1 if metric.better == "higher" else 1)
    candidates = candidates.assign(size=size.round(9))  # else rounding noise decides between equal changes
    candidates = candidates.sort_values(["size", "dialogue", "turn", "variant"], ascending=[False, True, True, True])
    chosen = tuple(_excerpt(row, stages, _earlier(row, rows)) for row in _choose(candidates, most))
    return Excerpts(axis, metric, chosen, int(fell), int(rose), int(rows["change"].notna().sum()))


def _scorer(
    turns: pd.DataFrame, metrics: Sequence[MetricInfo], scorers: Mapping[str, Scorer]
) -> tuple[MetricInfo, Scorer] | None:
    """The first metric whose statistics are in the table, and its scorer."""
    for metric in metrics:
        scorer = scorer_of(metric.name, turns.columns, scorers)
        if scorer is not None:
            return metric, scorer
    return None


def scorer_of(name: str, columns: Collection[str], scorers: Mapping[str, Scorer]) -> Scorer | None:
    """What scores turns by a metric; None where it is neither shipped nor given, or the table lacks its statistics.

    Args:
        name: of the metric.
        columns: of the table of turns.
        scorers: the user's metrics by their names.
    """
    try:
        scorer = scorers.get(name) or known_metric(name)
    except TodBiasError:  # what it needs is not installed
        return None
    return scorer if scorer is not None and set(scorer.columns) <= set(columns) else None


def _choose(rows: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    chosen: list[dict[str, Any]] = []
    dialogues: set[str] = set()
    pairs: Counter[tuple[str, str]] = Counter()
    for row in rows[rows["size"] > 0].to_dict("records"):
        pair = (row["source"], row["group"])
        if row["dialogue"] in dialogues or pairs[pair] == 2:
            continue
        dialogues.add(row["dialogue"])
        pairs[pair] += 1
        chosen.append({str(name): value for name, value in row.items()})
        if len(chosen) == most:
            break
    return chosen


def _earlier(row: dict[str, Any], rows: pd.DataFrame) -> tuple[int, Difference] | None:
    if row["user"] != row["user_original"]:
        return None
    same_copy = (
        (rows["dialogue"] == row["dialogue"]) & (rows["variant"] == row["variant"]) & (rows["turn"] < row["turn"])
    )
    for before in rows[same_copy].sort_values("turn", ascending=False).to_dict("records"):
        turn = {str(name): value for name, value in before.items()}
        for name in ("reference", "user"):  # the system's words come after the user's
            if turn[name] != turn[f"{name}_original"]:
                return int(turn["turn"]) + 1, _difference(turn, name)
    return None


def _excerpt(row: dict[str, Any], stages: Sequence[str], earlier: tuple[int, Difference] | None) -> Excerpt:
    outputs = [_difference(row, stage) for stage in stages]
    if row["response"] not in [row[stage] for stage in stages]:  # an agent's own
        outputs.append(replace(_difference(row, "response"), name="reply"))
    record = in_column(row.get("first_difference"))
    first = [] if record is None else _first_step(record, outputs)
    shown = {record["stage"]} if record is not None and first else set()
    return Excerpt(
        dialogue=str(row["dialogue"]),
        turn=int(row["turn"]) + 1,
        source=str(row["source"]),
        target=str(row["group"]),
        user=_difference(row, "user"),
        differs_first=of_turn(record),
        earlier=earlier,
        outputs=tuple(output for output in (*first, *outputs) if not output.is_empty),
        same=tuple(output.name for output in outputs if output.is_empty and output.name not in shown),
        reference=_difference(row, "reference"),
        before=float(row["turn_score_original"]),
        after=float(row["turn_score"]),
    )


def _first_step(record: Mapping[str, Any], outputs: Sequence[Difference]) -> list[Difference]:
    """What differs first, where the outputs do not show it: in calls that later ones of the same stage come after."""
    changes = [(place, before or "", after or "") for place, before, after in record["changes"] if place]
    before, after = {output.name: output.texts for output in outputs}.get(record["stage"], ("", ""))
    if not changes or (before != after and all(old in before and new in after for _, old, new in changes)):
        return []
    ours, theirs = ("; ".join(f"{change[0]} = {change[side]}" for change in changes if change[side]) for side in (1, 2))
    return [Difference(f"{record['stage']}, first", *compare(ours, theirs))]


def _difference(row: dict[str, Any], name: str) -> Difference:
    return Difference(name, *compare(*readable_pair(row[f"{name}_original"], row[name])))


def readable_pair(before: str, after: str) -> tuple[str, str]:
    """Two outputs as a reader needs them; as they were written where they differ in what is left out otherwise."""
    shown = readable(before), readable(after)
    return (before, after) if shown[0] == shown[1] and before != after else shown


def readable(text: str) -> str:
    """An output as a reader needs it: calls by the names of their tools, a list of plain values without brackets, of a
    model's reply what it says and calls."""
    if reply := texts_of_reply(text):
        return reply
    if _MESSAGE.match(text):
        with suppress(ValueError, TypeError, LookupError):
            message = slots_from_text(text)
            calls = (slots_to_text(call) for call in message["tool_calls"])
            text = " | ".join(filter(None, (message["content"], *calls)))
    text = " | ".join(map(_name_first, text.split(" | ")))
    if text.startswith("[") and text.endswith("]") and len(text) < _LONGEST:
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            values = []
        if values and all(isinstance(value, str | int | float) for value in values):
            return ", ".join(map(str, values))
    return text.replace("= \\#", "= ")


def _name_first(call: str) -> str:
    """A call that begins with the name of its tool; any other text as it is."""
    slots = call.split(" ; ")
    names = [slot for slot in slots if slot.startswith(_NAME)]
    return " ; ".join([*(name.removeprefix(_NAME) for name in names), *(slot for slot in slots if slot not in names)])


def compare(before: str, after: str) -> tuple[Segments, Segments]:
    """Both texts in pieces, word by word, with the words that differ marked; texts with little in common as a whole."""
    left, right = (re.findall(r"\s*(?:\w+|[^\w\s])\s*|\s+", text) for text in (before, after))
    matcher = SequenceMatcher(None, [word.strip() for word in left], [word.strip() for word in right], autojunk=False)
    if before.strip() and after.strip() and matcher.ratio() < _ALIKE:
        return ((before, True),), ((after, True),)
    ours: list[tuple[str, bool]] = []
    theirs: list[tuple[str, bool]] = []
    for kind, a, b, c, d in matcher.get_opcodes():
        for pieces, words in ((ours, left[a:b]), (theirs, right[c:d])):
            text = "".join(words)
            if kind == "equal" or not text.strip():
                pieces.append((text, False))
            else:
                pieces += [(text.rstrip(), True), (text[len(text.rstrip()) :], False)]
    return tuple(piece for piece in ours if piece[0]), tuple(piece for piece in theirs if piece[0])
