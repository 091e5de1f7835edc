"""The crossed design: every dialogue is told once as every attribute of an axis that it can be told as.

The telling of the attribute that the dialogue mentions is the dialogue itself. So all groups are compared on the same
dialogues, which draws (Su, Algorithm 1) do not do: there a group's score also depends on which dialogues drew it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.candidates import Candidate, Perturber, candidates_of


def crossed_candidates(perturber: Perturber, dialogue: Dialogue, seed: int = 0) -> tuple[Candidate, ...]:
    """One candidate a target: the rewrites of the attribute that a dialogue mentions most to all others.

    Where two attributes are mentioned as often, the seed and the dialogue's id choose. Among several words that lead to
    a target the one mentioned most stands for the rewrite; it is the same word for all targets that it has.

    Returns:
        In the order of the axis's attributes; none where nothing can be rewritten.
    """
    candidates = candidates_of(perturber, dialogue)
    if not candidates:
        return ()
    counts = mention_counts(perturber, dialogue, candidates)
    of_word: dict[tuple[str, str], int] = {}
    for candidate in candidates:
        of_word[candidate.source, candidate.word] = counts[candidate]
    of_source: Counter[str] = Counter()
    for (source, _), count in of_word.items():
        of_source[source] += count
    source = min(of_source, key=lambda name: (-of_source[name], _drawn(seed, perturber.axis, dialogue.id, name)))
    words: Counter[str] = Counter()
    for candidate in candidates:
        if candidate.source == source:
            words[candidate.word] += 1  # targets that it has
    ranked = sorted(words, key=lambda word: (-of_word[source, word], -words[word], word))
    place = {word: number for number, word in enumerate(ranked)}
    chosen: dict[str, Candidate] = {}
    for candidate in candidates:
        held = chosen.get(candidate.target)
        if candidate.source == source and (held is None or place[candidate.word] < place[held.word]):
            chosen[candidate.target] = candidate
    return tuple(chosen[target] for target in perturber.attributes if target in chosen)


def mention_counts(perturber: Perturber, dialogue: Dialogue, candidates: list[Candidate]) -> Counter[Candidate]:
    """How often the word of each candidate is said; once where the perturber does not tell (``counts``)."""
    counted = getattr(perturber, "counts_of", None)
    return Counter(dict.fromkeys(candidates, 1)) if counted is None else Counter(counted(dialogue))


def word_labels(perturber: Perturber, candidate: Candidate) -> tuple[str, str]:
    """Which words a rewrite rests on: that of the source and that of the target, as names of clusters.

    Rewrites with the same label share a word, so what a system does with that word moves them together. A perturber
    with a lexicon tells (``labels``); else the word that was drawn stands for both.
    """
    told = getattr(perturber, "labels", None)
    return (candidate.word, candidate.word) if told is None else told(candidate)


def words_in(perturber: Perturber, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[frozenset[str]]:
    """All words that each rewrite of a dialogue rests on, as names of clusters; at least those of the candidate."""
    told = getattr(perturber, "words_in", None)
    if told is None:
        return [frozenset(word_labels(perturber, candidate)) for candidate in candidates]
    return list(told(dialogue, candidates))


def _drawn(seed: int, axis: str, dialogue: str, name: str) -> bytes:
    return hashlib.sha256("\x1f".join((str(seed), axis, dialogue, name)).encode("utf-8", "surrogatepass")).digest()
