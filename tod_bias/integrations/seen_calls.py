"""Which requests an agent makes in a conversation, and stages that tell them apart."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import UnansweredError
from tod_bias.integrations.model_apis import KINDS
from tod_bias.integrations.proxied import ProxyAdapter
from tod_bias.systems.hosted import TIMEOUT, EventLoop

_LENGTHS = (40, 80, 160, 320, 1 << 20)
"""Characters of system prompts that patterns may hold: as few as tell them apart."""


@dataclass
class SeenCalls:
    """Requests of one kind with the same model and system prompt."""

    kind: str
    model: str
    system: str
    tools: list[str]
    """Those that they offer."""
    number: int
    """Of requests."""


def seen_calls(adapter: ProxyAdapter, dialogue: Dialogue, timeout: float = TIMEOUT) -> list[SeenCalls]:
    """What an agent asks of models in a conversation, each turn after the recorded ones before it.

    Raises:
        UnansweredError: it did not come to the end of a turn.
    """
    adapter.seen = []
    for number in range(len(dialogue.turns)):
        messages = to_messages(Dialogue("", "", dialogue.turns[: number + 1]), answered=True)
        last = max(place for place, message in enumerate(messages) if message["role"] == "user")
        try:
            EventLoop.current().run(adapter.run(messages[: last + 1]), timeout)
        except TimeoutError:
            raise UnansweredError(f"turn {number + 1}: the agent took longer than {timeout:g} s") from None
    found: dict[tuple[str, str, str], SeenCalls] = {}
    for facts in adapter.seen:
        (kind,), (model,), (system,) = facts["kind"], facts["model"], facts.get("system", [""])
        calls = found.setdefault((kind, model, system), SeenCalls(kind, model, system, [], 0))
        calls.number += 1
        calls.tools += [tool for tool in facts.get("offers", ()) if tool not in calls.tools]
    return sorted(found.values(), key=lambda calls: KINDS.index(calls.kind))


def stages_of(seen: Sequence[SeenCalls]) -> dict[str, dict[str, str]]:
    """A stage for each group of requests, by name; its match is as short as tells it from the others of its kind."""
    stages = {}
    for kind, held in groupby(seen, key=lambda calls: calls.kind):
        alike = list(held)
        models, prompts = {calls.model for calls in alike}, {calls.system for calls in alike}
        length = next(length for length in _LENGTHS if len({prompt[:length] for prompt in prompts}) == len(prompts))
        for number, calls in enumerate(alike, start=1):
            match = {"kind": kind}
            if len(models) > 1:
                match["model"] = _pattern(calls.model, len(calls.model))
            if len(prompts) > 1:
                match["system"] = _pattern(calls.system, length)
            stages[kind if len(alike) == 1 else f"{kind}_{number}"] = match
    return stages


def stages_as_yaml(seen: Sequence[SeenCalls]) -> str:
    """The stages as lines for a pipeline file, each with what its requests are as a comment.

    Args:
        seen: those of a kind follow each other.
    """
    lines = ["stages:"]
    for (name, match), calls in zip(stages_of(seen).items(), seen, strict=True):
        tools = f"; tools: {', '.join(calls.tools)}" if calls.tools else ""
        prompt = f"; {json.dumps(calls.system[:60], ensure_ascii=False)}" if calls.system else ""
        lines.append(f"  # requests: {calls.number}; model: {' '.join(calls.model.split())}{prompt}{tools}")
        lines.append(f"  {name}: {_flow({'match': match})}")
    return "\n".join(lines)


def _pattern(text: str, length: int) -> str:
    """A pattern that fits texts with this beginning."""
    escaped = re.sub(r"([*?\[])", r"[\1]", text[:length])
    return escaped + "*" * (len(text) > length)


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    return value if re.fullmatch(r"[a-z]+", value) else json.dumps(value)
