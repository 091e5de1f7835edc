"""One input of a stage in its reference form, and the way back for the output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.entities import entity_names, is_entity_slot
from tod_bias.perturb.guards.names import ReferenceNames, may_hold_name
from tod_bias.perturb.guards.terms import ReferenceRewriter, ReferenceText
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.rewrite import TextMap
from tod_bias.systems.outputs import Lookup, rows_of
from tod_bias.systems.stage import StageCall, StageInput

_REMEMBERED = 20_000
"""Turns of histories whose reference form is remembered, as every later call holds them again."""
_SETS = 3
"""Under how many sets of names a stage votes."""

Change = Callable[[str], str]


class ReferenceInput(ABC):
    """One input on one axis."""

    item: StageInput
    """The input in its reference form R(x): the same for every T x."""
    mentions: int
    """How many terms (names) of the input the axis knows."""
    uncovered: int
    """How many mentions of the input may have another reference form in some T x."""
    own: int = 0
    """How many terms of the output the input says nothing like: they stay in their reference form."""
    mixed: int = 0
    """How many terms of the output may mean either of several that the input tells apart by the axis alone."""

    @abstractmethod
    def back(self, output: Any) -> Any:
        """The output as the input says it."""

    @abstractmethod
    def masked(self, mask: str) -> StageInput:
        """The input with ``mask`` in every place of a mention."""

    @abstractmethod
    def variants(self) -> Sequence[tuple[StageInput, Change]]:
        """The reference form rewritten for every group, each with the way back to the reference form of a text."""


class GuardedAxis(ABC):
    """Makes the reference forms on one axis."""

    name: str
    signature: str

    @abstractmethod
    def read(self, item: StageInput) -> ReferenceInput:
        """The reference form of one input."""


def guarded_axis(axis: str | Axis, reference: str | None = None) -> GuardedAxis:
    """What guards need of an axis.

    Args:
        axis: its name (``gender``, ``names_race`` …), or an axis with a lexicon or of names.
        reference: the group that everybody is rewritten to, on an axis with a lexicon.

    Raises:
        AxisError: guards do not know axes of this kind, or there is no such axis or group.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    if type(axis) is LexiconAxis:
        return _TermsGuarded(axis, reference)
    if isinstance(axis, NamesAxis):
        if reference is not None:
            raise AxisError(f"axis {axis.name!r}: names have no reference group; leave out {reference!r}")
        return _NamesGuarded(axis)
    raise AxisError(
        f"axis {axis.name!r}: guards know words by a lexicon (gender, age, race …) and names (names_gender, "
        "names_race); give a lexicon of its words, or leave it out"
    )


def mapped(item: StageInput, change: Change, turn: Callable[[Turn], Turn] | None = None) -> StageInput:
    """The input with every text changed that T would rewrite.

    Args:
        item: the input.
        change: of a text.
        turn: of a turn of the history; by default ``change`` of its texts.
    """
    texts = TextMap(change)
    history = tuple(texts(earlier) if turn is None else turn(earlier) for earlier in item.history)
    user = texts(item.user)
    steps = tuple(StageCall(name, texts(argument), texts(output)) for name, argument, output in item.steps)
    outputs: Mapping[str, Any] = {name: output for name, _, output in steps}
    if outputs.keys() != item.outputs.keys():
        outputs = texts(dict(item.outputs))
    argument = None if item.argument is None else texts(item.argument)
    return replace(item, history=history, user=user, outputs=outputs, steps=steps, argument=argument)


def dialogue_of(item: StageInput) -> Dialogue:
    """What the input holds, as a dialogue."""
    return Dialogue("", "", (*item.history, Turn(str(item.user), steps=tuple(_steps(item)))))


def _steps(item: StageInput) -> Iterator[Step]:
    """What the input holds beside history and utterance, as far as it is calls and results."""
    values = [value for _, argument, output in item.steps for value in (argument, output)]
    values += [*(item.outputs.values() if not item.steps else ()), item.argument]
    for value in values:
        if isinstance(value, str):
            yield Step({}, said=str(value))
            continue
        for row in rows_of(value):
            try:
                yield Step(row)
            except ValueError:  # what is no JSON names nobody
                continue


class _TermsGuarded(GuardedAxis):
    """An axis with a lexicon."""

    def __init__(self, axis: LexiconAxis, reference: str | None) -> None:
        self.name, self.groups = axis.name, axis.groups
        self.rewriter = ReferenceRewriter(axis, reference)
        self.signature = f"{axis.signature}|reference:{self.rewriter.target}"
        self._turns: dict[int, tuple[Turn, Turn, tuple[str, ...]]] = {}

    def turn(self, turn: Turn) -> tuple[Turn, tuple[str, ...]]:
        """A turn of a history in its reference form, with its texts."""
        known = self._turns.get(id(turn))
        if known is None or known[0] is not turn:
            texts: list[str] = []
            image = TextMap(self.noting(texts))(turn)
            if len(self._turns) >= _REMEMBERED:
                self._turns.clear()
            known = self._turns[id(turn)] = (turn, image, tuple(texts))
        return known[1], known[2]

    def noting(self, texts: list[str]) -> Change:
        """What rewrites a text, and notes it."""

        def change(text: str) -> str:
            texts.append(text)
            return self.rewriter.reference(text).text

        return change

    def read(self, item: StageInput) -> ReferenceInput:
        """The reference form of one input."""
        return _TermsInput(self, item)


