"""When two questions are the same: what decides a component's answer, as a value that can be compared and kept."""

from __future__ import annotations

from typing import Any

from tod_bias.dialogues.dialogue import Turn
from tod_bias.systems.sameness import digest_of, frozen
from tod_bias.systems.stage import Asked, StageInput


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
