"""One rewriting T of one dialogue, and its exact inverse.

A rewriter supplies two functions on text: ``forward`` rewrites it, ``backward`` turns back the words that ``forward``
introduced. :class:`DialogueRewrite` carries them over every string of a dialogue, a turn, a stage's input or a stage's
output, leaves slot names and API names alone, and remembers what it produced, so that T⁻¹(T(x)) = x even where two
different strings are rewritten to the same one ("he left" and, from woman to man, "she left").
"""

from __future__ import annotations

import dataclasses
import operator
import re
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from tod_bias.dialogues.dialogue import Dialogue, Step
from tod_bias.dialogues.json_text import with_strings_changed
from tod_bias.dialogues.values import API_NAME
from tod_bias.systems.twin import Rewrite

V = TypeVar("V")
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_UNCHANGED = frozenset([bool, int, float, type(None)])


@cache
def _rewritten(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that are rewritten."""
    return tuple(
        member.name for member in dataclasses.fields(kind) if member.init and member.metadata.get("rewrite", True)
    )


class Rewritten(str):
    """A string that T produced; it remembers which string it came from and which T that was."""

    source: str
    rewrite: DialogueRewrite

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # what is stored or sent to another process is plain text


class StringMap(ABC):
    """Changes the strings inside a value, and changes them back.

    Text, mapping values, tuples, lists, dataclass fields and namespaces are followed, at any depth, and so are the
    strings inside a text that is JSON, all other bytes of which stay as they are; mapping keys, the name of an API (the
    value under ``api_name``, and under ``name`` beside ``arguments``, as OpenAI writes a call), enum members, dataclass
    fields whose metadata say ``rewrite=False`` (a dialogue's id) and everything else stay as they are.
    """

    def __init__(self) -> None:
        self._memo: dict[tuple[bool, int], tuple[Any, Any]] = {}  # (direction, id) -> (the object, its image)

    def __call__(self, value: V, /) -> V:
        """The value with every string changed."""
        return self._map(value, True)

    def inverse(self, value: V, /) -> V:
        """The value with every string changed back."""
        return self._map(value, False)

    @abstractmethod
    def _rewrite(self, text: str) -> str:
        """One text changed."""

    def _restore(self, text: str) -> str:
        """One text changed back."""
        raise NotImplementedError

    def _map(self, value: Any, forward: bool) -> Any:
        kind = value.__class__
        if kind is str or kind is Rewritten:
            return self._rewrite(value) if forward else self._restore(value)
        if kind in _UNCHANGED:
            return value
        if kind is list:
            return [self._map(item, forward) for item in value]
        if kind is dict:
            return self._mapping(value, forward)
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self._rewrite(value) if forward else self._restore(value)
        if dataclasses.is_dataclass(value) or isinstance(value, tuple):
            return self._remembered(value, forward)
        return self._other(value, forward)

    def _other(self, value: Any, forward: bool) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, forward)
        if isinstance(value, SimpleNamespace):
            return type(value)(**self._map(vars(value), forward))
        return self._sequence(value, forward) if isinstance(value, list) else value

    def _mapping(self, value: Mapping[Any, Any], forward: bool) -> dict[Any, Any]:
        change = self._rewrite if forward else self._restore
        name = "name" if "arguments" in value and isinstance(value["arguments"], Mapping) else API_NAME
        return {
            key: item
            if item.__class__ in _UNCHANGED or key in (API_NAME, name)
            else change(item)
            if item.__class__ is str
            else self._map(item, forward)
            for key, item in value.items()
        }

    def _sequence(self, value: Any, forward: bool) -> Any:
        """A tuple, or a list of a class of its own; a plain tuple in which nothing changes is the very same."""
        items = [self._map(item, forward) for item in value]
        if value.__class__ is tuple and all(map(operator.is_, items, value)):
            return value
        return type(value)(*items) if is_named_tuple(value) else type(value)(items)

    def _remembered(self, value: Any, forward: bool) -> Any:
        """A tuple or dataclass, which is changed once; what it became changes back to the very same object."""
        key = (forward, id(value))
        if key in self._memo:
            return self._memo[key][1]
        image = value
        if value.__class__ is Step:
            image = value.mapped(lambda part: self._map(part, forward))
        elif isinstance(value, tuple):
            image = self._sequence(value, forward)
        elif not isinstance(value, type):
            fields = {name: self._map(getattr(value, name), forward) for name in _rewritten(value.__class__)}
            if any(item is not getattr(value, name) for name, item in fields.items()):
                image = dataclasses.replace(value, **fields)
        self._memo[key] = (value, image)
        if forward:
            self._memo[(False, id(image))] = (image, value)
        return image


class TextMap(StringMap):
    """Changes the strings inside a value by a function of one text.

    Args:
        change: of a text that is no JSON.
    """

    def __init__(self, change: Callable[[str], str]) -> None:
        super().__init__()
        self._change = change

    def _rewrite(self, text: str) -> str:
        inside = with_strings_changed(str(text), self._rewrite)
        return self._change(str(text)) if inside is None else inside


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
    """What is known of dialogues, made once for each, as every counterfactual needs it again.

    Args:
        make: of a dialogue.
        most: dialogues that are remembered at once.
    """

    def __init__(self, make: Callable[[Dialogue], V], most: int) -> None:
        self._make, self._most = make, most
        self._known: OrderedDict[int, tuple[Dialogue, V]] = OrderedDict()

    def __call__(self, dialogue: Dialogue) -> V:
        """What is known of a dialogue."""
        if id(dialogue) not in self._known:
            self._known[id(dialogue)] = dialogue, self._make(dialogue)  # held, so that no other has its identity
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return self._known[id(dialogue)][1]


def is_named_tuple(value: object) -> bool:
    """Whether a value is a named tuple, which is made from its fields one by one."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def texts_of(dialogue: Dialogue) -> Iterator[str]:
    """Every string of a dialogue that a rewrite may change, as often as it stands there: utterances and values."""
    for turn in dialogue.turns:
        for pairs in (turn.utterances, turn.values):
            for _, text in pairs:
                yield text


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
    """How many words differ between two texts: those that one has more of than the other, on the side with more."""
    return max(map(len, exchanged(old, new)))


def changed_texts(dialogue: Dialogue, rewrite: Rewrite) -> Iterator[tuple[str, str, int]]:
    """Every string of a dialogue that a rewrite changes, once: as it is, rewritten, and how often it stands there."""
    for text, times in Counter(texts_of(dialogue)).items():
        image = rewrite(text)
        if image != text:
            yield text, image, times


def changed_tokens(dialogue: Dialogue, rewrite: Rewrite) -> int:
    """How many words a rewrite changes in a dialogue: in all that is said, and in every value of calls and results.

    In one string it is :func:`distance`, in lower case: "her" to "his" is one, "Thanks" to "thank you" two.
    """
    return sum(times * distance(text, image) for text, image, times in changed_texts(dialogue, rewrite))
