"""Examples of findings: the shortest turn in which the system does something else for a group than for the original."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice

import numpy as np
import pandas as pd

from tod_bias.audit.events import FACTS
from tod_bias.audit.rows import FIRST_DIFFERENCE, RESPONSE
from tod_bias.audit.turns import Turns
from tod_bias.dialogues.text import first_change, window
from tod_bias.io.documents import loads
from tod_bias.metrics.events import Event, event_of
from tod_bias.metrics.events.event import Cells
from tod_bias.metrics.events.facts import Facts, said_text
from tod_bias.metrics.events.texts import TextEvent
from tod_bias.results import AxisResult, Example
from tod_bias.statistics.arms import ORIGINAL_ARM

_LONGEST = 160
"""Characters of a text in an example."""
_CONTEXT = 4
"""Words before the difference in an example of a phrase."""
_MOST_PARTS = 20
"""Parts of the table, with turns that show the finding, of which the shortest turn is taken."""


def example_of(turns: Turns, row: AxisResult, group: str) -> Example | None:
    """Return a turn of a group that shows a finding, while its original does not; None if there is none.

    If all originals are of the group, the original shows the finding and a counterfactual does not.

    Args:
        turns: of the run.
        row: axis and metric of the finding.
        group: that it is about.
    """
    shown = (
        (cost, example)
        for frame in frames_of(turns, row, group)
        if (part := _in_part(frame, row, group)) is not None
        for cost, example in [part]
    )
    return min(islice(shown, _MOST_PARTS), key=lambda pair: pair[0], default=(0, None))[1]


def showing(frame: pd.DataFrame, row: AxisResult, group: str) -> list[int]:
    """Return the numbers of the turns of a part of the table that show a finding.

    Turns with a rewritten message come first, and then short ones.

    Args:
        frame: turns of whole dialogues, numbered from 0.
        row: axis and metric of the finding.
        group: that it is about.
    """
    chosen, _ = _chosen(frame, row, group)
    cost = _costs(frame, chosen)
    return [int(chosen[place]) for place in np.argsort(cost, kind="stable")]


def _side(row: AxisResult, group: str) -> float:
    """Return 1 if the score of a group is higher than that of the others, and -1 if it is lower."""
    scores = {name: some.score.value or 0.0 for name, some in row.groups.items()}
    others = [score for name, score in scores.items() if name not in row.apart] or list(scores.values())
    return math.copysign(1.0, scores[group] - sum(others) / max(1, len(others)))


def frames_of(turns: Turns, row: AxisResult, group: str) -> Iterator[pd.DataFrame]:
    """Yield the turns of an axis, some dialogues at a time; of a grade those of dialogues whose grade differs.

    Args:
        turns: of the run.
        row: axis and metric of the finding.
        group: that it is about.
    """
    grade = f"{row.metric.name} sum" if row.metric.is_grade else ""
    for frame in turns.system_rows(row.axis, [grade] if grade else []):
        yield (_graded(frame, grade, _side(row, group)) if grade else frame).reset_index(drop=True)


def _graded(frame: pd.DataFrame, grade: str, side: float) -> pd.DataFrame:
    """Return the originals, and the counterfactuals whose grade differs from their original's to one side.

    Args:
        frame: turns.
        grade: column of the grades' sums.
        side: 1 for better grades, -1 for worse ones.
    """
    of_variant = frame.groupby(["dialogue", "variant"])[grade].transform("sum")
    is_original = frame["arm"] == ORIGINAL_ARM
    of_original = frame["dialogue"].map(frame[is_original].groupby("dialogue")[grade].sum())
    return frame[is_original | ((of_variant - of_original) * side > 0)]


def _in_part(frame: pd.DataFrame, row: AxisResult, group: str) -> tuple[int, Example] | None:
    """Return the shortest turn of a part of the table that shows a finding, with its cost."""
    chosen, is_of_responses = _chosen(frame, row, group)
    return _shown(frame, chosen, event_of(row.metric.name), responses=is_of_responses)


def _chosen(frame: pd.DataFrame, row: AxisResult, group: str) -> tuple[np.ndarray, bool]:
    """Return the numbers of the turns that show a finding, and whether their responses show it."""
    event, side = event_of(row.metric.name), _side(row, group)
    stages = frozenset(row.groups[group].main_stages)
    is_variant = (frame["role"] == "group").to_numpy()
    is_group = (frame["group"] == group).to_numpy() & is_variant
    if event is None:
        differs = frame[FIRST_DIFFERENCE].notna().to_numpy() & is_group
        texts = zip(frame[FIRST_DIFFERENCE], differs, strict=True)
        is_of_stages = [bool(differ) and loads(text)["stage"] in stages for text, differ in texts]
        return np.flatnonzero(is_of_stages if any(is_of_stages) else differs), not any(is_of_stages)
    difference = _beyond_original(frame, event)
    chosen = np.flatnonzero(is_group & (difference * side > 0))
    if not len(chosen):
        of_group = (frame["source"] == group).to_numpy() & is_variant
        chosen = np.flatnonzero(of_group & (difference * side < 0))
    return chosen, False


def _beyond_original(frame: pd.DataFrame, event: Event) -> np.ndarray:
    """Return (rows,) what each turn adds to an event, less what its original adds."""
    codes, texts = pd.factorize(frame[FACTS].fillna("").astype(object))
    place = frame["dialogue"].astype(str) + "\x1f" + frame["turn"].astype(str)
    cell, _ = pd.factorize(place)
    every = np.ones(len(frame), dtype=bool)
    cells = Cells([Facts(str(text)) for text in texts], codes, cell, every, int(cell.max(initial=-1)) + 1)
    happened = event.sums(cells)[:, 0]
    is_original = (frame["arm"] == ORIGINAL_ARM).to_numpy()
    of_original = dict(zip(place[is_original], happened[is_original], strict=True))
    return np.asarray(happened - np.array([of_original.get(name, np.nan) for name in place]))


def _shown(
    frame: pd.DataFrame, chosen: np.ndarray, event: Event | None, *, responses: bool = False
) -> tuple[int, Example] | None:
    """Return the shortest of some turns with its original; turns with a rewritten user message are preferred.

    Args:
        frame: turns.
        chosen: numbers of those that show the finding.
        event: of the finding; None for a metric.
        responses: True to show the responses of a metric, and not the first step that differs.
    """
    if not len(chosen):
        return None
    cost = _costs(frame, chosen)
    row = frame.iloc[int(chosen[int(cost.argmin())])]
    is_original = (frame["role"] == "original") & (frame["dialogue"] == row["dialogue"])
    same = frame[is_original & (frame["turn"] == row["turn"])]
    if same.empty:
        return None
    original = same.iloc[0]
    before, after = what_differs(original, row, event, responses=responses)
    user, user_original = _messages(frame, row, _said(frame))
    example = Example(
        dialogue=str(row["dialogue"]),
        turn=int(row["turn"]),
        variant=str(row["variant"]),
        user=user,
        user_original=user_original,
        original=before,
        counterfactual=after,
    )
    return int(cost.min()), example


def _said(frame: pd.DataFrame) -> dict[tuple[str, int], str]:
    """Return the user's message by dialogue and turn of the originals."""
    originals = frame[frame["role"] == "original"]
    return dict(zip(zip(originals["dialogue"], originals["turn"], strict=True), originals["user"], strict=True))


