"""Chunks of a corpus on the workers of a Ray cluster (Moritz et al. 2018): tellings, components in Python, scores.

Every worker tells, runs and adds up parts of the corpus by itself; what its components answered is kept by one process
beside the run's own, so that whatever was answered once is known to all, and to the next run. A worker that dies is
replaced, and its part is asked again. Parts come back in the corpus' order, so that the result is the local run's.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tod_bias.audit.chunks import Chunk, Chunks, Done, Work, Workshop
from tod_bias.audit.design import models_of
from tod_bias.audit.ray_processes import check_address, own_signals, processes
from tod_bias.audit.running import Runs
from tod_bias.audit.signatures import generators_of
from tod_bias.cache import Cache
from tod_bias.errors import StageError, TodBiasError, described
from tod_bias.models.processes import several_processes
from tod_bias.systems.caller import CallOptions
from tod_bias.systems.execution import Execution
from tod_bias.systems.stage import RemoteStage, innermost

log = logging.getLogger(__name__)

_ROUNDS = 4
"""Parts that each worker gets of a chunk, about: with more of them the last one ends sooner."""
_PATIENCE = 60.0
"""Seconds without anything to do after which it is said that no processor is free."""
_DEATHS = 3
"""A part whose workers died so often is not asked again."""


class RayExecutor:
    """Works on chunks with the workers of a Ray cluster.

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
            raise TodBiasError("executor 'ray' needs its package: pip install 'tod-bias[ray]'") from error
        self._workers = workers

    def __call__(self, work: Work, execution: Runs, chunks: Chunks) -> Iterator[tuple[Chunk, Done]]:
        """Parts of all chunks in order, with what came of them; costs are added to those of ``execution``.

        Raises:
            StageError: what a component raised, or its worker died again and again.
            TodBiasError: the system cannot be sent to others, or there is no cluster.
        """
        assert isinstance(execution, Execution)  # and nothing recorded: check_shareable
        pool = _Pool(execution, self._workers)
        try:
            pool.open(work)
            yield from pool.all(chunks(_ROUNDS * pool.workers))
        finally:
            pool.close()


EXECUTORS = ("local", "ray")
"""Where chunks are worked on: in this process, or by the workers of a Ray cluster."""


def check_executor(executor: str, workers: int | None) -> None:
    """Raises TodBiasError for an executor that there is not, and for workers of none."""
    if executor not in EXECUTORS:
        raise TodBiasError(f"unknown executor {executor!r}; expected one of {', '.join(EXECUTORS)}")
    if workers is not None and (executor == "local" or type(workers) is not int or workers < 1):
        raise TodBiasError(f"workers: executor 'ray' has them, 1 or more; got {workers!r} with {executor!r}")


def check_shareable(work: Work, *, collects: bool, recorded: bool) -> None:
    """See to it that workers can do it.

    Args:
        work: what is to be done.
        collects: whether requests are written to batch files, or answers read from them.
        recorded: whether the system's answers are recorded.

    Raises:
        TodBiasError: a component asks a server or a language model of this package, an axis is rewritten by one, or
            nothing is asked.
    """
    if recorded or collects:
        what = "recorded answers" if recorded else "batch files"
        raise TodBiasError(f"executor 'ray' is for components in Python; with {what} there is nothing to spread")
    if several_processes():
        raise TodBiasError("executor 'ray' has workers of its own: run it without accelerate launch or torchrun")
    for name, stage in work.pipeline.stages.items():
        if isinstance(innermost(stage), RemoteStage):
            raise TodBiasError(
                f"stage {name!r} asks a server: executor 'ray' is for components in Python; use its concurrency, or "
                "batch files"
            )
    if generators_of(work.pipeline) or models_of(work.teller.axes.values()):
        raise TodBiasError(
            "executor 'ray' is for components in Python; share a language model's work out by accelerate launch"
        )


