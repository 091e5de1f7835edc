"""Agents of PydanticAI: the model and the tools of an agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import AbstractToolset
from pydantic_core import to_jsonable_python

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import (
    Adapter,
    Match,
    identity_of,
    place,
    refused,
    renumbered,
    text_of_output,
)
from tod_bias.integrations.pydantic_ai_messages import model_message, stable, taken_instructions, with_instructions
from tod_bias.integrations.pydantic_ai_tools import Held, HostedToolset, output_of
from tod_bias.systems.hosted import AgentRequest
from tod_bias.systems.stage import place_of

_HISTORY = ("conversation", "message_history", "conversation_id")


class PydanticAIAdapter(Adapter):
    """An agent of PydanticAI; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "pydantic-ai"

    def __init__(self, agent: Agent[Any, Any], stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        if held := [name for name in _HISTORY if options.get(name)]:
            raise StageError(f"{held[0]}: leave it out; every turn gets its history as messages")
        self._functions = {
            name: tool.function
            for toolset in agent.toolsets
            if isinstance(toolset, FunctionToolset)
            for name, tool in toolset.tools.items()
        }
        all_known = all(isinstance(toolset, FunctionToolset) for toolset in agent.toolsets)
        tools = list(self._functions) if all_known else ["*"]  # other toolsets' have any name
        self.known = {"kind": ["model", "tool"], "agent": [place(agent)], "tool": tools}
        self._tools: dict[str, Held] = {}
        super().__init__(agent, stages, options)

    def parts(self) -> Sequence[Any]:
        """The functions behind tools, and the model's class."""
        model = self.agent.model
        of_model = [identity_of(model), getattr(model, "function", None)] if isinstance(model, Model) else []
        return [*self._functions.values(), *of_model]

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The output; a refusal where the provider's filter ended the run."""
        *before, last = messages
        history = ModelMessagesTypeAdapter.validate_python([model_message(message, before) for message in before])
        capabilities = [*self.options.get("capabilities", ()), Interception(self, self._tools)]
        options = {**self.options, "capabilities": capabilities}
        try:
            result = await self.agent.run(last["content"], message_history=history, **options)
        except ContentFilterError:
            return refused(None)
        if isinstance(result.output, DeferredToolRequests):
            raise StageError("a tool is deferred or waits for a person's approval, which an audit does not have")
        return text_of_output(result.output)

    async def call_model(self, request: AgentRequest) -> Any:
        """A response, without what differs from request to request."""
        model, settings, parameters, texts = self.fixed[request.fixed]
        messages = ModelMessagesTypeAdapter.validate_python(with_instructions(request.content, list(texts)))
        response = await model.request(messages, settings, parameters)
        (output,) = stable(ModelMessagesTypeAdapter.dump_python([response], mode="json"))
        calls = [part for part in output["parts"] if part["part_kind"] == "tool-call"]
        renumbered(calls, "tool_call_id", request.content)
        return output

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the tool returns."""
        return await output_of(self._tools[name], name, arguments)


@dataclasses.dataclass
class Interception(AbstractCapability[Any]):
    """Makes the requests of a run calls of stages."""

    adapter: Adapter
    tools: dict[str, Held]

    def get_wrapper_model(self, model: Model) -> Model:
        """The model whose requests are calls."""
        return HostedPydanticModel(self.adapter, model)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The tools whose calls are calls of stages."""
        return HostedToolset(toolset, self.adapter, self.tools)


class HostedPydanticModel(WrapperModel):
    """A model whose requests are calls of a stage."""

    def __init__(self, adapter: Adapter, inner: Model) -> None:
        super().__init__(inner)
        self._adapter = adapter

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        """The response of the agent's own model, from its stage."""
        inner, agent = self.wrapped, place(self._adapter.agent)
        content = stable(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        texts = taken_instructions(content)
        settings, parameters = to_jsonable_python((model_settings, model_request_parameters), fallback=repr)
        fixed = [agent, place_of(inner), inner.model_name, settings, parameters, texts]
        held = (inner, model_settings, model_request_parameters, texts)
        stage = self._adapter.stage_of(kind="model", agent=agent)
        output = await self._adapter.ask_model(stage, content, fixed, held)
        (response,) = ModelMessagesTypeAdapter.validate_python([output])
        return response

    @asynccontextmanager
    async def request_stream(self, messages: Any, model_settings: Any, model_request_parameters: Any, *_: Any) -> Any:
        """The same response, for who wants it as a stream."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)
