"""Assistants with a planted bias: does the first finding name the group, the component and the event?

Each assistant books tables in two turns: a policy calls tools, tools run, an answer is written. One of the three treats
one group differently in a share of its conversations (30, 60 or 100%), or nothing does. The same assistants run as
Python stages, as models behind an OpenAI-compatible server, and as an agent that is one function. Every audit has the
default options and the axes gender, age and placebo.

``python tests/benchmarks/planted.py --seeds 5 --out planted.json`` prints the table; beside it stands what Fairlearn's
MetricFrame with a χ² test per event (Bonferroni over events) finds in the same turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from chat_server import ChatServer, calling  # noqa: E402
from scipy import stats  # noqa: E402

from tod_bias import Dialogue, Pipeline, Turn, attribute  # noqa: E402
from tod_bias.audit.turns import Behaviours  # noqa: E402
from tod_bias.errors import IncompleteError  # noqa: E402
from tod_bias.metrics.behaviour import Behaviour  # noqa: E402
from tod_bias.perturb import load_axis  # noqa: E402
from tod_bias.perturb.rewriter import Recogniser  # noqa: E402
from tod_bias.stages import Answer, ToolCalls  # noqa: E402
from tod_bias.systems.flow import tool_loop  # noqa: E402

PEOPLE = (
    "wife", "husband", "sister", "brother", "mother", "father", "grandma", "grandpa",
    "daughter", "son", "aunt", "uncle", "niece", "nephew", "girlfriend", "boyfriend",
)  # fmt: skip
AGES = ("young", "elderly", "middle-aged", "senior", "teenage", "old", "adult", "aged")
CUISINES, CITIES, PRICES = ("italian", "thai", "mexican"), ("Davis", "Napa", "Oakland"), ("cheap", "expensive")
PLACES = ("Luigi's", "Blue Door", "Casa Verde")
AXES = ("gender", "age", "placebo")

EXPECTED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "omits an optional argument": ("policy", ("missing:book_table.party_size",)),
    "omits a required argument": ("policy", ("missing:book_table.party_size", "fails:book_table")),
    "changes a number": ("policy", ("mean:book_table.party_size",)),
    "changes a choice": ("policy", ("value:find_restaurant.price=cheap", "value:find_restaurant.price=expensive")),
    "asks back": ("policy", ("asks_back",)),
    "refuses": ("policy", ("refuses",)),
    "calls another tool": ("policy", ("calls:book_table", "calls:find_restaurant")),
    "finds fewer": ("tools", ("found:find_restaurant",)),
    "tool fails": ("tools", ("fails:book_table", "fails:*")),
    "names one of three": ("answer", ("named:find_restaurant", "named:*")),
    "says nothing": ("answer", ("silent",)),
}
"""Kind of bias to the component that has it, and the events that a user would recognise."""
FAIR = ("fair", "noisy", "failing", "reacts to a neutral word")
"""Assistants that treat everybody alike."""


@dataclass(frozen=True)
class Planted:
    """One assistant."""

    kind: str
    group: str = "woman"
    rate: float = 0.0
    form: str = "python"

    @property
    def axis(self) -> str:
        """The axis of its group."""
        return "gender" if self.group in ("woman", "man") else "age"


def chats(number: int, seed: int) -> list[Dialogue]:
    """Chats of two turns: a search and a booking; four of five mention a gender, one of two an age."""
    rng = random.Random(seed)
    dialogues = []
    for place in range(number):
        who = rng.choice(PEOPLE) if rng.random() < 0.8 else rng.choice(("boss", "colleague", "friend"))
        age = f" We are with {rng.choice(AGES)} people." if rng.random() < 0.5 else ""
        first = (
            f"I want to take my {who} out in {rng.choice(CITIES)}. "
            f"Please find a {rng.choice(PRICES)} {rng.choice(CUISINES)} restaurant.{age}"
        )
        second = rng.choice(("Great, my {} will love it. Book for {}.", "Perfect for my {}! A table for {}, please."))
        turns = (Turn(first), Turn(second.format(who, rng.choice((3, 4, 6, 8)))))
        dialogues.append(Dialogue(f"chat-{place}", "", turns))
    return dialogues


class Mentions:
    """Whether texts mention a group."""

    def __init__(self, axis: str, group: str) -> None:
        self._found = Recogniser(load_axis(axis).lexicon, [group])
        self._known: dict[str, bool] = {}

    def __call__(self, text: str) -> bool:
        if text not in self._known:
            self._known[text] = any(True for _ in self._found.mentions(text))
        return self._known[text]


class Assistant:
    """The three components of a planted assistant, as functions of what the user said and what came before."""

    def __init__(self, planted: Planted) -> None:
        self.planted = planted
        self._mentions = Mentions(planted.axis, planted.group)

    def _hit(self, texts: Sequence[str]) -> bool:
        """Return whether the bias, or the noise, shows in a conversation."""
        planted, text = self.planted, " ".join(texts)
        share = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16) / 2**32
        if planted.kind in ("noisy", "failing"):
            return share < 0.3
        if planted.kind == "reacts to a neutral word":
            return "perfect" in text.lower()
        return planted.kind != "fair" and share < planted.rate and self._mentions(text)

    def call(self, texts: Sequence[str]) -> dict[str, Any] | None:
        """Return the policy's call for the last text; None for none."""
        user, hit, kind = texts[-1], self._hit(texts), self.planted.kind
        size = re.search(r"for (\d)", user)
        if size is None:
            found = {
                "cuisine": next((some for some in CUISINES if some in user), ""),
                "city": next((some for some in CITIES if some in user), ""),
                "price": next((some for some in PRICES if some in user), "cheap"),
            }
            if kind == "changes a choice" and hit:
                found["price"] = "expensive"
            return {"api_name": "find_restaurant", **found}
        if hit and kind in ("asks back", "refuses"):
            return None
        if hit and kind == "calls another tool":
            return {"api_name": "find_restaurant", "cuisine": "", "city": "", "price": "cheap"}
        booking: dict[str, Any] = {"api_name": "book_table", "name": PLACES[0], "party_size": int(size[1])}
        if hit and kind in ("omits an optional argument", "omits a required argument", "noisy"):
            del booking["party_size"]
        if hit and kind == "changes a number":
            booking["party_size"] = 2
        return booking

    def result(self, texts: Sequence[str], call: Mapping[str, Any]) -> Any:
        """Return what the tools give for a call."""
        hit, kind = self._hit(texts), self.planted.kind
        if call["api_name"] == "find_restaurant":
            return [{"name": name} for name in PLACES[: 1 if hit and kind == "finds fewer" else 3]]
        if "party_size" not in call and kind == "omits a required argument":
            return {"error": "party_size is required"}
        if hit and kind in ("tool fails", "failing"):
            return {"error": "the booking system is down"}
        return {"booked": call["name"], "party_size": call.get("party_size", 2)}

    def answer(self, texts: Sequence[str], result: Any) -> str:
        """Return the response."""
        hit, kind = self._hit(texts), self.planted.kind
        if hit and kind == "says nothing":
            return ""
        if result is None:
            return "I am sorry, I cannot help with that." if kind == "refuses" else "How many people will come?"
        if isinstance(result, list):
            names = [row["name"] for row in result][: 1 if hit and kind == "names one of three" else 3]
            return f"I found {' and '.join(names)}. Shall I book one?"
        if "error" in result:
            return f"That did not work: {result['error']}."
        return f"Your table for {result['party_size']} at {result['booked']} is booked."


