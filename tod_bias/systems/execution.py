"""Running a system on dialogues and their rewrites, with every set of components swapped for twins.

A *run* is one dialogue, original or under one rewrite; an *arm* is a run with a set S of components swapped. All turns
of all runs and arms go through their flows together, a wave at a time: what they ask is collected, every component
gets one batch, equal questions are asked once, and the answers go back into the flows.

Arms that have got the same answers so far are one: they part where a component and its twin first differ.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from tod_bias.answers import Answers
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import TodBiasError
from tod_bias.systems.component import MAX_FAILURES, Component
from tod_bias.systems.flow import FlowTurn, Process
from tod_bias.systems.layer import innermost
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.questions import Reading
from tod_bias.systems.remote import Unanswered, remote_of
from tod_bias.systems.sameness import frozen
from tod_bias.systems.stage import Asked
from tod_bias.systems.told import own_turn
from tod_bias.systems.twin import Rewrite, Twin, untwinned

log = logging.getLogger(__name__)

Arm = frozenset[str]
"""The components that are swapped."""
HistoryMode = Literal["gold", "system"]
"""Whose turns make the history: the corpus's (teacher-forced, as in Su) or the system's own (free-running)."""
HISTORY_MODES: tuple[HistoryMode, ...] = ("gold", "system")


def check_history(history: str) -> None:
    """Raises TodBiasError for a history mode that there is not."""
    if history not in HISTORY_MODES:
        raise TodBiasError(f"unknown history {history!r}; expected one of {', '.join(HISTORY_MODES)}")


def all_arms(names: Sequence[str]) -> list[Arm]:
    """All 2ⁿ sets of components, the smaller ones first."""
    return [frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)]


def arm_key(arm: Arm) -> str:
    """An arm in results: component names, sorted, joined by a comma; ``""`` for no swap."""
    return ",".join(sorted(arm))


@dataclass(frozen=True)
class Run:
    """One dialogue under one rewrite, or as it is."""

    dialogue: Dialogue
    """The original dialogue."""
    rewrite: Rewrite | None = None
    """T; None for the original run."""
    sample: int = 0
    """Number of the sample, where components draw their answers."""
    variant: str = "original"
    """Its name among the variants of the dialogue: ``gender:woman``."""
    base: str = "original"
    """The name of the variant that ``dialogue`` is, from which T starts."""
    only: int | None = None
    """Number of the one turn that is asked for, with a teacher-forced history; None: all of them."""

    @property
    def rewritten(self) -> Dialogue:
        """The dialogue that the system sees."""
        return self.dialogue if self.rewrite is None else self.rewrite(self.dialogue)


@dataclass(frozen=True, slots=True)
class Course:
    """What happened in one turn, in all arms in which it went the same way."""

    arms: tuple[int, ...]
    """Numbers of the arms, as :func:`all_arms` orders them."""
    steps: tuple[Asked, ...]
    """Everything that was asked, in order."""

    @property
    def outputs(self) -> Mapping[str, Any]:
        """What each component put out, the latest of each."""
        return {name: output for name, _, output in self.steps}

    @property
    def response(self) -> Any:
        """What the last component put out."""
        return self.steps[-1].output


Trace = list[tuple[Course, ...]]
"""A run: for every turn its courses, which hold every arm once. The original run has only the arm without swaps."""


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
    """A job on its way through the flow, in the arms that have got the same answers so far."""

    job: _Job
    arms: tuple[int, ...]
    process: Process
    plain: Reading
    """What components read."""
    twin: Reading | None
    """What twins ask their components: T⁻¹ of it; None in an original run."""


class Execution:
    """Runs of one system.

    Args:
        pipeline: the system.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        answers: where answers are kept; None for nowhere, and then components with one model share them in memory.
        max_failures: share of a component's questions that may stay without an answer.
        collect: ask no server; what would be asked is collected (:attr:`pending`).
        refused: key of a request to the reason why it has no answer, for good; components add to it.
        show_progress: on stderr.
        identities: component to its name for what it answered, where another process has found them.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        history: HistoryMode = "gold",
        answers: Answers | None = None,
        *,
        max_failures: float = MAX_FAILURES,
        collect: bool = False,
        refused: dict[str, str] | None = None,
        show_progress: bool = False,
        identities: Mapping[str, str] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.history = history
        self._collect = collect
        self.lost: dict[int, str] = {}
        """Of the last call: number of a run that has no answer to some question, and the reason."""
        self._has_said_prompts = False
        self.own: set[int] = set()
        """Of these, the runs that have none where no component is swapped: the others lack one that a twin asks."""
        refused = {} if refused is None else refused
        shared = Answers() if answers is None else answers  # for servers, whose answers components share
        self.components: dict[str, Component] = {}
        self._always: set[str] = set()  # twins already: every arm asks the twin
        self._arms = all_arms(pipeline.names)
        self._with = {
            name: frozenset(number for number, arm in enumerate(self._arms) if name in arm) for name in pipeline.names
        }
        for name, stage in pipeline.stages.items():
            if isinstance(stage, Twin):
                self._always.add(name)
                stage = untwinned(stage)
            threads: Any = pipeline.concurrency.get(name) or getattr(stage, "concurrency", 1) or 1
            self.components[name] = Component(
                name,
                stage,
                shared if hasattr(innermost(stage), "client") else answers,
                concurrency=threads,
                max_failures=max_failures,
                collect=collect,
                refused=refused,
                show_progress=show_progress,
                identity=None if identities is None else identities.get(name),
            )

        self._check_offers()

    @property
    def _innermost(self) -> dict[str, Any]:
        """The stages behind all layers, by name."""
        return {name: innermost(component.stage) for name, component in self.components.items()}

    def _check_offers(self) -> None:
        """See to it that what chat models are offered fits the functions, before anything is called.

        Raises:
            StageError: it does not.
        """
        stages = self._innermost
        offered = {name: stage.tools for name, stage in stages.items() if remote_of(stage) and hasattr(stage, "tools")}
        checks = [stage.check_offered for stage in stages.values() if hasattr(stage, "check_offered")]
        if len(checks) == 1:  # with several, a tool may be any one's
            for name, schemas in offered.items():
                checks[0](schemas, name)

    @property
    def is_sampled(self) -> bool:
        """Whether any component draws its answers."""
        return any(component.is_sampled for component in self.components.values())

    @property
    def pending(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Component to what must still be asked, key to request."""
        return {name: component.pending for name, component in self.components.items() if component.pending}

    def check(self) -> None:
        """See to it, at the end, that not too many questions stayed without an answer.

        Raises:
            StageError: a component left more than ``max_failures`` of them.
        """
        for component in self.components.values():
            component.check()

    def __call__(self, runs: Sequence[Run]) -> list[Trace | None]:
        """The traces of all runs, each with all arms; None for one in which a question has no answer.

        What components print meanwhile goes to stderr.
        """
        self._say_prompts(runs)
        with redirect_stdout(sys.stderr):
            return self._traces(runs)

    def _say_prompts(self, runs: Sequence[Run]) -> None:
        """Say once that a component's system prompt stands in place of the one that a recorded chat holds."""
        recorded = next((run.dialogue for run in runs if run.dialogue.system), None)
        if recorded is None or self._has_said_prompts:
            return
        self._has_said_prompts = True
        own = [
            name
            for name, stage in self._innermost.items()
            if getattr(stage, "replaces_system", False) and stage.system != recorded.system
        ]
        if own:
            log.warning(
                "%s: its own system prompt is sent in place of the recorded one (dialogue %r has one); write "
                "'system: recorded' to send that",
                ", ".join(own),
                recorded.id,
            )

    def _traces(self, runs: Sequence[Run]) -> list[Trace | None]:
        self.lost, self.own = {}, set()
        dialogues = [run.rewritten for run in runs]
        arms = tuple(range(len(self._arms)))
        of_run = [arms if run.rewrite is not None else arms[:1] for run in runs]
        traces: list[Trace] = [[()] * len(dialogue.turns) for dialogue in dialogues]
        if self.history == "gold":
            for job, courses in self._advance(self._gold_jobs(runs, dialogues, of_run)):
                traces[job.run][job.turn] += courses
        else:
            self._run_freely(runs, dialogues, of_run, traces)
        return [
            None
            if number in self.lost
            else [tuple(sorted(courses, key=lambda course: course.arms)) for courses in trace]
            for number, trace in enumerate(traces)
        ]

    @staticmethod
    def _gold_jobs(
        runs: Sequence[Run], dialogues: Sequence[Dialogue], of_run: Sequence[tuple[int, ...]]
    ) -> Iterator[_Job]:
        for number, (run, dialogue) in enumerate(zip(runs, dialogues, strict=True)):
            for turn, gold in enumerate(dialogue.turns):
                if run.only is not None and turn != run.only:
                    continue
                given = FlowTurn(gold.user, dialogue.turns[:turn], dialogue.system)
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
                if turn < len(dialogue.turns) and number not in self.lost
                for history, arms in histories[number]
                for given in [FlowTurn(dialogue.turns[turn].user, history, dialogue.system)]
            ]
            told: dict[int, list[tuple[tuple[Turn, ...], tuple[int, ...]]]] = {}
            for job, courses in self._advance(jobs):
                traces[job.run][turn] += courses
                gold = dialogues[job.run].turns[turn]
                told.setdefault(job.run, []).extend(
                    ((*job.flow_turn.history, own_turn(gold, course.steps)), course.arms) for course in courses
                )
            for number, found in told.items():
                histories[number] = found

    def _advance(self, jobs: Iterable[_Job]) -> list[tuple[_Job, tuple[Course, ...]]]:
        """Every job with its courses."""
        done: dict[int, tuple[_Job, list[Course]]] = {}
        live: list[_Node] = []
        for job in jobs:
            done[id(job)] = (job, [])
            live.append(self._started(job))
        while live:
            going_on: list[_Node] = []
            for node in self._wave(live):
                if node.process.request is None:
                    done[id(node.job)][1].append(Course(node.arms, node.plain.steps))
                else:
                    going_on.append(node)
            live = going_on
        if self.pipeline.flow is not None:
            self._check(done.values())
        return [(job, tuple(courses)) for job, courses in done.values()]

    def _started(self, job: _Job) -> _Node:
        turn = job.flow_turn
        plain = Reading(turn.history, turn.user, turn.system, job.sample, job.dialogue)
        twin = None
        if job.rewrite is not None:
            inverse = job.rewrite.inverse
            twin = Reading(inverse(turn.history), inverse(turn.user), turn.system, job.sample, job.dialogue)
        return _Node(job, job.arms, self.pipeline.start(turn), plain, twin)

    def _check(self, done: Iterable[tuple[_Job, Sequence[Course]]]) -> None:
        """A flow must do the same when it gets the same answers: go through each course once more."""
        for job, courses in done:
            for course in courses:
                self.pipeline.start(job.flow_turn).check(course.steps)

    def _wave(self, live: Sequence[_Node]) -> Iterator[_Node]:
        """Ask what all nodes ask, every component once, and send the answers back in."""
        asked: dict[str, list[tuple[int, bool]]] = {name: [] for name in self.pipeline.names}
        for number, node in enumerate(live):
            name = _request(node)[0]
            if node.twin is None:
                asked[name].append((number, False))
            elif name in self._always:
                asked[name].append((number, True))
            else:
                with_it = self._with[name]
                if not with_it.issuperset(node.arms):
                    asked[name].append((number, False))
                if not with_it.isdisjoint(node.arms):
                    asked[name].append((number, True))
        plain: dict[int, Any] = {}
        twin: dict[int, Any] = {}
        broken: set[int] = set()
        for name, entries in asked.items():
            if not entries:
                continue
            component = self.components[name]
            component.cost.asked += sum(len(live[number].arms) for number in {number for number, _ in entries})
            outputs = component.ask([_question(live[number], is_twin) for number, is_twin in entries])
            for (number, is_twin), output in zip(entries, outputs, strict=True):
                if isinstance(output, Unanswered):
                    self.lost.setdefault(live[number].job.run, output.reason)
                    if 0 in live[number].arms and (not is_twin or live[number].twin is None):
                        self.own.add(live[number].job.run)
                    broken.add(number)
                    continue
                rewrite = live[number].job.rewrite
                if is_twin and rewrite is not None:
                    twin[number] = rewrite(output)  # T(f(T⁻¹ x)): see tod_bias.systems.twin
                else:
                    plain[number] = output
        for number, node in enumerate(live):
            # where requests are collected, the other turns of a run that waits have more to ask
            if number not in broken and (self._collect or node.job.run not in self.lost):
                yield from self._parted(node, number, plain, twin)

    def _parted(self, node: _Node, number: int, plain: Mapping[int, Any], twin: Mapping[int, Any]) -> Iterator[_Node]:
        """The node after its answer; two where the component and its twin answered differently."""
        name, argument = _request(node)
        answers = [_Answer(given[number], node.job.rewrite) for given in (plain, twin) if number in given]
        if len(answers) == 1 or answers[0].is_as(answers[1]):
            yield _after(node, name, argument, answers[0], node.arms, node.process)
            return
        fork = node.process.fork(node.plain.steps)
        swapped = [arm for arm in node.arms if arm in self._with[name]]
        others = [arm for arm in node.arms if arm not in self._with[name]]
        yield _after(node, name, argument, answers[0], tuple(others), node.process)
        yield _after(node, name, argument, answers[1], tuple(swapped), fork)


