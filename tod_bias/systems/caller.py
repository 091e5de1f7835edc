"""Calls of one stage by the engine: equal calls are made once, and their outputs are cached."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from queue import SimpleQueue
from typing import Any

from tod_bias.errors import StageError, UnansweredError, shortened
from tod_bias.io.cache import Cache
from tod_bias.io.canonical import NotPlainError, decoded, encoded
from tod_bias.io.progress import progress_bar
from tod_bias.models.processes import as_first_sees, is_first_process, several_processes
from tod_bias.systems.batch_size import BatchSize
from tod_bias.systems.raised import Raised
from tod_bias.systems.stage import (
    LOCAL,
    Failure,
    InputWrapper,
    RemoteStage,
    Stage,
    StageInput,
    TurnInput,
    cache_signature,
    call_stage,
)

log = logging.getLogger(__name__)

_REMEMBERED = 50_000
"""Outputs of one stage that are in memory at once."""
_LONGEST_NAME = 100
"""Characters of the name of a tool."""
_SLOW = 1.0
"""Seconds after which a stage shows its progress."""
MAX_FAILURES = 0.5
"""Share of calls that may fail by default; if more fail in every group, nothing is measured."""
NONE_AT_ALL = 3
"""Failures without a single output that stop a run; twice the number of calls at once, if that is more."""
MANY_IN_A_ROW = 50
"""Failures in a row that stop a run. Calls of different groups alternate, so that failures of one group alone never
make such a row, while those of a dead server do."""


@dataclass
class CallCost:
    """Cost of the calls of a stage up to now."""

    calls: int = 0
    """Calls, as if every arm were run on its own."""
    distinct: int = 0
    """Different ones among them."""
    cached: int = 0
    """Different ones whose output was cached by an earlier run, or by another stage with the same model."""
    failed: int = 0
    """Different ones without an output."""
    read: int = 0
    """Tokens that a server read."""
    written: int = 0
    """Tokens that a server wrote."""
    seconds: float = 0.0
    """Seconds spent in the stage itself."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Different calls with whose output the stage finds something wrong, by what that is and the tool."""

    @property
    def wrong(self) -> dict[str, int]:
        """Different calls by what is wrong with their outputs, of whatever tool."""
        numbers = Counter[str]()
        for (what, _), number in self.outcomes.items():
            numbers[what] += number
        return dict(numbers)

    def add(self, other: CallCost) -> None:
        """Add what the same stage has cost elsewhere."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))

    def reset(self) -> CallCost:
        """Return the cost up to now, and start again from 0."""
        so_far = replace(self, outcomes=Counter(self.outcomes))
        for name, begin in vars(CallCost()).items():
            setattr(self, name, begin)
        return so_far

    def add_usage(self, reply: Mapping[str, Any]) -> None:
        """Add the tokens that a server reports."""
        usage = reply.get("usage")
        self.read += _tokens_in(usage, "prompt_tokens")
        self.written += _tokens_in(usage, "completion_tokens")


def _tokens_in(usage: Any, name: str) -> int:
    count = usage.get(name) if isinstance(usage, Mapping) else None
    return count if type(count) is int and count > 0 else 0


@dataclass
class CallOptions:
    """Options for calling the stages of a run."""

    max_failures: float = MAX_FAILURES
    """Share of a stage's calls that may fail."""
    refused: dict[str, str] = field(default_factory=dict)
    """Key of a request to the reason why it fails for good; shared by stages, which add to it."""
    show_progress: bool = False
    """Show progress on stderr."""


class _Threads:
    """Calls that are under way, each on a thread."""

    def __init__(self, name: str, number: int, call: Callable[[str], Any]) -> None:
        self.pool = ThreadPoolExecutor(number, thread_name_prefix=name)
        self.waiting: dict[Future[Any], str] = {}
        self._most, self._call = 2 * number, call
        self._finished: SimpleQueue[Future[Any]] = SimpleQueue()

    @property
    def has_room(self) -> bool:
        """True if another call may wait for a thread."""
        return len(self.waiting) < self._most

    def start(self, key: str) -> None:
        """Make a call when a thread is free."""
        future = self.pool.submit(self._call, key)
        self.waiting[future] = key
        future.add_done_callback(self._finished.put)

    def cancel(self) -> None:
        """Leave out the calls that no thread has begun."""
        for future in [future for future in self.waiting if future.cancel()]:
            del self.waiting[future]

    def finished(self) -> list[tuple[str, Future[Any]]]:
        """Wait for a call, and take those that are done, but for calls that were left out."""
        done = [self._finished.get()]
        while not self._finished.empty():
            done.append(self._finished.get())
        return [(self.waiting.pop(future), future) for future in done if future in self.waiting]


