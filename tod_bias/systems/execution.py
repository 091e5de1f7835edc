"""Running a system on dialogues and their rewrites, with every set of stages replaced by twins.

A *run* is one dialogue, original or under one rewrite; an *arm* is a run with a set S of stages replaced. All turns of
all runs and arms go through their flows together, a wave at a time: their calls are collected, every stage gets one
batch, equal calls are made once, and the outputs go back into the flows.

Arms that have got the same outputs so far are one: they part where a stage and its twin first differ.

The turns of a hosted agent, which are alive while they wait, go through one by one, many side by side
(:mod:`tod_bias.systems.lanes`): none waits for another.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tod_bias.dialogues.dialogue import ORIGINAL_VARIANT, Dialogue, Turn
from tod_bias.errors import StageError, TodBiasError, UnansweredError
from tod_bias.io.cache import Cache
from tod_bias.io.canonical import canonical
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import NONE_AT_ALL, CallOptions, StageCaller
from tod_bias.systems.flow import REPLY, FlowTurn, Process
from tod_bias.systems.hosted import HostedFlow, HostedProcess
from tod_bias.systems.lanes import Lanes
from tod_bias.systems.outputs import ERROR
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Failure, FlowReply, RemoteStage, Stage, StageCall, TurnInput, innermost
from tod_bias.systems.turns import system_turn
from tod_bias.systems.twin import Rewrite, Twin, not_undone, rewritten_except, untwinned

log = logging.getLogger(__name__)

HistoryMode = Literal["gold", "system"]
"""Whose turns make the history: the corpus's (teacher-forced, as in Su) or the system's own (free-running)."""
HISTORY_MODES: tuple[HistoryMode, ...] = ("gold", "system")


def check_history(history: str) -> None:
    """Raise TodBiasError for an unknown history mode."""
    if history not in HISTORY_MODES:
        raise TodBiasError(f"unknown history {history!r}; expected one of {', '.join(HISTORY_MODES)}")


@dataclass(frozen=True)
class Run:
    """One dialogue under one rewrite, or as it is."""

    dialogue: Dialogue
    """The original dialogue."""
    rewrite: Rewrite | None = None
    """T; None for the original run."""
    sample: int = 0
    """Number of the sample, where stages draw their outputs."""
    variant: str = ORIGINAL_VARIANT
    """Its name among the variants of the dialogue: ``gender:woman``."""
    base: str = ORIGINAL_VARIANT
    """The name of the variant that ``dialogue`` is, from which T starts."""
    only: int | None = None
    """Number of the one turn that is run, with a teacher-forced history; None: all of them."""

    @property
    def rewritten(self) -> Dialogue:
        """The dialogue that the system sees."""
        return self.dialogue if self.rewrite is None else self.rewrite(self.dialogue)


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """Record of one turn, shared by all arms in which it took the same course."""

    arms: tuple[int, ...]
    """Numbers of the arms, as :class:`~tod_bias.statistics.arms.ArmDesign` orders them."""
    calls: tuple[StageCall, ...]
    """Calls with their outputs, in order; a turn that failed ends with an empty response."""
    failure: str = ""
    """Reason of a failure: a call without an output, or an exception of an agent; empty for a turn that ended."""

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The latest output of each stage."""
        return {name: output for name, _, output in self.calls}

    @property
    def response(self) -> Any:
        """The output of the last stage called."""
        return self.calls[-1].output


Trace = list[tuple[TurnTrace, ...]]
"""A run: every turn's traces, which hold every arm once. The original run has only the arm without swaps."""


@dataclass(slots=True)
class _Job:
    """One turn of one run, in some arms."""

    run: int
    turn: int
    flow_turn: FlowTurn
    rewrite: Rewrite | None
    arms: tuple[int, ...]
    sample: int
    dialogue: str


@dataclass(slots=True)
class _Node:
    """A job on its way through the flow, in the arms that have got the same outputs so far."""

    job: _Job
    arms: tuple[int, ...]
    process: Process
    plain: TurnInput
    """Input that stages read."""
    twin: TurnInput | None
    """Input with which twins call their stages, T⁻¹ of the turn; None in an original run."""
    handed: Mapping[str, str]
    """Strings in the outputs up to now that T⁻¹ does not undo (:func:`~tod_bias.systems.twin.not_undone`)."""


