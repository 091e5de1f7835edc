"""Agents that own their loop, as flows: what an agent asks of a model or a tool is the next call of its turn.

An agent is a task on one event loop, which has a thread to itself. Where it calls a stage (:func:`ask`) it waits until
the engine sends the output in. Calls that it makes at once are one batch, sorted by their content. A copy of an agent
is the agent run anew on the outputs so far.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tod_bias.errors import FOREIGN, StageError, TodBiasError, UnansweredError, described, shortened
from tod_bias.io.canonical import NotPlainError, canonical, digest, is_portable, problem_of
from tod_bias.systems.flow import MOST_STEPS, FlowTurn, Request
from tod_bias.systems.raised import Raised
from tod_bias.systems.stage import FlowReply, Stage, StageCall, StageInput

log = logging.getLogger(__name__)

TIMEOUT = 120.0
"""Seconds that an agent may take from one call of a stage to the next."""
_SETTLED = 50
"""Rounds of the event loop without another call after which a batch of calls is complete."""
_PATIENCE = 1.0
"""Seconds that an agent elsewhere has to make calls again that it made before, when it has made another."""
_PROBE = 1.0
"""Seconds between looks at whether the event loop still turns."""
_SHOWN = 60
"""Characters before and after the place where two requests part."""


_MAKING = threading.Lock()
"""Held while the event loop of this process is looked up or made."""
_live: set[AgentRun] = set()
"""Agents that wait for outputs; held here, as event loops do not hold tasks."""
_TURNSTILE = threading.Lock()
"""Held while an agent runs on the event loop, so that the time of other agents is not counted as its own."""
_RUN: ContextVar[AgentRun | None] = ContextVar("tod_bias_agent_run", default=None)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """Request of an agent to a model, or to a node of its graph."""

    content: Any
    """JSON that is rewritten with the dialogue: messages, the state of a graph."""
    fixed: str = field(default="", metadata={"rewrite": False})
    """Parts that are never rewritten, as a name or digest: the agent, its instructions, the schemas of its tools."""

    def __str__(self) -> str:
        return json.dumps(self.content, ensure_ascii=False)


class _DaemonThreads(ThreadPoolExecutor):
    """Thread pool with a daemon thread per call, so that no thread keeps the process from ending."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it on a new thread."""
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # it belongs to the one who waits
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="tod-bias agent", daemon=True).start()
        return future


