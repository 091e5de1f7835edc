"""One input of a stage in its reference form, and the way back for the output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.string_map import TextMap
from tod_bias.systems.outputs import rows_of
from tod_bias.systems.stage import StageCall, StageInput

Change = Callable[[str], str]


class ReferenceInput(ABC):
    """One input on one axis: its reference form R(x), which is the same for every T x.

    Args:
        given: the input.
    """

    mentions: int
    """How many terms (names) of the input the axis knows."""
    uncovered: int
    """How many mentions of the input may have another reference form in some T x."""

    def __init__(self, given: StageInput) -> None:
        self.given = given
        self.texts: list[str] = []
        """All texts of the input, in order."""
        mapped(given, self._noted)

    def _noted(self, text: str) -> str:
        self.texts.append(text)
        return text

    @abstractmethod
    def reference(self, text: str) -> str:
        """A text in its reference form."""

    @abstractmethod
    def restored(self, text: str) -> str:
        """A text of the output as the input says it."""

    @abstractmethod
    def masked(self, text: str, mask: str) -> str:
        """A text with ``mask`` in every place of a mention."""

    @abstractmethod
    def versions(self) -> list[tuple[Change, Change]]:
        """Ways to write the input's texts for every group, each with the way from there to the reference form."""

    @cached_property
    def item(self) -> StageInput:
        """The input in its reference form."""
        return self.changed(self.reference)

    def changed(self, change: Change) -> StageInput:
        """The input with every text changed, if it mentions anybody."""
        return mapped(self.given, change) if self.mentions else self.given

    def back(self, output: Any) -> Any:
        """The output as the input says it."""
        return TextMap(self.restored)(output)


def mapped(item: StageInput, change: Change) -> StageInput:
    """The input with every text changed that T would rewrite."""
    texts = TextMap(change)
    history = tuple(map(texts, item.history))
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