class Execution:
    """Runs of one system.

    Args:
        pipeline: the system.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        cache: where outputs are kept; None for nowhere, and then stages with one model share them in memory.
        options: how stages are called.
        signatures: stage to the signature under which its outputs are cached, where another process has found them.
        arms: which sets of stages are replaced; None: all of them, or the first that are run where stages are many.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        history: HistoryMode = "gold",
        cache: Cache | None = None,
        options: CallOptions | None = None,
        *,
        signatures: Mapping[str, str] | None = None,
        arms: ArmDesign | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.history = history
        options = options or CallOptions()
        self._lock = threading.Lock()
        self._has_ended = self._is_ending = False
        self._reason = ""
        self._stops = options.max_failures < 1
        self._has_said_prompts = False
        shared = Cache() if cache is None else cache  # for servers, whose replies stages share
        self.callers: dict[str, StageCaller] = {}
        self._always: set[str] = set()  # twins already: every arm calls the twin
        for name, stage in pipeline.stages.items():
            if isinstance(stage, Twin):
                self._always.add(name)
                stage = untwinned(stage)
            self.callers[name] = StageCaller(
                name,
                stage,
                shared if isinstance(innermost(stage), RemoteStage) else cache,
                options,
                concurrency=pipeline.concurrency.get(name) or stage.concurrency,
                signature=None if signatures is None else signatures.get(name),
            )
        self._check_offers()
        self.arms = ArmDesign.first(pipeline.names, pipeline.groups) if arms is None else arms

    @property
    def arms(self) -> ArmDesign:
        """Arms: the sets of stages that are replaced."""
        return self._arms

    @arms.setter
    def arms(self, design: ArmDesign) -> None:
        self._arms = design
        self._with = {
            name: frozenset(number for number, arm in enumerate(design.arms) if name in arm) for name in design.stages
        }
        self.parted: set[str] = set()
        """The stages whose twins put out anything else, so far in these arms."""
        for caller in self.callers.values():
            caller.cost.calls = 0  # they are those of the arms that results are made of
        self._failed = 0  # turns in which the flow itself failed

    @property
    def _lanes(self) -> int:
        """Hosted agents at once."""
        return max(caller.concurrency for caller in self.callers.values())

    @property
    def _innermost(self) -> dict[str, Stage]:
        """The stages inside of all wrappers, by name."""
        return {name: innermost(caller.stage) for name, caller in self.callers.items()}

    def _check_offers(self) -> None:
        """Raise if the tools that chat models are offered do not fit the functions, before anything is called.

        Raises:
            StageError: it does not.
        """
        stages = self._innermost
        runners = [stage for stage in stages.values() if stage.runs_tools]
        if len(runners) == 1:  # with several, a tool may be any one's
            for name, stage in stages.items():
                if isinstance(stage, RemoteStage):
                    runners[0].check_offered(stage.tools, name)

    @property
    def whole_arm(self) -> int | None:
        """The number of the arm of the whole system's twin, of a hosted agent, in which more may be called than its
        stages; None of other systems."""
        return len(self._arms.arms) if isinstance(self.pipeline.flow, HostedFlow) else None

    @property
    def is_sampled(self) -> bool:
        """True if any stage draws its outputs."""
        return any(caller.stage.is_random for caller in self.callers.values())

    def __call__(self, runs: Sequence[Run]) -> list[Trace]:
        """Return the traces of all runs, each with all arms. What stages print meanwhile goes to stderr."""
        self._say_prompts(runs)
        with redirect_stdout(sys.stderr):
            return self._traces(runs)

    def settled(self, runs: Sequence[Run]) -> list[Trace]:
        """The traces in as many arms as these runs need, where stages are many."""
        traces = self(runs)
        while (arms := self.arms.after(self.parted)) is not None:
            self.arms = arms
            traces = self(runs)
        return traces

    def _say_prompts(self, runs: Sequence[Run]) -> None:
        """Print once that a stage's system prompt replaces the one of a recorded chat."""
        recorded = next((run.dialogue for run in runs if run.dialogue.system), None)
        if recorded is None or self._has_said_prompts:
            return
        self._has_said_prompts = True
        replacing = [
            name for name, stage in self._innermost.items() if stage.replaces_system and stage.system != recorded.system
        ]
        if replacing:
            log.warning(
                "%s: its own system prompt is sent in place of the recorded one (dialogue %r has one); write "
                "'system: recorded' to send that",
                ", ".join(replacing),
                recorded.id,
            )

    def _traces(self, runs: Sequence[Run]) -> list[Trace]:
        dialogues = [run.rewritten for run in runs]
        arms = tuple(range(len(self._arms.arms)))
        of_run = [arms if run.rewrite is not None else arms[:1] for run in runs]
        traces: list[Trace] = [[()] * len(dialogue.turns) for dialogue in dialogues]
        if self.history == "gold":
            for job, turns in self._advance(self._gold_jobs(runs, dialogues, of_run)):
                traces[job.run][job.turn] += turns
        else:
            self._run_freely(runs, dialogues, of_run, traces)
        return [[tuple(sorted(turns, key=lambda turn: turn.arms)) for turns in trace] for trace in traces]

    @staticmethod
    def _gold_jobs(
        runs: Sequence[Run], dialogues: Sequence[Dialogue], of_run: Sequence[tuple[int, ...]]
    ) -> Iterator[_Job]:
        for number, (run, dialogue) in enumerate(zip(runs, dialogues, strict=True)):
            for turn, gold in enumerate(dialogue.turns):
                if run.only is not None and turn != run.only:
                    continue
                given = FlowTurn(gold.user, dialogue.turns[:turn], dialogue.system, dialogue.task)
                yield _Job(number, turn, given, run.rewrite, of_run[number], run.sample, dialogue.id)

    def _run_freely(
        self,
        runs: Sequence[Run],
        dialogues: Sequence[Dialogue],
        of_run: Sequence[tuple[int, ...]],
        traces: Sequence[Trace],
    ) -> None:
        """One turn of every dialogue after the other, each with the system's own turns before it."""
        histories: list[list[tuple[tuple[Turn, ...], tuple[int, ...]]]] = [[((), arms)] for arms in of_run]
        for turn in range(max((len(dialogue.turns) for dialogue in dialogues), default=0)):
            jobs = [
                _Job(number, turn, given, run.rewrite, arms, run.sample, dialogue.id)
                for number, (run, dialogue) in enumerate(zip(runs, dialogues, strict=True))
                if turn < len(dialogue.turns)
                for history, arms in histories[number]
                for given in [FlowTurn(dialogue.turns[turn].user, history, dialogue.system, dialogue.task)]
            ]
            longer: dict[int, list[tuple[tuple[Turn, ...], tuple[int, ...]]]] = {}
            for job, made in self._advance(jobs):
                traces[job.run][turn] += made
                gold = dialogues[job.run].turns[turn]
                longer.setdefault(job.run, []).extend(
                    ((*job.flow_turn.history, system_turn(gold, trace.calls)), trace.arms) for trace in made
                )
            for number, history in longer.items():
                histories[number] = history

    def _advance(self, jobs: Iterable[_Job]) -> list[tuple[_Job, tuple[TurnTrace, ...]]]:
        """Every job with its traces."""
        done = [(job, list[TurnTrace]()) for job in jobs]
        if isinstance(self.pipeline.flow, HostedFlow):
            Lanes(self._lanes, self._end).run([partial(self._run_agent, job, traces) for job, traces in done])
            self._check_any_ended(NONE_AT_ALL)
        else:
            self._run_waves(done)
            if self.pipeline.flow is not None:
                for job, traces in done:
                    self._check(job, traces)
        return [(job, tuple(traces)) for job, traces in done]

    def _end(self) -> None:
        """Cancel agents; calls that are running finish."""
        self._is_ending = True
        for caller in self.callers.values():
            caller.end()

    def _run_waves(self, done: Sequence[tuple[_Job, list[TurnTrace]]]) -> None:
        """Run all jobs together and add their traces."""
        traces = {id(job): some for job, some in done}
        live = [self._started(job) for job, _ in done]
        while live:
            going_on: list[_Node] = []
            for node in self._wave(live):
                if node.process.request is None:
                    traces[id(node.job)].append(_trace(node))
                else:
                    going_on.append(node)
            live = going_on

    def _run_agent(self, job: _Job, traces: list[TurnTrace]) -> None:
        """One job of a hosted agent: one way to its end, then those that parted from it; adds their traces."""
        rest = [self._started(job)]
        while rest:
            if self._is_ending:
                return
            node = rest.pop()
            try:
                if node.process.request is None:
                    traces.append(_trace(node))
                    self._has_ended = self._has_ended or not traces[-1].failure
                    continue
            except UnansweredError as error:
                traces.append(_failed(node.arms, node.plain.steps, str(error)))
                self._count_failed_turn(str(error))
                continue
            self._call_at_once(node)
            rest += reversed(list(self._wave([node])))
        self._check(job, traces)

    def _call_at_once(self, node: _Node) -> None:
        """Make the calls that an agent makes at once; each of them then finds its output.

        Where outputs depend on the calls before, these are made one by one.
        """
        assert isinstance(node.process, HostedProcess)
        inputs: dict[str, list[tuple[TurnInput, Any]]] = {}
        for request in node.process.requests[1:] and node.process.requests:
            if not self.callers[request[0]].stage.reads_only_argument:
                continue
            mine = inputs.setdefault(request[0], [])
            mine += [_input(node, request, is_twin) for is_twin in self._ways(node, request[0])]
        if inputs:
            Lanes(len(inputs)).run([partial(self.callers[name].call, some) for name, some in inputs.items()])

    def _started(self, job: _Job) -> _Node:
        turn = job.flow_turn
        facts = turn.system, job.sample, job.dialogue
        plain = TurnInput(turn.history, turn.user, *facts, turn.task)
        twin, handed = None, dict[str, str]()
        if job.rewrite is not None:
            inverse = job.rewrite.inverse
            twin = TurnInput(inverse(turn.history), inverse(turn.user), *facts, inverse(turn.task))
            if self.history == "system":
                handed = not_undone([(past.response, past.steps) for past in turn.history], job.rewrite)
        return _Node(job, job.arms, self.pipeline.start(turn), plain, twin, handed)

    def _check(self, job: _Job, traces: Sequence[TurnTrace]) -> None:
        """A flow must do the same when it gets the same outputs: go through each trace once more.

        Hosted agents whose arms parted have been run anew already.
        """
        is_hosted = isinstance(self.pipeline.flow, HostedFlow)
        for trace in () if is_hosted and len(traces) > 1 else traces:
            if trace.failure:
                continue
            with suppress(UnansweredError):  # an agent that now fails did come to its end before
                self.pipeline.start(job.flow_turn).check(trace.calls)

    def _ways(self, node: _Node, name: str) -> list[bool]:
        """List if a call is of the stage (False), of its twin (True), or of both, in different arms."""
        if node.twin is None or name in self._always:
            return [node.twin is not None]
        with_twin = self._with[name]
        return [
            *([] if with_twin.issuperset(node.arms) else [False]),
            *([] if with_twin.isdisjoint(node.arms) else [True]),
        ]

    def _calls_of(self, live: Sequence[_Node]) -> dict[str, list[tuple[int, bool]]]:
        """Stage to the nodes that call it, each with whether it calls the twin."""
        calls: dict[str, list[tuple[int, bool]]] = {name: [] for name in self.pipeline.names}
        for number, node in enumerate(live):
            name = _request(node)[0]
            calls[name] += [(number, is_twin) for is_twin in self._ways(node, name)]
        return {name: entries for name, entries in calls.items() if entries}

    def _count_failed_turn(self, reason: str) -> None:
        """Count a turn whose flow failed: a hosted agent that raised something or took too long.

        Raises:
            StageError: every turn fails.
        """
        with self._lock:
            self._failed += 1
            self._reason = self._reason or reason
        self._check_any_ended(max(NONE_AT_ALL, 2 * self._lanes))

    def _check_any_ended(self, enough: int) -> None:
        """Raise StageError if this many turns failed and none ended."""
        if not self._has_ended and self._failed >= enough and self._stops:
            raise StageError(f"none of {self._failed} turns came to its end ({self._reason})")

    def _wave(self, live: Sequence[_Node]) -> Iterator[_Node]:
        """Make the calls of all nodes, one batch per stage, and send the outputs back in."""
        plain: dict[int, Any] = {}
        twin: dict[int, Any] = {}
        for name, entries in self._calls_of(live).items():
            caller = self.callers[name]
            with self._lock:
                caller.cost.calls += sum(len(live[number].arms) for number in {number for number, _ in entries})
            outputs = caller.call([_input(live[n], _request(live[n]), is_twin) for n, is_twin in entries])
            for (number, is_twin), output in zip(entries, outputs, strict=True):
                rewrite = live[number].job.rewrite
                if is_twin and isinstance(output, Failure):
                    twin[number] = output
                elif is_twin and rewrite is not None:
                    handed = {**live[number].handed, **not_undone(_request(live[number])[1], rewrite)}
                    twin[number] = rewritten_except(output, rewrite, handed)  # T(f(T⁻¹ x)): see tod_bias.systems.twin
                else:
                    plain[number] = output
        for number, node in enumerate(live):
            yield from self._parted(node, number, plain, twin)

    def _parted(self, node: _Node, number: int, plain: Mapping[int, Any], twin: Mapping[int, Any]) -> Iterator[_Node]:
        """The node after its call; two where the stage and its twin returned different outputs."""
        name, argument = _request(node)
        outputs = [_Output(made[number], node.job.rewrite) for made in (plain, twin) if number in made]
        ways = [(outputs[0], node.arms, node.process)]
        if len(outputs) == 2 and not outputs[0].is_same(outputs[1]):
            self.parted.add(name)
            fork = node.process.fork(node.plain.steps)
            swapped = tuple(arm for arm in node.arms if arm in self._with[name])
            others = tuple(arm for arm in node.arms if arm not in self._with[name])
            ways = [(outputs[0], others, node.process), (outputs[1], swapped, fork)]
        for output, arms, process in ways:
            yield _after(node, name, argument, output, arms, process)