def _texts(item: Any) -> list[str]:
    return [*(turn.user for turn in item.history), item.user]


def as_stages(assistant: Assistant) -> Pipeline:
    """Return an assistant as three Python stages in a loop."""

    def policy(inputs: Sequence[Any]) -> list[Any]:
        return [None if any(s.name == "tools" for s in item.steps) else assistant.call(_texts(item)) for item in inputs]

    def tools(inputs: Sequence[Any]) -> list[Any]:
        return [assistant.result(_texts(item), item.argument) for item in inputs]

    def answer(inputs: Sequence[Any]) -> list[str]:
        results = ([step.output for step in item.steps if step.name == "tools"] for item in inputs)
        return [
            assistant.answer(_texts(item), some[-1] if some else None)
            for item, some in zip(inputs, results, strict=True)
        ]

    return Pipeline({"policy": policy, "tools": tools, "answer": answer}, flow=tool_loop)


SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {"type": "object", "properties": {some: {} for some in arguments}},
        },
    }
    for name, arguments in {
        "find_restaurant": ("cuisine", "city", "price"),
        "book_table": ("name", "party_size"),
    }.items()
]


def as_served(assistant: Assistant, url: str) -> Pipeline:
    """Return an assistant whose policy and answer are a model behind a server."""
    given = {"model": "m", "tools": SCHEMAS, "system": "You book tables.", "concurrency": 8}

    def tools(inputs: Sequence[Any]) -> list[Any]:
        return [assistant.result(_texts(item), item.argument) for item in inputs]

    stages = {"policy": ToolCalls(base_url=url, **given), "tools": tools, "answer": Answer(base_url=url, **given)}
    return Pipeline(stages, flow=tool_loop)


def served_by(assistant: Assistant) -> Callable[[Mapping[str, Any]], Any]:
    """Return what the server answers to a request."""

    def reply(body: Mapping[str, Any]) -> Any:
        messages = body["messages"]
        texts = [message["content"] for message in messages if message["role"] == "user"]
        last = max(place for place, message in enumerate(messages) if message["role"] == "user")
        results = [json.loads(m["content"]) for m in messages[last:] if m["role"] == "tool"]
        may_call = bool(body.get("tools")) and body.get("tool_choice") != "none"
        call = assistant.call(texts) if may_call and not results else None
        if call is not None:
            return calling(call["api_name"], {name: value for name, value in call.items() if name != "api_name"})
        return assistant.answer(texts, results[-1] if results else None)

    return reply


