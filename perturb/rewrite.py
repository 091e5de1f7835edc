"""One rewriting T of one dialogue, and its exact inverse.

A rewriter supplies two functions on text: ``forward`` rewrites it, ``backward`` turns back the words that ``forward``
introduced. :class:`DialogueRewrite` carries them over every string of a dialogue, a turn, a stage's input or a stage's
output, leaves slot names and API names alone, and remembers what it produced, so that T⁻¹(T(x)) = x even where two
different strings are rewritten to the same one ("he left" and, from woman to man, "she left").
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.json_text import with_strings_changed
from tod_bias.dialogues.string_map import StringMap
from tod_bias.systems.twin import Rewrite

V = TypeVar("V")
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Rewritten(str):
    """A string that T produced; it remembers which string it came from and which T that was."""

    source: str
    rewrite: DialogueRewrite

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # what is stored or sent to another process is plain text


class DialogueRewrite(StringMap):
    """T of one dialogue: callable on any value; T⁻¹ is :meth:`inverse`.

    T⁻¹ is exact on whatever T produced; on other strings only terms that T introduced are turned back.

    Args:
        axis: the demographic axis.
        source: the group whose words are rewritten.
        target: the group they are rewritten to.
        word: the word that Algorithm 1 drew.
        forward: rewrites a text.
        backward: turns back the words that ``forward`` introduces; used on strings that T did not produce, such as
            model outputs.
    """

    def __init__(
        self,
        axis: str,
        source: str,
        target: str,
        word: str,
        forward: Callable[[str], str],
        backward: Callable[[str], str],
    ) -> None:
        super().__init__()
        self.axis = axis
        self.source = source
        self.target = target
        self.word = word
        self._forward = forward
        self._backward = backward
        self._produced: dict[str, Rewritten] = {}  # source text -> what T made of it
        self._origin: dict[str, str] = {}  # produced text -> source text, changed ones first
        self._restored: dict[str, str] = {}  # unseen text -> its lexical inverse

    def __repr__(self) -> str:
        return f"DialogueRewrite({self.axis}: {self.source} > {self.target}, word={self.word!r})"

    def passes_over(self, text: str) -> bool:
        """True if T certainly changes no string of a value given as this JSON; faster than T of the value."""
        may_change = getattr(self._forward, "may_change", None)
        return may_change is not None and "\\" not in text and not may_change(text)  # escapes may hide a word

    def _rewrite(self, text: str) -> str:
        made = self._produced.get(text)
        if made is None:
            inside = with_strings_changed(text, self._rewrite)
            made = Rewritten(self._forward(text) if inside is None else inside)
            made.source = text
            made.rewrite = self
            self._produced[text] = made
            if made == text:
                self._origin.setdefault(text, text)
            elif self._origin.get(made, made) == made:
                self._origin[str(made)] = text
        return made

    def _restore(self, text: str) -> str:
        if isinstance(text, Rewritten) and text.rewrite is self:
            return text.source
        if text in self._origin:
            return self._origin[text]
        if text not in self._restored:
            inside = with_strings_changed(text, self._restore)
            self._restored[text] = self._backward(text) if inside is None else inside
        return self._restored[text]


class Remembered(Generic[V]):
    """Cache of facts about dialogues, which every counterfactual needs again.

    Args:
        make: makes the facts of a dialogue.
        most: maximum number of dialogues in the cache.
    """

    def __init__(self, make: Callable[[Dialogue], V], most: int) -> None:
        self._make, self._most = make, most
        self._known: OrderedDict[int, tuple[Dialogue, V]] = OrderedDict()

    def __call__(self, dialogue: Dialogue) -> V:
        """Return the facts about a dialogue."""
        if id(dialogue) not in self._known:
            self._known[id(dialogue)] = dialogue, self._make(dialogue)  # held, so that no other has its identity
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return self._known[id(dialogue)][1]


def texts_of(dialogue: Dialogue) -> Iterator[str]:
    """Yield every string of a dialogue that a rewrite may change, with repetitions: utterances and values."""
    for turn in dialogue.turns:
        for pairs in (turn.utterances, turn.values):
            for _, text in pairs:
                yield text


def hidden_texts(dialogue: Dialogue) -> Iterator[str]:
    """Yield every string of a dialogue's task, which a rewrite changes although nobody has said it yet."""
    return iter(()) if dialogue.task is None else dialogue.task.texts


@lru_cache(maxsize=1 << 16)
def tokens(text: str) -> tuple[str, ...]:
    """The words of a text, lower case; what holds an apostrophe is one word, what holds a hyphen several."""
    return tuple(_TOKEN.findall(text.lower().replace("’", "'")))


@lru_cache(maxsize=1 << 14)
def exchanged(old: str, new: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that only the first text has, and those that only the second has."""
    before, after = Counter(tokens(old)), Counter(tokens(new))
    return tuple((before - after).elements()), tuple((after - before).elements())


def distance(old: str, new: str) -> int:
    """Count the words that differ between two texts: those that one has more of, on the side with more."""
    return max(map(len, exchanged(old, new)))


def changed_texts(dialogue: Dialogue, rewrite: Rewrite) -> Iterator[tuple[str, str, int]]:
    """Yield every string of a dialogue that a rewrite changes, once: the original, the rewritten form, and its
    number."""
    for text, times in Counter(texts_of(dialogue)).items():
        image = rewrite(text)
        if image != text:
            yield text, image, times


def changed_tokens(dialogue: Dialogue, rewrite: Rewrite) -> int:
    """Return how many words a rewrite changes in a dialogue: in all utterances, and in every value of calls and
    results.

    In one string the number is :func:`distance`, in lower case: "her" to "his" is one, "Thanks" to "thank you" two.
    """
    return sum(times * distance(text, image) for text, image, times in changed_texts(dialogue, rewrite))
