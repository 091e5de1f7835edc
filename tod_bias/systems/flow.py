"""Flows: how a turn is answered, as a generator function that calls stages by name.

::

    def agent(turn):                       # .user, .history
        while (step := (yield "policy")).calls:
            for call in step.calls:
                yield "tools", call        # called with an argument
        return (yield "answer")

The engine sends every output back into the flow. The output of the last stage is the response, unless the flow returns
a :class:`Reply`. A flow must do the same when it gets the same outputs: everything random or remote lives in stages. A
straight pipeline is the flow that calls each stage once, in order.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import FOREIGN, StageError, TodBiasError, described
from tod_bias.io.canonical import canonical, is_portable, problem_of
from tod_bias.systems.stage import FlowReply, StageCall, place_of

MOST_STEPS = 200
"""Calls of stages in one turn at the most; a flow that makes more is taken for one that never ends."""
MOST_ROUNDS = 30
"""Maximum rounds of tool calls in one turn of :func:`tool_loop`: the steps of an agent in τ-bench (Yao et
al. 2024)."""

MOST_CALLS = 128
"""Calls of tools in one reply of a server, and in one turn of :func:`tool_loop`."""
MOST_TEXT = 1 << 18
"""Characters in the calls that :func:`tool_loop` makes in one turn: each is in every call after it."""
TOO_MUCH = f"the turn has more than {MOST_CALLS} calls, or {MOST_TEXT:,} characters in them; these were not made"
"""Stands for the arguments of the call with which :func:`tool_loop` ends a turn that calls too much."""

Request = tuple[str, Any]
"""Stage that a flow calls, and its argument."""
REPLY = "reply"
"""Stands in a turn's calls for the response of a flow that makes it itself; no stage of such a flow has this name."""


@dataclass(frozen=True, slots=True)
class FlowTurn:
    """Input of a flow: a turn before the first call."""

    user: str
    """The user's utterance."""
    history: tuple[Turn, ...]
    """The turns before this one."""
    system: str = ""
    """System message of the dialogue, if there is one."""
    task: Task | None = None
    """Task of a world."""


Flow = Callable[[FlowTurn], Generator[Any, Any, Any]]
"""A generator function of the turn."""


class Process(Protocol):
    """A flow on its way through one turn."""

    @property
    def request(self) -> Request | None:
        """Next call; None at the end of the turn."""

    @property
    def reply(self) -> str | None:
        """Response, if it is not the output of the last call."""

    def send(self, output: Any) -> None:
        """Send the output of the request in."""

    def fork(self, steps: Sequence[StageCall]) -> Process:
        """Return another process in the state of this one, after the calls in ``steps``."""

    def check(self, steps: Sequence[StageCall]) -> None:
        """Go through a whole turn again, from its beginning, and make sure that it makes the same calls."""


class StraightProcess:
    """Calls each stage once, in order."""

    __slots__ = ("_names", "_next", "request")
    reply = None

    def __init__(self, names: Sequence[str], start: int = 0) -> None:
        self._names = names
        self._next = start
        self.request: Request | None = (names[start], None)

    def send(self, output: Any) -> None:
        """Go on to the next stage."""
        self._next += 1
        self.request = (self._names[self._next], None) if self._next < len(self._names) else None

    def fork(self, steps: Sequence[StageCall]) -> StraightProcess:
        """A process at the same place."""
        return StraightProcess(self._names, self._next)

    def check(self, steps: Sequence[StageCall]) -> None:
        """Nothing: it cannot do anything else."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Response that a flow makes itself and returns, in place of the output of the last stage."""

    text: str


