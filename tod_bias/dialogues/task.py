"""Tasks of worlds: what tools and grades know of a dialogue beside what is said in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tod_bias.dialogues.values import strings
from tod_bias.io.canonical import canonical, digest


@dataclass(frozen=True, eq=False)
class Task:
    """The task of a dialogue: the state of its database, and what its grade needs.

    Tools, grades and scripted users read it; models never do. A rewrite changes its strings as it changes those of the
    dialogue, so that a person has one name everywhere.
    """

    id: str = field(metadata={"rewrite": False})
    """Name of the task in its world, the same for all counterfactuals."""
    content: Mapping[str, Any]
    """Plain JSON; its form is the world's own."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Hash of the task; equal tasks have equal hashes in every process."""
        return digest(canonical([self.id, self.content]))

    @property
    def texts(self) -> Iterator[str]:
        """Yield every string in the content that a rewrite may change."""
        for _, text in strings(self.content):
            yield text