class _Worker:
    """Has a system of its own, made when the first part comes."""

    def __init__(self, path: Sequence[str], sent: bytes, signatures: Mapping[str, str], keeper: Any) -> None:
        self._path = path
        self._sent = sent
        self._signatures = signatures
        self._keeper = keeper

    def is_up(self) -> bool:
        """Says so."""
        return True

    def work_on(self, part: bytes, calls: Mapping[str, bool]) -> tuple[Any, dict[str, Any], dict[str, str]]:
        """What came of a part or what was raised; what it cost, and why answers are not kept, by component."""
        try:
            workshop, execution = self._made
            found: Any = workshop(pickle.loads(part), calls)
        except TodBiasError as error:
            found = error
        except Exception as error:  # noqa: BLE001  # raised again where it can be seen
            return StageError(f"a worker: {described(error)}"), {}, {}
        callers = execution.callers
        costs = {name: one.cost.reset() for name, one in callers.items()}
        return found, costs, {name: one.not_cached for name, one in callers.items()}

    @cached_property
    def _made(self) -> tuple[Workshop, Execution]:
        sys.path += [place for place in self._path if place not in sys.path]  # whose modules the components are from
        work: Work = pickle.loads(self._sent)
        execution = Execution(
            work.pipeline, work.history, None if self._keeper is None else _KeptElsewhere(self._keeper),
            CallOptions(max_failures=work.max_failures), signatures=self._signatures,
        )  # fmt: skip
        return work.workshop(execution), execution


class _Keeper:
    """Keeps what all workers were answered, on the run's own machine."""

    def __init__(self, path: str) -> None:
        self._answers = Cache(path)

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        return self._answers.get(keys)

    def put(self, answers: Mapping[str, str]) -> None:
        self._answers.put(answers)


class _KeptElsewhere(Cache):
    """Cache that the keeper keeps."""

    def __init__(self, keeper: Any) -> None:
        super().__init__()
        self._keeper = keeper

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = self._told(self._keeper.get.remote(list(keys)))
        return found

    def put(self, answers: Mapping[str, str]) -> None:
        self._told(self._keeper.put.remote(dict(answers)))

    def _told(self, asked: Any) -> Any:
        import ray

        try:
            return ray.get(asked)
        except ray.exceptions.RayError as error:  # of a task: its text is a traceback
            cause = getattr(error, "cause", error)
            line = str(cause) if isinstance(cause, TodBiasError) else f"what is kept of answers: {described(cause)}"
            raise TodBiasError(line) from None


class _Part:
    """A part that is worked on."""

    def __init__(self, chunk: Chunk, calls: Mapping[str, bool]) -> None:
        self.chunk = chunk
        self.calls = calls
        self.done: Done | None = None
        self.deaths = 0