def _costs(frame: pd.DataFrame, chosen: np.ndarray) -> np.ndarray:
    """Return the length of the message of each of some turns; messages that are not rewritten cost more than any."""
    rows, said = frame.iloc[chosen], _said(frame)
    places = zip(rows["dialogue"], rows["turn"], rows["user"], strict=True)
    is_same = [said.get((dialogue, turn)) == user for dialogue, turn, user in places]
    return np.asarray(rows["user"].astype(str).str.len().to_numpy() + _LONGEST * 10 * np.array(is_same, dtype=int))


def _messages(frame: pd.DataFrame, row: pd.Series, said: Mapping[tuple[str, int], str]) -> tuple[str, str]:
    """Return the user's message in a variant and in its original.

    If the message is the same in both, the last earlier message that is rewritten comes before it.
    """
    user, original = str(row["user"]), str(said[row["dialogue"], row["turn"]])
    if user == original:
        earlier = frame[
            (frame["dialogue"] == row["dialogue"])
            & (frame["variant"] == row["variant"])
            & (frame["turn"] < row["turn"])
        ].sort_values("turn", ascending=False)
        for turn, text in zip(earlier["turn"], earlier["user"], strict=True):
            before = said.get((row["dialogue"], turn), text)
            if before != text:
                user, original = f"{text} … {user}", f"{before} … {original}"
                break
    user, original = " ".join(user.split()), " ".join(original.split())
    place = first_change(user, original)
    return window(user, place, _LONGEST), window(original, place, _LONGEST)


