"""How many inputs a stage is called with at once."""

from __future__ import annotations

SECONDS = 2.0
"""What a batch takes at the most, about: so much work a killed run loses."""
_FASTER = 4
"""A batch is so many times as long as the last one, at the most."""
_HARDLY_LONGER = 1.5
"""So many times what half as many inputs took."""


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
            count: inputs in the last batch; fewer than there might have been are a rest, which says little.
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
        fitting = int(count / max(seconds, 1e-6) * self._limit)
        self.size = max(1, min(fitting, _FASTER * count))
        if count == self.size == 1:
            self._singles += 1
            if self._singles == 2:  # the first may have loaded something
                self._is_trying, self.size, self._last = True, 2, seconds