class _Output:
    """An output as stages read it, and as twins hand it to theirs, each with its canonical form."""

    __slots__ = ("handed", "inverse", "inverse_key", "key", "value")

    def __init__(self, value: Any, rewrite: Rewrite | None) -> None:
        self.value = self.inverse = value
        self.handed: dict[str, str] = {}
        if isinstance(value, Failure):
            self.key = self.inverse_key = "failure"
            return
        self.key = self.inverse_key = canonical(value)
        if rewrite is not None:
            self.inverse = rewrite.inverse(value)
            self.inverse_key = canonical(self.inverse)
            self.handed = not_undone(value, rewrite)

    def is_same(self, other: _Output) -> bool:
        """True if no stage and no twin can tell both apart."""
        return self.key == other.key and self.inverse_key == other.inverse_key


class _FailedProcess:
    """Process of a flow in which a call has no output: the turn has ended."""

    request = reply = None

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def send(self, output: Any) -> None:
        """Do nothing; nothing is called."""

    def fork(self, steps: Sequence[StageCall]) -> _FailedProcess:
        """Return itself."""
        return self

    def check(self, steps: Sequence[StageCall]) -> None:
        """Do nothing; no flow is run again."""


def _failed(arms: tuple[int, ...], calls: Sequence[StageCall], reason: str) -> TurnTrace:
    """Return a turn that failed after some calls: the user gets an empty response."""
    return TurnTrace(arms, (*calls, FlowReply(REPLY, None, "")), reason)


