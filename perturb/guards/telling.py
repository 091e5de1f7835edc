"""One input of a component in its reference telling, and the way back for the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.json_text import with_strings_changed
from tod_bias.errors import AxisError
from tod_bias.perturb.entities import entity_names, is_entity_slot
from tod_bias.perturb.guards.people import People
from tod_bias.perturb.guards.words import Reference, Words
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.names.forms import WORD
from tod_bias.perturb.names.resources import by_first, by_last
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.systems.outputs import Lookup, rows_of
from tod_bias.systems.stage import Asked, StageInput

_REMEMBERED = 20_000
"""Turns of histories whose reference telling is remembered, as every later question holds them again."""
_SHIFTS = 3
"""Under how many sets of names an input is told, where several tellings are asked."""
_WORD = re.compile(WORD)

Change = Callable[[str], str]


class Telling(Protocol):
    """One input on one axis."""

    item: StageInput
    """The input in its reference telling: the same for everything that the input can be told as."""
    mentions: int
    """How many words (names) of the input the axis knows."""
    uncovered: int
    """How many mentions of the input it cannot tell exactly: another telling of them may be asked otherwise."""
    own: int
    """How many words of the answer are of no family that the input mentions: they stay as the reference telling says
    them."""
    mixed: int
    """How many words of the answer may mean either of several that the input tells apart by the axis alone."""

    def back(self, answer: Any) -> Any:
        """The answer as the input tells it."""

    def masked(self, mask: str) -> StageInput:
        """The input with ``mask`` in every place of a mention."""

    def tellings(self) -> Sequence[tuple[StageInput, Change]]:
        """The reference telling told as everybody of the axis, each with the way back to the reference telling."""


class Axis(Protocol):
    """Makes the tellings of one axis."""

    name: str
    signature: str

    def telling(self, item: StageInput) -> Telling:
        """The telling of one input."""


def axis_of(axis: Any, reference: str | None = None) -> Axis:
    """The axis of a name or a perturber.

    Args:
        axis: its name (``gender``, ``names_race`` …), or a perturber by a lexicon or of names.
        reference: the group that everybody is told as, on an axis with a lexicon.

    Raises:
        AxisError: guards do not know axes of this kind, or there is no such axis or group.
    """
    perturber = load_axis(axis) if isinstance(axis, str) else axis
    if type(perturber) is LexiconAxis:
        return WordAxis(perturber, reference)
    if isinstance(perturber, NamesAxis):
        if reference is not None:
            raise AxisError(f"axis {perturber.name!r}: names have no reference group; leave out {reference!r}")
        return NameAxis(perturber)
    raise AxisError(
        f"axis {perturber.name!r}: guards know words by a lexicon (gender, age, race …) and names "
        "(names_gender, names_race); give a lexicon of its words, or leave it out"
    )


class Walk(DialogueRewrite):
    """Changes every text inside a value that T rewrites, and nothing else (names of slots and APIs stay)."""

    def __init__(self, change: Change) -> None:
        super().__init__("", "", "", "", change, change)

    def _rewrite(self, text: str) -> str:  # type: ignore[override]
        inside = with_strings_changed(str(text), self._rewrite)
        return self._forward(str(text)) if inside is None else inside


def mapped(item: StageInput, change: Change, turn: Callable[[Turn], Turn] | None = None) -> StageInput:
    """The input with every text changed that T would rewrite."""
    walk = Walk(change)
    history = tuple(walk(one) if turn is None else turn(one) for one in item.history)
    user = walk(item.user)
    steps = tuple(Asked(name, walk(argument), walk(output)) for name, argument, output in item.steps)
    outputs: Mapping[str, Any] = {name: output for name, _, output in steps}
    if outputs.keys() != item.outputs.keys():
        outputs = walk(dict(item.outputs))
    argument = None if item.argument is None else walk(item.argument)
    return replace(item, history=history, user=user, outputs=outputs, steps=steps, argument=argument)


class WordAxis:
    """An axis with a lexicon."""

    def __init__(self, perturber: LexiconAxis, reference: str | None = None) -> None:
        self.name = perturber.name
        self.words = Words(perturber.lexicon, reference, perturber.protected)
        self.groups = perturber.groups
        self.signature = f"{perturber.signature}|reference:{self.words.reference}"
        self._turns: dict[int, tuple[Turn, Turn, tuple[tuple[str, Reference], ...]]] = {}

    def turn(self, turn: Turn) -> tuple[Turn, tuple[tuple[str, Reference], ...]]:
        """A turn of a history in its reference telling, with its texts."""
        held = self._turns.get(id(turn))
        if held is None or held[0] is not turn:
            texts: list[tuple[str, Reference]] = []
            image = Walk(self.reading(texts))(turn)
            if len(self._turns) >= _REMEMBERED:
                self._turns.clear()
            held = self._turns[id(turn)] = (turn, image, tuple(texts))
        return held[1], held[2]

    def reading(self, texts: list[tuple[str, Reference]]) -> Change:
        """What tells a text, and notes it."""

        def tell(text: str) -> str:
            told = self.words(text)
            texts.append((text, told))
            return told.text

        return tell

    def telling(self, item: StageInput) -> Telling:
        """The telling of one input."""
        return _WordTelling(self, item)


class _WordTelling:
    def __init__(self, axis: WordAxis, item: StageInput) -> None:
        self._axis = axis
        self._given = item
        self._texts: list[tuple[str, Reference]] = []
        self.own = self.mixed = 0

        def turn(one: Turn) -> Turn:
            image, texts = axis.turn(one)
            self._texts += texts
            return image

        self.item = mapped(item, axis.reading(self._texts), turn)
        self._known = tuple(dict.fromkeys(told for _, told in self._texts if told.said))
        self.mentions = sum(len(told.said) for _, told in self._texts)
        self.uncovered = sum(axis.words.uncovered(text) for text, _ in self._texts)
        self._first: dict[str, str] = {}

    @cached_property
    def _sure(self) -> tuple[Reference, ...]:
        """The input's texts with mentions; those in names of things are none, as T leaves them."""
        words = self._axis.words
        if not self._known:
            return ()
        dialogue = Dialogue("", "", (*self._given.history, Turn(str(self._given.user), steps=_steps(self._given))))
        names = [words(name).text for name in entity_names(dialogue, lambda text: bool(words(text).said))]
        return tuple(words.sure(told, names) for told in self._known)

    def back(self, answer: Any) -> Any:
        for text, told in self._texts if not self._first else ():
            self._first.setdefault(told.text, text)
        names = frozenset(_entity_values(answer))

        def restored(text: str) -> str:
            if text in self._first:
                return self._first[text]
            told = self._axis.words(text)
            if told.text in self._first:
                return self._first[told.text]
            written, own = self._axis.words.back(told, self._sure if told.said else ())
            if own and text in names:
                return text  # somebody's or something's name that the component found
            self.own += own
            self.mixed += self._axis.words.mixed(told, self._sure) if told.said else 0
            return written

        return Walk(restored)(answer)

    def masked(self, mask: str) -> StageInput:
        words = self._axis.words

        return mapped(self.item, lambda text: words.masked(words(text), mask))

    def tellings(self) -> Sequence[tuple[StageInput, Change]]:
        words = self._axis.words
        made = []
        for group in self._axis.groups:
            first: dict[str, str] = {}
            item = mapped(self.item, _told_as(words, group, first))
            made.append((item, _reference(words, first)))
        return made