class StageCaller:
    """Calls one stage for the engine.

    Args:
        name: its name in the pipeline.
        stage: the stage.
        cache: keeps its outputs; None to keep none.
        options: how it is called.
        concurrency: number of concurrent calls, each on its own thread; 1 for batches.
        signature: under which its outputs are cached, where another process has found it.
    """

    def __init__(
        self,
        name: str,
        stage: Stage,
        cache: Cache | None = None,
        options: CallOptions | None = None,
        *,
        concurrency: int = 1,
        signature: str | None = None,
    ) -> None:
        self.name = name
        self.stage = stage
        self.cost = CallCost()
        self.not_cached = ""
        """Reason why outputs are not cached; empty if they are, or if the model caches them."""
        self._options = options or CallOptions()
        self._failures = self._in_a_row = 0
        self._has_output = False
        self._is_ending = False
        self._concurrency = concurrency
        self._memory: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(concurrency)
        self._under_way: dict[str, Future[None]] = {}
        self._busy = 0
        self._busy_since = 0.0
        self._batch = BatchSize()
        self._signature = signature or ""
        self._cache = cache if stage.use_cache and signature != "" else None
        self._inner: StageCaller | None = None
        if isinstance(stage, InputWrapper):
            self._inner = StageCaller(
                name, stage.inner, cache, self._options, concurrency=concurrency, signature=signature
            )
            self.cost, self.not_cached = self._inner.cost, self._inner.not_cached
        elif isinstance(stage, RemoteStage):
            if several_processes():
                raise StageError(f"stage {name!r}: a server is called by one process; run this without other processes")
            self._cache = self._cache or Cache()
        elif self._cache is not None and stage.generator is None and signature is None:
            try:
                self._signature = cache_signature(stage)
            except NotPlainError as error:
                self._stop_caching(f"{error}; {error.advice}")

    @property
    def concurrency(self) -> int:
        """Calls at once."""
        return self._concurrency

    @property
    def signature(self) -> str:
        """Signature under which outputs are cached; empty if they are not cached."""
        return self._signature if self._inner is None else self._inner.signature

    def _stop_caching(self, reason: str) -> None:
        self.not_cached = reason
        self._cache = None
        log.warning("outputs of %r are not cached: %s", self.name, reason)

    def call(self, inputs: Sequence[tuple[TurnInput, Any]]) -> list[Any]:
        """Return the output for each input and argument; equal calls are made once, and known outputs are reused.

        A failed call returns a :class:`Failure`. Thread-safe.

        Raises:
            StageError: the stage broke its contract, or too many calls failed.
        """
        is_random = self.stage.is_random
        if self.stage.reads_only_argument:
            inputs = [(turn.without_turn, argument) for turn, argument in inputs]
        keys = [turn.key(argument, is_random=is_random) for turn, argument in inputs]
        made: dict[str, Any] = {}
        while True:
            new: dict[str, StageInput] = {}
            elsewhere: list[Future[None]] = []
            with self._lock:
                made.update((key, self._memory[key]) for key in keys if key in self._memory)
                for key, (turn, argument) in zip(keys, inputs, strict=True):
                    if key in self._under_way:
                        elsewhere.append(self._under_way[key])
                    elif key not in made and key not in new:
                        new[key] = turn.stage_input(argument, is_random=is_random)
                self._under_way.update((key, Future()) for key in new)
                if len(self._memory) > _REMEMBERED:
                    self._forget(keys)
            if not new and not elsewhere:
                return [made[key] for key in keys]
            self._make(new, made)
            wait(elsewhere)

    def _make(self, new: dict[str, StageInput], made: dict[str, Any]) -> None:
        """Make calls that no other thread makes."""
        if not new:
            return
        try:
            if self._inner is not None:
                self._call_inner(new, self._inner)
            else:
                with self._timed(len(new)):
                    self._compute(new)
                for key, item in new.items():
                    output = self._memory[key]
                    if not isinstance(output, Failure) and (what := self.stage.outcome(output)):
                        self.cost.outcomes[what, shortened(self.stage.tool(item, output), _LONGEST_NAME)] += 1
            made.update((key, self._memory[key]) for key in new)
        finally:
            with self._lock:
                for key in new:
                    self._under_way.pop(key).set_result(None)

    @contextmanager
    def _timed(self, calls: int) -> Iterator[None]:
        """Count calls, and the seconds in which any is under way."""
        with self._lock:
            self.cost.distinct += calls
            self._busy += 1
            if self._busy == 1:
                self._busy_since = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                if self._busy == 0:
                    self.cost.seconds += time.monotonic() - self._busy_since

    def _forget(self, wanted: Sequence[str]) -> None:
        """Drop the oldest outputs; those that are wanted now stay."""
        keep = set(wanted)
        surplus = len(self._memory) - _REMEMBERED // 2
        for key in [old for old in self._memory if old not in keep][:surplus]:
            del self._memory[key]

    def _compute(self, new: dict[str, StageInput]) -> None:
        if isinstance(self.stage, RemoteStage):
            self._call_server(new, self.stage)
            return
        if self.stage.generator is not None:  # it plans over everything at once, and shows its own progress
            before = self.stage.generator.cost.cached
            outputs = call_stage(self.name, self.stage, list(new.values()))
            self.cost.cached += self.stage.generator.cost.cached - before
            self._memory.update(zip(new, outputs, strict=True))
            return
        new = self._without_cached(new)
        with progress_bar(len(new), f"calling {self.name}", show=self._options.show_progress, after=_SLOW) as bar:
            for keys, outputs in self._outputs(new):
                self._memory.update(zip(keys, outputs, strict=True))
                self._keep(keys, outputs)
                bar.advance(len(keys))

    def _call_inner(self, new: Mapping[str, StageInput], inner: StageCaller) -> None:
        """Make all calls of the inner stage at once; its cost counts as the wrapper's."""
        assert isinstance(self.stage, InputWrapper)
        made = [self.stage.inner_calls(item) for item in new.values()]
        outputs = iter(inner.call([(TurnInput.of(item), item.argument) for calls in made for item in calls.items]))
        for key, calls in zip(new, made, strict=True):
            mine = [next(outputs) for _ in calls.items]
            failures = [output for output in mine if isinstance(output, Failure)]
            self._memory[key] = failures[0] if failures else calls.combine(mine)
        self.not_cached = inner.not_cached

    def _call_server(self, new: Mapping[str, StageInput], stage: RemoteStage) -> None:
        """Equal requests are sent once; a reply is cached by the thread that gets it, before anything else happens."""
        cache, refused = self._cache, self._options.refused
        assert cache is not None
        wanted: dict[str, list[str]] = {}
        bodies: dict[str, dict[str, Any]] = {}
        for key, item in new.items():
            body = stage.request(item)
            request = stage.key(body, item.draw)
            wanted.setdefault(request, []).append(key)
            bodies.setdefault(request, body)

        def take(request: str, output: Any) -> None:
            self._memory.update((key, output) for key in wanted[request])
            if not isinstance(output, Failure):
                self._count_output()
            else:
                self._count_failure(output.reason, len(wanted[request]))

        cached = cache.get(wanted)
        for request, text in cached.items():
            take(request, stage.output(json.loads(text)))
            self.cost.cached += len(wanted[request])
        unknown = [request for request in wanted if request not in cached]
        for request in unknown:
            if request in refused:
                take(request, Failure(refused[request]))
        rest = [request for request in unknown if request not in refused]

        def send(request: str) -> Any:
            reply = stage.client.ask(bodies[request])
            cache.put({request: json.dumps(reply)})  # ASCII, whatever surrogates there are
            return reply

        stage.client.resume()
        with progress_bar(len(rest), f"calling {self.name}", show=self._options.show_progress, after=_SLOW) as bar:
            for requests, replies in self._by_threads(rest, send):
                for request, reply in zip(requests, replies, strict=True):
                    if isinstance(reply, Failure):
                        refused[request] = reply.reason
                        take(request, reply)
                        continue
                    take(request, stage.output(reply))
                    self.cost.add_usage(reply)
                bar.advance(len(requests))

    def _count_failure(self, reason: str, count: int = 1) -> None:
        """Count failed calls.

        Raises:
            StageError: no call has an output so far, or none of the last many: the server is not there.
        """
        with self._lock:
            self.cost.failed += count
            self._failures += 1
            self._in_a_row += 1
        log.info("a call of %s failed: %s", self.name, reason)
        if self._is_ending or self._options.max_failures >= 1:
            return
        at_once = 2 * self._concurrency if self._concurrency > 1 else 0
        if not self._has_output and self._failures >= max(NONE_AT_ALL, at_once):
            raise StageError(f"stage {self.name!r}: none of {self._failures} calls got an output ({reason})")
        if self._in_a_row >= max(MANY_IN_A_ROW, 2 * at_once):
            raise StageError(
                f"stage {self.name!r}: the last {self._in_a_row} calls failed ({reason}); outputs are cached: run the "
                "same command again when it answers"
            )

    def _count_output(self) -> None:
        """Take note of a call that got an output."""
        self._has_output = True
        self._in_a_row = 0

    def end(self, *, at_once: bool = False) -> None:
        """Nothing is retried."""
        self._is_ending = True
        if isinstance(self.stage, RemoteStage):
            self.stage.client.halt(at_once=at_once)

    def _without_cached(self, new: dict[str, StageInput]) -> dict[str, StageInput]:
        if self._cache is None:
            return new
        cache, prefix = self._cache, f"{self._signature}|"
        texts = as_first_sees(lambda: cache.get(prefix + key for key in new))
        for key in new:
            if (text := texts.get(prefix + key)) is not None:
                try:
                    self._memory[key] = decoded(text)
                except NotPlainError:  # written by another version of the stage's classes
                    continue
                with self._lock:
                    self.cost.cached += 1
        return {key: item for key, item in new.items() if key not in self._memory}

    def _outputs(self, new: dict[str, StageInput]) -> Iterator[tuple[list[str], list[Any]]]:
        """Keys with their outputs, as these come."""
        keys = list(new)
        is_beside_others = threading.current_thread() is not threading.main_thread()
        if self._concurrency > 1 and not (is_beside_others and len(keys) == 1):
            for some, outputs in self._by_threads(keys, lambda key: call_stage(self.name, self.stage, [new[key]])[0]):
                yield some, self._counted(outputs)
            return
        start = 0
        while start < len(keys):
            part = keys[start : start + self._batch.size]
            begun = time.monotonic()
            try:
                with self._slots:
                    outputs = self._batch_of([new[key] for key in part])
            except Exception:
                self.cost.failed += len(part)
                raise
            self._batch.took(len(part), time.monotonic() - begun)
            yield part, self._counted(outputs)
            start += len(outputs)

    def _batch_of(self, items: list[StageInput]) -> list[Any]:
        try:
            return call_stage(self.name, self.stage, items)
        except UnansweredError as error:
            if len(items) == 1:
                return [Failure(str(error))]
        return [output for item in items for output in self._batch_of([item])]

    def _counted(self, outputs: list[Any]) -> list[Any]:
        if not all(isinstance(output, Failure) for output in outputs):
            self._count_output()
        for output in outputs:
            if isinstance(output, Failure):
                self._count_failure(output.reason)
        return outputs

    def _by_threads(self, keys: Sequence[str], call: Callable[[str], Any]) -> Iterator[tuple[list[str], list[Any]]]:
        """Make each call on its own thread; a failed call returns a :class:`Failure`.

        If anything else fails, the calls that are running finish first.
        """

        def made(key: str) -> Any:
            with self._slots:
                return call(key)

        threads = _Threads(self.name, self._concurrency, made)
        rest = iter(keys)
        failure: BaseException | None = None
        is_patient = True
        try:
            while True:
                while failure is None and threads.has_room and (more := next(rest, None)):
                    threads.start(more)
                if not threads.waiting:
                    break
                try:
                    done = threads.finished()
                except KeyboardInterrupt as interruption:  # what is under way ends and is cached first
                    self.end(at_once=failure is not None)
                    if failure is not None:  # unless it is the second time
                        is_patient = False
                        raise
                    failure = interruption
                    threads.cancel()
                    continue
                done_keys: list[str] = []
                outputs: list[Any] = []
                for key, future in done:
                    error = future.exception()
                    if error is None or isinstance(error, UnansweredError):
                        done_keys.append(key)
                        outputs.append(future.result() if error is None else Failure(str(error)))
                        continue
                    self.cost.failed += 1
                    if failure is None:
                        failure = error
                        self.end()
                        threads.cancel()
                yield done_keys, outputs
        finally:
            threads.pool.shutdown(wait=is_patient, cancel_futures=True)  # also when the run is interrupted
        if failure is not None:
            raise failure

    def _keep(self, keys: Sequence[str], outputs: Sequence[Any]) -> None:
        if self._cache is None or not is_first_process():  # every process calls the stage; one writes
            return
        try:
            texts = {
                f"{self._signature}|{key}": encoded(output)
                for key, output in zip(keys, outputs, strict=True)
                if not (key.startswith(LOCAL) or isinstance(output, Failure | Raised))
            }
        except NotPlainError as error:
            self._stop_caching(f"its outputs hold what cannot be written as JSON ({error})")
            return
        self._cache.put(texts)
