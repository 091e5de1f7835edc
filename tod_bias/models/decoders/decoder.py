"""What every back end does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Decoder(Protocol):
    """A back end: plans batches over token sequences and decodes one batch at a time."""

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Indices into ``sequences``, a list a batch; every index once."""

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
