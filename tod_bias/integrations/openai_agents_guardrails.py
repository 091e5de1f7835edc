"""Guardrails of the OpenAI Agents SDK: a stage where one is declared; where one trips, the response is a refusal."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from agents import (
    Agent,
    AgentOutputSchema,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    RunContextWrapper,
    trace,
)
from tod_bias.integrations.adapter import Adapter, refused

_OF_RUNS = (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)
_OF_TOOLS = (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
REFUSALS = (*_OF_RUNS, *_OF_TOOLS, ModelRefusalError)
"""What ends a run because somebody refuses: a guardrail, or the model."""
Guardrail: TypeAlias = InputGuardrail[Any] | OutputGuardrail[Any]


def refusal_of(error: Exception) -> str:
    """The response where one of :data:`REFUSALS` ended a run."""
    if isinstance(error, _OF_RUNS):
        return refused(error.guardrail_result.output.output_info)
    if isinstance(error, _OF_TOOLS):
        return refused(error.output.output_info)
    return refused(getattr(error, "refusal", None))


class GuardrailCheck(NamedTuple):
    """A guardrail of an agent."""

    guardrail: Guardrail
    agent: Agent[Any]

    async def run(self, content: Any, context: Any) -> dict[str, Any]:
        """Whether it trips, and what it says about it.

        Args:
            content: as JSON what it looks at: the items of the input, or the agent's output.
            context: of the run.
        """
        kind = self.agent.output_type
        if isinstance(self.guardrail, OutputGuardrail) and kind is not None:
            kind = kind.output_type if isinstance(kind, AgentOutputSchema) else kind
            content = TypeAdapter(kind).validate_python(content)
        with trace("tod-bias", disabled=True):  # nor agents that it runs
            made = self.guardrail.guardrail_function(RunContextWrapper(context), self.agent, content)
            output = await made if inspect.isawaitable(made) else made
        return {"tripped": output.tripwire_triggered, "info": to_jsonable_python(output.output_info, fallback=str)}


def hosted_guardrails(adapter: Adapter, agent: Agent[Any], guardrails: Sequence[Guardrail] | None) -> list[Any]:
    """An agent's guardrails, which ask their stages where they belong to some.

    Those of the input run before the first call of the model, and not beside it, which they would stop now and then by
    chance.
    """
    hosted = []
    for guardrail in guardrails or ():
        name = guardrail.get_name()
        stage = adapter.stage_of(kind="guardrail", guardrail=name, agent=agent.name)
        changed: dict[str, Any] = {"name": name}
        if stage is not None:
            changed["guardrail_function"] = _asking(adapter, stage, name, GuardrailCheck(guardrail, agent))
        if isinstance(guardrail, InputGuardrail):
            changed["run_in_parallel"] = False
        hosted.append(dataclasses.replace(guardrail, **changed))
    return hosted


def _asking(adapter: Adapter, stage: str, name: str, check: GuardrailCheck) -> Any:
    async def ask(context: Any, agent: Any, seen: Any) -> GuardrailFunctionOutput:
        fixed = ["guardrail", name, check.agent.name]
        output = await adapter.ask_model(stage, to_jsonable_python(seen, fallback=str), fixed, check)
        return GuardrailFunctionOutput(output["info"], output["tripped"])

    return ask
