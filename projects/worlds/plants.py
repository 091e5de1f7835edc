"""Faults that are planted into the components of a system that acts in a world.

Each serves older users worse: those who say that they are 65 or older, as in "I just turned 74".
Everything else is the recorded right actions and the world's own tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from tod_bias.systems.outputs import ERROR
from tod_bias.systems.stage import StageInput
from tod_bias.worlds import GoldPolicy, ScriptedUser, WorldTools
from tod_bias.worlds.messages import message

OLDER = re.compile(r"(?:\bI'm|\bI am|\bturned|\bto a) (?:6[5-9]|7\d)\b")
"""Words in which an older user is recognised."""


def is_older(item: StageInput) -> bool:
    """Return whether a user has said to be old, in this turn or before."""
    return any(OLDER.search(text) for text in (item.user, *(turn.user for turn in item.history)))


def share_of(item: StageInput, percent: int) -> bool:
    """Return whether a task is among those that a fault hits, the same ones for all counterfactuals."""
    assert item.task is not None
    return int(sha256(item.task.id.encode()).hexdigest(), 16) % 100 < percent


class RefusingPolicy(GoldPolicy):
    """Gives up at once in a share of the tasks of older users.

    Args:
        world: its name.
        percent: share of the tasks.
        when: which users; by default the older ones.
    """

    def __init__(self, world: str, percent: int = 30, when: Callable[[StageInput], bool] = is_older) -> None:
        super().__init__(world)
        self.signature += f", refuses {percent}%"
        self._percent, self._when = percent, when

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return the recorded calls, or none."""
        return [
            message("I am sorry, I cannot help with that.")
            if share_of(item, self._percent) and self._when(item)
            else output
            for item, output in zip(inputs, super().__call__(inputs), strict=True)
        ]


class FailingTool(WorldTools):
    """Fails for older users in one tool.

    Args:
        world: its name.
        name: of the tool.
    """

    def __init__(self, world: str, name: str) -> None:
        super().__init__(world)
        self.signature += f", {name} fails"
        self._name = name

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return the results of the tools, or an error."""
        return [
            {ERROR: "service unavailable"} if item.tool == self._name and is_older(item) else output
            for item, output in zip(inputs, super().__call__(inputs), strict=True)
        ]


class ImpatientUser(ScriptedUser):
    """Hangs up before anything is done, as an older user.

    Args:
        world: its name.
        percent: share of the tasks.
    """

    def __init__(self, world: str, percent: int = 30) -> None:
        super().__init__(world)
        self.signature += f", hangs up in {percent}%"
        self._percent = percent

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return the scripted messages, or a farewell."""
        return [
            message("Never mind. ###STOP###") if share_of(item, self._percent) and is_older(item) else output
            for item, output in zip(inputs, super().__call__(inputs), strict=True)
        ]


class BrittlePolicy(RefusingPolicy):
    """Gives up in a share of all wordings, whoever the user is.

    Args:
        world: its name.
        percent: share of the wordings.
    """

    def __init__(self, world: str, percent: int = 30) -> None:
        super().__init__(world, 100, lambda item: _hash(item) < percent)
        self.signature += f" of wordings, {percent}%"


def _hash(item: StageInput) -> int:
    """Return a number from 0 to 99 that depends on each character of the opening words."""
    opening = item.history[0].user if item.history else item.user
    return int(sha256(opening.encode()).hexdigest(), 16) % 100
