"""Stages: the components of a system, and what one of them is asked."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tod_bias.dialogues.dialogue import Turn, context_text
from tod_bias.errors import FOREIGN, StageError, TodBiasError, described
from tod_bias.systems.bounds import problem_of, state_of


class Asked(NamedTuple):
    """One question of a turn that has been answered."""

    name: str
    """Which component was asked."""
    argument: Any
    """With which argument; None for none."""
    output: Any
    """What it put out."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """What one component may read for one question. Components never change it."""

    history: tuple[Turn, ...]
    """The turns before this one: gold in teacher-forced mode, the system's own in free-running mode."""
    user: str
    """The user's utterance."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """What the components asked before in this turn put out, by name: the latest of each,
    the one asked last at the end."""
    steps: tuple[Asked, ...] = ()
    """Everything that was asked before in this turn, in order."""
    argument: Any = None
    """What the flow asks with; None in a straight pipeline."""
    system: str = ""
    """The dialogue's system message, where it has one."""
    sample: int = 0
    """Number of the sample, for a component that draws its answers (``is_random``); 0 for every other."""
    draw: str = ""
    """What decides such a component's draw beside the question: the dialogue and the sample; empty for every other."""

    @property
    def context(self) -> str:
        """History and utterance as ParlAI's task-oriented text, the latest ``USER:`` line last."""
        return context_text(self.history, self.user)


@runtime_checkable
class Stage(Protocol):
    """Anything that can be called with a batch of inputs: a function, a model, a database, a remote service.

    It returns one output an input, in the same order, and leaves its inputs alone. The same input must give the same
    output, however it is batched: equal questions are asked once and the answer is shared.
    """

    def __call__(self, inputs: Sequence[StageInput], /) -> Sequence[Any]:
        """One output an input, in the same order."""


def call_stage(name: str, stage: Stage, inputs: Sequence[StageInput]) -> list[Any]:
    """Call a stage and check that it kept its contract.

    Raises:
        StageError: it raised something else than an error of this package; it did not return one
            output an input, or one that nobody can read; it changed what it was given.
    """
    before, given = state_of(inputs), ""
    try:
        outputs = stage(list(inputs))
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes, Mapping)):
            # Here, since a generator raises only when it is read; and no further than it must be.
            given = f"{len(outputs)}" if isinstance(outputs, Sized) else f"more than {len(inputs)}"
            outputs = list(islice(outputs, len(inputs) + 1))
    except TodBiasError:
        raise
    except FOREIGN as error:
        raise StageError(f"stage {name!r} ({place_of(stage)}): {described(error)}; {_ADVICE}") from error
    if inspect.iscoroutine(outputs):
        outputs.close()  # unasked; Python would warn of it, too
        raise StageError(f"stage {name!r} ({place_of(stage)}): is async; give a function that runs it: asyncio.run(…)")
    if not isinstance(outputs, list):
        raise StageError(
            f"stage {name!r}: expected a sequence with one output an input, got {type(outputs).__name__}; "
            "a stage is called with a list of inputs, not with one"
        )
    if len(outputs) != len(inputs):
        got = given if len(outputs) > len(inputs) else len(outputs)
        raise StageError(f"stage {name!r}: expected {len(inputs)} outputs (one an input), got {got}")
    for output in outputs:
        if problem := problem_of(output):
            raise StageError(f"stage {name!r} ({place_of(stage)}): an output cannot be used: {problem}; {_ADVICE}")
    if state_of(inputs) != before:
        raise StageError(
            f"stage {name!r} ({place_of(stage)}): it changed what it was given, which others read too; "
            f"let it work on a copy; {_ADVICE}"
        )
    return outputs


_ADVICE = "fix the stage and run again, what was answered is kept in the run's folder"


def place_of(component: Any) -> str:
    """``module:name`` of a function, or of an object's class."""
    kind = component if hasattr(component, "__qualname__") else type(component)
    return f"{kind.__module__}:{kind.__qualname__}"
