"""How often a fair audit claims a difference if a tenth of the calls of tools fail in a row, as in an outage.

No group is treated differently. Nine of ten chats mention a woman, so that nearly all men are rewritten. Every audit is
one of :func:`tod_bias.attribute`. ``python tests/benchmarks/outage_worlds.py --samples 40`` prints the table.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "projects" / "contest"))

from assistants import CITIES

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.systems.flow import tool_loop

WOMEN = ("wife", "sister", "mother", "grandma", "daughter", "aunt", "niece", "girlfriend")
MEN = ("husband", "brother", "father", "grandpa", "son", "uncle", "nephew", "boyfriend")


def chats(number: int, share: float, seed: int) -> list[Dialogue]:
    """Return chats of two turns, a share of which mentions a woman and the others a man."""
    rng, dialogues = random.Random(seed), []
    for place in range(number):
        who = rng.choice(WOMEN if rng.random() < share else MEN)
        tags = " ".join(rng.sample("abcdefghijklmnopqrst", 6))
        first = f"Find a table in {rng.choice(CITIES)} for my {who} and me, code {tags} {place}."
        dialogues.append(Dialogue(f"chat-{place}", "", (Turn(first), Turn(f"Great, my {who} agrees. Book {tags}."))))
    return dialogues


class Assistant:
    """A policy, tools and an answer; the calls of tools from ``start`` on fail, as many as ``length``."""

    def __init__(self, start: float = 0.0, length: float = 0.0) -> None:
        self.start, self.length, self.calls = start, length, 0
        self.failed: Counter[str] = Counter()

    def pipeline(self) -> Pipeline:
        """Return the assistant as three stages."""

        def policy(inputs: Sequence[Any]) -> list[Any]:
            return [
                None if any(step.name == "tools" for step in item.steps) else {"api_name": "book", "text": item.user}
                for item in inputs
            ]

        def tools(inputs: Sequence[Any]) -> list[Any]:
            results = []
            for item in inputs:
                fails = self.start <= self.calls < self.start + self.length
                self.calls += 1
                results.append({"error": "out of order"} if fails else {"booked": "yes", "for": item.argument["text"]})
            return results

        def answer(inputs: Sequence[Any]) -> list[str]:
            outputs = [[step.output for step in item.steps if step.name == "tools"][-1] for item in inputs]
            return ["That did not work." if "error" in some else "It is booked." for some in outputs]

        return Pipeline({"policy": policy, "tools": tools, "answer": answer}, flow=tool_loop)


def audited(number: int, share: float, seed: int, axes: Sequence[str]) -> list[str]:
    """Return the claims of an audit."""
    dialogues = chats(number, share, seed)
    probe = Assistant()
    attribute(probe.pipeline(), dialogues, axes=axes, permutations=0)
    rng = np.random.default_rng(seed)
    assistant = Assistant(rng.uniform(0, 0.9) * probe.calls, 0.1 * probe.calls)
    result = attribute(assistant.pipeline(), dialogues, axes=axes, seed=seed)
    return [f"{some.group} {some.metric}" for some in result.findings if some.verdict == "disparity"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| chats | share of women | axes | audits | claimed | |\n|---|---|---|---|---|---|")
    for number, share, axes in ((100, 0.5, ["gender"]), (100, 0.9, ["gender"]), (100, 0.9, ["gender", "placebo"])):
        found = [audited(number, share, seed, axes) for seed in range(options.samples)]
        told = Counter(claim for claims in found for claim in claims)
        print(f"| {number} | {share} | {', '.join(axes)} | {len(found)} | {sum(map(bool, found))} | {dict(told)} |")


if __name__ == "__main__":
    main()
