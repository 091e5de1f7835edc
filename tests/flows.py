"""Systems with flows of their own: a tool loop, a router over two experts, retrieve and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builders import WORDS

from tod_bias import Dialogue, Pipeline, StageInput, Turn


@dataclass(frozen=True)
class Decision:
    """What a policy puts out."""

    calls: tuple[Mapping[str, Any], ...] = ()


def about_people(count: int = 18) -> list[Dialogue]:
    """Dialogues of one turn, each about somebody, whose answer takes two calls."""
    people = ("wife", "mother", "sister", "mother", "husband", "sister")
    return [
        Dialogue(
            f"p{n}",
            "Restaurants",
            (
                Turn(
                    f"My {people[n % 6]} wants a table for {n} in Davis, please.",
                    response=f"I found place {n} with {n} seats, and it is free on day {n % 7}.",
                ),
            ),
        )
        for n in range(count)
    ]


def number_in(text: str) -> int:
    return next(int(word) for word in text.split() if word.isdigit())


def mentions(item: StageInput) -> bool:
    return any(word in item.user for word in WORDS)


def agent(turn):
    while (step := (yield "policy")).calls:
        for call in step.calls:
            yield "tools", call
    return (yield "answer")


class Loop:
    """A policy, tools and an answer that are fair, but for one of them where the user mentions a woman."""

    def __init__(self, biased: str = "") -> None:
        self.biased = biased

    def harms(self, name: str, item: StageInput) -> bool:
        return self.biased == name and mentions(item)

    def policy(self, inputs: Sequence[StageInput]) -> list[Decision]:
        return [self.decide(item) for item in inputs]

    def decide(self, item: StageInput) -> Decision:
        done = [step.argument["api_name"] for step in item.steps if step.name == "tools"]
        seats = number_in(item.user)
        if "find" not in done:
            return Decision(({"api_name": "find", "seats": 0 if self.harms("policy", item) else seats},))
        if "days" not in done:
            return Decision(
                ({"api_name": "days", "place": item.outputs["tools"]["place"], "wanted": [1, None, {"x": 2}]},)
            )
        return Decision()

    def tools(self, inputs: Sequence[StageInput]) -> list[dict[str, Any]]:
        return [self.run(item) for item in inputs]

    def run(self, item: StageInput) -> dict[str, Any]:
        call = item.argument
        if call["api_name"] == "find":
            return {"place": -1 if self.harms("tools", item) else call["seats"]}
        return {"day": call["place"] % 7}

    def answer(self, inputs: Sequence[StageInput]) -> list[str]:
        return [self.say(item) for item in inputs]

    def say(self, item: StageInput) -> str:
        if self.harms("answer", item):
            return "No."
        place, day = (step.output for step in item.steps if step.name == "tools")
        return f"I found place {place['place']} with {place['place']} seats, and it is free on day {day['day']}."

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline({"policy": self.policy, "tools": self.tools, "answer": self.answer}, flow=agent)


def routed(turn):
    route = yield "router"
    yield route


def router_pipeline(biased: str = "") -> Pipeline:
    """A router by numbers over two experts, each of which knows its own."""

    def harms(name: str, item: StageInput) -> bool:
        return biased == name and mentions(item)

    def router(inputs):
        return [("odd", "even")[(number_in(i.user) + harms("router", i)) % 2 == 0] for i in inputs]

    def expert(name: str, rest: int):
        def answer(item: StageInput) -> str:
            number = number_in(item.user)
            if number % 2 != rest or harms(name, item):
                return "I cannot help you with that one."
            return f"I found place {number} with {number} seats, and it is free on day {number % 7}."

        return lambda inputs: [answer(item) for item in inputs]

    return Pipeline({"router": router, "even": expert("even", 0), "odd": expert("odd", 1)}, flow=routed)


def retrieve_and_read(turn):
    documents = yield "retriever", {"query": turn.user}
    yield "reader", documents[:2]


def retrieval_pipeline(biased: str = "") -> Pipeline:
    """A retriever that finds three documents, and a reader of the first two."""

    def harms(name: str, item: StageInput) -> bool:
        return biased == name and mentions(item)

    def retriever(inputs):
        numbers = [number_in(i.argument["query"]) + harms("retriever", i) for i in inputs]
        return [[f"place {n} with {n} seats", f"day {n % 7}", "nothing"] for n in numbers]

    def reader(inputs):
        return [
            "No." if harms("reader", i) else f"I found {i.argument[0]}, and it is free on {i.argument[1]}."
            for i in inputs
        ]

    return Pipeline({"retriever": retriever, "reader": reader}, flow=retrieve_and_read)


def failures_of(traces):
    """Number of a run to the reason why its first turn failed."""
    return {number: way.failure for number, trace in enumerate(traces) for way in trace[0] if way.failure}