class _Pool:
    """The workers, what waits for them, and what they work on."""

    def __init__(self, execution: Execution, workers: int | None) -> None:
        import ray

        self._ray = ray
        self._execution = execution
        self._idle: deque[Any] = deque()
        self._starting: dict[Any, Any] = {}
        self._failed = 0
        self._waiting: deque[_Part] = deque()
        self._keeper: Any = None
        self._running: dict[Any, tuple[_Part, Any]] = {}
        check_address()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self._is_own = not ray.is_initialized()
        if self._is_own:
            given = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(workers or 0, os.cpu_count() or 1)}
            try:
                with own_signals():
                    try:
                        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **given)
                    except ValueError:  # a cluster is there already, and has its own number of processors
                        ray.init(log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                raise TodBiasError(f"no Ray cluster: {described(error)}") from error
            except BaseException:
                self.close()
                raise
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def open(self, work: Work) -> None:
        """Send the system to the workers, and start them.

        Raises:
            TodBiasError: it cannot be sent, or the cluster has fewer processors than there are to be workers.
        """
        ray = self._ray
        there = int(ray.cluster_resources().get("CPU", 1))
        if self.workers > max(1, there):
            raise TodBiasError(f"{self.workers} workers: the Ray cluster has {there} processors, and each takes one")
        if work.cache is not None:
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            self._keeper = (
                ray.remote(_Keeper).options(num_cpus=0, scheduling_strategy=here).remote(os.path.abspath(work.cache))
            )
        signatures = {name: caller.signature for name, caller in self._execution.callers.items()}
        kind = ray.remote(_Worker).options(num_cpus=1)
        self._dumps = ray.cloudpickle.dumps
        try:
            sent = ray.put(self._dumps(work))
        except Exception as error:
            raise TodBiasError(
                f"the system cannot be sent to Ray's workers ({described(error)}); name its components in a pipeline "
                "file, and open what belongs to one machine when they are first asked"
            ) from error
        self._new = lambda: kind.remote([str(Path.cwd()), *sys.path], sent, signatures, self._keeper)
        for _ in range(self.workers):
            self._start()

    def _start(self) -> None:
        """Begin a worker; it gets parts once there is a processor for it, others may do them until then."""
        worker = self._new()
        self._starting[worker.is_up.remote()] = worker

    def _started(self, ready: Any) -> None:
        worker = self._starting.pop(ready)
        try:
            self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            self._failed += 1
            if self._failed >= _DEATHS * self.workers:
                raise TodBiasError(f"Ray's workers cannot be started: {described(error)}") from error
            self._start()
        else:
            self._idle.append(worker)

    def all(self, chunks: Iterable[Sequence[Chunk]]) -> Iterator[tuple[Chunk, Done]]:
        """Parts of all chunks in order; those of the next chunk wait already while one is worked on."""
        calls = False
        before: list[_Part] = []
        for chunk in chain(chunks, [[]]):
            after = [_Part(part, {}) for part in chunk]
            self._waiting.extend(after)
            self._give()
            if before:
                calls = self._finished(before, calls)
                yield from ((part.chunk, part.done) for part in before if part.done is not None)
            before = after

    def _finished(self, parts: Sequence[_Part], calls: bool) -> bool:
        """Wait for a chunk. Whether a system makes calls is known of all of it, as where it is in one piece."""
        for part in parts:
            self._wait_for(part)
        known: dict[str, bool] = {}
        for axis in dict.fromkeys(axis for part in parts for axis in part.chunk):
            found = [part.done.parts[axis] for part in parts if part.done is not None and axis in part.done.parts]
            calls = calls or any(one.has_calls for one in found)
            known[axis] = calls
        for part in parts:
            assert part.done is not None
            if any(known[axis] and not one.has_calls for axis, one in part.done.parts.items()):
                part.calls, part.done = known, None
                self._waiting.append(part)
                self._wait_for(part)
        return calls

    def _give(self) -> None:
        while self._idle and self._waiting:
            part, worker = self._waiting.popleft(), self._idle.popleft()
            self._running[worker.work_on.remote(self._dumps(part.chunk), part.calls)] = part, worker

    def _wait_for(self, part: _Part) -> None:
        while part.done is None:
            self._give()
            found, _ = self._ray.wait([*self._running, *self._starting], num_returns=1, timeout=_PATIENCE)
            if not found:
                if not self._running:
                    log.warning("no processor of the Ray cluster is free; this run waits for one")
                continue
            (ready,) = found
            if ready in self._starting:
                self._started(ready)
                continue
            one, worker = self._running.pop(ready)
            try:
                made, costs, not_kept = self._ray.get(ready)
            except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError) as error:
                self._ray.kill(worker)  # it may only be out of reach
                one.deaths += 1
                if one.deaths == _DEATHS:
                    names = next(iter(one.chunk.values()))
                    raise StageError(
                        f"{_DEATHS} workers died one after the other on the dialogues from {names[0][0].id!r} on "
                        f"({described(error)}); does a component end its process, or is there too little memory?"
                    ) from error
                self._start()
                self._waiting.appendleft(one)
                continue
            except self._ray.exceptions.RayError as error:
                raise TodBiasError(f"a worker of Ray: {described(error)}") from error
            self._idle.append(worker)
            for name, cost in costs.items():
                component = self._execution.callers[name]
                component.cost.add(cost)
                component.not_cached = not_kept[name] or component.not_cached
            if isinstance(made, TodBiasError):
                raise made
            one.done = made

    def close(self) -> None:
        """End what this run has started."""
        import psutil  # type: ignore[import-untyped]

        for worker in (*self._idle, *self._starting.values(), *(worker for _, worker in self._running.values())):
            self._ray.kill(worker)
        if self._keeper is not None:
            self._ray.kill(self._keeper)
        if self._is_own:
            left = processes()
            self._ray.shutdown()
            for process in left:
                with suppress(psutil.Error):  # it has come to its end
                    process.kill()
