"""Events of calls of tools: a call, its failure, its results and how many of them the response names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Self

from tod_bias.metrics.events.event import NOTHING, Event, Reading
from tod_bias.metrics.events.facts import ANY, CallFact, Facts, escaped, unescaped
from tod_bias.metrics.metric import Better


class CallEvent(Event):
    """Event of the calls of a tool, or of all tools; its place is the tool's name.

    More results are better of one tool. Of all tools together they are not, as another tool may have other results.
    """

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        if tool == ANY and self.range is None:
            self.better = "neither"

    @classmethod
    def name_of(cls, *place: str) -> str:
        """Return ``KIND:TOOL``."""
        return f"{cls.kind}:{escaped(place[0])}"

    @classmethod
    def parsed(cls, place: str) -> Self | None:
        """Return the event of a tool."""
        return cls(unescaped(place)) if place else None

    @property
    def tool(self) -> str:
        """The tool, or :data:`ANY`."""
        return self.place[0]

    @property
    def _any_or_tool(self) -> str:
        return "calls" if self.tool == ANY else self.tool

    @property
    def _a_tool(self) -> str:
        return "a tool" if self.tool == ANY else self.tool

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every tool that is called, and all together."""
        for tool in [*facts.tools, *([ANY] if facts.calls else [])]:
            yield (tool,), cls.of_calls(facts.calls_of(tool))

    def reading(self, facts: Facts) -> Reading:
        """Return what the calls of the tool add, and 1 if there are any."""
        calls = facts.calls_of(self.tool)
        return (self.of_calls(calls), self.could(calls)) if calls else NOTHING

    @classmethod
    def of_calls(cls, calls: list[CallFact]) -> float:
        """Return what the calls of a turn add to the event; there is one at least."""
        raise NotImplementedError

    @classmethod
    def could(cls, calls: list[CallFact]) -> float:
        """Return 1 if the event could show in the calls of a turn."""
        return 1.0

    def stage_in(self, facts: Facts) -> str:
        """Return the component that carries the calls out; empty if there are several."""
        names = {call.at for call in facts.calls_of(self.tool)}
        return names.pop() if len(names) == 1 else ""

    def place_in(self, facts: Facts) -> float:
        """Return the place of the tool's first result among the steps."""
        return next((call.place + 0.5 for call in facts.calls_of(self.tool)), float("inf"))

    def name_in(self, excerpt: str) -> str:
        """Return the tool."""
        outcome = re.match(r"(\S+)(?:: \d+ results?$| fails \()", excerpt)
        return outcome[1] if outcome else ""

    def excerpt(self, facts: Facts) -> str:
        """Return the outcome of the tool's first call, or the other tool that is called."""
        calls = facts.calls_of(self.tool)
        if not calls:
            return f"calls {facts.calls[0].tool}" if facts.calls else "no call"
        call = calls[0]
        if call.failure:
            return f"{call.tool} fails ({call.failure})"
        return f"{call.tool}: {call.results} result{'' if call.results == 1 else 's'}"


class Fails(CallEvent):
    """A call fails."""

    kind = "fails"
    order = 1
    better: Better = "lower"

    @property
    def label(self) -> str:  # type: ignore[override]
        """Failed calls of the tool."""
        return f"failed {self._any_or_tool}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 in which {self._a_tool} fails"

    @classmethod
    def of_calls(cls, calls: list[CallFact]) -> float:
        """Return 1 if any call failed."""
        return float(any(call.failure for call in calls))


class Results(CallEvent):
    """Mean number of results of a tool."""

    kind = "found"
    order = 2
    better: Better = "higher"
    range = None
    needs_all = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """Results of the tool."""
        return f"results of {self._any_or_tool}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the mean."""
        return f"{self.label} per turn"

    @classmethod
    def of_calls(cls, calls: list[CallFact]) -> float:
        """Return the number of results."""
        return float(sum(call.results for call in calls))


class Empty(CallEvent):
    """A tool finds nothing."""

    kind = "empty"
    order = 3
    better: Better = "lower"

    @property
    def label(self) -> str:  # type: ignore[override]
        """Calls of the tool without results."""
        return f"{self._any_or_tool} without results"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 in which {self._a_tool} finds nothing"

    @classmethod
    def of_calls(cls, calls: list[CallFact]) -> float:
        """Return 1 if no call has a result or failed."""
        return float(not any(call.results or call.failure for call in calls))


class NamedResults(CallEvent):
    """Mean number of results that the response names."""

    kind = "named"
    order = 11
    better: Better = "higher"
    range = None
    needs_all = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """Results of the tool that responses name."""
        return "results named in responses" if self.tool == ANY else f"results of {self.tool} named in responses"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the mean."""
        return f"results of {self._a_tool} named per turn"

    @classmethod
    def of_calls(cls, calls: list[CallFact]) -> float:
        """Return the number of results that are named."""
        return float(sum(call.named for call in calls))

    @classmethod
    def could(cls, calls: list[CallFact]) -> float:
        """Return 1 if there are results to name."""
        return float(any(call.results for call in calls))

    def stage_in(self, facts: Facts) -> str:
        """Return the component that answers."""
        return facts.stage("")

    def place_in(self, facts: Facts) -> float:
        """Return infinity, the place of the response."""
        return float("inf")

    def excerpt(self, facts: Facts) -> str:
        """Show the response."""
        return ""


class Calls(CallEvent):
    """A tool is called."""

    kind = "calls"
    level = 3

    @property
    def label(self) -> str:  # type: ignore[override]
        """Calls of the tool."""
        return "turns with a call" if self.tool == ANY else f"calls of {self.tool}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 that call {self._a_tool}"

    def reading(self, facts: Facts) -> Reading:
        """Return 1 if the tool is called, and 1 if any tool is."""
        calls = facts.calls_of(self.tool)
        return float(bool(calls)), float(bool(facts.calls))

    @classmethod
    def of_calls(cls, calls: list[CallFact]) -> float:
        """Return 1."""
        return 1.0

    def excerpt(self, facts: Facts) -> str:
        """Return the tools that are called."""
        return f"calls {', '.join(facts.tools)}" if facts.calls else "no call"

    def stage_in(self, facts: Facts) -> str:
        """Return the component that makes the calls."""
        return next((call.by for call in facts.calls_of(self.tool)), "")
