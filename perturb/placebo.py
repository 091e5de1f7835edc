"""Matched placebo: a rewrite that changes as many words as a demographic rewrite does, none of which expresses a group.

A demographic rewrite changes words, and any change of words may change what a system says. The placebo measures how
much of a disparity this explains. It changes as many words in the same dialogues, of like frequency, that express no
gender, age, race or name. ``lexicons/neutral.tsv`` lists these words and their replacements.

``lexicons/frequencies.txt`` has the frequency of every word of a shipped lexicon and every form of ``neutral.tsv``:
occurrences per million words in the utterances of users and systems in Google SGD's train split (Rastogi et al. 2020).
Words that do not occur are left out. ``projects/rewriting/frequencies.py`` counts them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.axis import PLACEBO, PLACEBO_SOURCE, Candidate, Edits
from tod_bias.perturb.context import entity_names
from tod_bias.perturb.lexicon import FOLDER, Lexicon, read_lexicon
from tod_bias.perturb.lexicon_axis import dialogue_rewrite
from tod_bias.perturb.rewrite import DialogueRewrite, Remembered, changed_texts, distance, exchanged, texts_of, tokens
from tod_bias.perturb.rewriter import Recogniser, TextRewriter
from tod_bias.perturb.tables import numbered_lines
from tod_bias.systems.twin import Rewrite

NEUTRAL = FOLDER / "neutral.tsv"
"""The neutral words that ship with the package, with the groups ``original`` and ``placebo``."""
FREQUENCIES = FOLDER / "frequencies.txt"
"""A word or phrase and its occurrences per million words, joined by a tab; ``#`` starts a comment line."""
RARER = 1.0
"""Maximum rarity of a neutral word relative to the words to which it is matched, in powers of ten."""
_REMEMBERED = 1024
"""Dialogues whose neutral words are remembered, as several axes ask for the same ones."""


def per_million(texts: Iterable[str], phrases: Iterable[str] = ()) -> dict[str, float]:
    """Occurrences per million words of the texts: of every word, and of some phrases of several words."""
    longer: dict[int, set[tuple[str, ...]]] = {}
    for words in map(tokens, phrases):
        if len(words) > 1:
            longer.setdefault(len(words), set()).add(words)
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        words = tokens(text)
        counts.update(words)
        total += len(words)
        for length, wanted in longer.items():
            windows = (words[at : at + length] for at in range(len(words) - length + 1))
            counts.update(" ".join(window) for window in windows if window in wanted)
    return {words: 1e6 * times / max(1, total) for words, times in counts.items()}


@cache
def shipped_frequencies() -> dict[str, float]:
    """Return the frequencies of ``lexicons/frequencies.txt``."""
    lines = (line.partition("\t") for _, line in numbered_lines(FREQUENCIES))
    return {phrase: float(value) for phrase, _, value in lines}


@dataclass
class _Neutral:
    """The neutral words of one dialogue."""

    forward: TextRewriter
    changes: Mapping[int, int]
    """Paradigm to the words that exchanging it changes in the whole dialogue."""
    rewrites: dict[frozenset[int], DialogueRewrite] = field(default_factory=dict)


class _Common:
    """Frequencies of the words of a lexicon in a corpus.

    Args:
        frequencies: of words and phrases, per million.
        lexicon: with the groups ``original`` and ``placebo``.
    """

    def __init__(self, frequencies: Mapping[str, float], lexicon: Lexicon) -> None:
        self._frequencies = frequencies
        cells = [(row.cells[PLACEBO_SOURCE], row.cells[PLACEBO][:1]) for row in lexicon.paradigms]
        self.levels = [
            tuple(max(self._level(form.text) for forms in cell for form in forms) for cell in both) for both in cells
        ]
        """Rows of pairs: an uttered form and a written form."""

    def _level(self, phrase: str) -> float:
        """log10 of its occurrences per million words, 0 for one or fewer and for what is unknown."""
        return math.log10(max(1.0, self._frequencies.get(" ".join(tokens(phrase)), 0.0)))

    def far(self, rows: Iterable[int], gone: Counter[str], come: Counter[str]) -> dict[int, float]:
        """Return the distance of rows from the frequency of some words in powers of ten, without rare rows."""
        out, into = (
            sum(self._level(word) * times for word, times in words.items()) / max(1, sum(words.values()))
            for words in (gone, come)
        )
        return {
            row: (abs(self.levels[row][0] - out) + abs(self.levels[row][1] - into)) / 2
            for row in rows
            if self.levels[row][1] >= into - RARER
        }


