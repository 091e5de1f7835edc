"""How often a harm of the minimum detectable size is found, through :func:`tod_bias.attribute`; the aim is .80.

A policy forgets an argument at a rate of noise, whoever the chat is about, on a made-up axis. The median of the minimum
detectable effects that fair audits report is then planted as a harm of one group, and the audits that claim it are
counted. ``python tests/benchmarks/detectable_worlds.py --samples 40`` prints the table.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.perturb.loading import load_axis
from tod_bias.systems.flow import tool_loop

EVENT = "missing:book_table.party_size"
WORDS = (
    "red", "blue", "round", "small", "long", "warm", "cold", "quick", "soft", "loud", "plain", "fancy", "open", "busy",
    "calm", "bright", "dark", "sweet",
)  # fmt: skip


@dataclass(frozen=True)
class World:
    """A corpus and its noise.

    Args:
        groups: of the axis.
        terms: of each group.
        chats: their number.
        noise: rate of the event.
        quirks: standard deviation of the rate over terms.
        harm: added to the first group's rate.
    """

    groups: int
    terms: int
    chats: int
    noise: float
    quirks: float = 0.0
    harm: float = 0.0


WORLDS = {
    "6 x 8, 120 chats, 10% noise": World(6, 8, 120, 0.1),
    "3 x 8, 100 chats, 15% noise": World(3, 8, 100, 0.15),
    "3 x 8, 100 chats, 15% noise, quirks .05": World(3, 8, 100, 0.15, 0.05),
    "3 x 8, 100 chats, 2% noise": World(3, 8, 100, 0.02),
    "2 x 12, 60 chats, 5% noise": World(2, 12, 60, 0.05),
    "4 x 12, 300 chats, 30% noise": World(4, 12, 300, 0.3),
}


def _share(*parts: object) -> float:
    return int(hashlib.md5(repr(parts).encode(), usedforsecurity=False).hexdigest()[:8], 16) / 2**32


def _term(group: int, number: int) -> str:
    return f"{'bdfgklmn'[group]}o{'bdfgklmnprst'[number]}ovin"


class Assistant:
    """A policy that forgets the size of the party, tools and an answer."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        rng = np.random.default_rng([seed, 2])
        self.rates = {
            _term(group, number): world.noise + rng.normal(0, world.quirks) + world.harm * (group == 0)
            for group in range(world.groups)
            for number in range(world.terms)
        }

    def axis(self, folder: Path) -> Any:
        """Return the made-up axis."""
        groups = [f"g{group}" for group in range(self.world.groups)]
        rows = [
            "\t".join(["noun", *(_term(group, number) for group in range(self.world.groups)), "", ""])
            for number in range(self.world.terms)
        ]
        path = folder / "made.tsv"
        path.write_text("\n".join(["@scope\tword", "\t".join(["pos", *groups, "context", "notes"]), *rows]) + "\n")
        return load_axis("made", lexicon=path)

    def chats(self) -> list[Dialogue]:
        """Return the corpus."""
        rng, dialogues = random.Random(self.seed), []
        for number in range(self.world.chats):
            term = _term(rng.randrange(self.world.groups), rng.randrange(self.world.terms))
            text = f"{' '.join(rng.sample(WORDS, 8))} table for my {term} please, {number}"
            dialogues.append(Dialogue(f"chat-{number}", "", (Turn(text),)))
        return dialogues

    def pipeline(self) -> Pipeline:
        """Return the assistant as three stages."""

        def policy(inputs: Sequence[Any]) -> list[Any]:
            made = []
            for item in inputs:
                if any(step.name == "tools" for step in item.steps):
                    made.append(None)
                    continue
                rate = next((rate for term, rate in self.rates.items() if term in item.user), self.world.noise)
                size = {} if _share(self.seed, item.user) < rate else {"party_size": 4}
                made.append({"api_name": "book_table", "name": "Luigi's", **size})
            return made

        def tools(inputs: Sequence[Any]) -> list[Any]:
            return [{"booked": "yes"}] * len(inputs)

        def answer(inputs: Sequence[Any]) -> list[str]:
            return ["Your table is booked."] * len(inputs)

        return Pipeline({"policy": policy, "tools": tools, "answer": answer}, flow=tool_loop)


def audited(world: World, seed: int) -> Any:
    """Return the result of one audit."""
    assistant = Assistant(world, seed)
    with tempfile.TemporaryDirectory() as folder:
        return attribute(assistant.pipeline(), assistant.chats(), axes=[assistant.axis(Path(folder))], seed=seed)


def found(world: World, samples: int) -> tuple[float, int]:
    """Return the median of the minimum detectable effects, and in how many audits a harm of that size is claimed."""
    fair = [audited(world, 1000 + seed).axes["made"].get(EVENT) for seed in range(max(8, samples // 4))]
    effect = float(np.median([row.mde for row in fair if row is not None and row.mde is not None]))
    harmed = [audited(replace(world, harm=effect), seed) for seed in range(samples)]
    return effect, sum(some.axes["made"][EVENT].verdict == "disparity" for some in harmed if EVENT in some.axes["made"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--only", default="", help="beginning of the worlds' names")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| world | minimum detectable effect | audits | found |\n|---|---|---|---|")
    for name, world in WORLDS.items():
        if name.startswith(options.only):
            effect, claims = found(world, options.samples)
            print(f"| {name} | {effect:.3f} | {options.samples} | {claims} |", flush=True)


if __name__ == "__main__":
    main()
