"""False claims of the first screen in systems that put out much: many tools and fields, paraphrases, few chats.

``python tests/benchmarks/event_worlds.py --samples 40`` prints for each world how many audits claim anything (of a fair
system), or name the harmed group alone with its component and event (of a planted one).

In the world *tools* a policy calls one of thirty tools with five arguments each; a fifth of all arguments are noise
that depends on the words of the message. In *paraphrases* every answer is put together at random from phrases, as those
of a language model are. In *quirks* single terms change an argument. A planted system, in addition, leaves out an
argument, calls a tool that answers later, or says one more sentence, in 60% of the dialogues as a woman.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import re
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.errors import IncompleteError
from tod_bias.perturb import load_axis
from tod_bias.perturb.rewriter import Recogniser
from tod_bias.systems.flow import tool_loop

PEOPLE = (
    "wife", "husband", "sister", "brother", "mother", "father", "grandma", "grandpa",
    "daughter", "son", "aunt", "uncle", "niece", "nephew", "girlfriend", "boyfriend",
)  # fmt: skip
AGES = ("young", "elderly", "middle-aged", "senior", "teenage", "old", "adult", "aged")
OPENINGS = ("Sure", "Of course", "Happy to help", "Let me see", "No problem", "Gladly", "All right", "Done")
MIDDLES = ("I looked at the list", "the office told me", "as far as I can see", "after a check", "from what I know")
ENDS = ("it starts at nine", "you can come in the morning", "there is room", "two places are left", "it is open")
CLOSINGS = ("Anything else?", "Have a nice day.", "See you soon.", "Let me know.", "Take care.", "Bye for now.")


def chats(number: int, seed: int) -> list[Dialogue]:
    """Return chats of one or two turns; most mention a gender, half of them an age."""
    rng = random.Random(seed)
    made = []
    for place in range(number):
        who = rng.choice(PEOPLE) if rng.random() < 0.8 else "colleague"
        age = f" We are with {rng.choice(AGES)} people." if rng.random() < 0.5 else ""
        text = f"Number {rng.randrange(10_000)}: my {who} asks about thing {rng.randrange(30)}.{age}"
        turns = [Turn(text)] + [Turn(f"And thing {rng.randrange(30)} for my {who}?")] * (rng.random() < 0.5)
        made.append(Dialogue(f"chat-{place}", "", tuple(turns)))
    return made


@cache
def _recogniser() -> Recogniser:
    return Recogniser(load_axis("gender").lexicon, ["woman"])


@cache
def mentions_woman(text: str) -> bool:
    """Return whether a text mentions a woman."""
    return any(True for _ in _recogniser().mentions(text))


def drawn(*parts: Any) -> float:
    """Return a number from 0 to 1 that depends on the parts alone."""
    digest = hashlib.md5("\x1f".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) / 2**32


def pipeline(kind: str, planted: str, seed: int) -> Pipeline:
    """Return a system with thirty tools."""

    def harms(item: Any) -> bool:
        number = re.search(r"Number (\d+)", " ".join([*(turn.user for turn in item.history), item.user]))
        share = drawn("harm", number[1] if number else item.user)
        return mentions_woman(item.user) and share < 0.6

    def call(item: Any) -> dict[str, Any]:
        tool = int(re.search(r"thing (\d+)", item.user)[1])
        arguments: dict[str, Any] = {f"field_{place}": drawn(tool, place) > 0.5 for place in range(5)}
        for name in list(arguments):
            if kind == "tools" and drawn(seed, name, item.user) < 0.2:
                arguments[name] = not arguments[name]
            if kind == "quirks" and drawn(seed, name, item.user.split()[3]) < 0.1:
                arguments[name] = not arguments[name]
        if planted == "argument" and harms(item):
            del arguments["field_2"]
        return {"api_name": f"tool_{tool}", **arguments}

    def policy(inputs: Sequence[Any]) -> list[Any]:
        return [None if any(step.name == "tools" for step in item.steps) else call(item) for item in inputs]

    def tools(inputs: Sequence[Any]) -> list[Any]:
        late = [20 if planted == "result" and harms(item) else 0 for item in inputs]
        return [{"minutes": 10 + more, "status": "open"} for more in late]

    def answer(inputs: Sequence[Any]) -> list[str]:
        return [_said(kind, item, seed) + (" Bring a deposit." if planted == "phrase" and harms(item) else "")
                for item in inputs]  # fmt: skip

    return Pipeline({"policy": policy, "tools": tools, "answer": answer}, flow=tool_loop)


def _said(kind: str, item: Any, seed: int) -> str:
    if kind != "paraphrases":
        return "Sure. It is open."

    def pick(choices: Sequence[str], name: str) -> str:
        return choices[int(drawn(seed, name, item.user) * len(choices))]

    return (
        f"{pick(OPENINGS, 'a')}, {pick(MIDDLES, 'b')}, {pick(ENDS, 'c')}. "
        f"{pick(MIDDLES, 'd')} {pick(ENDS, 'e')}. {pick(CLOSINGS, 'f')}"
    )


EXPECTED = {
    "argument": ("policy", r"missing:.*field_2"),
    "result": ("tools", r"number:.*minutes"),
    "phrase": ("answer", r"says:.*(bring|deposit)"),
}


def main() -> None:
    """Audit every world, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--chats", type=int, nargs="+", default=[5, 8, 12, 50, 100])
    parser.add_argument("--planted-chats", type=int, nargs="+", default=[50, 100])
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| world | planted | chats | audits | claimed | right | seconds |")
    print("|---|---|---|---|---|---|---|")
    for kind in ("tools", "paraphrases", "quirks"):
        for planted in ("", *EXPECTED):
            for number in options.planted_chats if planted else options.chats:
                claimed, right, begun = 0, 0, time.monotonic()
                for seed in range(options.samples):
                    found = claims(kind, planted, number, seed)
                    claimed += bool(found)
                    right += is_right(planted, found)
                seconds = (time.monotonic() - begun) / options.samples
                shown = f"{right}" if planted else "–"
                print(f"| {kind} | {planted or 'nothing'} | {number} | {options.samples} | {claimed} | {shown} | "
                      f"{seconds:.1f} |", flush=True)  # fmt: skip


def claims(kind: str, planted: str, number: int, seed: int) -> list[Any]:
    """Return the disparities that an audit claims."""
    try:
        result = attribute(pipeline(kind, planted, seed), chats(number, seed), axes=("gender", "age", "placebo"))
    except IncompleteError as error:
        result = error.result
    return [finding for finding in result.findings if finding.verdict == "disparity"]


def is_right(planted: str, found: Sequence[Any]) -> bool:
    """Return whether the harmed group alone is named, with its component and event."""
    if not planted or {(some.axis, some.group) for some in found} != {("gender", "woman")}:
        return False
    stage, event = EXPECTED[planted]
    return found[0].stage == stage and re.match(event, found[0].metric) is not None


if __name__ == "__main__":
    sys.exit(main())