def _trace(node: _Node) -> TurnTrace:
    """Return the trace of a node that has ended."""
    if isinstance(node.process, _FailedProcess):
        return _failed(node.arms, node.plain.steps, node.process.reason)
    reply = node.process.reply
    return TurnTrace(node.arms, (*node.plain.steps, *(() if reply is None else (FlowReply(REPLY, None, reply),))))


def _request(node: _Node) -> tuple[str, Any]:
    assert node.process.request is not None  # those that have come to their end are no longer live
    return node.process.request


def _input(node: _Node, request: tuple[str, Any], is_twin: bool) -> tuple[TurnInput, Any]:
    argument = request[1]
    if not is_twin or node.twin is None or node.job.rewrite is None:
        return node.plain, argument
    return node.twin, None if argument is None else node.job.rewrite.inverse(argument)


def _after(node: _Node, name: str, argument: Any, output: _Output, arms: tuple[int, ...], process: Process) -> _Node:
    """Return the node in some of its arms, with one more call."""
    if isinstance(output.value, Failure):
        error = StageCall(name, argument, {ERROR: output.value.reason})
        ended = _FailedProcess(output.value.reason)
        return _Node(node.job, arms, ended, node.plain.after(error, canonical(error.output)), None, node.handed)
    plain, twin = node.plain.after(StageCall(name, argument, output.value), output.key), None
    if node.twin is not None and node.job.rewrite is not None:
        of_twin = None if argument is None else node.job.rewrite.inverse(argument)
        twin = node.twin.after(StageCall(name, of_twin, output.inverse), output.inverse_key)
    process.send(output.value)
    return _Node(node.job, arms, process, plain, twin, {**node.handed, **output.handed})
