"""Entity success: the entity that the corpus offers is offered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.values import strings
from tod_bias.metrics.metric import Better, RatioOfSums, ScoredTurn

_WORDS = re.compile(r"\w+")
_PARTS = re.compile(r"[\W_]+")
_NO_VALUE = re.compile(r"[\W\d_]*|true|false|yes|no|none|null|dontcare", re.IGNORECASE)
_NAMING = frozenset({"name", "title"})
_NOT_NAMING = frozenset(
    {"account", "alarm", "contact", "destination", "guest", "line", "origin", "passenger", "recipient", "user"}
)
"""Words in slot names that make a name something else than the name of an entity."""


class Success(RatioOfSums):
    """Entity success: of the turns whose gold response offers something, the share that offer it too, on 0–1.

    In the spirit of MultiWOZ's inform and success rates (Budzianowski et al. 2018), turn by turn and without an
    ontology. What gold offers are those values of the turn's gold results that its gold response names. Where a result
    has a slot that names the entity (a word of the slot is ``name`` or ``title``), its values alone count, else all
    of its values do. A value is a string of three characters or more, at any depth, that is no number and no truth
    value; it is named where its words stand in the response one after the other, whatever their case and the
    punctuation between them. A response succeeds when it names all that gold offers.

    0: no offer is made; 1: every one is. Turns whose gold response names no value are not scored; NaN where none is.
    """

    range = (0.0, 1.0)
    name: str = "success"
    label: str = "entity success"
    unit = "turns in 100 that offer what the reference offers"
    reads = "responses"
    needs = "references"
    better: Better = "higher"
    columns = ("success_offered", "success_turns")
    signature: str = "all values of gold results that the gold response names; names and titles first"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Return (turns, 2): 1 if everything is offered, and 1 if there is anything to offer."""
        rows = np.zeros((len(turns), 2))
        offers: dict[int, tuple[str, ...]] = {}  # arms share their gold turns
        said: dict[str, str] = {}
        for number, turn in enumerate(turns):
            offer = offers.get(id(turn.gold))
            if offer is None:
                offer = offers[id(turn.gold)] = offered(turn.gold)
            if offer:
                if turn.response not in said:
                    said[turn.response] = _padded(turn.response)
                rows[number] = all(value in said[turn.response] for value in offer), 1
        return rows


def offered(gold: Turn) -> tuple[str, ...]:
    """The values of a turn's results that its response names, as words between spaces, each once."""
    results = [result for step in gold.steps for result in step.results]
    if not results:
        return ()
    response = _padded(gold.response)
    offers: dict[str, None] = {}
    for result in results:
        values = [(slot, words) for slot, value in strings(result) if (words := _value(value))]
        names = [words for slot, words in values if _names(slot)]
        for words in names or [words for _, words in values]:
            if words in response:
                offers[words] = None
    return tuple(offers)


@lru_cache(maxsize=65536)
def _value(value: str) -> str:
    """A value's words between spaces; empty for what is none."""
    return "" if len(value) < 3 or _NO_VALUE.fullmatch(value) else _padded(value)


@lru_cache(maxsize=4096)
def _names(slot: str) -> bool:
    parts = set(_PARTS.split(slot.lower()))
    return not parts.isdisjoint(_NAMING) and parts.isdisjoint(_NOT_NAMING)


def _padded(text: str) -> str:
    return f" {' '.join(_WORDS.findall(text.lower()))} "
