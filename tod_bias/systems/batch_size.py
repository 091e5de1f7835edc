"""Number of inputs that a stage gets at once, by the time that it takes."""

from __future__ import annotations

SECONDS = 2.0
"""Seconds that a batch should take at most; a killed run loses the work of one batch."""
_FASTER = 4
"""Largest ratio of the size of a batch to the size of the batch before it."""
_HARDLY_LONGER = 1.5
"""Ratio of the time of a batch to that of half as many inputs, below which batches grow."""


class BatchSize:
    """One input at first, then as many as the stage computes in :data:`SECONDS`.

    A stage that takes longer than that for one input, again and again, is tried with two. Where it takes hardly
    longer for them, it is the call that takes long, not the input (a program that is started, a model that is
    loaded): then it gets twice as many as long as that holds.
    """

    def __init__(self) -> None:
        self.size = 1
        """Inputs in the next batch."""
        self._limit = SECONDS
        self._singles = self._doublings = 0
        self._is_trying = False
        self._last = 0.0

    def took(self, count: int, seconds: float) -> None:
        """Choose the next size.

        Args:
            count: inputs in the last batch; an incomplete batch carries little information about speed.
        """
        if count < self.size and (self._is_trying or seconds < self._limit):
            return
        if self._is_trying:
            if seconds < _HARDLY_LONGER * self._last:
                self._doublings += 1
                self.size, self._last = 2 * count, seconds
                return
            self._is_trying = False
            if self._doublings > 1:  # once may be chance
                self._limit = max(SECONDS, self._last)
        # the clock may not have moved during a fast batch
        fitting = int(count / max(seconds, 1e-6) * self._limit)
        self.size = max(1, min(fitting, _FASTER * count))
        if count == self.size == 1:
            self._singles += 1
            if self._singles == 2:  # the first may have loaded something
                self._is_trying, self.size, self._last = True, 2, seconds