class MatchedPlacebo:
    """Makes the placebo of a dialogue that other rewrites of it are compared with.

    Args:
        lexicon: a lexicon file with the groups ``original`` and ``placebo``; the shipped one if not given.
        spoken: texts of the corpus, in which frequencies are counted: what is a common word there is one to the system;
            those of Google SGD count by default, and in dialogues none of whose neutral words is common enough.

    Raises:
        LexiconError: the lexicon cannot be read; names the file and the line.
        AxisError: it has other groups.
    """

    def __init__(self, lexicon: str | Path | None = None, spoken: Iterable[str] | None = None) -> None:
        self.lexicon = read_lexicon(NEUTRAL if lexicon is None else Path(lexicon), PLACEBO)
        self._forward = TextRewriter(self.lexicon, PLACEBO_SOURCE, PLACEBO, strict_they=True)
        self._backward = TextRewriter(self.lexicon, PLACEBO, PLACEBO_SOURCE, inverse=True)
        self._possible = Recogniser(self.lexicon, (PLACEBO_SOURCE, PLACEBO), written=True)
        corpus = [] if spoken is None else [per_million(spoken, (form for _, _, form in self.lexicon.forms()))]
        self._common = [_Common(frequencies, self.lexicon) for frequencies in (*corpus, shipped_frequencies())]
        self._words: list[tuple[str, frozenset[tuple[str, ...]]]] = []
        for paradigm in self.lexicon.paradigms:
            cells = paradigm.cells[PLACEBO_SOURCE], paradigm.cells[PLACEBO][:1]
            forms = [tokens(form.text) for cell in cells for alternative in cell for form in alternative]
            self._words.append((cells[0][0][0].text.lower(), frozenset(forms)))
        self._neutral = Remembered(self._made, _REMEMBERED)

    @property
    def signature(self) -> str:
        """Identify everything that determines the placebos, as ``key:value`` parts; the lexicon by its content."""
        words = [
            (word, sorted(forms), *(common.levels[row] for common in self._common))
            for row, (word, forms) in enumerate(self._words)
        ]
        return f"matched:{blake2b(repr((self.lexicon.content, words)).encode(), digest_size=6).hexdigest()}"

    def match(self, dialogue: Dialogue, rewrites: Sequence[Rewrite], seed: int) -> tuple[DialogueRewrite, Edits] | None:
        """Return a rewrite that changes as many words of the dialogue as the given rewrites do on average, or nearly
        so.

        Neutral words stand in an order: those first whose frequency is nearest to that of the words that the given
        rewrites exchange, before and after, in halves of a power of ten; then as the seed and the dialogue's id say. Of
        all sets of them whose changes come nearest to the wanted number of words, the one that needs
        the shortest beginning of that order is taken. Left out are words that the given rewrites themselves exchange,
        and those that would be written more than :data:`RARER` powers of ten more rarely than what the given rewrites
        write: a system may be thrown by a word that it hardly knows, and that is not what a placebo is to show. Where
        that leaves none, it goes by what is said elsewhere: a short chat has few words, and a small corpus does not
        say all that are common.

        Args:
            dialogue: the original.
            rewrites: rewrites of it on another axis, one or more.
            seed: decides between equally good words; so do the words and the dialogue's id, and nothing else.

        Returns:
            The rewrite, ``original`` to ``placebo``, its ``word`` the one that changes most, and how many words it was
            to change and does; None where the dialogue holds no such word. The same words give the very same rewrite,
            as long as the dialogue is remembered.

        Raises:
            ValueError: no rewrite to match.
        """
        if not rewrites:
            raise ValueError("no rewrite to match: give the rewrites whose number of changed words is wanted")
        neutral = self._neutral(dialogue)
        gone, come, wanted = _wanted(dialogue, rewrites)
        touched = gone.keys() | come.keys()
        free = [
            row for row in neutral.changes if not any(touched.issuperset(form) for form in self._words[row][1] if form)
        ]
        far: dict[int, float] = {}
        for common in self._common:
            far = far or common.far(free, gone, come)
        if not far:
            return None

        def order(row: int) -> tuple[int, bytes]:
            key = "\x1f".join((str(seed), dialogue.id, self._words[row][0])).encode("utf-8", "surrogatepass")
            return int(2 * far[row] + 0.5), blake2b(key, digest_size=8).digest()

        chosen = _nearest(wanted, [(row, neutral.changes[row]) for row in sorted(far, key=order)])
        if chosen not in neutral.rewrites:
            main = max(chosen, key=lambda row: (neutral.changes[row], self._words[row][0]))
            candidate = Candidate(self._words[main][0], PLACEBO_SOURCE, PLACEBO)
            neutral.rewrites[chosen] = dialogue_rewrite(dialogue, candidate, neutral.forward, self._backward, chosen)
        return neutral.rewrites[chosen], Edits(wanted, sum(neutral.changes[row] for row in chosen))

    def _made(self, dialogue: Dialogue) -> _Neutral:
        forward = self._forward.within(entity_names(dialogue, self._possible.may_mention))
        changes: Counter[int] = Counter()
        for text, times in Counter(texts_of(dialogue)).items():
            for mention, form in forward.mentions(text):
                for start, end, new in forward.edits(text, mention, form):
                    changes[mention.row] += times * distance(text[start:end], new)
        return _Neutral(forward, {row: count for row, count in changes.items() if count})


def _wanted(dialogue: Dialogue, rewrites: Sequence[Rewrite]) -> tuple[Counter[str], Counter[str], float]:
    """The words that rewrites take out and put in, and how many they change on average."""
    gone: Counter[str] = Counter()
    come: Counter[str] = Counter()
    total = 0
    for rewrite in rewrites:
        for text, image, times in changed_texts(dialogue, rewrite):
            out, into = exchanged(text, image)
            total += times * max(len(out), len(into))
            for words, counts in ((out, gone), (into, come)):
                for word in words:
                    counts[word] += times
    return gone, come, total / len(rewrites)


def _nearest(wanted: float, changes: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Return the rows, at least one, whose changes sum to the number nearest to ``wanted``.

    Among several such sets, the one whose last row is first is chosen; among two numbers equally near, the smaller.
    """
    reached: dict[int, tuple[int, ...]] = {0: ()}
    best: tuple[float, int] | None = None
    for row, count in changes:
        for total, rows in list(reached.items()):
            if (not total or total < wanted) and total + count not in reached:
                reached[total + count] = (*rows, row)
        sums = [(abs(total - wanted), total) for total in reached if total]
        best = min(sums)
        if best[0] <= 0.5:
            break
    assert best is not None
    return frozenset(reached[best[1]])
