"""What a group gets in place of what another one gets, in the system's own outputs: "limit 1 instead of 3 in 14 of 40".

Two counterfactuals of one dialogue are compared step by step, and the first output that differs counts. Words that the
rewriting itself exchanged are no difference: they are those in which the user's words, the references, and the outputs
of the system with all stages replaced by twins differ.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from tod_bias.report.excerpts import UNSWAPPED
from tod_bias.report.excerpts import compare as compare_texts
from tod_bias.report.notation import count
from tod_bias.report.record import ORIGINAL

if TYPE_CHECKING:
    import pandas as pd

NOTHING = "nothing"
_LONGEST = 60
"""Characters of an output that a sentence quotes."""
_MOSTLY = 0.8
"""Where at least this share of the same outputs stands in place of one and the same output, both are quoted."""

Turn = Mapping[str, Any]
"""A row of ``turns.parquet``."""
Step = tuple[str, str, str]
"""A stage, the argument that it was called with, and its output."""
Change = tuple[str, str, str]
"""A field, empty where an output has none, and what it holds for either group."""


@dataclass(frozen=True)
class FirstDifference:
    """The most frequent first difference between the counterfactuals of two groups."""

    worse: str
    better: str
    stage: str
    """Whose outputs differ first most often."""
    first: int
    """Dialogues where they do."""
    field: str
    """Of the output; empty for all of it."""
    before: str
    """What it holds for the group that is served better; empty where that varies."""
    after: str
    """What it holds for the group that is served worse; empty where that varies."""
    dialogues: int
    """Dialogues with that difference."""
    of: int
    """All dialogues of both groups."""
    is_last: bool
    """Whether no stage comes after it."""

    def __str__(self) -> str:
        of = f"of {count(self.of)} dialogues"
        if not self.after:
            between = f"between {self.better} and {self.worse}"
            return f"In {count(self.first)} {of}, the first output that differs {between} is that of `{self.stage}`."
        text = f"In {count(self.dialogues)} {of}, `{self.stage}` {self._what()}"
        text = f"{text}; its output is the first that differs in {count(self.first)}."
        if self.is_last or not self.before or NOTHING in (self.before, self.after):
            return text
        # a fixed value in place of another: perhaps the group's own code, which other components read
        back = f"The rewriting does not turn {_quoted(self.after)} back into {_quoted(self.before)}"
        return f"{text} {back}, so what later components make of it is charged to `{self.stage}`."

    def _what(self) -> str:
        """What the stage puts out for either group."""
        before = _quoted(self.before) if self.before else "other outputs"
        if not self.field:
            return f"puts out {_quoted(self.after)} for {self.worse} in place of {before} for {self.better}"
        if self.after == NOTHING:
            return f"leaves out `{self.field}` for {self.worse} where it has one for {self.better}"
        before = _quoted(self.before) if self.before else "other values"
        return f"has `{self.field}` {_quoted(self.after)} for {self.worse} in place of {before} for {self.better}"


def _quoted(text: str) -> str:
    if text == NOTHING:
        return text
    return f"“{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}”"


def first_difference(
    turns: pd.DataFrame, stages: Sequence[str], axis: str, worse: str, better: str
) -> FirstDifference | None:
    """The most frequent first difference between two groups; None where none occurs twice, or no dialogue has both.

    Args:
        turns: rows of ``turns.parquet``, of the originals, and of the arms without and with all stages replaced.
        stages: the pipeline's.
        axis: of the groups.
        worse: the group that is served worse.
        better: the group that it is compared with.
    """
    is_of_pair = turns["group"].isin((better, worse)) & (turns["role"] == "group")
    chosen = (turns["axis"] == axis) & (turns["sample"] == 0) & (is_of_pair | (turns["role"] == "original"))
    dialogues: dict[str, list[Turn]] = {}
    for row in turns[chosen].sort_values("turn").to_dict("records"):
        dialogues.setdefault(str(row["dialogue"]), []).append({str(name): value for name, value in row.items()})
    firsts: list[tuple[str, list[Change]]] = []
    of = 0
    for dialogue in dialogues.values():
        pair = [_counterfactual(dialogue, name) for name in (better, worse)]
        if all(pair):
            of += 1
            first = _first(pair[0], pair[1], stages, _exchanged(dialogue, better, worse, stages))
            firsts += [] if first is None else [first]
    return _most_frequent(firsts, worse, better, of, stages[-1])


def _counterfactual(dialogue: Sequence[Turn], group: str, arm: str = UNSWAPPED) -> list[Turn]:
    """The turns of a dialogue for a group; the original's where it is of that group."""
    rows = [turn for turn in dialogue if turn["arm"] == arm and turn["group"] == group]
    if not rows and any(turn["source"] == group for turn in dialogue):
        rows = [turn for turn in dialogue if turn["arm"] == ORIGINAL]
    return [turn for turn in rows if turn["variant"] == rows[0]["variant"]]


