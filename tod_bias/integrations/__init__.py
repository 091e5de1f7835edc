"""Agents that exist, unchanged, as pipelines: openai-agents, PydanticAI, LangChain, LangGraph, plain functions.

:func:`pipeline_of` makes the pipeline; :func:`stage` and :func:`client_transport` mark the stages of a plain function.
"""

from __future__ import annotations

from tod_bias.integrations.door import pipeline_of
from tod_bias.integrations.functions import stage
from tod_bias.integrations.openai_client import client_transport

__all__ = ["client_transport", "pipeline_of", "stage"]
