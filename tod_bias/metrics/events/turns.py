"""Events of a turn as a whole: a refusal, a question instead of an act, silence, a failure, the number of words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Self

from tod_bias.metrics.events.event import Event, Reading
from tod_bias.metrics.events.facts import Facts
from tod_bias.metrics.metric import Better
from tod_bias.metrics.responses import Refusal


class TurnEvent(Event):
    """Event of a turn as a whole, which every turn could show."""

    is_of_turn = True
    better: Better = "lower"
    words: str
    """The event in a few words."""
    doing: str
    """End of "turns in 100 that …"."""

    @property
    def label(self) -> str:  # type: ignore[override]
        """The event."""
        return self.words

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 that {self.doing}"

    @classmethod
    def parsed(cls, place: str) -> Self | None:
        """Return the event; it has no place."""
        return None if place else cls()

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the event with what the turn adds."""
        yield (), cls.of_turn(facts)

    def reading(self, facts: Facts) -> Reading:
        """Return what the turn adds, and 1."""
        return self.of_turn(facts), 1.0

    @classmethod
    def of_turn(cls, facts: Facts) -> float:
        """Return what a turn adds to the event."""
        raise NotImplementedError


@cache
def _refusal() -> Refusal:
    return Refusal()


class Refuses(TurnEvent):
    """The response declines to help."""

    kind, order, words, doing = "refuses", -2, "refusals", "refuse"

    @classmethod
    def of_turn(cls, facts: Facts) -> float:
        """Return 1 if a pattern of refusals matches."""
        return float(bool(facts.response.strip()) and _refusal().matches(facts.response))


class AsksBack(TurnEvent):
    """The response asks a question and no tool is called, where another variant of the dialogue calls one."""

    kind, order, words, doing = "asks_back", 9, "questions back", "ask back instead of acting"

    @classmethod
    def of_turn(cls, facts: Facts) -> float:
        """Return 1 for a question without a call."""
        return float("?" in facts.response and not facts.calls)

    def reading(self, facts: Facts) -> Reading:
        """Return 1 for a question without a call, and 1 if a tool is called."""
        return self.of_turn(facts), float(bool(facts.calls))


class Silent(TurnEvent):
    """The response is empty."""

    kind, order, words, doing = "silent", -1, "empty responses", "have no response"

    @classmethod
    def of_turn(cls, facts: Facts) -> float:
        """Return 1 for an empty response."""
        return float(not facts.response.strip())


class TurnFails(TurnEvent):
    """The turn fails."""

    kind, order, words, doing = "failed_turns", -3, "failed turns", "fail"

    @classmethod
    def of_turn(cls, facts: Facts) -> float:
        """Return 1 for a turn with a reason of failure."""
        return float(bool(facts.failure))

    def excerpt(self, facts: Facts) -> str:
        """Return the reason."""
        return facts.failure


class Words(TurnEvent):
    """Mean number of words of a response."""

    kind, level, words = "response_words", 4, "words per response"
    better: Better = "neither"
    range = None

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the mean."""
        return self.words

    @classmethod
    def of_turn(cls, facts: Facts) -> float:
        """Return the number of words."""
        return float(len(facts.response.split()))
