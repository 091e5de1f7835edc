"""How frequent the words of the shipped lexicons are in task-oriented English.

``lexicons/frequencies.txt`` holds, for every word of a shipped lexicon and every form of ``neutral.tsv``, its
occurrences per million words in the utterances of Google SGD's train split (Rastogi et al. 2020), users and system;
words that do not occur are left out. ``tests/perturb/frequencies.py`` counts them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from tod_bias.errors import LexiconError

FILE = Path(__file__).parent / "lexicons" / "frequencies.txt"
"""A word or phrase and its occurrences per million words, joined by a tab; ``#`` starts a comment line."""

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@lru_cache(maxsize=1 << 16)
def tokens(text: str) -> tuple[str, ...]:
    """The words of a text, lower case; what holds an apostrophe is one word, what holds a hyphen several."""
    return tuple(_TOKEN.findall(text.lower().replace("’", "'")))


def count(texts: Iterable[str], phrases: Iterable[str]) -> dict[str, float]:
    """Occurrences of phrases per million words of the texts, by the words of each phrase joined by blanks."""
    wanted: dict[int, set[tuple[str, ...]]] = {}
    for phrase in phrases:
        words = tokens(phrase)
        wanted.setdefault(len(words), set()).add(words)
    found: Counter[tuple[str, ...]] = Counter()
    total = 0
    for text in texts:
        words = tokens(text)
        total += len(words)
        for length, phrases_of_length in wanted.items():
            for at in range(len(words) - length + 1):
                if words[at : at + length] in phrases_of_length:
                    found[words[at : at + length]] += 1
    return {" ".join(words): 1e6 * times / total for words, times in found.items()}


@cache
def _table(path: Path) -> dict[str, float]:
    table = {}
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line and not line.startswith("#"):
                phrase, tab, value = line.partition("\t")
                if not tab:
                    raise LexiconError(f"{path}, line {number}: expected a word and a number, joined by a tab")
                table[phrase] = float(value)
    except (OSError, ValueError) as error:
        if isinstance(error, LexiconError):
            raise
        raise LexiconError(f"{path}: cannot be read: {error}") from error
    return table


class Spoken:
    """How frequent words and phrases are in some texts.

    Args:
        texts: any number of them.
        phrases: phrases of several words that will be asked for.
    """

    def __init__(self, texts: Iterable[str], phrases: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        kept = list(texts)
        for text in kept:
            counts.update(tokens(text))
        total = max(1, sum(counts.values()))
        self._found = {word: 1e6 * times / total for word, times in counts.items()}
        self._found |= count(kept, (phrase for phrase in phrases if len(tokens(phrase)) > 1))

    def level(self, phrase: str) -> float:
        """log10 of the occurrences per million words, 0 for one or fewer."""
        return math.log10(max(1.0, self._found.get(" ".join(tokens(phrase)), 0.0)))


@lru_cache(maxsize=1 << 14)
def level(phrase: str) -> float:
    """log10 of a word's or phrase's occurrences per million words, 0 for one or fewer and for what is unknown.

    Raises:
        LexiconError: the table cannot be read; names the file.
    """
    return math.log10(max(1.0, _table(FILE).get(" ".join(tokens(phrase)), 0.0)))
