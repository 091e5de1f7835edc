"""Running a system on all counterfactuals, with every set of stages replaced by twins: the second step of an audit.

A corpus is rewritten, run and scored in chunks, here or on the workers of a Ray cluster (Moritz et al. 2018). Every
worker handles parts of the corpus independently, and a separate process caches the outputs of all stages, for all
workers and the next run. A part is a task of Ray, which is repeated if its worker dies. Parts come back in the corpus'
order, so that the result is the local run's.

A system that cannot be run is audited from saved responses. The arm ∅ is the response that was saved for a
counterfactual. The twin of the whole system (N) is the rewritten response to the original: T(f(x)). The disparity is
therefore known. The stage in which it enters is unknown, because that needs calls with inputs that were never sent.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

from tod_bias.audit.checks import (
    COPIES,
    SYSTEM,
    ClusterOf,
    Seen,
    check_clusters,
    check_executor,
    clusters_of,
    metrics_of,
    with_copies,
)
from tod_bias.audit.design import (
    CHUNK,
    MANY_ARMS,
    ROWS,
    CounterfactualDesign,
    Counterfactuals,
    chunks,
    resting_collector,
)
from tod_bias.audit.estimates import more_orders_matter
from tod_bias.audit.record import generators_of, total_cost
from tod_bias.audit.running import ChunkRows, LostDialogues, Membership, Runner, TurnRows, executed, schema_of
from tod_bias.audit.turns import AxisGroups, AxisTurns, Turns
from tod_bias.config import AnalysisOptions, AuditConfig, RunOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import StageError, TodBiasError, described
from tod_bias.io.cache import Cache
from tod_bias.io.progress import progress_bar
from tod_bias.metrics.choice import default_metrics
from tod_bias.metrics.events import Event
from tod_bias.metrics.metric import Metric
from tod_bias.models.processes import several_processes
from tod_bias.perturb.axis import Axis, SelectedDialogue
from tod_bias.results import Attributed, AxisResult, Responses
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import MAX_FAILURES, CallOptions, StageCaller
from tod_bias.systems.execution import Execution, HistoryMode, Run, Trace, TurnTrace
from tod_bias.systems.hosted import HostedFlow
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import RemoteStage, StageCall, innermost
from tod_bias.systems.stages.recorded import SavedResponses, SavedTurn

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator


Chunk = Mapping[str, Sequence[SelectedDialogue]]
"""Axis to dialogues, each with its candidates."""
Chunks = Callable[[int], Iterable[Sequence[Chunk]]]
"""Function that returns all chunks, each split into about the given number of parts."""


@dataclass
class ChunkResult:
    """Result of one chunk."""

    rows: dict[str, ChunkRows] = field(default_factory=dict)
    """Rows by axis; an axis with only lost dialogues is missing."""
    lost: LostDialogues = field(default_factory=LostDialogues)
    parted: frozenset[str] = frozenset()
    """Stages whose twins put out anything else in it."""


@dataclass(frozen=True)
class ChunkRunner:
    """Rewrites, runs and scores chunks."""

    counterfactuals: Counterfactuals
    runner: Runner
    turn_rows: TurnRows
    kinds: Sequence[tuple[str, ClusterOf]] = ()
    """Further kinds of clusters."""
    samples: int = 1
    """Outputs drawn for each call."""

    def __call__(self, chunk: Chunk, calls: Mapping[str, bool] | None = None) -> ChunkResult:
        """One chunk.

        Args:
            chunk: its dialogues.
            calls: by axis, whether the system is known to make calls.
        """
        result = ChunkResult()
        by_axis = {axis: self.counterfactuals.of(axis, selections) for axis, selections in chunk.items()}
        has_calls = False
        for name, variants in executed(self.runner, by_axis, self.samples, result.lost).items():
            if not variants:
                continue
            axis = self.counterfactuals.axes[name]
            members = [
                membership(axis, selection, self.kinds)
                for selection in chunk[name]
                if selection.dialogue.id not in result.lost.reasons
            ]
            rows = self.turn_rows.of(name, variants, members, calls=has_calls or bool(calls and calls.get(name)))
            has_calls = rows.has_calls
            result.rows[name] = rows
        result.parted = frozenset(self.runner.parted)
        return result


def membership(axis: Axis, selection: SelectedDialogue, kinds: Sequence[tuple[str, ClusterOf]] = ()) -> Membership:
    """The clusters of a dialogue and its counterfactuals.

    Args:
        axis: along which it is rewritten.
        selection: the dialogue and its candidates.
        kinds: further kinds of clusters.
    """
    dialogue, candidates = selection
    return Membership(
        axis.terms(dialogue, candidates) if candidates else (),
        {name: cluster_of(dialogue) for name, cluster_of in kinds},
    )


class Executor(Protocol):
    """Place that runs chunks of turns."""

    def __call__(self, work: Work, runner: Runner, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield every chunk, or its parts, in order, with the results."""


