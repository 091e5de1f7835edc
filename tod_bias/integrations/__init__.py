"""Agents that exist, unchanged, as pipelines: openai-agents, PydanticAI, LangChain, LangGraph, plain functions.

:func:`pipeline_of` is the door; :func:`stage` and :func:`client_transport` say what of a plain function is a stage.
"""

from __future__ import annotations

from tod_bias.integrations.door import pipeline_of
from tod_bias.integrations.functions import stage
from tod_bias.integrations.openai_client import client_transport

__all__ = ["client_transport", "pipeline_of", "stage"]
