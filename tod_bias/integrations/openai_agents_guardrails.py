"""Guardrails of the OpenAI Agents SDK: where one trips, the response is a refusal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)

from agents import InputGuardrail
from tod_bias.integrations.adapter import refused

_OF_RUNS = (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)
_OF_TOOLS = (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
REFUSALS = (*_OF_RUNS, *_OF_TOOLS, ModelRefusalError)
"""What ends a run because somebody refuses: a guardrail, or the model."""


def refusal_of(error: Exception) -> str:
    """The response where one of :data:`REFUSALS` ended a run."""
    if isinstance(error, _OF_RUNS):
        return refused(error.guardrail_result.output.output_info)
    if isinstance(error, _OF_TOOLS):
        return refused(error.output.output_info)
    return refused(getattr(error, "refusal", None))


def before_the_model(guardrails: Sequence[InputGuardrail[Any]] | None) -> list[InputGuardrail[Any]]:
    """The same guardrails, but not beside the first call of the model, which they would stop now and then by chance."""
    return [dataclasses.replace(guardrail, run_in_parallel=False) for guardrail in guardrails or ()]
