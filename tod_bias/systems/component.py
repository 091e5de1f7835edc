"""One component of a running system: equal questions are asked once, and what it answered is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from tod_bias.answers import Answers
from tod_bias.models.processes import as_first_sees, is_first_process
from tod_bias.progress import progress_bar
from tod_bias.systems.encoding import NotKeptError, decoded, encoded
from tod_bias.systems.identity import UnidentifiedError, identity_of
from tod_bias.systems.questions import Reading
from tod_bias.systems.stage import Stage, StageInput, call_stage

log = logging.getLogger(__name__)

_REMEMBERED = 50_000
"""Answers of one component that are in memory at once."""
_FIRST_BATCH = 128
"""Questions in a component's first batch; later ones are as long as it answers in :data:`_SECONDS`."""
_SECONDS = 2.0
"""What a batch takes at the most, about: so much work a killed run loses."""
_SLOW = 1.0
"""Components that take longer than so many seconds show how far they are."""


@dataclass
class Cost:
    """What a component has cost so far."""

    asked: int = 0
    """Questions, as if every arm were run on its own."""
    distinct: int = 0
    """Different ones among them."""
    kept: int = 0
    """Different ones whose answer an earlier run had kept."""
    failed: int = 0
    """Different ones that got no answer."""
    seconds: float = 0.0
    """In the component's own hands."""


class Component:
    """A stage as the engine asks it.

    Args:
        name: its name in the pipeline.
        stage: the stage.
        answers: where its answers are kept; None for nowhere.
        concurrency: questions at once, each on a thread of its own; 1 for batches.
        show_progress: on stderr.
    """

    def __init__(
        self,
        name: str,
        stage: Stage,
        answers: Answers | None = None,
        *,
        concurrency: int = 1,
        show_progress: bool = False,
    ) -> None:
        self.name = name
        self.stage = stage
        self.cost = Cost()
        self.not_kept = ""
        """Why its answers are not kept; empty where they are, or where its model keeps them itself."""
        self._concurrency = concurrency
        self._show_progress = show_progress
        self._memory: dict[Any, Any] = {}
        self._batch = _FIRST_BATCH
        self._answers = answers if getattr(stage, "keep_answers", True) else None
        # A language model keeps its texts itself, prompt by prompt.
        self._keeps_itself = hasattr(getattr(stage, "generator", None), "keep_in")
        self._identity = ""
        if self._answers is not None and not self._keeps_itself:
            try:
                self._identity = identity_of(stage)
            except UnidentifiedError as error:
                self._stop_keeping(f"{error}; give it an attribute 'signature' that says what decides its answers")

    def _stop_keeping(self, reason: str) -> None:
        self.not_kept = reason
        self._answers = None
        log.warning("answers of %r are not kept: %s", self.name, reason)

    def ask(self, asked: Sequence[tuple[Reading, Any]]) -> list[Any]:
        """One answer to each reading and argument; equal ones are asked once, and none whose answer is known."""
        questions = [reading.question(argument) for reading, argument in asked]
        new: dict[Any, StageInput] = {}
        for question, (reading, argument) in zip(questions, asked, strict=True):
            if question not in self._memory and question not in new:
                new[question] = reading.input(argument)
        if len(self._memory) > _REMEMBERED:
            self._forget(questions)
        self.cost.distinct += len(new)
        if new:
            begun = time.monotonic()
            self._answer(new)
            self.cost.seconds += time.monotonic() - begun
        return [self._memory[question] for question in questions]

    def _forget(self, wanted: Sequence[Any]) -> None:
        """Drop the oldest answers; those that are wanted now stay."""
        keep = set(wanted)
        surplus = len(self._memory) - _REMEMBERED // 2
        for question in [old for old in self._memory if old not in keep][:surplus]:
            del self._memory[question]

    def _answer(self, new: dict[Any, StageInput]) -> None:
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
        questions, items = list(new), list(new.values())
        if self._concurrency > 1:
            yield from self._by_threads(questions, items)
            return
        start = 0
        while start < len(items):
            part = slice(start, start + self._batch)
            begun = time.monotonic()
            try:
                outputs = call_stage(self.name, self.stage, items[part])
            except Exception:
                self.cost.failed += len(items[part])
                raise
            passed = time.monotonic() - begun
            yield questions[part], outputs
            start += len(outputs)
            done = len(outputs) / max(passed, 1e-6) * _SECONDS
            self._batch = max(1, min(int(done), 4 * self._batch))

    def _by_threads(self, questions: list[Any], items: list[StageInput]) -> Iterator[tuple[list[Any], list[Any]]]:
        """Each question on a thread of its own. Where one fails, those that are under way come to their end first."""
        waiting: dict[Future[list[Any]], Any] = {}
        rest = zip(questions, items, strict=True)
        failure: BaseException | None = None
        pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix=self.name)
        try:
            while True:
                while failure is None and len(waiting) < 2 * self._concurrency and (more := next(rest, None)):
                    waiting[pool.submit(call_stage, self.name, self.stage, [more[1]])] = more[0]
                if not waiting:
                    break
                answered, outputs = [], []
                try:
                    done = wait(waiting, return_when=FIRST_COMPLETED).done
                except KeyboardInterrupt as interruption:  # what is under way is answered and kept first
                    failure = interruption
                    for other in [other for other in waiting if other.cancel()]:
                        del waiting[other]
                    continue
                for future in done:
                    question = waiting.pop(future)
                    if (error := future.exception()) is None:
                        answered.append(question)
                        outputs.append(future.result()[0])
                        continue
                    self.cost.failed += 1
                    if failure is None:
                        failure = error
                        for other in [other for other in waiting if other.cancel()]:
                            del waiting[other]
                yield answered, outputs
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # also when the run is interrupted
        if failure is not None:
            raise failure

    def _keep(self, questions: Sequence[Any], outputs: Sequence[Any], keys: dict[Any, str]) -> None:
        if self._answers is None or not keys or not is_first_process():  # every process asks; one writes
            return
        try:
            texts = {
                keys[question]: encoded(output)
                for question, output in zip(questions, outputs, strict=True)
                if question in keys
            }
        except NotKeptError as error:
            self._stop_keeping(f"its outputs hold what cannot be written down ({error})")
            return
        self._answers.put(texts)
