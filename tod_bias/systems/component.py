"""One component of a running system: equal questions are asked once, and what it answered is kept."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from tod_bias.answers import Answers
from tod_bias.errors import StageError, UnansweredError
from tod_bias.models.processes import as_first_sees, is_first_process, several_processes
from tod_bias.progress import progress_bar
from tod_bias.systems.batch import BatchSize
from tod_bias.systems.encoding import NotKeptError, decoded, encoded
from tod_bias.systems.identity import UnidentifiedError, identity_of
from tod_bias.systems.layer import layer_of
from tod_bias.systems.questions import Reading
from tod_bias.systems.remote import Cost, RemoteStage, Unanswered, remote_of
from tod_bias.systems.stage import Stage, StageInput, call_stage

log = logging.getLogger(__name__)

_REMEMBERED = 50_000
"""Answers of one component that are in memory at once."""
_SLOW = 1.0
"""Components that take longer than so many seconds show how far they are."""
MAX_FAILURES = 0.01
"""Share of a component's questions that may stay without an answer."""
_ENOUGH = 200
"""A run stops before its end only for more failures than so many questions may have."""
_NONE_AT_ALL = 3
"""So many failures without a single answer are enough; where several are asked at once, twice as many as these."""


class Component:
    """A stage as the engine asks it.

    Args:
        name: its name in the pipeline.
        stage: the stage.
        answers: where its answers are kept; None for nowhere.
        concurrency: questions at once, each on a thread of its own; 1 for batches.
        max_failures: share of its questions that may stay without an answer.
        collect: ask no server; requests whose answer is not known are collected in :attr:`pending`.
        refused: key of a request to the reason why it has no answer, for good; shared by components, which add to it.
        show_progress: on stderr.
        identity: its name for what it answered, where another process has found it (:attr:`identity`).
    """

    def __init__(
        self, name: str, stage: Stage, answers: Answers | None = None, *, concurrency: int = 1,
        max_failures: float = MAX_FAILURES, collect: bool = False, refused: dict[str, str] | None = None,
        show_progress: bool = False, identity: str | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.stage = stage
        self.cost = Cost()
        self.not_kept = ""
        """Why its answers are not kept; empty where they are, or where its model keeps them itself."""
        self.pending: dict[str, dict[str, Any]] = {}
        """Key to request: what is still to be asked elsewhere."""
        self.remote = remote_of(stage)
        self.is_sampled = bool(getattr(stage, "is_random", False))
        """Whether it draws its answers."""
        self._max_failures = max_failures
        self._collect = collect
        self._refused = {} if refused is None else refused
        self._failure = ""
        self._failures = 0
        self._has_answered = False
        self._is_ending = False
        self._concurrency = concurrency
        self._show_progress = show_progress
        self._memory: dict[Any, Any] = {}
        self._batch = BatchSize()
        self.layer = layer_of(stage)
        """The stage where it is a layer: the component behind it is asked in its place."""
        self._behind: Component | None = None
        if self.layer is not None:
            self._behind = Component(
                name, self.layer.stage, answers, concurrency=concurrency, max_failures=max_failures, collect=collect,
                refused=self._refused, show_progress=show_progress, identity=identity,
            )  # fmt: skip
            self.cost, self.pending, answers = self._behind.cost, self._behind.pending, None
            self.not_kept = self._behind.not_kept
        self._answers = answers if getattr(stage, "keep_answers", True) else None
        # A language model keeps its texts itself, prompt by prompt.
        self._keeps_itself = self._behind is None and hasattr(getattr(stage, "generator", None), "keep_in")
        self._identity = identity or ""
        if self.remote is not None:
            if several_processes():
                raise StageError(f"stage {name!r}: a server is asked by one process; run this without other processes")
            self._answers = answers or Answers()
        elif self._answers is not None and not self._keeps_itself and identity is None:
            try:
                self._identity = identity_of(stage)
            except UnidentifiedError as error:
                self._stop_keeping(f"{error}; give it an attribute 'signature' that says what decides its answers")

    @property
    def identity(self) -> str:
        """Its name for what it answered; empty where nothing is kept under one."""
        return self._identity if self._behind is None else self._behind.identity

    def _stop_keeping(self, reason: str) -> None:
        self.not_kept = reason
        self._answers = None
        log.warning("answers of %r are not kept: %s", self.name, reason)

    def ask(self, asked: Sequence[tuple[Reading, Any]]) -> list[Any]:
        """One answer to each reading and argument; equal ones are asked once, and none whose answer is known.

        :class:`Unanswered` stands where there is none.

        Raises:
            StageError: the component broke its contract, or left too many questions without an answer.
        """
        sampled = self.is_sampled
        questions = [reading.question(argument, sampled=sampled) for reading, argument in asked]
        new: dict[Any, StageInput] = {}
        for question, (reading, argument) in zip(questions, asked, strict=True):
            if question not in self._memory and question not in new:
                new[question] = reading.input(argument, sampled=sampled)
        if len(self._memory) > _REMEMBERED:
            self._forget(questions)
        if new and self._behind is not None:
            self._answer_behind(new, self._behind)
        elif new:
            self.cost.distinct += len(new)
            begun = time.monotonic()
            self._answer(new)
            self.cost.seconds += time.monotonic() - begun
            self._count(new)
        return [self._memory[question] for question in questions]

    def check(self) -> None:
        """See to it, at the end of a run, that not too many questions stayed without an answer.

        Raises:
            StageError: there are more than ``max_failures``.
        """
        if self.cost.failed > self._max_failures * self.cost.distinct:
            raise self._too_many()

    def _count(self, new: Mapping[Any, StageInput]) -> None:
        outcome: Callable[[Any], str] | None = getattr(self.stage, "outcome", None)
        if callable(outcome):
            answers = [self._memory[question] for question in new]
            found = [outcome(answer) for answer in answers if not isinstance(answer, Unanswered)]
            self.cost.outcomes.update(text for text in found if text)

    def _forget(self, wanted: Sequence[Any]) -> None:
        """Drop the oldest answers; those that are wanted now stay."""
        keep = set(wanted)
        surplus = len(self._memory) - _REMEMBERED // 2
        for question in [old for old in self._memory if old not in keep][:surplus]:
            del self._memory[question]

    def _answer(self, new: dict[Any, StageInput]) -> None:
        if self.remote is not None:
            self._answer_by_requests(new, self.remote)
            return
        keys: dict[Any, str] = {}
        if self._answers is not None and self._identity:
            keys = {question: f"{self._identity}|{question.hex()}" for question in new if type(question) is bytes}
            new = self._without_kept(new, keys)
        if not new:
            return
        if self._keeps_itself:  # its generator plans over everything at once, and shows its own progress
            generator: Any = self.stage.generator  # type: ignore[attr-defined]
            kept = generator.cost.cached
            outputs = call_stage(self.name, self.stage, list(new.values()))
            self.cost.kept += generator.cost.cached - kept
            self._memory.update(zip(new, outputs, strict=True))
            return
        with progress_bar(len(new), f"asking {self.name}", show=self._show_progress, after=_SLOW) as bar:
            for questions, outputs in self._answered(new):
                self._memory.update(zip(questions, outputs, strict=True))
                self._keep(questions, outputs, keys)
                bar.advance(len(questions))

    def _answer_behind(self, new: Mapping[Any, StageInput], behind: Component) -> None:
        """What the layer asks is asked of the component behind it, all at once; its cost is the component's."""
        assert self.layer is not None
        begun, spent = time.monotonic(), self.cost.seconds
        asked = [self.layer.layered(item) for item in new.values()]
        answers = iter(behind.ask([(Reading.of(item), item.argument) for one in asked for item in one.items]))
        for question, one in zip(new, asked, strict=True):
            given = [next(answers) for _ in one.items]
            missing = [answer for answer in given if isinstance(answer, Unanswered)]
            self._memory[question] = missing[0] if missing else one.answer(given)
        self.not_kept = behind.not_kept
        self.cost.seconds = spent + time.monotonic() - begun

    def _answer_by_requests(self, new: Mapping[Any, StageInput], stage: RemoteStage) -> None:
        """Equal requests are sent once; a reply is kept by the thread that gets it, before anything else happens."""
        answers = self._answers
        assert answers is not None
        wanted: dict[str, list[Any]] = {}
        bodies: dict[str, dict[str, Any]] = {}
        for question, item in new.items():
            body = stage.request(item)
            key = stage.key(body, item.draw)
            wanted.setdefault(key, []).append(question)
            bodies.setdefault(key, body)

        def take(key: str, reply: Mapping[str, Any]) -> None:
            output = stage.output(reply)
            self._has_answered = True
            self._memory.update((question, output) for question in wanted[key])

        found = answers.get(wanted)
        for key, text in found.items():
            take(key, json.loads(text))
            self.cost.kept += len(wanted[key])
        unknown = [key for key in wanted if key not in found]
        for key in unknown:
            if key in self._refused:
                self._memory.update((question, Unanswered(self._refused[key])) for question in wanted[key])
                self._failed(self._refused[key], len(wanted[key]))
        rest = [key for key in unknown if key not in self._refused]
        if self._collect:
            waiting = Unanswered("it is still to be asked", is_pending=True)
            for key in rest:
                self.pending[key] = bodies[key]
                self._memory.update((question, waiting) for question in wanted[key])
            return

        def ask(key: str) -> Any:
            reply = stage.client.ask(bodies[key])
            answers.put({key: json.dumps(reply)})  # ASCII, whatever surrogates there are
            return reply

        stage.client.resume()
        with progress_bar(len(rest), f"asking {self.name}", show=self._show_progress, after=_SLOW) as bar:
            for keys, replies in self._by_threads(rest, ask):
                for key, reply in zip(keys, replies, strict=True):
                    if isinstance(reply, Unanswered):
                        self._refused[key] = reply.reason
                        self._memory.update((question, reply) for question in wanted[key])
                        self._failed(reply.reason, len(wanted[key]))
                        continue
                    take(key, reply)
                    self.cost.used(reply)
                bar.advance(len(keys))

    def _failed(self, reason: str, count: int = 1) -> None:
        """Count questions without an answer; too many end the run."""
        self.cost.failed += count
        self._failures += 1
        self._failure = self._failure or reason
        log.info("%s left a question without an answer: %s", self.name, reason)
        if self._is_ending:
            return
        if self.cost.failed > self._max_failures * max(self.cost.distinct, _ENOUGH):
            raise self._too_many()
        at_once = 2 * self._concurrency if self._concurrency > 1 else 0
        if not self._has_answered and self._max_failures < 1 and self._failures >= max(_NONE_AT_ALL, at_once):
            raise StageError(f"stage {self.name!r}: none of {self._failures} questions got an answer ({reason})")

    def _too_many(self) -> StageError:
        advice = "" if self._collect else ": run the same command again to ask the others once more, or allow more"
        return StageError(
            f"stage {self.name!r}: {self.cost.failed} of {self.cost.distinct} questions got no answer "
            f"({self._failure}), more than --max-failures {self._max_failures:g}; what was answered is kept{advice}"
        )

    def _end(self, *, at_once: bool = False) -> None:
        """Nothing is asked once more."""
        self._is_ending = True
        if self.remote is not None:
            self.remote.client.halt(at_once=at_once)

    def _without_kept(self, new: dict[Any, StageInput], keys: dict[Any, str]) -> dict[Any, StageInput]:
        assert self._answers is not None
        answers = self._answers
        found = as_first_sees(lambda: answers.get(keys.values()))
        for question, key in keys.items():
            if key in found:
                try:
                    self._memory[question] = decoded(found[key])
                except NotKeptError:  # kept by another version of the component's classes
                    continue
                self.cost.kept += 1
        return {question: item for question, item in new.items() if question not in self._memory}

    def _answered(self, new: dict[Any, StageInput]) -> Iterator[tuple[list[Any], list[Any]]]:
        """Questions with their answers, as these come."""
        questions = list(new)
        if self._concurrency > 1:
            for some, outputs in self._by_threads(
                questions, lambda question: call_stage(self.name, self.stage, [new[question]])[0]
            ):
                yield some, self._counted(outputs)
            return
        start = 0
        while start < len(questions):
            part = questions[start : start + self._batch.size]
            begun = time.monotonic()
            try:
                outputs = self._batch_of([new[question] for question in part])
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
                return [Unanswered(str(error))]
        return [output for item in items for output in self._batch_of([item])]

    def _counted(self, outputs: list[Any]) -> list[Any]:
        self._has_answered = self._has_answered or not all(isinstance(output, Unanswered) for output in outputs)
        for output in outputs:
            if isinstance(output, Unanswered):
                self._failed(output.reason)
        return outputs

    def _by_threads(self, questions: Sequence[Any], ask: Callable[[Any], Any]) -> Iterator[tuple[list[Any], list[Any]]]:
        """Each question on a thread of its own; :class:`Unanswered` stands for a failure of one question.

        Where anything else fails, those that are under way come to their end first.
        """
        waiting: dict[Future[Any], Any] = {}
        finished: SimpleQueue[Future[Any]] = SimpleQueue()
        rest = iter([(question,) for question in questions])
        failure: BaseException | None = None
        is_patient = True
        pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix=self.name)
        try:
            while True:
                while failure is None and len(waiting) < 2 * self._concurrency and (more := next(rest, None)):
                    future = pool.submit(ask, more[0])
                    waiting[future] = more[0]
                    future.add_done_callback(finished.put)
                if not waiting:
                    break
                answered, outputs = [], []
                try:
                    done = [finished.get()]
                    while not finished.empty():
                        done.append(finished.get())
                except KeyboardInterrupt as interruption:  # what is under way is answered and kept first
                    self._end(at_once=failure is not None)
                    if failure is not None:  # unless it is the second time
                        is_patient = False
                        raise
                    failure = interruption
                    for other in [other for other in waiting if other.cancel()]:
                        del waiting[other]
                    continue
                for future in done:
                    if future not in waiting:  # it was cancelled
                        continue
                    question = waiting.pop(future)
                    error = future.exception()
                    if error is None or isinstance(error, UnansweredError):
                        answered.append(question)
                        outputs.append(future.result() if error is None else Unanswered(str(error)))
                        continue
                    self.cost.failed += 1
                    if failure is None:
                        failure = error
                        self._end()
                        for other in [other for other in waiting if other.cancel()]:
                            del waiting[other]
                yield answered, outputs
        finally:
            pool.shutdown(wait=is_patient, cancel_futures=True)  # also when the run is interrupted
        if failure is not None:
            raise failure

    def _keep(self, questions: Sequence[Any], outputs: Sequence[Any], keys: dict[Any, str]) -> None:
        if self._answers is None or not keys or not is_first_process():  # every process asks; one writes
            return
        try:
            texts = {
                keys[question]: encoded(output)
                for question, output in zip(questions, outputs, strict=True)
                if question in keys and not isinstance(output, Unanswered)
            }
        except NotKeptError as error:
            self._stop_keeping(f"its outputs hold what cannot be written down ({error})")
            return
        self._answers.put(texts)
