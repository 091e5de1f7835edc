"""Messages in a world: outputs of policies and users, and what either of them reads of a conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.dialogue import arguments_of
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import StageError
from tod_bias.systems.chat.messages import messages_of
from tod_bias.systems.stage import StageInput
from tod_bias.worlds.state import plain
from tod_bias.worlds.world import World

USER = "user_stage"
"""Name of the stage that is the user; ``user`` is a column of results."""
POLICY, TOOLS = "policy", "tools"
"""Names of the other stages."""


def message(text: str = "", calls: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return an assistant's message as the output of a policy."""
    return {"content": text, "tool_calls": list(calls)}


def task_of(item: StageInput) -> Task:
    """Return the task of an input.

    Raises:
        StageError: the dialogue belongs to no world.
    """
    if item.task is None:
        raise StageError("the dialogue belongs to no world; give --world, for example bfcl:multi_turn_base")
    return item.task


def messages_for(stage: str, item: StageInput, users_tools: frozenset[str], system: str) -> list[dict[str, Any]]:
    """Return a conversation as OpenAI's messages from the side of one of the two who speak.

    Args:
        stage: :data:`USER` or ``policy``; its messages have the role ``assistant``.
        item: with the calls of stages up to now.
        users_tools: names of the tools that the user calls; each side reads the results of its own tools alone.
        system: system prompt.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    waiting: list[str] = []
    for number, step in enumerate(item.steps):
        if step.argument is not None:
            is_of_stage = (str(step.argument.get(API_NAME)) in users_tools) == (stage == USER)
            if is_of_stage and waiting:
                content = json.dumps(plain(step.output), ensure_ascii=False, default=str)
                messages.append({"role": "tool", "tool_call_id": waiting.pop(0), "content": content})
            continue
        text, calls = str(step.output.get("content") or ""), calls_of(step.output) or []
        if step.name != stage:
            messages += [{"role": "user", "content": text}] if text and not calls else []
            continue
        waiting = [f"call_{number}_{place}" for place in range(len(calls))]
        entries = [_entry(name, call) for name, call in zip(waiting, calls, strict=True)]
        messages.append({"role": "assistant", "content": text or None, **({"tool_calls": entries} if entries else {})})
    return messages


def _entry(name: str, call: Any) -> dict[str, Any]:
    arguments = json.dumps(plain(arguments_of(call)), ensure_ascii=False)
    return {"id": name, "type": "function", "function": {"name": str(call[API_NAME]), "arguments": arguments}}


def messages_in(world: World, item: StageInput, system: str = "") -> list[dict[str, Any]]:
    """Return the messages that a policy in a world reads."""
    if not world.has_user:
        return messages_of(item, system)
    return messages_for(POLICY, item, world.users_tools, system or item.system)