def _told_as(words: Words, group: str, first: dict[str, str]) -> Change:
    def tell(text: str) -> str:
        told = words.tell_as(words(text), group)
        first.setdefault(told, text)
        return told

    return tell


def _reference(words: Words, first: Mapping[str, str]) -> Change:
    return lambda text: first[text] if text in first else words(text).text


class NameAxis:
    """An axis over people's names."""

    def __init__(self, perturber: NamesAxis) -> None:
        self.name = perturber.name
        self.with_last = "race" in perturber.factors
        self.slots = perturber.slots
        self.signature = perturber.signature

    def telling(self, item: StageInput) -> Telling:
        """The telling of one input."""
        return _NameTelling(self, item)


@lru_cache(maxsize=1 << 16)
def _holds_name(text: str, with_last: bool) -> bool:
    known, last = by_first(), by_last() if with_last else {}
    return any(
        part in known or part in last for word in _WORD.findall(text.lower()) for part in (word, *word.split("-"))
    )


class _NameTelling:
    def __init__(self, axis: NameAxis, item: StageInput) -> None:
        self._axis = axis
        self.own = self.mixed = 0
        self._given = item
        texts: list[str] = []

        def note(text: str) -> str:
            texts.append(text)
            return text

        mapped(item, note)
        self._texts = tuple(dict.fromkeys(texts))
        self._people: People | None = None
        self.item = item
        if any(_holds_name(text, axis.with_last) for text in self._texts):
            self._people = self._named(0)
            self.item = mapped(item, self._people.told) if self._people else item
        self.mentions = len(self._people.named) if self._people is not None else 0
        self.uncovered = len(self._people.uncovered) if self._people is not None else 0
        self._first: dict[str, str] = {}

    def _named(self, shift: int) -> People:
        last = Turn(self._given.user, steps=_steps(self._given))
        dialogue = Dialogue("", "", (*self._given.history, last))
        return People(dialogue, self._texts, self._axis.slots, with_last=self._axis.with_last, shift=shift)

    def back(self, answer: Any) -> Any:
        if not self._people:
            return answer
        return Walk(self._restoring(self._people))(answer)

    def _restoring(self, named: People) -> Change:
        first: dict[str, str] = {}
        for text in self._texts:
            first.setdefault(named.told(text), text)
        return lambda text: first[text] if text in first else named.back(text)

    def masked(self, mask: str) -> StageInput:
        people = self._people
        return mapped(self._given, lambda text: people.masked(text, mask)) if people else self.item

    def tellings(self) -> Sequence[tuple[StageInput, Change]]:
        if not self._people:
            return [(self.item, str)]
        made: list[tuple[StageInput, Change]] = []
        for number in range(_SHIFTS):
            named = self._named(number * len(self._people.named))
            made.append((mapped(self._given, named.told), _after(self._restoring(named), self._people.told)))
        return made


def _after(first: Change, second: Change) -> Change:
    return lambda text: second(first(text))


def _steps(item: StageInput) -> Iterator[Step]:
    """What the input holds beside history and utterance, as far as it is calls and results."""
    held = [value for _, argument, output in item.steps for value in (argument, output)]
    held += [*(item.outputs.values() if not item.steps else ()), item.argument]
    for value in held:
        if isinstance(value, str):
            yield Step({}, said=str(value))
            continue
        for row in rows_of(value):
            try:
                yield Step(row)
            except ValueError:  # what is no JSON names nobody
                continue


def _entity_values(value: Any, slot: str = "") -> Iterator[str]:
    """The names of things in an answer."""
    if isinstance(value, str):
        if slot and is_entity_slot(slot):
            yield str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entity_values(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _entity_values(item, slot)
    elif isinstance(value, Lookup):
        yield from _entity_values(value.rows)
