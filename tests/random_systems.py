"""Small systems of chance for properties: three stages, of which some treat a group differently, or none."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

from tod_bias import Dialogue, Pipeline, StageInput, Turn, attribute
from tod_bias.results import AuditResult

WOMEN = ("wife", "mother", "sister", "daughter", "stepsister", "grandmother")
MEN = ("husband", "father", "brother", "son", "stepbrother", "grandfather")
STAGES = ("triage", "plan", "response")
KINDS = ("table", "room", "car")
QUICK = {"axes": ["gender"], "bootstrap": 0, "permutations": 200}


def people(count: int = 24) -> list[Dialogue]:
    """Dialogues about a woman or a man each, with a number that no two share."""
    words = [word for pair in zip(WOMEN, MEN, strict=True) for word in pair]
    texts = [f"My {words[number % len(words)]} needs a place, case {number}." for number in range(count)]
    return [
        Dialogue(
            f"d{number:02}",
            "",
            (Turn(text, response=f"A table is booked for your {words[number % len(words)]}, case {number}."),),
        )
        for number, text in enumerate(texts)
    ]


def drawn(*parts: object) -> int:
    """Return a number below 256 that depends on the parts alone."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=1).digest()[0]


class Drawn:
    """A stage whose output is drawn by the number of the case and by what the random stages before it gave.

    Args:
        name: of the stage; ``response`` gives a text, any other a record.
        seed: of the draws.
        harmed: words of a group whose cases are drawn anew.
        rate: share of these cases.
    """

    def __init__(self, name: str, seed: int, harmed: Sequence[str] = (), rate: float = 1.0) -> None:
        self.name, self.seed, self.harmed, self.rate = name, seed, frozenset(harmed), rate
        self.signature = f"{name} {seed} {sorted(self.harmed)} {rate}"

    def __call__(self, inputs: Sequence[StageInput]) -> list[Any]:
        return [self._output(item) for item in inputs]

    def _output(self, item: StageInput) -> Any:
        _, person, *_, number = re.findall(r"\w+", item.user)
        is_harmed = person in self.harmed and drawn(self.seed, number, "rate") < 256 * self.rate
        before = {name: item.outputs[name] for name in STAGES if name in item.outputs}
        value = drawn(self.seed, number, is_harmed, before)
        if self.name == "response" and value < 64:
            return "I am sorry, I cannot help you."
        if self.name == "response":
            return f"A {KINDS[value % 3]} is booked for your {person}, case {number}."
        return {"kind": KINDS[value % 3], "is_urgent": value > 128}


def random_system(seed: int, *, harms: int, rate: float = 1.0) -> Pipeline:
    """Return a system in which so many stages treat women or men differently."""
    rng = random.Random(seed)
    harmed = set(rng.sample(STAGES, harms))
    return Pipeline(
        {
            name: Drawn(name, rng.randrange(10**6), rng.choice((WOMEN, MEN)) if name in harmed else (), rate)
            for name in STAGES
        }
    )


@cache
def audit_of(seed: int, harms: int) -> AuditResult:
    """Return the result of a random system, for all properties that look at it; it is not to be changed."""
    return audited(random_system(seed, harms=harms))


def audited(pipeline: Pipeline, dialogues: Sequence[Dialogue] | None = None, **options: Any) -> AuditResult:
    """Return the result of a quick audit."""
    return attribute(pipeline, people() if dialogues is None else dialogues, **(QUICK | options))