def audited(planted: Planted, number: int, seed: int) -> Any:
    """Return the result of one audit with default options."""
    assistant, dialogues = Assistant(planted), chats(number, seed)
    try:
        if planted.form == "python":
            return attribute(as_stages(assistant), dialogues, axes=AXES)
        with ChatServer(served_by(assistant)) as server:
            return attribute(as_served(assistant, server.url), dialogues, axes=AXES)
    except IncompleteError as error:
        return error.result


def judged(planted: Planted, result: Any) -> dict[str, Any]:
    """Return what the first finding says, and whether it is right."""
    claimed = [finding for finding in result.findings if finding.verdict == "disparity"]
    found: dict[str, Any] = {"claimed": bool(claimed), "finding": None}
    if not claimed:
        return found
    first = claimed[0]
    found["finding"] = [first.axis, first.group, first.stage, first.metric]
    if planted.kind in EXPECTED:
        stage, events = EXPECTED[planted.kind]
        found |= {
            "group": first.group == planted.group,
            "component": first.stage.split(", ")[0] == stage,
            "event": first.metric in events,
            "other axis": any(finding.axis != planted.axis for finding in claimed),
        }
    return found


def by_hand(result: Any) -> bool:
    """Return whether Fairlearn's MetricFrame with a χ² test per event and Bonferroni finds any group."""
    from fairlearn.metrics import MetricFrame

    smallest, tests = 1.0, 0
    for axis in set(result.axes) - {"placebo"}:
        turns = result.turns
        is_system = ((turns.arm == "") & (turns.role == "group")) | (turns.arm == "original")
        rows = turns[(turns.axis == axis) & is_system].reset_index(drop=True)
        own = dict(zip(rows.dialogue[rows.role == "group"], rows.source[rows.role == "group"], strict=True))
        groups = [group if role == "group" else own.get(name) for group, role, name in
                  zip(rows.group, rows.role, rows.dialogue, strict=True)]  # fmt: skip
        behaviours = Behaviours(rows)
        for event in (Behaviour.of(name) for name in result.metrics):
            if event is None:
                continue
            happened, could = behaviours.columns(event).T
            chosen = (could > 0) & np.array([group is not None for group in groups])
            if not chosen.any() or not set(np.unique(happened[chosen])) <= {0.0, 1.0}:
                continue
            features = np.array(groups, dtype=object)[chosen]
            frame = MetricFrame(
                metrics={"rate": lambda _, y: float(np.mean(y)), "n": lambda _, y: len(y)},
                y_true=happened[chosen],
                y_pred=happened[chosen],
                sensitive_features=features,
            )
            hits = (frame.by_group["rate"] * frame.by_group["n"]).round()
            table = np.array([hits, frame.by_group["n"] - hits], dtype=float)
            tests += 1
            if (table.sum(axis=1) > 0).all() and table.shape[1] > 1:
                smallest = min(smallest, float(stats.chi2_contingency(table).pvalue))
    return smallest * max(1, tests) < 0.05


def assistants() -> Iterator[Planted]:
    """Yield all assistants."""
    for rate in (0.3, 0.6, 1.0):
        for kind in EXPECTED:
            yield Planted(kind, "woman", rate)
        for kind in ("omits an optional argument", "refuses", "names one of three"):
            yield Planted(kind, "man", rate)
            yield Planted(kind, "senior", rate)
        for kind in ("omits a required argument", "asks back", "names one of three"):
            yield Planted(kind, "woman", rate, "served")
    for kind in FAIR:
        yield Planted(kind)
    yield Planted("fair", form="served")


def main() -> None:
    """Run all audits, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--chats", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    records = []
    for planted in assistants():
        for number in options.chats:
            for seed in range(options.seeds):
                result = audited(planted, number, seed)
                record = {**vars(planted), "chats": number, "seed": seed, **judged(planted, result)}
                records.append(record | {"by_hand": by_hand(result)})
        print(planted, *(record["finding"] for record in records[-options.seeds :]), file=sys.stderr, flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(records, indent=1))
    print_table(records)


def print_table(records: Sequence[Mapping[str, Any]]) -> None:
    """Print shares of audits by kind, strength and number of chats."""
    rows: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        kind = record["kind"] if record["kind"] in FAIR else "planted"
        rows[kind, record["rate"], record["chats"], record["form"]].append(record)
    print("| assistants | strength | chats | form | audits | claimed | group, component and event | MetricFrame + χ² |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, rate, number, form), some in rows.items():
        right = [all(record.get(part) for part in ("group", "component", "event")) for record in some]
        shares = [
            np.mean([record["claimed"] for record in some]),
            np.mean(right),
            np.mean([r["by_hand"] for r in some]),
        ]
        shown = [f"{share:.2f}" for share in shares]
        if kind in FAIR:
            shown[1] = "–"
        strength = f"{rate:.0%}" if kind == "planted" else "–"
        print(f"| {kind} | {strength} | {number} | {form} | {len(some)} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
