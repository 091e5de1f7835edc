"""Where in a dialogue an introduction goes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.text import SILENCE

_ASKED = re.compile(
    r"\b(?:your|the) (?:full |first |last )?name\b[^.]*\?|\bwho am i (?:speaking|talking)\b|\bname,? please\b",
    re.IGNORECASE,
)


def first_turn(dialogue: Dialogue) -> int:
    """The first turn in which the user says something; -1 where there is none."""
    return next((number for number, turn in enumerate(dialogue.turns) if _speaks(turn)), -1)


def _speaks(turn: Turn) -> bool:
    return turn.user.strip() not in ("", SILENCE)


def asked_turn(dialogue: Dialogue, first: int) -> int:
    """The turn after the system has asked for a name; ``first`` where it never does."""
    for number, turn in enumerate(dialogue.turns[:-1]):
        if number >= first and _ASKED.search(turn.response) and _speaks(dialogue.turns[number + 1]):
            return number + 1
    return first


class Words:
    """All words of some texts in any case, with what hyphens and apostrophes join; only few of them are asked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(texts).lower()

    def __contains__(self, word: object) -> bool:
        if not isinstance(word, str) or word not in self._text:
            return False
        whole = rf"(?<!\w)(?<!\w['’-]){re.escape(word)}(?!['’-]?\w)"
        return re.search(whole, self._text) is not None


def said_in(dialogue: Dialogue) -> frozenset[str]:
    """All words that are said, in lower case, cut at blanks."""
    return frozenset(" ".join(text for turn in dialogue.turns for _, text in turn.utterances).lower().split())