def _words(text: str) -> set[str]:
    return {word.lower().removesuffix("s") for word in re.findall(r"\w+", text)}


def _exchanged(dialogue: Sequence[Turn], better: str, worse: str, stages: Sequence[str]) -> set[str]:
    """The words that the rewriting exchanged between two counterfactuals."""
    swapped = ",".join(sorted(stages))
    texts = []
    for arm, columns in ((UNSWAPPED, ("user", "reference")), (swapped, tuple(stages))):
        pair = [_counterfactual(dialogue, name, arm) for name in (better, worse)]
        for ours, theirs in zip(*pair, strict=False):
            texts += [(_text(ours[name]), _text(theirs[name])) for name in columns]
    words: set[str] = set()
    for before, after in texts:
        if before != after:
            words |= _words(before) ^ _words(after)
    return words


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _first(
    better: Sequence[Turn], worse: Sequence[Turn], stages: Sequence[str], exchanged: set[str]
) -> tuple[str, list[Change]] | None:
    """The stage whose output differs first, and how; None where only exchanged words do."""
    for ours, theirs in zip(better, worse, strict=False):
        nothing = ("", "", "")
        for before, after in zip_longest(_steps(ours, stages), _steps(theirs, stages), fillvalue=nothing):
            stage = before[0] or after[0]
            for left, right in ((before[1], after[1]), (before[2], after[2])):
                if changes := list(_changes(left, right, exchanged)):
                    return stage, changes
    return None


def _steps(turn: Turn, stages: Sequence[str]) -> list[Step]:
    """The calls of a turn in order; the last output of every stage where the table does not have them."""
    try:
        steps = json.loads(turn["steps"])
        return [(str(stage), _written(argument), _written(output)) for stage, argument, output in steps]
    except (KeyError, TypeError, ValueError):
        return [(stage, "", _text(turn.get(stage))) for stage in stages]


def _written(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _changes(before: str, after: str, exchanged: set[str]) -> Iterator[Change]:
    """The fields in which two outputs differ by more than exchanged words."""
    ours, theirs = _fields(before), _fields(after)
    if not ours or not theirs:
        ours, theirs = {"": before.strip()}, {"": after.strip()}
    for name in dict.fromkeys([*ours, *theirs]):
        left, right = ours.get(name, ""), theirs.get(name, "")
        if left != right and _changed_words(left, right) - exchanged:
            yield name, left or NOTHING, right or NOTHING


def _changed_words(before: str, after: str) -> set[str]:
    return {word for side in compare_texts(before, after) for text, changed in side if changed for word in _words(text)}


def _fields(text: str) -> dict[str, str]:
    """Field to value of a call or a row; none of a text."""
    try:
        record = json.loads(text)
    except ValueError:
        parts = [part.partition("=") for part in text.split(";")]
        return {name.strip(): value.strip() for name, sign, value in parts if sign} if text.count("=") else {}
    return dict(_leaves(record, "")) if isinstance(record, dict) else {}


def _leaves(record: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(record, dict):
        for key, value in record.items():
            yield from _leaves(value, str(key))
    else:
        yield name, _written(record)


def _most_frequent(
    firsts: Sequence[tuple[str, list[Change]]], worse: str, better: str, of: int, last: str
) -> FirstDifference | None:
    if not firsts:
        return None
    pairs = Counter((stage, *change) for stage, changes in firsts for change in changes)
    results = Counter((stage, field, after) for stage, changes in firsts for field, _, after in changes)
    (stage, field, after), dialogues = results.most_common(1)[0]
    by_stage = Counter(stage for stage, _ in firsts)
    if dialogues < 2:
        stage, first = by_stage.most_common(1)[0]
        return FirstDifference(worse, better, stage, first, "", "", "", first, of, stage == last)
    before = ""
    same = {key[2]: number for key, number in pairs.items() if (key[0], key[1], key[3]) == (stage, field, after)}
    commonest = max(same, key=lambda name: same[name])
    if same[commonest] >= _MOSTLY * dialogues:
        before, dialogues = commonest, same[commonest]
    return FirstDifference(worse, better, stage, by_stage[stage], field, before, after, dialogues, of, stage == last)