def what_differs(
    original: pd.Series, row: pd.Series, event: Event | None, *, responses: bool = False
) -> tuple[str, str]:
    """Return the act of the system in the original and in the variant.

    Args:
        original: row of the turn in the table.
        row: row of the same turn of the variant.
        event: whose excerpt is taken; None for the first step that differs.
        responses: True to take the responses instead of a step.
    """
    facts = [Facts(str(some[FACTS] or "")) for some in (original, row)]
    said = _responses([str(some[RESPONSE] or "") for some in (original, row)], facts)
    if event is None:
        return _pair(*said) if responses else _of_step(original, row) or _pair(*said)
    was, became = map(event.excerpt, facts)
    if isinstance(event, TextEvent) and (around := _around(event, [was or said[0], became or said[1]])):
        return around
    return _pair(was, became) if was != became and (was or became) else _pair(*said)


def _of_step(original: pd.Series, row: pd.Series) -> tuple[str, str] | None:
    """Return the outputs of the first step that differs; None if none does, or if the user reads them."""
    first = _first_change(row)
    is_read = first is not None and first[0].strip("…") in " ".join(str(original[RESPONSE]).split())
    return None if is_read else first


def _around(event: TextEvent, texts: Sequence[str]) -> tuple[str, str] | None:
    """Return two texts from where they differ in the phrase of an event; None if no text has the phrase.

    Texts may differ in other words before that.
    """
    words = [text.split() for text in texts]
    starts = [_start_of(event.place[1], some) for some in words]
    if not any(some is not None for some in starts):
        return None
    matcher = SequenceMatcher(None, words[0], words[1], autojunk=False)
    for _, first, first_end, second, second_end in matcher.get_opcodes():
        ends = (first_end, second_end)
        if any(start is not None and start < end for start, end in zip(starts, ends, strict=True)):
            before = min(first, second, _CONTEXT)
            shown = [some[start - before :] for some, start in zip(words, (first, second), strict=True)]
            cut = ["…" if start > before else "" for start in (first, second)]
            return _pair(*(mark + " ".join(some) for mark, some in zip(cut, shown, strict=True)))
    return None


def _start_of(phrase: str, words: Sequence[str]) -> int | None:
    """Return the number of the word with which a phrase begins; None if the words do not hold it."""
    for number in range(len(words)):
        said = said_text(" ".join(words[number : number + len(phrase.split()) + 1]))
        if said.words.startswith(f" {phrase} "):
            return number
    return None


def _responses(responses: Sequence[str], facts: Sequence[Facts]) -> Sequence[str]:
    """Return the responses of an original and its variant, of structures the prose alone."""
    is_structure = facts[0].response != responses[0][: len(facts[0].response) or None]
    return [some.response for some in facts] if is_structure and all(some.response for some in facts) else responses


def _pair(before: str, after: str) -> tuple[str, str]:
    """Return two texts, cut around the first difference if they are long."""
    before, after = (" ".join(text.split()) for text in (before, after))
    place = first_change(before, after)
    shown = (window(text, place, _LONGEST) for text in (before, after))
    was, became = (text or "no response" for text in shown)
    return was, became


def _first_change(row: pd.Series) -> tuple[str, str] | None:
    """Return the outputs of the first different step, for the original and for the variant; None if no step differs."""
    if not isinstance(row["first_difference"], str):
        return None
    place, was, became = loads(row["first_difference"])["changes"][0]
    return f"{place} {was}" if place else str(was), "missing" if became is None else str(became)
