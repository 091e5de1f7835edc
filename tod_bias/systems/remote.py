"""Components that ask a server: what they are, what they cost, and what stands where they have no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from tod_bias.systems.stage import StageInput


@dataclass(frozen=True)
class Unanswered:
    """Stands where an answer would."""

    reason: str
    """Why there is none."""
    is_pending: bool = False
    """It is still to be asked, elsewhere."""


class RemoteStage(Protocol):
    """A stage whose questions are requests to a server: equal requests are one, whichever component makes them."""

    concurrency: int
    """Requests at once."""
    client: Any
    """Its ``ask`` sends one request and returns the reply, a JSON value; after ``halt`` it asks nothing once more,
    until ``resume``."""

    def request(self, item: StageInput) -> dict[str, Any]:
        """The request that asks a question."""

    def key(self, body: Mapping[str, Any], draw: str = "") -> str:
        """A request's name in what is kept."""

    def output(self, reply: Mapping[str, Any]) -> Any:
        """What the component puts out."""


def remote_of(stage: Any) -> RemoteStage | None:
    """The stage where it asks a server; None where it does not."""
    return stage if hasattr(stage, "client") and hasattr(stage, "request") else None


@dataclass
class Cost:
    """What a component has cost so far."""

    asked: int = 0
    """Questions, as if every arm were run on its own."""
    distinct: int = 0
    """Different ones among them."""
    kept: int = 0
    """Different ones whose answer an earlier run, or another component with the same model, had kept."""
    failed: int = 0
    """Different ones that got no answer."""
    read: int = 0
    """Tokens that a server read."""
    written: int = 0
    """Tokens that a server wrote."""
    seconds: float = 0.0
    """In the component's own hands."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Different questions whose answer the component finds something wrong with, by what that is."""

    def add(self, other: Cost) -> None:
        """What the same component has cost elsewhere."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def taken(self) -> Cost:
        """What it is so far; from here on it is counted anew."""
        so_far = replace(self, outcomes=Counter(self.outcomes))
        for one, begin in vars(Cost()).items():
            setattr(self, one, begin)
        return so_far

    def used(self, reply: Mapping[str, Any]) -> None:
        """Add the tokens that a server says it used."""
        usage = reply.get("usage")
        self.read += _count_of(usage, "prompt_tokens")
        self.written += _count_of(usage, "completion_tokens")


def _count_of(usage: Any, name: str) -> int:
    count = usage.get(name) if isinstance(usage, Mapping) else None
    return count if type(count) is int and count > 0 else 0