class EventLoop:
    """Event loop on its own thread, for agents and for the models and tools that they call."""

    _current: EventLoop | None = None

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_DaemonThreads())
        self.loop.set_exception_handler(lambda _, context: log.debug("agent: %s", context.get("message")))
        self.is_stuck = False
        self.left: list[Any] = []
        """Agents that nothing can end, as the loop does not turn."""
        self._process = os.getpid()
        self.thread = threading.Thread(target=self._turn, name="tod-bias agents", daemon=True)
        self.thread.start()

    def _turn(self) -> None:
        """Run the loop repeatedly: ``sys.exit`` in a task ends the loop too, and is also the exception of the task."""
        while True:
            with suppress(SystemExit, KeyboardInterrupt):
                return self.loop.run_forever()

    @classmethod
    def current(cls) -> EventLoop:
        """The one of this process."""
        with _MAKING:
            if cls._current is None or cls._current.is_stuck or cls._current._process != os.getpid():
                cls._current = cls()
            return cls._current

    def run(self, work: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """Wait for a coroutine.

        Raises:
            TimeoutError: the coroutine took longer; a loop that no longer runs is abandoned.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            if not future.cancel():
                raise
            try:
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(_PROBE)
            except TimeoutError:
                self.is_stuck = True
            raise

    @classmethod
    def run_anyway(cls, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Wait for a coroutine, and begin it anew where an agent keeps its loop from turning."""
        while True:
            events = cls.current()
            future = asyncio.run_coroutine_threadsafe(work(), events.loop)
            while not future.done() and not events.is_stuck:
                wait([future], _PROBE)
            if future.done():
                return future.result()


class _Waiting(NamedTuple):
    key: str
    request: Request
    answer: asyncio.Future[Any]


class AgentRun:
    """An agent on its way through a turn."""

    def __init__(
        self,
        agent: Callable[[FlowTurn], Awaitable[Any]],
        turn: FlowTurn,
        steps: Sequence[tuple[str, Any, Any]],
        settle: float = 0.0,
    ) -> None:
        self.events = EventLoop.current()
        self.task: asyncio.Task[Any] | None = None
        self._is_stopped = False
        self.pending: list[_Waiting] = []
        """Calls that wait for outputs."""
        self.batch: list[_Waiting] = []
        """Calls that were made at the same time and that the engine knows."""
        self.known: OrderedDict[str, deque[tuple[str, Any, Any]]] = OrderedDict()
        """Outputs of calls that it made before, by the call; each is used once."""
        for step in steps:
            self.known.setdefault(canonical(step[:2]), deque()).append(step)
        self.undeclared: list[Any] = []
        """Calls that the agent made to no stage, if later calls may depend on them."""
        self._agent, self._turn, self._settle = agent, turn, settle
        self._stirred = asyncio.Event()

    @property
    def is_stopped(self) -> bool:
        """True once the agent has been stopped."""
        return self._is_stopped or self.events.is_stuck

    async def _main(self) -> Any:
        _RUN.set(self)
        return await self._agent(self._turn)

    async def ask(self, name: str, argument: Any) -> Any:
        """Call a stage, on any loop."""
        if asyncio.get_running_loop() is self.events.loop:
            return await self._ask(name, argument)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask(name, argument), self.events.loop))

    async def _ask(self, name: str, argument: Any) -> Any:
        if self.is_stopped:
            raise asyncio.CancelledError
        if problem := problem_of(argument):
            raise StageError(f"cannot call {name!r}: of its argument, {problem}")
        key = canonical((name, argument))
        if not is_portable(key):
            raise StageError(
                f"cannot call {name!r}: its argument holds what is no JSON: {shortened(repr(argument), 200)}"
            )
        if key in self.known:
            *_, output = self.known[key].popleft()
            if not self.known[key]:
                del self.known[key]
            self._stirred.set()
        else:
            answer = self.events.loop.create_future()
            self.pending.append(_Waiting(key, (name, argument), answer))
            self._stirred.set()
            output = await answer
        if isinstance(output, Raised):
            raise output.error()
        try:
            return copy.deepcopy(output)
        except TypeError as error:  # a generator, an open file
            raise StageError(
                f"stage {name!r}: put out what cannot be handed to the agent again ({error}); return a list or a text"
            ) from None

    async def advance(self, outputs: Sequence[Any]) -> None:
        """Return the outputs of the batch to the agent, which runs until it waits for others or ends."""
        for (_, _, answer), output in zip(self.batch, outputs, strict=True):
            if not answer.done():
                answer.set_result(output)
        self.pending = [waiting for waiting in self.pending if waiting not in self.batch]
        if self.task is None:
            self.task = self.events.loop.create_task(self._main())
            self.task.add_done_callback(lambda _: self._stirred.set())
        before = None
        while not self.task.done():
            state = len(self.pending), len(self.known)
            if not self.pending:
                self._stirred.clear()
                await self._stirred.wait()
            elif state == before:
                break
            else:
                before = state
                await self._pause()
        self.batch = sorted(self.pending, key=lambda waiting: waiting.key)

    async def _pause(self) -> None:
        """Long enough for the agent to make the other calls that it makes at once."""
        if self._settle:
            self._stirred.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), _PATIENCE if self.known else self._settle)
            return
        for _ in range(_SETTLED):
            await asyncio.sleep(0)

    def stop(self) -> None:
        """Let it go."""
        if self.events.is_stuck:
            self.events.left.append(self)
            return
        self._is_stopped = True
        self.events.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for waiting in self.pending:
            waiting.answer.cancel()
        if self.task is not None:
            self.task.cancel()


def is_hosted() -> bool:
    """True if the calling code runs in a hosted agent."""
    return _RUN.get() is not None


def current_run() -> AgentRun:
    """The agent in which this code runs."""
    run = _RUN.get()
    assert run is not None
    return run


async def ask(name: str, argument: Any) -> Any:
    """Call a stage from within a hosted agent."""
    return await current_run().ask(name, argument)


def ask_from_thread(name: str, argument: Any) -> Any:
    """Call a stage from within a hosted agent that is a plain function, on a thread.

    Raises:
        StageError: this is the thread of the event loop, which would wait for itself.
    """
    run = current_run()
    if threading.current_thread() is run.events.thread:
        raise StageError(
            f"stage {name!r}: an async agent calls it as a plain function, and would wait for itself; "
            "await an async function or client instead, or asyncio.to_thread"
        )
    return asyncio.run_coroutine_threadsafe(run.ask(name, argument), run.events.loop).result()


