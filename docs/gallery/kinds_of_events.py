"""One system per kind of event: a hotel assistant that does one thing differently if the user speaks of a woman."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from systems import CITIES, MEN, REQUESTS, WOMEN, speaks_of

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.results import AuditResult
from tod_bias.systems.flow import tool_loop

NAMES = ("Ritz", "Crown", "Inn")


def chats(number: int) -> list[Dialogue]:
    """Return chats of one turn about women and men."""
    people = [person for pair in zip(MEN, WOMEN, strict=True) for person in pair]
    texts = (
        REQUESTS[n % 3].format(people[n % len(people)], CITIES[n % 5 + n % 2], 2 + n % 7) + f" Ref {n}."
        for n in range(number)
    )
    return [Dialogue(str(n), "hotels", (Turn(text),)) for n, text in enumerate(texts)]


@dataclass
class Assistant:
    """A model that calls a tool, the tool, and an answer.

    Args:
        call: changes the call.
        found: changes the results.
        answer: changes the answer.
    """

    call: Callable[[dict[str, Any]], Any] = lambda call: call
    found: Callable[[list[dict[str, Any]]], Any] = lambda found: found
    answer: Callable[[str], str] = lambda text: text

    def pipeline(self) -> Pipeline:
        """Return the assistant as three stages in a tool loop."""
        return Pipeline({"policy": self.model, "tools": self.search, "answer": self.respond}, flow=tool_loop)

    def model(self, inputs: Sequence[Any]) -> list[Any]:
        """Return a call, and None once the tool was called."""
        made: list[Any] = []
        for item in inputs:
            if any(step.name == "tools" for step in item.steps):
                made.append(None)
                continue
            city = next(city for city in CITIES if city in item.user)
            call = {
                "api_name": "find_hotel",
                "city": city,
                "nights": int(re.findall(r"\d+", item.user)[0]),
                "room": "double",
            }
            made.append(self.call(call) if speaks_of([*WOMEN, "woman"], item.user) else call)
        return made

    def search(self, inputs: Sequence[Any]) -> list[Any]:
        """Return hotels."""
        made = []
        for item in inputs:
            city = next(city for city in CITIES if city in item.user)
            found = [{"name": f"{name} {city}", "price": 60 + 20 * place} for place, name in enumerate(NAMES)]
            made.append(self.found(found) if speaks_of([*WOMEN, "woman"], item.user) else found)
        return made

    def respond(self, inputs: Sequence[Any]) -> list[str]:
        """Return an answer."""
        made = []
        for item in inputs:
            found = next((step.output for step in reversed(item.steps) if step.name == "tools"), [])
            rows = found if isinstance(found, list) else []
            names = " and ".join(f"{row['name']} for {row['price']} euros" for row in rows)
            text = f"I found {names}. Shall I book?" if rows else "I found nothing. Shall I try again?"
            made.append(self.answer(text) if speaks_of([*WOMEN, "woman"], item.user) else text)
        return made


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a change that leaves a field out."""
    return lambda call: {key: value for key, value in call.items() if key != name}


KINDS: dict[str, tuple[str, Assistant]] = {
    "missing": ("The model leaves out the number of nights.", Assistant(call=without("nights"))),
    "has": (
        "The model adds a field that nobody else's call has.",
        Assistant(call=lambda call: call | {"budget": "low"}),
    ),
    "value": ("The model asks for another room.", Assistant(call=lambda call: call | {"room": "single"})),
    "asks_back": ("The model calls nothing, and the answer asks back.", Assistant(call=lambda call: None)),
    "number": (
        "The tool asks a higher price.",
        Assistant(found=lambda found: [row | {"price": row["price"] + 15} for row in found]),
    ),
    "found": ("The tool returns two of three hotels.", Assistant(found=lambda found: found[:2])),
    "order": ("The tool returns the dearest hotel first.", Assistant(found=lambda found: found[::-1])),
    "deviates": (
        "The tool returns other hotels.",
        Assistant(found=lambda found: [row | {"name": f"Old {row['name']}"} for row in found]),
    ),
    "fails": ("The tool fails.", Assistant(found=lambda found: {"error": "the search timed out"})),
    "named": ("The answer names one hotel of three.", Assistant(answer=lambda text: text.split(" and ")[0] + ".")),
    "says": ("The answer asks for a card.", Assistant(answer=lambda text: f"{text} I need your credit card first.")),
    "tells": (
        "The answer tells higher prices than the tool has.",
        Assistant(answer=lambda text: re.sub(r"\d+", lambda price: str(int(price[0]) + 10), text)),
    ),
    "refuses": ("The answer declines.", Assistant(answer=lambda text: "Sorry, I cannot help you with that.")),
    "silent": ("The answer is empty.", Assistant(answer=lambda text: "")),
}


def audited(kind: str) -> AuditResult:
    """Return the audit of the system of a kind."""
    return attribute(KINDS[kind][1].pipeline(), chats(80), axes=["gender", "placebo"])
