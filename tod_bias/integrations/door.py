"""The pipeline of an agent that exists."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import TIMEOUT, Adapter, AgentSettings, Match, place
from tod_bias.integrations.functions import FunctionAdapter
from tod_bias.systems.pipeline import Pipeline

_ADAPTERS = {
    "agents": ("openai_agents", "OpenAIAgentsAdapter"),
    "pydantic_ai": ("pydantic_ai", "PydanticAIAdapter"),
    "langgraph": ("langgraph", "LangGraphAdapter"),
}
"""The top module of an agent's class to its adapter."""


def pipeline_of(
    agent: Any,
    stages: str | Mapping[str, Match] = "model+tools",
    *,
    signature: str = "",
    concurrency: int = 16,
    timeout: float = TIMEOUT,
    is_random: bool = False,
    **options: Any,
) -> Pipeline:
    """The pipeline of an agent, which stays as it is.

    Args:
        agent: of openai-agents, PydanticAI, LangChain (``create_agent``) or LangGraph (a compiled graph), or a function
            of OpenAI's messages that returns a text, plain or async.
        stages: ``model+tools``, ``model`` or ``tools``; or stage to its calls: ``{"search": {"tool": "find_*"},
            "triage": {"agent": "Triage"}, "model": {"kind": "model"}}``. A call belongs to the first stage that
            fits. What belongs to none runs within the agent and is attributed to no stage. Of a function: the names
            of its stages, joined by ``+``.
        signature: what decides the outputs of its models and tools; left empty, it is derived from their source.
        concurrency: calls of a stage at once.
        timeout: seconds that the agent may take from one call to the next, else its dialogue is left out.
        is_random: whether its models draw their outputs (a temperature above 0); with ``samples`` of the audit the
            noise of drawing them is told apart from gaps.
        **options: further arguments of ``Runner.run``, ``Agent.run`` or ``graph.ainvoke`` (``context``, ``deps``,
            ``config``), the same in every turn.

    Raises:
        StageError: the agent is of no such kind, holds what cannot be replaced, or stages do not fit it.
    """
    for kind in type(agent).__mro__:
        if (adapter_place := _ADAPTERS.get(kind.__module__.partition(".")[0])) is not None:
            adapter: type[Adapter] = getattr(
                import_module(f"tod_bias.integrations.{adapter_place[0]}"), adapter_place[1]
            )
            break
    else:
        if not callable(agent) or isinstance(agent, type):
            raise StageError(
                f"agent: expected one of openai-agents, PydanticAI, LangChain or LangGraph, or a function of messages, "
                f"got {type(agent).__name__}"
            )
        adapter = FunctionAdapter
    settings = AgentSettings(signature, concurrency, timeout, is_random)
    return adapter(agent, stages, options).pipeline(place(agent), settings)