class FlowProcess:
    """Runs a user's flow, and checks what it does.

    Args:
        flow: the generator function.
        turn: what it is given.
        names: the stages there are.

    Raises:
        StageError: it raised, calls an unknown stage, calls nothing at all, or never ends.
    """

    def __init__(self, flow: Flow, turn: FlowTurn, names: Sequence[str]) -> None:
        self._flow = flow
        self._turn = turn
        self._names = names
        self._count = 0
        self.request: Request | None = None
        self.reply: str | None = None
        try:
            self._generator = flow(turn)
        except TodBiasError:
            raise
        except FOREIGN as error:
            raise StageError(f"flow {place_of(flow)}: {described(error)}") from error
        if not inspect.isgenerator(self._generator):
            raise StageError(
                f"flow {place_of(flow)}: expected a generator function (one that yields names of stages), "
                f"got one that returns {type(self._generator).__name__}"
            )
        self._advance(None)
        if self.request is None:
            raise StageError(
                f"flow {place_of(flow)}: ended without calling a stage, so there is no response; "
                f"yield one of {', '.join(names)}"
            )

    def send(self, output: Any) -> None:
        """Send the output in. The flow receives copies of containers, which it may change."""
        self._advance(copy.deepcopy(output) if type(output) in (list, dict, set) else output)

    def _advance(self, output: Any) -> None:
        try:
            given = self._generator.send(output)
        except StopIteration as end:
            self.request = None
            self.reply = end.value.text if isinstance(end.value, Reply) else None
            if self.reply is not None and REPLY in self._names:
                raise StageError(
                    f"flow {place_of(self._flow)}: returns a Reply and has a stage {REPLY!r}; rename the stage"
                ) from None
            return
        except TodBiasError:
            raise
        except FOREIGN as error:
            raise StageError(f"flow {place_of(self._flow)}: {described(error)}") from error
        self._count += 1
        if self._count > MOST_STEPS:
            with suppress(RuntimeError):  # a flow that holds on even now
                self._generator.close()
            raise StageError(
                f"flow {place_of(self._flow)}: made {MOST_STEPS} calls in the turn that begins "
                f"{self._turn.user[:60]!r} and came to no end; bound its loop"
            )
        self.request = self._checked(given)

    def _checked(self, given: Any) -> Request:
        name, argument = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        if not isinstance(name, str):
            raise StageError(
                f"flow {place_of(self._flow)}: expected it to yield a stage's name or (name, argument), "
                f"got {type(given).__name__}"
            )
        if name not in self._names:
            raise StageError(
                f"flow {place_of(self._flow)}: calls {name!r}, which is not a stage; "
                f"the stages are {', '.join(self._names)}"
            )
        if problem := problem_of(argument):
            raise StageError(f"flow {place_of(self._flow)}: cannot call {name!r}: of its argument, {problem}")
        return name, argument

    def fork(self, steps: Sequence[StageCall]) -> FlowProcess:
        """The flow run anew on the outputs it got; it must make the same calls.

        Raises:
            StageError: it made another call.
        """
        again = FlowProcess(self._flow, self._turn, self._names)
        again.replay(steps)
        if (again.request is None) != (self.request is None) or (
            again.request is not None and self.request is not None and not _same(again.request, self.request)
        ):
            raise self._unsteady()
        return again

    def replay(self, steps: Sequence[StageCall]) -> None:
        """Send in the outputs of calls before; the flow must make just these.

        Raises:
            StageError: it made another call.
        """
        for step in steps:
            if self.request is None or not _same(self.request, (step.name, step.argument)):
                raise self._unsteady()
            self.send(step.output)

    def check(self, steps: Sequence[StageCall]) -> None:
        """Go through a whole turn again.

        Raises:
            StageError: the flow made another call, or did not end.
        """
        made = [step for step in steps if isinstance(step, FlowReply)]
        self.replay([step for step in steps if step not in made])
        replies = [step.output for step in made]
        if self.request is not None or replies != ([] if self.reply is None else [self.reply]):
            raise self._unsteady()

    def _unsteady(self) -> StageError:
        return StageError(
            f"flow {place_of(self._flow)}: behaved differently on the same outputs in the turn that begins "
            f"{self._turn.user[:60]!r}; what is random or changes belongs into stages"
        )


def _same(first: Any, second: Any) -> bool:
    """True if two requests are equal; arguments that cannot be compared are equal if their types are."""
    if first is second or canonical(first) == canonical(second):
        return True
    return first[0] == second[0] and type(first[1]) is type(second[1]) and not is_portable(canonical(first[1]))


def policy_loop(turn: FlowTurn) -> Generator[Any, Any, Any]:
    """``policy`` until it calls no tool, or has :data:`MOST_ROUNDS` times; ``tools`` for every call.

    The policy puts out its calls: a call (a mapping), a list of them, or an object or mapping with ``calls`` or
    OpenAI's ``tool_calls``; None or a text if it calls nothing.

    If the turn has more than :data:`MOST_CALLS` calls, or more than :data:`MOST_TEXT` characters in them, ``tools`` is
    called with one malformed call instead of those of the last round.
    """
    count = length = 0
    for _ in range(MOST_ROUNDS):
        calls = calls_of((yield "policy"))
        if not calls:
            break
        count += len(calls)
        length += sum(len(repr(call)) for call in calls)
        if count > MOST_CALLS or length > MOST_TEXT:
            yield "tools", {API_NAME: calls[0].get(API_NAME, ""), MALFORMED: TOO_MUCH}
            break
        for call in calls:
            yield "tools", call


def tool_loop(turn: FlowTurn) -> Generator[Any, Any, Any]:
    """:func:`policy_loop`, then ``answer``."""
    yield from policy_loop(turn)
    yield "answer"


FLOWS: dict[str, Flow] = {"tool_loop": tool_loop, "policy_loop": policy_loop}
"""The shipped flows, by the names that pipeline files use."""
