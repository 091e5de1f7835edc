"""Chunks of a run on the workers of a Ray cluster."""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil  # type: ignore[import-untyped]
import ray

from tod_bias.audit.executor import Chunk, ChunkResult, ChunkRunner, Chunks, LocalExecutor, Work
from tod_bias.audit.record import generators_of
from tod_bias.errors import StageError, TodBiasError, described
from tod_bias.io.cache import Cache
from tod_bias.models.processes import several_processes
from tod_bias.systems.caller import CallOptions
from tod_bias.systems.execution import Execution, HistoryMode
from tod_bias.systems.hosted import HostedFlow
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import RemoteStage, innermost

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


class RayExecutor(LocalExecutor):
    """Runs chunks on the workers of a Ray cluster.

    The cluster is the one that ``RAY_ADDRESS`` names or ``ray start`` has started on this machine; else one is started
    here, and ended with the run.

    Args:
        execution: of the system, to whose costs those of the workers are added.
        options: how its stages are called.
        cache: SQLite file of outputs.
        workers: how many; by default one for every processor of the cluster.

    Raises:
        TodBiasError: workers cannot run the system.
    """

    def __init__(
        self, execution: Execution, options: CallOptions, cache: str | None, workers: int | None = None
    ) -> None:
        super().__init__(execution)
        _check_shareable(execution.pipeline)
        self._options, self._cache, self._workers = options, cache, workers

    def __call__(self, work: Work, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield the parts of all chunks in order, with their results.

        Raises:
            StageError: a stage raised, or its worker died repeatedly.
            TodBiasError: the system cannot be pickled, or there is no cluster.
        """
        self.execution.arms = work.arms
        pipeline, history = self.execution.pipeline, self.execution.history
        options = CallOptions(max_failures=self._options.max_failures)
        with _cluster(self._workers) as workers, _cache_server(self._cache) as server:
            tasks = _Tasks(self.execution, workers, _Shared(work, pipeline, history, options), server)
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
    given = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(workers or 0, os.cpu_count() or 1)}
    try:
        with keeping_signals():
            try:
                ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **given)
            except ValueError:  # a cluster is there already, and has its own number of processors
                ray.init(log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise TodBiasError(f"no Ray cluster: {described(error)}") from error


def _check_shareable(pipeline: Pipeline) -> None:
    """Raise if workers cannot run a system.

    Raises:
        TodBiasError: a stage calls a server or a language model of this package, or the system is an agent.
    """
    if several_processes():
        raise TodBiasError("executor 'ray' starts its own workers: run it without accelerate launch or torchrun")
    for name, stage in pipeline.stages.items():
        if isinstance(innermost(stage), RemoteStage):
            raise TodBiasError(
                f"stage {name!r} calls a server: executor 'ray' is for stages in Python; use its concurrency"
            )
    if isinstance(pipeline.flow, HostedFlow):
        raise TodBiasError(
            "executor 'ray' is for stages in Python; an agent runs in this process, with as many calls at once as its "
            "concurrency says"
        )
    if generators_of(pipeline.stages):
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
        try:
            return ray.get(call)
        except ray.exceptions.RayError as error:  # of a task: its text is a traceback
            cause = getattr(error, "cause", error)
            line = str(cause) if isinstance(cause, TodBiasError) else f"the cache of outputs: {described(cause)}"
            raise TodBiasError(line) from None


@dataclass(frozen=True)
class _Shared:
    """Everything that workers run chunks with, pickled for them."""

    work: Work
    pipeline: Pipeline
    history: HistoryMode
    options: CallOptions


@dataclass(frozen=True)
class _Sent:
    """State that is sent to a worker once."""

    run: str
    path: list[str]
    """Folders in which the modules of the stages are found."""
    shared: bytes
    """Pickled :class:`_Shared`."""
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
        shared: _Shared = pickle.loads(sent.shared)
        cache = None if sent.server is None else _RemoteCache(sent.server)
        execution = Execution(
            shared.pipeline,
            shared.history,
            cache,
            shared.options,
            signatures=sent.signatures,
            arms=shared.work.arms,
        )
        _runners[sent.run] = ChunkRunner(shared.work, execution), execution
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

    def __init__(self, execution: Execution, workers: int, shared: _Shared, server: Any) -> None:
        self._execution, self._workers = execution, workers
        self._waiting: deque[_Part] = deque()
        self._running: dict[Any, _Part] = {}
        self._task = ray.remote(_run_part).options(num_cpus=1, max_retries=_DEATHS - 1)
        signatures = {name: caller.signature for name, caller in execution.callers.items()}
        path = [str(Path.cwd()), *sys.path]
        try:
            self._sent = ray.put(_Sent(uuid4().hex, path, ray.cloudpickle.dumps(shared), signatures, server))
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
            sent = ray.cloudpickle.dumps(part.chunk)
            self._running[self._task.remote(self._sent, sent, part.calls)] = part

    def _wait_for(self, part: _Part) -> None:
        while part.result is None:
            self._submit()
            (ready, *_), _ = ray.wait(list(self._running), num_returns=1)
            finished = self._running.pop(ready)
            try:
                result, costs, not_cached = ray.get(ready)
            except ray.exceptions.WorkerCrashedError as error:
                names = next(iter(finished.chunk.values()))
                raise StageError(
                    f"{_DEATHS} workers died one after the other on the dialogues from {names[0][0].id!r} on "
                    f"({described(error)}); does a stage end its process, or is there too little memory?"
                ) from error
            except ray.exceptions.RayError as error:
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
            ray.cancel(task, force=True)
