"""Requests and tool calls of an agent in a conversation, and stages that separate them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.integrations.model_apis import KINDS
from tod_bias.integrations.proxied import ProxyAdapter
from tod_bias.systems.flow import FlowTurn
from tod_bias.systems.hosted import TIMEOUT, HostedFlow

_LENGTHS = (40, 80, 160, 320, 1 << 20)
"""Lengths of system prompts in patterns, in characters; the shortest that separates them is used."""


@dataclass
class SeenCalls:
    """Requests of one kind with the same model and system prompt, or calls of an MCP server's tools."""

    kind: str
    model: str
    system: str
    tools: list[str]
    """Tools that are offered or called."""
    number: int
    """Number of requests or calls."""
    server: str = ""
    """Empty for requests."""


def seen_calls(adapter: ProxyAdapter, dialogue: Dialogue, timeout: float = TIMEOUT) -> list[SeenCalls]:
    """Return the requests of an agent to models and servers in a conversation, each turn after the recorded ones.

    Raises:
        UnansweredError: a turn did not end.
    """
    adapter.seen = []

    async def answer(turn: FlowTurn) -> str:
        return await adapter.run(to_messages(Dialogue("", "", (*turn.history, Turn(turn.user))), answered=True))

    flow = HostedFlow(answer, adapter.agent.name, timeout)
    for number, turn in enumerate(dialogue.turns):
        process = flow.start(FlowTurn(turn.user, dialogue.turns[:number]), ())
        assert process.request is None  # there are no stages
    groups: dict[tuple[str, ...], SeenCalls] = {}
    for facts in adapter.seen:
        kind, model, system, server = ("".join(facts.get(fact, ())) for fact in ("kind", "model", "system", "server"))
        calls = groups.setdefault((kind, model, system, server), SeenCalls(kind, model, system, [], 0, server))
        calls.number += 1
        calls.tools += [tool for tool in facts.get("offers", facts.get("tool", ())) if tool not in calls.tools]
    return sorted(groups.values(), key=lambda calls: (*KINDS, "tool").index(calls.kind))


def stages_of(seen: Sequence[SeenCalls]) -> dict[str, dict[str, str]]:
    """Return a stage for each group of requests and each server, by name, with the shortest match that separates it
    from the others of its kind."""
    stages: dict[str, dict[str, str]] = {}
    for kind, held in groupby(seen, key=lambda calls: calls.kind):
        alike = list(held)
        models, prompts = {calls.model for calls in alike}, {calls.system for calls in alike}
        length = next(length for length in _LENGTHS if len({prompt[:length] for prompt in prompts}) == len(prompts))
        for number, calls in enumerate(alike, start=1):
            if calls.server:
                name = f"{calls.server}_tools" if calls.server in stages else calls.server
                stages[name] = {"server": calls.server}
                continue
            match = {"kind": kind}
            if len(models) > 1:
                match["model"] = _pattern(calls.model, len(calls.model))
            if len(prompts) > 1:
                match["system"] = _pattern(calls.system, length)
            stages[kind if len(alike) == 1 else f"{kind}_{number}"] = match
    return stages


def stages_as_yaml(seen: Sequence[SeenCalls]) -> str:
    """Return the stages as lines of a pipeline file, each below a comment that describes its requests.

    Args:
        seen: the calls, sorted by kind.
    """
    lines = ["stages:"]
    for (name, match), calls in zip(stages_of(seen).items(), seen, strict=True):
        tools = f"; tools: {', '.join(calls.tools)}" if calls.tools else ""
        prompt = f"; {json.dumps(calls.system[:60], ensure_ascii=False)}" if calls.system else ""
        of = f"model: {' '.join(calls.model.split())}" if not calls.server else f"MCP server: {calls.server}"
        lines.append(f"  # {'calls' if calls.server else 'requests'}: {calls.number}; {of}{prompt}{tools}")
        lines.append(f"  {name}: {_flow({'match': match})}")
    return "\n".join(lines)


def _pattern(text: str, length: int) -> str:
    """Return a pattern that matches texts with this beginning."""
    escaped = re.sub(r"([*?\[])", r"[\1]", text[:length])
    return escaped + "*" * (len(text) > length)


def _flow(value: Any) -> str:
    """Return a value as one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    return value if re.fullmatch(r"[a-z]+", value) else json.dumps(value)