class _TermsInput(ReferenceInput):
    def __init__(self, axis: _TermsGuarded, item: StageInput) -> None:
        self._groups, self._rewriter = axis.groups, axis.rewriter
        self._given = item
        texts: list[str] = []

        def turn(given: Turn) -> Turn:
            image, of_turn = axis.turn(given)
            texts.extend(of_turn)
            return image

        self.item = mapped(item, axis.noting(texts), turn)
        self._texts = tuple(texts)
        references = [self._rewriter.reference(text) for text in texts]
        self._known = tuple(dict.fromkeys(given for given in references if given.terms))
        self.mentions = sum(len(given.terms) for given in references)
        self.uncovered = sum(map(self._rewriter.uncovered, texts))

    @cached_property
    def _sources(self) -> dict[str, str]:
        """Reference form to the first text of the input that has it."""
        return {self._rewriter.reference(text).text: text for text in reversed(self._texts)}

    @cached_property
    def _outside_names(self) -> tuple[ReferenceText, ...]:
        """The input's texts with mentions; those in names of things are none, as T leaves them."""
        if not self._known:
            return ()
        reference = self._rewriter.reference
        held = entity_names(dialogue_of(self._given), lambda text: bool(reference(text).terms))
        names = [reference(name).text for name in held]
        return tuple(self._rewriter.outside(known, names) for known in self._known)

    def back(self, output: Any) -> Any:
        names = frozenset(_entity_values(output))

        def restored(text: str) -> str:
            reference = self._rewriter.reference(text)
            source = self._sources.get(text, self._sources.get(reference.text))
            if source is not None:
                return source
            if not reference.terms:
                return text
            written, left = self._rewriter.back(reference, self._outside_names)
            if left and text in names:
                return text  # somebody's or something's name that the stage gave
            self.own += left
            self.mixed += self._rewriter.mixed(reference, self._outside_names)
            return written

        return TextMap(restored)(output)

    def masked(self, mask: str) -> StageInput:
        return mapped(self.item, lambda text: self._rewriter.masked(self._rewriter.reference(text), mask))

    def variants(self) -> Sequence[tuple[StageInput, Change]]:
        return [self._variant(group) for group in self._groups]

    def _variant(self, group: str) -> tuple[StageInput, Change]:
        sources: dict[str, str] = {}

        def there(text: str) -> str:
            image = self._rewriter.written_for(self._rewriter.reference(text), group)
            sources.setdefault(image, text)
            return image

        def back(text: str) -> str:
            return sources[text] if text in sources else self._rewriter.reference(text).text

        return mapped(self.item, there), back


class _NamesGuarded(GuardedAxis):
    """An axis over people's names."""

    def __init__(self, axis: NamesAxis) -> None:
        self.name, self.signature, self.axis = axis.name, axis.signature, axis

    def read(self, item: StageInput) -> ReferenceInput:
        """The reference form of one input."""
        return _NamesInput(self.axis, item)


class _NamesInput(ReferenceInput):
    def __init__(self, axis: NamesAxis, item: StageInput) -> None:
        self._axis, self._given = axis, item
        texts: dict[str, None] = {}
        mapped(item, lambda text: texts.setdefault(text) or text)
        self._texts = tuple(texts)
        is_named = any(may_hold_name(text, "race" in axis.factors) for text in texts)
        self._names = self._named(0) if is_named else None
        self.item = mapped(item, self._names.reference) if self._names is not None and self._names.people else item
        self.mentions = len(self._names.people) if self._names is not None else 0
        self.uncovered = len(self._names.uncovered) if self._names is not None else 0

    def _named(self, shift: int) -> ReferenceNames:
        return ReferenceNames(dialogue_of(self._given), self._texts, self._axis, shift)

    def back(self, output: Any) -> Any:
        return output if not self.mentions else TextMap(self._restoring(self._names))(output)

    def _restoring(self, names: ReferenceNames | None) -> Change:
        assert names is not None
        sources = {names.reference(text): text for text in reversed(self._texts)}
        return lambda text: sources[text] if text in sources else names.back(text)

    def masked(self, mask: str) -> StageInput:
        names = self._names
        if names is None or not names.people:
            return self.item
        return mapped(self._given, lambda text: names.masked(text, mask))

    def variants(self) -> Sequence[tuple[StageInput, Change]]:
        names = self._names
        if names is None or not names.people:
            return [(self.item, str)]
        variants: list[tuple[StageInput, Change]] = []
        for number in range(_SETS):
            others = self._named(number * len(names.people))
            variants.append((mapped(self._given, others.reference), _after(self._restoring(others), names.reference)))
        return variants


def _after(first: Change, second: Change) -> Change:
    return lambda text: second(first(text))


def _entity_values(value: Any, slot: str = "") -> Iterator[str]:
    """The names of things in an output."""
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