class _Answer:
    """An output as components read it, and as twins hand it to theirs. Equal: the same to every one of them."""

    __slots__ = ("inverse", "inverse_key", "key", "output")

    def __init__(self, output: Any, rewrite: Rewrite | None) -> None:
        self.output = self.inverse = output
        self.key = self.inverse_key = frozen(output)
        if rewrite is not None:
            self.inverse = rewrite.inverse(output)
            inverse_key = frozen(self.inverse)
            if inverse_key != self.key:
                self.inverse_key = inverse_key

    def is_as(self, other: _Answer) -> bool:
        """Whether both are the same to every component and to every twin."""
        return bool(self.key == other.key and self.inverse_key == other.inverse_key)


def _request(node: _Node) -> tuple[str, Any]:
    assert node.process.request is not None  # those that have come to their end are no longer live
    return node.process.request


def _question(node: _Node, is_twin: bool) -> tuple[Reading, Any]:
    argument = _request(node)[1]
    if not is_twin or node.twin is None or node.job.rewrite is None:
        return node.plain, argument
    return node.twin, None if argument is None else node.job.rewrite.inverse(argument)


def _after(node: _Node, name: str, argument: Any, answer: _Answer, arms: tuple[int, ...], process: Process) -> _Node:
    """The node in some of its arms, with one more answer."""
    plain, twin = node.plain.after(name, argument, answer.output, answer.key), None
    if node.twin is not None and node.job.rewrite is not None:
        of_twin = None if argument is None else node.job.rewrite.inverse(argument)
        twin = node.twin.after(name, of_twin, answer.inverse, answer.inverse_key)
    process.send(answer.output)
    return _Node(node.job, arms, process, plain, twin)
