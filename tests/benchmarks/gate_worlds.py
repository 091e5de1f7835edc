"""How often the gate passes a harm beyond its limit, and how often it fails a fair system.

An assistant forgets an argument, refuses, or asks a higher price, for one group of a made-up axis more often than for
the others. A pass at a gap beyond the limit should be rare (5%), and so should a failure of a fair system.
``python tests/benchmarks/gate_worlds.py --samples 40`` prints the table.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from detectable_worlds import Assistant, World, _share

from tod_bias import Pipeline, attribute
from tod_bias.systems.flow import tool_loop
from tod_bias.testing.gate import check


@dataclass(frozen=True)
class GateWorld:
    """A world, what its assistant does to one group, and a limit.

    Args:
        world: corpus, noise and the rate that is added for the first group.
        kind: ``forgets``, ``refuses`` or ``price`` (the harm is then a share of the price).
        limit: of the gate; None for findings alone.
        wanted: ``never passes``, ``never fails`` or ``fails``.
    """

    world: World
    kind: str
    limit: float | None
    wanted: str


WORLDS = {
    "50 chats, two groups, 75% refused, limit .3": GateWorld(
        World(2, 10, 50, 0.0, harm=0.75), "refuses", 0.3, "never passes"
    ),
    "50 chats, two groups, 70% lose the area, limit .3": GateWorld(
        World(2, 10, 50, 0.0, harm=0.7), "forgets", 0.3, "never passes"
    ),
    "50 chats, three groups, 60% refused, limit .3": GateWorld(
        World(3, 10, 50, 0.0, harm=0.6), "refuses", 0.3, "never passes"
    ),
    "100 chats, 30% lose the area, limit .1": GateWorld(
        World(2, 10, 100, 0.0, harm=0.3), "forgets", 0.1, "never passes"
    ),
    "100 chats, price +30%, limit .1": GateWorld(World(2, 10, 100, 0.0, harm=0.3), "price", 0.1, "never passes"),
    "100 chats, 12% refused and 10% noise, limit .05": GateWorld(
        World(2, 10, 100, 0.1, harm=0.12), "refuses", 0.05, "never passes"
    ),
    "100 chats, 22% lose the area and 10% noise, limit .1": GateWorld(
        World(2, 12, 100, 0.1, harm=0.22), "forgets", 0.1, "never passes"
    ),
    "300 chats, 12% lose the area, limit .05": GateWorld(
        World(2, 12, 300, 0.0, harm=0.12), "forgets", 0.05, "never passes"
    ),
    "fair, 50 chats": GateWorld(World(2, 10, 50, 0.0), "forgets", None, "never fails"),
    "fair, 100 chats, 10% noise": GateWorld(World(3, 10, 100, 0.1), "forgets", None, "never fails"),
    "fair, 100 chats, 30% noise": GateWorld(World(3, 10, 100, 0.3), "refuses", None, "never fails"),
    "fair, 50 chats, limit .15": GateWorld(World(2, 10, 50, 0.0), "forgets", 0.15, "passes"),
    "100 chats, 10% more lose the area": GateWorld(World(3, 10, 100, 0.0, harm=0.1), "forgets", None, "fails"),
    "100 chats, 10% more refused, 2% noise": GateWorld(World(3, 10, 100, 0.02, harm=0.1), "refuses", None, "fails"),
}


class GateAssistant(Assistant):
    """An assistant with one of three harms."""

    def __init__(self, made: GateWorld, seed: int) -> None:
        super().__init__(made.world, seed)
        self.kind = made.kind

    def pipeline(self) -> Pipeline:
        """Return the assistant as three stages."""
        kind = self.kind

        def policy(inputs: Sequence[Any]) -> list[Any]:
            made = []
            for item in inputs:
                if any(step.name == "tools" for step in item.steps):
                    made.append(None)
                    continue
                is_hit = _share(self.seed, item.user) < self._rate(item.user)
                if kind == "refuses" and is_hit:
                    made.append(None)
                else:
                    area = {} if kind == "forgets" and is_hit else {"area": "centre"}
                    made.append({"api_name": "find_table", "name": f"table {item.user.split()[-1]}", **area})
            return made

        def tools(inputs: Sequence[Any]) -> list[Any]:
            prices = [20 * (1 + self._rate(item.user)) if kind == "price" else 20 for item in inputs]
            return [{"price": round(price, 2)} for price in prices]

        def answer(inputs: Sequence[Any]) -> list[str]:
            has_result = [any(step.name == "tools" for step in item.steps) for item in inputs]
            texts = [f"Table {item.user.split()[-1]} is ready." for item in inputs]
            return [
                text if some else "Sorry, I cannot help with that."
                for text, some in zip(texts, has_result, strict=True)
            ]

        return Pipeline({"policy": policy, "tools": tools, "answer": answer}, flow=tool_loop)

    def _rate(self, text: str) -> float:
        return next((rate for term, rate in self.rates.items() if term in text), self.world.noise)


def code_of(made: GateWorld, seed: int) -> int:
    """Return the exit code of the gate for one audit."""
    assistant = GateAssistant(made, seed)
    with tempfile.TemporaryDirectory() as folder:
        result = attribute(assistant.pipeline(), assistant.chats(), axes=[assistant.axis(Path(folder))], seed=seed)
    return check(result, max_gap=made.limit).code


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--only", default="", help="part of the worlds' names")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| world | wanted | audits | passes (0) | fails (1) | cannot tell (3) |\n|---|---|---|---|---|---|")
    for name, made in WORLDS.items():
        if options.only in name:
            codes = Counter(code_of(made, seed) for seed in range(options.samples))
            row = " | ".join(str(codes[code]) for code in (0, 1, 3))
            print(f"| {name} | {made.wanted} | {options.samples} | {row} |", flush=True)


if __name__ == "__main__":
    main()
