"""When two questions are the same: what decides a component's answer, as a value that can be compared and kept."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

from tod_bias.dialogues.dialogue import Turn
from tod_bias.systems.stage import Asked, StageInput


class Same:
    """Equal to itself only; keeps its object alive, so that no other takes its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __repr__(self) -> str:
        raise UnnameableError(type(self.value).__name__)


class UnnameableError(Exception):
    """A value holds an object that has no name outside of this process; its argument is the object's type."""


def is_text(value: Any) -> bool:
    """Whether a value is text and nothing more: a string, or one that is stored as a plain one (what T produced)."""
    return type(value) is str or (isinstance(value, str) and value.__reduce__()[0] is str)


def frozen(value: Any) -> Any:
    """A hashable value that is equal for equal values, and never for different ones.

    Where that cannot be known, a value is equal to itself only: a component is then asked more often, never too
    seldom. The representation of a frozen value is the same in every process, or raises :class:`UnnameableError`.
    """
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:  # its order may show in a prompt
        return "dict", *[(frozen(key), frozen(item)) for key, item in value.items()]
    if value is None:
        return ()
    if isinstance(value, Enum):
        return "enum", kind.__module__, kind.__qualname__, value.name
    if isinstance(value, str):
        return str(value) if is_text(value) else Same(value)
    if kind is bool or kind is int or kind is bytes:
        return kind.__name__, value
    if kind is float:
        return "float", repr(value)  # tells 0.0 from -0.0; nan is equal to nan
    if kind is list:
        return "list", *map(frozen, value)
    if isinstance(value, tuple):
        named = (kind.__module__, kind.__qualname__) if hasattr(value, "_fields") else ()
        return "tuple", named, *map(frozen, value)
    if isinstance(value, Mapping):
        if getattr(value, "__dict__", None):
            return Same(value)
        return (
            "mapping",
            kind.__module__,
            kind.__qualname__,
            *[(frozen(key), frozen(item)) for key, item in value.items()],
        )
    if kind in (set, frozenset):
        try:
            return "set", *sorted(map(frozen, value), key=repr)
        except UnnameableError:
            return "set", frozenset(map(frozen, value))
    np = sys.modules.get("numpy")  # it need not be loaded to tell that a value is none of its
    if np is not None and (kind is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
        return "array" if kind is np.ndarray else "scalar", value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if getattr(value, "__dict__", {}).keys() - {field.name for field in dataclasses.fields(value)}:
            return Same(value)  # it holds more than its fields
        fields = tuple((field.name, frozen(getattr(value, field.name))) for field in dataclasses.fields(value))
        return "dataclass", kind.__module__, kind.__qualname__, *fields
    if kind is SimpleNamespace:
        return "namespace", *((name, frozen(item)) for name, item in vars(value).items())
    return Same(value)


def digest_of(value: Any) -> Any:
    """16 bytes that are the same for a frozen value in every process; the value itself where it has no name."""
    try:
        return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    except UnnameableError:
        return value


class Reading:
    """What components read of one turn, growing answer by answer: as it is, or what T⁻¹ makes of it.

    It holds what decides their answers beside it, so that no question is taken apart twice.

    Args:
        history: the turns before.
        user: the user's utterance.
        system: the dialogue's system message.
        sample: number of the sample, and
        dialogue: the dialogue's id; only components that draw their answers read them. Tellings of a dialogue share
            a draw, dialogues do not, so that they stay independent.
    """

    __slots__ = ("_base", "_keys", "draw", "history", "outputs", "sample", "steps", "system", "user")

    def __init__(
        self, history: tuple[Turn, ...], user: str, system: str = "", sample: int = 0, dialogue: str = ""
    ) -> None:
        self.history = history
        self.user = user
        self.system = system
        self.sample = sample
        self.draw = f"{sample}|{dialogue}"
        self.outputs: dict[str, Any] = {}
        self.steps: tuple[Asked, ...] = ()
        self._base = (b"".join([turn.digest for turn in history]), str(user), system)
        self._keys: tuple[Any, ...] = ()

    @classmethod
    def of(cls, item: StageInput) -> Reading:
        """What a question reads, so that it can be asked once more; the same question for the same input."""
        made = cls(item.history, item.user, item.system, item.sample)
        for name, argument, output in item.steps:
            made = made.after(name, argument, output, frozen(output))
        made.draw = item.draw
        if not item.steps and item.outputs:
            made.outputs, made._keys = dict(item.outputs), (frozen(item.outputs),)
        return made

    def after(self, name: str, argument: Any, output: Any, key: Any) -> Reading:
        """The same with one more answer.

        Args:
            name: the component that was asked.
            argument: with which argument.
            output: its answer.
            key: the answer, frozen.
        """
        made = object.__new__(Reading)
        made.history, made.user, made.system, made._base = self.history, self.user, self.system, self._base
        made.sample, made.draw = self.sample, self.draw
        made.outputs = dict(self.outputs)
        made.outputs.pop(name, None)  # the latest stands last
        made.outputs[name] = output
        made.steps = (*self.steps, Asked(name, argument, output))
        made._keys = (*self._keys, (name, frozen(argument), key))
        return made

    def input(self, argument: Any, *, sampled: bool = False) -> StageInput:
        """What a component is given; the draw too where it draws its answers."""
        drawn = (self.sample, self.draw) if sampled else (0, "")
        return StageInput(self.history, self.user, self.outputs, self.steps, argument, self.system, *drawn)

    def question(self, argument: Any, *, sampled: bool = False) -> Any:
        """What decides a component's answer, hashable; equal for equal inputs, however they came about.

        A digest of 16 bytes, the same in every process, or a longer value where the input holds what has no name.
        """
        drawn = (self.draw,) if sampled else ()
        return digest_of((self._base, self._keys, frozen(argument), *drawn))
