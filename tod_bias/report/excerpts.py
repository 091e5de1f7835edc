"""Outputs of components in readable form, and two of them with their differences marked."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any

from tod_bias.dialogues.text import slots_from_text, slots_to_text
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import TodBiasError
from tod_bias.metrics.choice import known_metric
from tod_bias.metrics.metric import Metric as Scorer
from tod_bias.systems.structured import is_reply, said_in

UNSWAPPED = ""
"""The arm that runs the pipeline as it is on the rewritten dialogues."""
_LONGEST = 10_000
"""Characters of a list that is read."""
_ALIKE = 0.4
"""Below this similarity, texts share words by chance only, and are marked as a whole."""
_MESSAGE = re.compile(r"content = .*? ; tool_calls = ", re.DOTALL)
"""The beginning of a model's message with its calls."""
_NAME = f"{API_NAME} = "
Segments = tuple[tuple[str, bool], ...]
"""A text in pieces; ``True`` marks those that differ from the text it is compared with."""


def texts_of_reply(text: str) -> str:
    """Return texts and calls of an output, joined by `` | ``; empty if the output is not a known reply, or is empty."""
    try:
        parts = [slots_from_text(part) for part in text.split(" | ")]
    except ValueError:
        return ""
    said = (entry for part in parts for entry in said_in(part))
    return " | ".join(_call_or_text(*entry) for entry in said) if all(map(is_reply, parts)) else ""


def _call_or_text(name: str, content: Any) -> str:
    if not name:
        return str(content)
    return f"{name}({content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)})"


def scorer_of(name: str, columns: Collection[str], scorers: Mapping[str, Scorer]) -> Scorer | None:
    """Return the scorer of turns by a metric; None if the metric is unknown, or the table lacks its statistics.

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


def readable_pair(before: str, after: str) -> tuple[str, str]:
    """Return two outputs in readable form; unchanged if they differ only in parts that the readable form leaves out."""
    shown = readable(before), readable(after)
    return (before, after) if shown[0] == shown[1] and before != after else shown


def readable(text: str) -> str:
    """Return an output in readable form.

    Calls begin with the names of their tools. A list of plain values has no brackets. Of a model's reply, only its
    texts and calls remain.
    """
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
    """Split both texts into words and mark those that differ; texts with little in common are marked as a whole."""
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
