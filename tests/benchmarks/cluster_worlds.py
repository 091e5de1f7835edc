"""How often a fair audit claims a difference, unmarked and marked, if templates or domains react to groups by chance.

Each template (or domain) treats each group in its own way, drawn with mean 0 over templates, so that nothing holds for
further ones. "Unmarked" is a disparity whose first line does not say "of these chats" or "of these domains". Every
audit is one of :func:`tod_bias.attribute`. ``python tests/benchmarks/cluster_worlds.py --samples 40`` prints the table.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "projects" / "contest"))

from assistants import CITIES, PEOPLE, Mentions

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.perturb.axis import PLACEBO
from tod_bias.report.answer import in_lines
from tod_bias.systems.flow import tool_loop

FRAMES = (
    "Could you find a table for my {who} and me in {city} at {hour}?",
    "My {who} wants to eat out in {city} this week; we are {size} people.",
    "I am looking for something nice to do with my {who} in {city} for {size} hours.",
    "We arrive in {city} at {hour} and my {who} is hungry, what do you suggest?",
    "Please book whatever is free near the station of {city} for my {who} at {hour}.",
    "It is the birthday of my {who}, so get us {size} seats somewhere quiet in {city}.",
    "Where in {city} can {size} people sit outside? My {who} likes fresh air.",
    "Is there anything open late in {city} after {hour}, my {who} asks.",
    "Last time in {city} the food was cold, my {who} says, so try another address for {size}.",
    "Reserve for {hour} in {city}, the guest is my {who} with {size} others.",
    "Somebody told my {who} about a new kitchen in {city}, is it open at {hour}?",
    "Make it {size} plates in {city} please, because my {who} brings the children.",
)
WORDS = (
    "red", "blue", "round", "small", "long", "warm", "cold", "quick", "soft", "loud", "plain", "fancy", "open", "busy",
    "calm", "bright", "dark", "sweet",
)  # fmt: skip
HOURS = ("7", "8:30", "noon", "6 pm", "9")


@dataclass(frozen=True)
class World:
    """A corpus and how its clusters react.

    Args:
        shares: of the clusters.
        spread: standard deviation of the rate over clusters and groups.
        by: ``template`` or ``domain``.
        harm: by which women are served worse in every cluster.
        chats: number of them.
        own: share of the chats that are written by hand, with words of their own.
    """

    shares: tuple[float, ...]
    spread: float = 0.3
    by: str = "template"
    harm: float = 0.0
    chats: int = 100
    own: float = 0.0


def even(number: int) -> tuple[float, ...]:
    """Return equal shares."""
    return (1 / number,) * number


WORLDS = {
    "5 templates": World(even(5)),
    "5 templates, mild": World(even(5), 0.1),
    "8 templates": World(even(8)),
    "12 templates": World(even(12)),
    "5 templates, strong": World(even(5), 0.6),
    "12 templates, strong": World(even(12), 0.6),
    "3 domains": World(even(3), by="domain"),
    "5 uneven domains": World((0.5, 0.12, 0.12, 0.13, 0.13), by="domain"),
    "6 uneven domains": World((0.4, 0.3, 0.1, 0.1, 0.05, 0.05), by="domain"),
    "8 uneven domains": World((0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05), by="domain"),
    "8 equal domains": World(even(8), by="domain"),
    "8 equal domains, mild": World(even(8), 0.1, by="domain"),
    "12 equal domains": World(even(12), by="domain"),
    "4 templates among 60 own chats": World(even(4), own=0.6),
    "power: own chats alone": World(even(4), 0.0, harm=0.3, own=1.0),
    "power: 4 templates among 60 own chats": World(even(4), 0.0, harm=0.3, own=0.6),
    "power: 12 templates": World(even(12), 0.0, harm=0.3),
    "power: 8 equal domains": World(even(8), 0.0, "domain", 0.3),
    "power: 12 equal domains": World(even(12), 0.0, "domain", 0.3),
}


def _share(*parts: object) -> float:
    return int(hashlib.md5(repr(parts).encode(), usedforsecurity=False).hexdigest()[:8], 16) / 2**32


class Assistant:
    """A policy, tools and an answer; the policy forgets the size of the party at a rate of the cluster and group."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        rng = np.random.default_rng([seed, 1])
        groups = ("woman", "man", "non-binary")
        self._mentions = {group: Mentions("gender", group) for group in groups}
        self.rates = {
            (cluster, group): min(1.0, max(0.0, 0.2 + float(rng.normal(0, world.spread))))
            for cluster in range(len(world.shares))
            for group in groups
        }
        self.cluster: dict[str, int] = {}

    def chats(self) -> list[Dialogue]:
        """Return the corpus."""
        world, rng, dialogues = self.world, random.Random(self.seed), []
        for number in range(world.chats):
            cluster = rng.choices(range(len(world.shares)), world.shares)[0]
            is_own = rng.random() < world.own
            frame = FRAMES[cluster % len(FRAMES)]
            if is_own or world.by == "domain":
                words = " ".join(rng.sample(WORDS, 8))
                frame = f"{words} " + FRAMES[rng.randrange(len(FRAMES))]
                cluster = number if is_own else cluster
            who, city, hour = rng.choice(PEOPLE), rng.choice(CITIES), rng.choice(HOURS)
            text = frame.format(who=who, city=city, hour=hour, size=rng.randint(2, 9))
            key = f"{number:04d}"
            self.cluster[key] = cluster
            domain = f"domain {cluster}" if world.by == "domain" else ""
            dialogues.append(Dialogue(f"chat-{number}", domain, (Turn(f"{text} Ticket {key}."),)))
        return dialogues

    def forgets(self, text: str) -> bool:
        """Return whether the policy forgets the size."""
        cluster = self.cluster[text.rsplit("Ticket ", 1)[1][:4]]
        group = next((name for name, found in self._mentions.items() if found(text)), "")
        rate = self.rates.get((cluster, group), 0.2) + (self.world.harm if group == "woman" else 0.0)
        return _share(self.seed, text) < rate

    def pipeline(self) -> Pipeline:
        """Return the assistant as three stages."""

        def policy(inputs: Sequence[Any]) -> list[Any]:
            made = []
            for item in inputs:
                if any(step.name == "tools" for step in item.steps):
                    made.append(None)
                    continue
                size = {} if self.forgets(item.user) else {"party_size": 4}
                made.append({"api_name": "book_table", "name": "Luigi's", **size})
            return made

        def tools(inputs: Sequence[Any]) -> list[Any]:
            return [{"booked": item.argument["name"]} for item in inputs]

        def answer(inputs: Sequence[Any]) -> list[str]:
            return ["Your table is booked."] * len(inputs)

        return Pipeline({"policy": policy, "tools": tools, "answer": answer}, flow=tool_loop)


def audited(world: World, seed: int, **options: Any) -> tuple[bool, bool]:
    """Return whether an audit claims a disparity of gender, and whether one is not marked."""
    assistant = Assistant(world, seed)
    chats = assistant.chats()
    result = attribute(assistant.pipeline(), chats, axes=("gender", PLACEBO), seed=seed, **options)
    claimed = [some for some in result.findings if some.verdict == "disparity" and some.axis == "gender"]
    lines = " ".join(line for some in in_lines(result).values() for line in some)
    return bool(claimed), bool(claimed) and "true of these" not in lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--only", default="", help="beginning of the worlds' names")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| world | audits | claimed | claimed without a mark |\n|---|---|---|---|")
    for name, world in WORLDS.items():
        if name.startswith(options.only):
            found = np.array([audited(world, seed) for seed in range(options.samples)])
            print(f"| {name} | {len(found)} | {found[:, 0].sum()} | {found[:, 1].sum()} |", flush=True)


if __name__ == "__main__":
    main()