@dataclass(frozen=True)
class Work:
    """Everything that a chunk runner is made of, for other processes."""

    counterfactuals: Counterfactuals
    pipeline: Pipeline
    history: HistoryMode
    metrics: Sequence[Metric]
    kinds: Sequence[tuple[str, ClusterOf]]
    samples: int
    max_failures: float
    cache: str | None
    """SQLite file of outputs."""
    arms: ArmDesign
    """Sets of stages that are replaced."""

    def chunk_runner(self, runner: Runner) -> ChunkRunner:
        """Return the runner of chunks for a runner of dialogues."""
        turn_rows = TurnRows(self.arms, self.metrics)
        return ChunkRunner(self.counterfactuals, runner, turn_rows, self.kinds, self.samples)


def run_here(work: Work, runner: Runner, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
    """Run all chunks in this process, one after the other, each as one part."""
    run_chunk = work.chunk_runner(runner)
    calls = False
    for (chunk,) in chunks(1):
        result = run_chunk(chunk, dict.fromkeys(chunk, calls))
        calls = calls or any(rows.has_calls for rows in result.rows.values())
        yield chunk, result


_PATIENCE = 5.0
"""Seconds within which a cluster takes a connection; Ray itself tries for minutes."""


def check_address() -> None:
    """Raises TodBiasError where ``RAY_ADDRESS`` names no cluster that takes connections."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "auto", "local"):
        return
    match = re.fullmatch(r"([^/]+):(\d{1,5})", address)
    if match is None:
        raise TodBiasError(f"RAY_ADDRESS={address}: expected HOST:PORT of a cluster, auto or local")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), _PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise TodBiasError(
            f"RAY_ADDRESS={address}: no cluster answers there ({error}); start it, or take RAY_ADDRESS away"
        ) from error


@contextmanager
def keeping_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it starts; who asked for the run has said what it shall do."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopped = False
    try:
        yield
    except SystemExit:  # what Ray makes of SIGTERM
        stopped = True
    finally:
        for number, handler in before.items():
            with suppress(ValueError, TypeError):  # not in the main thread, or none of Python's
                signal.signal(number, handler)
    if stopped:
        signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt  # where nobody handles it


def processes() -> list[Any]:
    """Ray's processes that descend from this one; some outlive the one that started them for a minute."""
    import psutil  # type: ignore[import-untyped]

    running = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            command = process.cmdline()[:4]
            if command and (command[0].startswith("ray::") or any("/ray/" in part for part in command)):
                running.append(process)
    return running


_ROUNDS = 4
"""Parts that each worker gets of a chunk, about: with more of them the last one ends sooner."""
_DEATHS = 3
"""A part whose workers died so often is not run again."""


class RayExecutor:
    """Runs chunks on the workers of a Ray cluster.

    The cluster is the one that ``RAY_ADDRESS`` names or ``ray start`` has started on this machine; else one is started
    here, and ended with the run.

    Args:
        workers: how many; by default one for every processor of the cluster.

    Raises:
        TodBiasError: Ray is not installed.
    """

    def __init__(self, workers: int | None = None) -> None:
        try:
            import ray  # noqa: F401
        except ImportError as error:
            raise TodBiasError("executor 'ray' needs its packages: pip install ray psutil") from error
        self._workers = workers

    def __call__(self, work: Work, runner: Runner, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield the parts of all chunks in order, with their results; costs are added to those of ``runner``.

        Raises:
            StageError: a stage raised, or its worker died repeatedly.
            TodBiasError: the system cannot be pickled, or there is no cluster.
        """
        assert isinstance(runner, Execution)  # and no saved responses: check_shareable
        with _cluster(self._workers) as workers, _cache_server(work.cache) as server:
            tasks = _Tasks(runner, workers, work, server)
            try:
                yield from tasks.all(chunks(_ROUNDS * workers))
            finally:
                tasks.cancel()


@contextmanager
def _cluster(wanted: int | None) -> Iterator[int]:
    """A Ray cluster, and the number of workers; it is ended with the block if it was started for it.

    Raises:
        TodBiasError: there is none, or it has fewer processors than there are to be workers.
    """
    import psutil  # type: ignore[import-untyped]
    import ray

    check_address()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    is_new = not ray.is_initialized()
    try:
        if is_new:
            _start(wanted)
        processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        if (wanted or 0) > processors:
            raise TodBiasError(f"{wanted} workers: the Ray cluster has {processors} processors, and each takes one")
        yield wanted or processors
    finally:
        if is_new:
            left = processes()
            ray.shutdown()
            for process in left:
                with suppress(psutil.Error):  # it has come to its end
                    process.kill()


def _start(workers: int | None) -> None:
    import ray

    given = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(workers or 0, os.cpu_count() or 1)}
    try:
        with keeping_signals():
            try:
                ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **given)
            except ValueError:  # a cluster is there already, and has its own number of processors
                ray.init(log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise TodBiasError(f"no Ray cluster: {described(error)}") from error


def check_shareable(work: Work, *, is_saved: bool) -> None:
    """Raise if workers cannot run the audit.

    Args:
        work: what is to be done.
        is_saved: whether the system's responses are saved ones.

    Raises:
        TodBiasError: a stage calls a server or a language model of this package, an axis is rewritten by one, or no
            stage is called.
    """
    if is_saved:
        raise TodBiasError("executor 'ray' is for stages in Python; with saved responses there is nothing to spread")
    if several_processes():
        raise TodBiasError("executor 'ray' starts its own workers: run it without accelerate launch or torchrun")
    for name, stage in work.pipeline.stages.items():
        if isinstance(innermost(stage), RemoteStage):
            raise TodBiasError(
                f"stage {name!r} calls a server: executor 'ray' is for stages in Python; use its concurrency"
            )
    if isinstance(work.pipeline.flow, HostedFlow):
        raise TodBiasError(
            "executor 'ray' is for stages in Python; an agent runs in this process, with as many calls at once as its "
            "concurrency says"
        )
    if generators_of(work.pipeline):
        raise TodBiasError(
            "executor 'ray' is for stages in Python; share a language model's work out by accelerate launch"
        )


class _CacheServer:
    """The cache of all workers, on the run's own machine."""

    def __init__(self, path: str) -> None:
        self._cache = Cache(path)

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        return self._cache.get(keys)

    def put(self, outputs: Mapping[str, str]) -> None:
        self._cache.put(outputs)


class _RemoteCache(Cache):
    """The cache server's cache, as a worker uses it."""

    def __init__(self, server: Any) -> None:
        super().__init__()
        self._server = server

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        outputs: dict[str, str] = self._result_of(self._server.get.remote(list(keys)))
        return outputs

    def put(self, outputs: Mapping[str, str]) -> None:
        self._result_of(self._server.put.remote(dict(outputs)))

    def _result_of(self, call: Any) -> Any:
        import ray

        try:
            return ray.get(call)
        except ray.exceptions.RayError as error:  # of a task: its text is a traceback
            cause = getattr(error, "cause", error)
            line = str(cause) if isinstance(cause, TodBiasError) else f"the cache of outputs: {described(cause)}"
            raise TodBiasError(line) from None


@dataclass(frozen=True)
class _Sent:
    """State that is sent to a worker once."""

    run: str
    path: list[str]
    """Folders in which the modules of the stages are found."""
    work: bytes
    signatures: Mapping[str, str]
    """Under which each stage's outputs are cached."""
    server: Any
    """The cache of all workers; None for none."""


_runners: dict[str, tuple[ChunkRunner, Execution]] = {}
"""Runners of a worker, by run."""


def _runners_of(sent: _Sent) -> tuple[ChunkRunner, Execution]:
    if sent.run not in _runners:
        _runners.clear()
        sys.path += [place for place in sent.path if place not in sys.path]
        work: Work = pickle.loads(sent.work)
        cache = None if sent.server is None else _RemoteCache(sent.server)
        options = CallOptions(max_failures=work.max_failures)
        execution = Execution(work.pipeline, work.history, cache, options, signatures=sent.signatures, arms=work.arms)
        _runners[sent.run] = work.chunk_runner(execution), execution
    return _runners[sent.run]


def _run_part(sent: _Sent, part: bytes, calls: Mapping[str, bool]) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """Return the result or exception of a part, its cost, and why outputs are not cached, by stage."""
    callers: Mapping[str, Any] = {}
    try:
        run_chunk, execution = _runners_of(sent)
        callers = execution.callers
        result: Any = run_chunk(pickle.loads(part), calls)
    except TodBiasError as error:
        result = error
    except Exception as error:  # noqa: BLE001  # raised again where it can be seen
        return StageError(f"a worker: {described(error)}"), {}, {}
    costs = {name: caller.cost.reset() for name, caller in callers.items()}
    return result, costs, {name: caller.not_cached for name, caller in callers.items()}


@contextmanager
def _cache_server(path: str | None) -> Iterator[Any]:
    """Start the process that holds the cache of all workers, on the run's own machine; None without a cache."""
    import ray

    if path is None:
        yield None
        return
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    server = ray.remote(_CacheServer).options(num_cpus=0, scheduling_strategy=here).remote(os.path.abspath(path))
    try:
        yield server
    finally:
        ray.kill(server)


class _Part:
    """A part that is run."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.calls: Mapping[str, bool] = {}
        self.result: ChunkResult | None = None


class _Tasks:
    """Parts that wait, and those that are run: as many as there are workers.

    Raises:
        TodBiasError: the system cannot be sent to workers.
    """

    def __init__(self, execution: Execution, workers: int, work: Work, server: Any) -> None:
        import ray

        self._ray, self._execution, self._workers = ray, execution, workers
        self._waiting: deque[_Part] = deque()
        self._running: dict[Any, _Part] = {}
        self._task = ray.remote(_run_part).options(num_cpus=1, max_retries=_DEATHS - 1)
        signatures = {name: caller.signature for name, caller in execution.callers.items()}
        path = [str(Path.cwd()), *sys.path]
        try:
            self._sent = ray.put(_Sent(uuid4().hex, path, ray.cloudpickle.dumps(work), signatures, server))
        except Exception as error:
            raise TodBiasError(
                f"the system cannot be sent to Ray's workers ({described(error)}); name its stages in a pipeline "
                "file, and open what belongs to one machine when they are first called"
            ) from error

    def all(self, chunks: Iterable[Sequence[Chunk]]) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Parts of all chunks in order; those of the next chunk wait already while one is worked on."""
        calls = False
        before: list[_Part] = []
        for chunk in chain(chunks, [[]]):
            after = [_Part(part) for part in chunk]
            self._waiting.extend(after)
            self._submit()
            if before:
                calls = self._finished(before, calls)
                yield from ((part.chunk, part.result) for part in before if part.result is not None)
            before = after

    def _finished(self, parts: Sequence[_Part], calls: bool) -> bool:
        """Wait for a chunk; return True if the system made calls in any of its parts."""
        for part in parts:
            self._wait_for(part)
        known: dict[str, bool] = {}
        for axis in dict.fromkeys(axis for part in parts for axis in part.chunk):
            rows = [part.result.rows[axis] for part in parts if part.result is not None and axis in part.result.rows]
            calls = calls or any(some.has_calls for some in rows)
            known[axis] = calls
        for part in parts:
            assert part.result is not None
            if any(known[axis] and not rows.has_calls for axis, rows in part.result.rows.items()):
                part.calls, part.result = known, None
                self._waiting.append(part)
                self._wait_for(part)
        return calls

    def _submit(self) -> None:
        while self._waiting and len(self._running) < self._workers:
            part = self._waiting.popleft()
            sent = self._ray.cloudpickle.dumps(part.chunk)
            self._running[self._task.remote(self._sent, sent, part.calls)] = part

    def _wait_for(self, part: _Part) -> None:
        while part.result is None:
            self._submit()
            (ready, *_), _ = self._ray.wait(list(self._running), num_returns=1)
            finished = self._running.pop(ready)
            try:
                result, costs, not_cached = self._ray.get(ready)
            except self._ray.exceptions.WorkerCrashedError as error:
                names = next(iter(finished.chunk.values()))
                raise StageError(
                    f"{_DEATHS} workers died one after the other on the dialogues from {names[0][0].id!r} on "
                    f"({described(error)}); does a stage end its process, or is there too little memory?"
                ) from error
            except self._ray.exceptions.RayError as error:
                raise TodBiasError(f"a worker of Ray: {described(error)}") from error
            for name, cost in costs.items():
                caller = self._execution.callers[name]
                caller.cost.add(cost)
                caller.not_cached = not_cached[name] or caller.not_cached
            if isinstance(result, TodBiasError):
                raise result
            finished.result = result

    def cancel(self) -> None:
        """End the parts that are run."""
        for task in self._running:
            self._ray.cancel(task, force=True)


A = TypeVar("A", bound=Attributed)
FEW_MISSING = 0.01
"""Share of turns that may be without a saved response by default: their dialogues are left out."""


def saved_responses(pipeline: Pipeline) -> SavedResponses | None:
    """Return the saved responses of a system; None if the system can be run."""
    stage = next(iter(pipeline.stages.values()))
    return stage if isinstance(stage, SavedResponses) else None


class SavedExecution:
    """Counterpart of :class:`~tod_bias.systems.execution.Execution` for systems that cannot be run.

    Args:
        responses: the saved ones.
        max_failures: share of turns that may be without a response; None for :data:`FEW_MISSING`.
    """

    is_sampled = False
    whole_arm = None

    def __init__(self, responses: SavedResponses, max_failures: float | None) -> None:
        self._responses = responses
        self.lost: dict[int, str] = {}
        self.lost_unswapped: set[int] = set()
        self.parted: set[str] = set()
        self.arms = ArmDesign((SYSTEM,))
        self.callers = {SYSTEM: StageCaller(SYSTEM, responses)}
        self._max_failures = FEW_MISSING if max_failures is None else max_failures
        self._missing = ""
        self._wanted: set[tuple[str, str, int]] = set()
        self._lacking: set[tuple[str, str, int]] = set()

    def __call__(self, runs: Sequence[Run]) -> list[Trace | None]:
        """The traces of all runs; None for one with a turn that has no response."""
        self.lost, self.lost_unswapped = {}, set()
        cost = self.callers[SYSTEM].cost
        traces: list[Trace | None] = []
        for number, run in enumerate(runs):
            cost.calls += len(run.dialogue.turns) * (1 if run.rewrite is None else 2)
            trace = self._trace(run)
            if trace is None:
                self.lost[number] = self._missing
                if self._saved(run, run.variant) is None:
                    self.lost_unswapped.add(number)
            traces.append(trace)
        return traces

    def _trace(self, run: Run) -> Trace | None:
        saved, blind = self._saved(run, run.variant), None
        if run.rewrite is not None:
            blind = self._saved(run, run.base)
            if blind is not None:
                blind = [run.rewrite(steps) for steps in blind]
        if saved is None or (blind is None and run.rewrite is not None):
            return None
        if blind is None:
            return [(TurnTrace((0,), steps),) for steps in saved]
        return [(TurnTrace((0,), calls), TurnTrace((1,), of_twin)) for calls, of_twin in zip(saved, blind, strict=True)]

    def _saved(self, run: Run, variant: str) -> list[tuple[StageCall, ...]] | None:
        """The steps of every turn; None where a turn is missing."""
        calls = []
        dialogue = run.rewritten if variant != run.base else run.dialogue
        for number, turn in enumerate(dialogue.turns):
            key = run.dialogue.id, variant, number
            saved = self._responses.responses.get(key)
            self._wanted.add(key)
            if saved is None:
                self._lacking.add(key)
                self._missing = self._missing or f"dialogue {key[0]!r}, turn {number}, variant {variant!r}"
                continue
            if saved.user is not None and saved.user != turn.user:
                raise StageError(
                    f"{self._responses.path}: turn {number} of {key[0]!r} as {variant!r} is a response to "
                    f"{saved.user[:60]!r}, but here it is {str(turn.user)[:60]!r}; "
                    "use the same --corpus, --axes, --design, --seed and lexicons"
                )
            calls.append(_steps_of(saved))
        cost = self.callers[SYSTEM].cost
        cost.distinct, cost.failed = len(self._wanted), len(self._lacking)
        return calls if len(calls) == len(dialogue.turns) else None

    def used(self) -> Responses:
        """Count the responses, and by reason those that belong to nothing in this run, with the first of each."""
        known = {(name, variant) for name, variant, _ in self._wanted}
        names, variants = {name for name, _ in known}, {variant for _, variant in known}
        unused: dict[str, Any] = {}
        for name, variant, turn in self._responses.responses:
            if (name, variant, turn) in self._wanted:
                continue
            reason, first = "turn", f"turn {turn} of {name!r} as {variant!r}"
            if name not in names:
                reason, first = "dialogue", repr(name)
            elif variant not in variants:
                reason, first = "variant", repr(variant)
            elif (name, variant) not in known:
                reason, first = "pair", f"{name!r} as {variant!r}"
            unused.setdefault(reason, {"number": 0, "first": first})["number"] += 1
        saved = self._responses.responses.values()
        unchecked = sum(response.user is None for response in saved)
        return Responses(number=len(saved), unchecked=unchecked, unused=unused)

    def check(self) -> None:
        """Raise if too many turns have no response.

        Raises:
            StageError: there are more than ``max_failures``.
        """
        cost = self.callers[SYSTEM].cost
        if cost.failed > self._max_failures * cost.distinct:
            variants, names = self._responses.variants, {name for name, _, _ in self._responses.responses}
            if not names & {name for name, _, _ in self._wanted}:
                raise StageError(
                    f"{self._responses.path}: no response has the id of a dialogue; the responses have "
                    f"{min(names)!r} …, the corpus has {min(self._wanted)[0]!r} …; "
                    "'id' is what export writes as 'original'"
                )
            shown = ", ".join(map(repr, variants[:4])) + (", …" if len(variants) > 4 else "")
            raise StageError(
                f"{self._responses.path}: {cost.failed} turns lack a response (the first: {self._missing}), more than "
                f"--max-failures {self._max_failures:g} of {cost.distinct} turns; it has "
                f"{shown}{self._idle()}; write the counterfactuals with tod-bias export and the same --corpus, --axes, "
                "--design and --seed"
            )

    def _idle(self) -> str:
        unused = self.used().unused
        first = next(iter(unused.values()), None)
        if first is None:
            return ""
        number = sum(int(reason["number"]) for reason in unused.values())
        counted = ", and turns count from 0" if min(turn for *_, turn in self._responses.responses) > 0 else ""
        return f"; {number} of its responses belong to nothing here (the first: {first['first']}){counted}"


def _steps_of(saved: SavedTurn) -> tuple[StageCall, ...]:
    calls = tuple(StageCall("tools", step.call, list(step.results)) for step in saved.steps if step.call)
    return (*calls, StageCall(SYSTEM, None, saved.response))


def unattributed(row: AxisResult) -> AxisResult:
    """An axis and metric without what cannot be known of saved responses: the share of the system as a whole is
    attributed to no stage, and Su's numbers are left out."""

    def bare(part: A) -> A:
        whole = part.contributions.get(SYSTEM)
        return part.model_copy(update={"contributions": {}, "unattributed": whole and whole.shapley})

    groups, references = ({name: bare(part) for name, part in rows.items()} for rows in (row.groups, row.references))
    update = {"interactions": {}, "su": None, "groups": groups, "references": references}
    return bare(row).model_copy(update=update | {"widest": row.widest and bare(row.widest)})


@dataclass(frozen=True)
class Measures:
    """Metrics and kinds of clusters of a run, as objects."""

    metrics: Sequence[Metric]
    clusters: Sequence[tuple[str, Callable[[Dialogue], str]]]
    is_default: bool = False
    """True if these metrics were not requested: those that measure nothing are then left out."""
    events: Sequence[Event] = ()
    """Events that were asked for; by default the run's turns decide which are measured."""

    @classmethod
    def of(
        cls,
        config: AuditConfig | None,
        settings: Mapping[str, Any],
        dialogues: Sequence[Dialogue],
        grades: Sequence[Metric] = (),
    ) -> tuple[Measures, dict[str, Any]]:
        """Return the metrics and clusters among some settings, or else of a configuration.

        Args:
            config: every option.
            settings: single options by name.
            dialogues: determine the metrics if neither names any.
            grades: of the pipeline, which are measured in addition.

        Returns:
            The metrics and clusters, and the settings with names instead of objects.

        Raises:
            TodBiasError: a metric is unknown or repeated, or all dialogues are in one cluster.
        """
        analysis = (config or AuditConfig()).analysis
        given = settings.get("metrics", analysis.metrics)
        chosen = [] if given is None else metrics_of(given)
        is_default = all(metric.is_grade for metric in chosen)  # a grade alone leaves the other metrics as they are
        metrics = [*grades, *chosen, *(metrics_of(default_metrics(dialogues)) if is_default else ())]
        clusters = clusters_of(settings.get("cluster", analysis.cluster))
        if [name for name, _ in clusters] != list(AnalysisOptions().cluster):
            check_clusters(clusters, dialogues)
        clusters = with_copies(clusters, dialogues)
        named = dict(settings)
        if settings.get("metrics") is not None:
            named["metrics"] = [metric.name for metric in chosen]
        if "cluster" in settings:
            named["cluster"] = [name for name, _ in clusters if name != COPIES]
        events = [metric for metric in metrics if isinstance(metric, Event)]
        scored = [metric for metric in metrics if not isinstance(metric, Event)]
        return cls(scored, clusters, is_default, events), named


@dataclass
class Outputs:
    """Outputs of a system on all counterfactuals."""

    pipeline: Pipeline
    execution: Execution | SavedExecution
    """Cost, and the runs without an output."""
    turns: Turns
    """One row per turn, counterfactual and arm."""
    drawn: dict[str, list[SelectedDialogue]]
    """Axis to the dialogues whose counterfactuals all have outputs."""
    failures: dict[str, TodBiasError]
    """Axes without results, and why."""
    axes: dict[str, AxisTurns] = field(default_factory=dict)
    """Axis to the sums of its turns by the run's metrics."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """Axis to facts about whether anything is measured."""
    lost: LostDialogues = field(default_factory=LostDialogues)
    """Dialogues in which a call had no output."""
    has_outputs: bool = False
    """True if any response was more than None."""
    tokens: tuple[int, int] = (0, 0)
    """Read and written by local models."""
    started: float = field(default_factory=time.monotonic)


def run(
    pipeline: Pipeline,
    design: CounterfactualDesign,
    measures: Measures,
    options: RunOptions | None = None,
    *,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Outputs:
    """Run every original and counterfactual with sets of stages replaced by twins, and score all turns.

    Where stages are many, the run is repeated with more sets until they suffice (:mod:`tod_bias.statistics.arms`);
    calls that were made are not made again.

    Args:
        pipeline: the system, or saved responses.
        design: which counterfactuals there are.
        measures: the metrics that score turns, and the clusters of dialogues.
        options: how the system is run.
        cache: SQLite file that keeps outputs.
        show_progress: on stderr.

    Raises:
        StageError: a stage broke its contract or left too many calls without an output.
    """
    options = RunOptions() if options is None else options
    check_executor(options.executor, options.workers)
    started = time.monotonic()
    known = None if cache is None else Cache(cache)
    for generator in generators_of(pipeline):
        generator.keep_in(known)
        generator.show_progress = show_progress
    before = total_cost(generators_of(pipeline))
    execution = _execution(pipeline, options, known, show_progress, design.counterfactuals.seed)
    groups = {name: AxisGroups(axis.groups, axis.factors) for name, axis in design.counterfactuals.axes.items()}
    schema = schema_of(pipeline.names, measures.metrics)
    arms: ArmDesign | None = execution.arms
    while arms is not None:
        execution.arms = arms
        outputs = Outputs(
            pipeline,
            execution,
            Turns(arms, groups, schema=schema),
            drawn=dict(design.selected),
            failures=dict(design.failures),
            started=started,
        )
        work = Work(
            design.counterfactuals,
            pipeline,
            options.history,
            measures.metrics,
            measures.clusters,
            options.samples,
            _allowed(options),
            None if cache is None else str(cache),
            arms,
        )
        parted = _run_chunks(work, outputs, design, options, show_progress)
        if isinstance(execution, SavedExecution):
            execution.check()
        _leave_out_lost(outputs)
        outputs.axes = {axis: outputs.turns.sums(axis, measures.metrics) for axis in outputs.drawn}
        arms = _arms_after(arms, parted, outputs, measures.metrics)
    outputs.tokens = _tokens_since(before, generators_of(pipeline))
    return outputs


def _arms_after(
    arms: ArmDesign, parted: Iterable[str], outputs: Outputs, metrics: Sequence[Metric]
) -> ArmDesign | None:
    """The arms to run next; None where contributions follow from these."""
    if not arms.pairs:
        return arms.after(parted)
    tables = [(turns.tables[metric.name], metric) for turns in outputs.axes.values() for metric in metrics]
    return arms.with_more_pairs if any(more_orders_matter(table, metric) for table, metric in tables) else None


def _allowed(options: RunOptions) -> float:
    """Return the share of calls that may fail."""
    return MAX_FAILURES if options.max_failures is None else options.max_failures


def _execution(
    pipeline: Pipeline,
    options: RunOptions,
    outputs: Cache | None,
    show_progress: bool,
    seed: int,
) -> Execution | SavedExecution:
    """Return the runner of dialogues.

    Raises:
        TodBiasError: samples are requested of a system that draws nothing.
    """
    responses = saved_responses(pipeline)
    execution: Execution | SavedExecution
    if responses is not None:
        execution = SavedExecution(responses, options.max_failures)
    else:
        execution = Execution(
            pipeline,
            options.history,
            outputs,
            CallOptions(_allowed(options), show_progress=show_progress),
            arms=ArmDesign.first(pipeline.names, pipeline.groups, seed),
        )
    if options.samples > 1 and not execution.is_sampled:
        raise TodBiasError(
            f"{options.samples} samples: no stage draws its outputs, so all would be equal; leave it out"
        )
    return execution


def _run_chunks(
    work: Work, outputs: Outputs, design: CounterfactualDesign, options: RunOptions, show_progress: bool
) -> set[str]:
    """Run all chunks, and write their rows; the stages whose twins put out anything else."""
    parted: set[str] = set()
    execute: Executor = run_here
    if options.executor == "ray":
        check_shareable(work, is_saved=isinstance(outputs.execution, SavedExecution))
        execute = RayExecutor(options.workers)
    total = sum(map(len, design.selected.values()))
    progress = progress_bar(total, "rewriting dialogues", show=show_progress and options.executor != "local")
    with resting_collector() as collect, progress as bar:
        arms = len(work.arms.arms)
        most = CHUNK if arms <= MANY_ARMS else max(1, ROWS // arms)
        parts = partial(chunks, design.dialogues, design.selected, options.samples, most=most)
        for chunk, result in execute(work, outputs.execution, parts):
            outputs.lost.merge(result.lost)
            parted |= result.parted
            for axis, chunk_rows in result.rows.items():
                outputs.turns.add(axis, chunk_rows.rows)
                outputs.seen[axis] = outputs.seen.get(axis, Seen()) | chunk_rows.seen
                outputs.has_outputs = outputs.has_outputs or chunk_rows.has_outputs
            bar.advance(sum(map(len, chunk.values())))
            collect()
    return parted


def _leave_out_lost(outputs: Outputs) -> None:
    """Keep the axes that still have dialogues.

    Raises:
        StageError: nothing is left, or no response is more than None.
    """
    lost = outputs.lost
    if lost.reasons:
        outputs.failures |= {axis: StageError(f"axis {axis}: every dialogue lacks an output") for axis in outputs.drawn}
        outputs.drawn = _without(lost, outputs.drawn)
        outputs.failures = {axis: error for axis, error in outputs.failures.items() if axis not in outputs.drawn}
    if not outputs.has_outputs:
        pipeline = outputs.pipeline
        last = f"stage {pipeline.names[-1]!r}" if pipeline.flow is None else "the last stage called"
        raise StageError(f"{last}: returned None every time; expected texts, which are scored")
    outputs.turns.keep(list(outputs.drawn))


def _without(lost: LostDialogues, drawn: Mapping[str, list[SelectedDialogue]]) -> dict[str, list[SelectedDialogue]]:
    """The axes that still have dialogues, without those that were lost."""
    complete = {
        axis: [selection for selection in selections if selection.dialogue.id not in lost.reasons]
        for axis, selections in drawn.items()
    }
    complete = {axis: selections for axis, selections in complete.items() if selections}
    if not complete:
        reason = next(iter(lost.reasons.values()))
        raise StageError(f"no dialogue has outputs of all its calls ({reason})")
    return complete


def _tokens_since(before: Any, generators: Sequence[Generator]) -> tuple[int, int]:
    after = total_cost(generators)
    return after.read - before.read, after.written - before.written