class HostedFlow:
    """A flow that is an agent.

    Args:
        agent: a coroutine function of the turn that runs the agent, in which models and tools call :func:`ask`, and
            returns the response.
        name: what messages call it.
        timeout: seconds that it may take from one call of a stage to the next.
        settle: seconds without another call after which a batch of calls is complete. It is used for agents in another
            process, several of which run at once; 0 for agents on this event loop, which run one at a time.
    """

    def __init__(
        self,
        agent: Callable[[FlowTurn], Awaitable[Any]],
        name: str = "agent",
        timeout: float = TIMEOUT,
        settle: float = 0.0,
    ) -> None:
        self.agent, self.name, self.timeout, self.settle = agent, name, timeout, settle

    @property
    def is_elsewhere(self) -> bool:
        """True if the agent is in another process."""
        return self.settle > 0

    def start(self, turn: FlowTurn, names: Sequence[str]) -> HostedProcess:
        """The agent at the beginning of a turn."""
        return HostedProcess(self, turn, names)

    def begin(self, turn: FlowTurn, steps: Sequence[tuple[str, Any, Any]]) -> AgentRun:
        """An agent that knows the outputs of some calls."""
        run = AgentRun(self.agent, turn, steps, self.settle)
        _live.add(run)
        return run

    def advance(self, run: AgentRun, outputs: Sequence[Any], turn: FlowTurn) -> None:
        """Send outputs in.

        Raises:
            UnansweredError: it raised something, or took too long.
        """
        where = f"agent {self.name}"
        try:
            run.events.run(run.advance(outputs), self.timeout)
        except TimeoutError:
            self.release(run)
            raise UnansweredError(
                f"{where}: neither called a stage nor came to its end within {self.timeout:g} s in the turn that "
                f"begins {turn.user[:60]!r}"
            ) from None
        if run.task is None or not run.task.done():
            return
        _live.discard(run)
        if run.task.cancelled():
            raise UnansweredError(f"{where}: its task was cancelled in the turn that begins {turn.user[:60]!r}")
        try:
            run.task.result()
        except TodBiasError:
            raise
        except FOREIGN as error:
            raise UnansweredError(f"{where}: {described(error)}") from error

    def release(self, run: AgentRun) -> None:
        """Stop an agent whose result is no longer needed."""
        if run in _live:
            _live.discard(run)
            run.stop()


