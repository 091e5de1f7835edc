"""Pieces of work that run concurrently, each on a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue


class Lanes:
    """Threads that take pieces of work in order; none keeps the process from ending.

    Args:
        number: of threads at the most.
        end: called after a failure, so that the running pieces end soon.
    """

    def __init__(self, number: int, end: Callable[[], object] = lambda: None) -> None:
        self._number, self._end = number, end

    def run(self, works: Sequence[Callable[[], object]]) -> None:
        """Run all pieces of work.

        After a failure or an interrupt the running pieces finish. A second interrupt does not wait for them.
        """
        rest = deque(works)
        failures: SimpleQueue[BaseException | None] = SimpleQueue()

        def lane() -> None:
            failure = None
            try:
                while rest:
                    try:
                        work = rest.popleft()
                    except IndexError:  # another took it
                        break
                    work()
            except BaseException as error:  # noqa: BLE001  # raised by the caller's thread
                rest.clear()
                failure = error
            failures.put(failure)

        # daemons: after a second interrupt the process ends although some of them still wait for a server
        threads = [threading.Thread(target=lane, name="tod-bias lane", daemon=True) for _ in works[: self._number]]
        for thread in threads:
            thread.start()
        first: BaseException | None = None
        ended = 0
        while ended < len(threads):
            try:
                failure = failures.get()
                ended += 1
            except KeyboardInterrupt as interruption:
                if first is not None:
                    raise
                failure = interruption
                rest.clear()
            if failure is not None and first is None:
                first = failure
                self._end()
        for thread in threads:
            thread.join()
        if first is not None:
            raise first