class HostedProcess:
    """A hosted agent in one turn, as the engine sees it."""

    def __init__(self, flow: HostedFlow, turn: FlowTurn, names: Sequence[str]) -> None:
        self._flow, self._turn, self._names = flow, turn, names
        self._steps: list[tuple[str, Any, Any]] = []
        self._batch: list[Request] | None = None
        self._outputs: list[Any] = []  # of the batch, as far as it is made
        self._run: AgentRun | None = None
        self._reply: str | None = None

    @property
    def reply(self) -> str | None:
        """The agent's response; None before its end."""
        return None if self.requests else self._reply

    @property
    def request(self) -> Request | None:
        """Next call; None at the end of the turn.

        Raises:
            UnansweredError: the agent raised something, or took too long.
        """
        return next(iter(self.requests), None)

    @property
    def requests(self) -> Sequence[Request]:
        """Concurrent calls that have no output yet; the agent continues when all of them have one."""
        if self._batch is None or (self._batch and len(self._outputs) == len(self._batch)):
            self._advance()
        assert self._batch is not None
        return self._batch[len(self._outputs) :]

    def send(self, output: Any) -> None:
        """Send the output of the request in."""
        request = self.request
        assert request is not None
        self._steps.append((*request, output))
        self._outputs.append(output)

    def fork(self, steps: Sequence[StageCall]) -> HostedProcess:
        """A process at the same place; its agent runs anew when it is needed."""
        other = HostedProcess(self._flow, self._turn, self._names)
        other._steps, other._outputs = list(self._steps), list(self._outputs)
        other._batch = None if self._batch is None else list(self._batch)
        return other

    def check(self, steps: Sequence[StageCall]) -> None:
        """Run the agent anew on all outputs of a turn.

        Raises:
            StageError: it made another call, or gave another response.
        """
        self._steps = [(step.name, step.argument, step.output) for step in steps if not isinstance(step, FlowReply)]
        self._advance()
        if self._batch:
            raise self._unsteady("it came to its end", canonical(self._batch[0]))
        if self._reply != steps[-1].output:
            raise self._unsteady(str(steps[-1].output), str(self._reply))

    def _advance(self) -> None:
        with nullcontext() if self._flow.is_elsewhere else _TURNSTILE:
            run, outputs = self._run, self._outputs
            if run is None or run.is_stopped:
                run, outputs = self._flow.begin(self._turn, self._steps), []
            self._run, self._outputs = run, []
            self._flow.advance(run, outputs, self._turn)
        is_done = run.task is not None and run.task.done()
        self._batch = [] if is_done else [waiting.request for waiting in run.batch]
        if run.known:
            (name, argument, _), *_ = next(iter(run.known.values()))
            instead = next((request for request in self._batch if request[0] == name), next(iter(self._batch), None))
            raise self._unsteady(canonical((name, argument)), canonical(instead) if instead else "it came to its end")
        if is_done and run.task is not None:
            self._reply, self._run = str(run.task.result()), None
        self._check_requests()

    def _check_requests(self) -> None:
        for name, _ in self._batch or ():
            if name not in self._names:
                raise StageError(
                    f"agent {self._flow.name}: calls {name!r}, which is not a stage; "
                    f"the stages are {', '.join(self._names)}"
                )
        if len(self._steps) + len(self._batch or ()) > MOST_STEPS:
            raise UnansweredError(
                f"agent {self._flow.name}: made more than {MOST_STEPS} calls in the turn that begins "
                f"{self._turn.user[:60]!r}"
            )

    def _unsteady(self, before: str, after: str) -> StageError:
        """An error that shows where two texts part."""
        # not strict: one text may be the beginning of the other
        pairs = zip(before, after, strict=False)
        parting = next((place for place, (left, right) in enumerate(pairs) if left != right), 0)
        same = max(0, parting - _SHOWN)
        first, second = ("…" * (same > 0) + text[same : same + 2 * _SHOWN] for text in (before, after))
        return StageError(
            f"agent {self._flow.name}: behaved differently on the same outputs in the turn that begins "
            f"{self._turn.user[:60]!r}: first {shortened(first)}, then {shortened(second)}; what is random or changes "
            "belongs into stages"
        )

    def __del__(self) -> None:
        if self._run is not None:
            self._flow.release(self._run)


class AgentStage(Stage):
    """Carries out what hosted agents ask.

    Args:
        call: a coroutine function of the argument and of the arguments of the turn's calls before (none, unless
            ``reads_calls``), which returns JSON.
        signature: identifies everything that determines its outputs; empty if unknown, and outputs are then not cached.
        concurrency: calls at once.
        reads_calls: whether outputs depend on the calls before. Equal calls after different ones are then made anew.
        is_random: whether outputs are drawn: an equal call in another sample is made anew.
        unsigned: reason for a missing signature, for the message.
    """

    remote = True

    def __init__(
        self,
        call: Callable[[Any, Sequence[Any]], Coroutine[Any, Any, Any]],
        signature: str = "",
        concurrency: int = 16,
        *,
        reads_calls: bool = False,
        is_random: bool = False,
        unsigned: str = "",
    ) -> None:
        self._call, self._unsigned = call, unsigned
        self.signature = signature
        self.concurrency = concurrency
        self.reads_only_argument = not reads_calls
        self.is_random = is_random

    def derived_signature(self) -> str:
        """Raise an error: a hosted agent has no derived signature.

        Raises:
            NotPlainError: always; what calls models and tools says nothing about them.
        """
        why = f" ({self._unsigned})" if self._unsigned else ""
        error = NotPlainError(f"the agent cannot be told apart from a changed one{why}")
        error.advice = "give the agent a signature (pipeline_of(…, signature=…), agent: {signature: …})"
        raise error

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """One output per input."""
        return [self._output(item) for item in inputs]

    def _output(self, item: StageInput) -> Any:
        before = [step.argument for step in item.steps]
        try:  # a tool may change what it is given
            return EventLoop.run_anyway(lambda: self._call(copy.deepcopy(item.argument), before))
        except TodBiasError:
            raise
        except FOREIGN as error:
            raise UnansweredError(described(error)) from error


def signature_of(parts: Sequence[str]) -> str:
    """Return a digest of the parts that determine the outputs of a stage."""
    return digest("\n".join(parts))
